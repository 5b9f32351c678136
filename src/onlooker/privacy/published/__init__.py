"""What papers print as the price of their noise: for comparing figures, never for a promise.

Nothing here makes a `Price` of a printed number. Each stands beside what the accountant proves for the same noise.
"""

from onlooker.privacy.published.feddecouple import REASONS, Formula, printed_epsilon, printed_noise
from onlooker.privacy.published.result import LABEL, Published, PublishedDivergence, Sound

__all__ = [
    "LABEL",
    "REASONS",
    "Formula",
    "Published",
    "PublishedDivergence",
    "Sound",
    "printed_epsilon",
    "printed_noise",
]
