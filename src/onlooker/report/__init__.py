"""One self-contained HTML page about a run; reads a run folder and the privacy room, and nothing else."""

from onlooker.report.page import write

__all__ = ["write"]
