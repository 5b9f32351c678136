"""How rows are bounded, noised, summed and divided, in words: one line for each, however many groups there are."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from onlooker.privacy.channel import Channel
from onlooker.privacy.matrix import Banded, Tree
from onlooker.privacy.summation import Shared
from onlooker.privacy.terms import Terms
from onlooker.privacy.topology import Groups, listed_groups
from onlooker.report.facts import Facts, table

Labelled: TypeAlias = list[tuple[str, str]]

_NOISED_BY = {
    "server": "the coordinator, to the sum of each round",
    "servers": "each auxiliary server, to its own sum of shares",
    "clients": "each client, to its own row",
}


def noise(facts: Facts) -> Labelled:
    """Clip, noise, sum and divisor."""
    terms = facts.terms
    if terms.channels[0].grid is None:
        return [("Clip", "none"), ("Noise", "none"), ("Summed by", _alike(_summed_by, terms))]
    return [
        ("Clip", _clip(facts)),
        ("Noise multiplier", f"{_numbers(_multipliers(terms))}, added by {_alike(_noised_by, terms)}"),
        *_correlated(terms.channels[0]),
        ("Summed by", _alike(_summed_by, terms)),
        ("Divisor", _divisor(terms)),
        *_measured(terms),
    ]


def _measured(terms: Terms) -> Labelled:
    """The noise on measures of the model, and which part of a round's price they are."""
    channel = terms.measured_by
    if channel is None:
        return []
    own, (of_model,) = channel.mechanism.noise_multiplier, _multipliers(terms)
    part = f", {of_model**2 / (of_model**2 + own**2):.1%} of what a round costs" if own and of_model else ""
    return [("Private evaluation", f"in every round, with noise multiplier {own:.4g}{part}")]


def _alike(word: Callable[[Channel], str], terms: Terms) -> str:
    """What is said of every channel, once."""
    return "; ".join(dict.fromkeys(word(channel) for channel in terms.channels))


def _numbers(values: Iterable[float], form: str = ".4g") -> str:
    """One number, or from the least to the largest.

    >>> _numbers([3.0, 3.0]), _numbers([1.0, 2.0])
    ('3', '1 to 2 (it differs by group)')
    """
    least, largest = min(known := list(values)), max(known)
    return f"{least:{form}}" if least == largest else f"{least:{form}} to {largest:{form}} (it differs by group)"


def _multipliers(terms: Terms) -> list[float]:
    return [channel.mechanism.noise_multiplier for channel in terms.model_channels]


def _clip(facts: Facts) -> str:
    terms = facts.terms
    clips = [channel.grid.clip for channel in terms.model_channels if channel.grid]
    update = "update" if terms.unit == "client" else "part"
    what = "model itself" if _clips_models(facts.configuration) else update
    words = f"{_numbers(clips)} (L2 norm of one {terms.unit}'s {what})"
    if terms.interval > 1:
        clip = _numbers(one / math.sqrt(terms.interval) for one in clips)
        words += f", which is sqrt({terms.interval}) times the clip of an epoch, {clip}"
    differing = [channel.bounds for channel in terms.model_channels if isinstance(channel.bounds, tuple)]
    bounds = [bound for one in differing for bound in one]
    return f"{words}; clients' own are from {min(bounds):g} to {max(bounds):g}" if bounds else words


def _clips_models(configuration: str) -> bool:
    """True if what is clipped is the model that a client sends, and not its update: the file alone says so."""
    try:
        return table(tomllib.loads(configuration), "privacy").get("clip-mode") == "model"
    except tomllib.TOMLDecodeError:
        return False


def _noised_by(channel: Channel) -> str:
    return _NOISED_BY[channel.noised_by]


def _correlated(channel: Channel) -> Labelled:
    """Noise that later rounds take back."""
    if isinstance(channel.mechanism, Tree):
        return [("Correlated noise", "a tree: each round takes back the noise of the subtrees that it completes")]
    if isinstance(channel.mechanism, Banded):
        bands = channel.mechanism.bands
        return [("Correlated noise", f"banded: each round takes back a part of the noise of the {bands - 1} before it")]
    return []


def _summed_by(channel: Channel) -> str:
    summation = channel.summation
    if not isinstance(summation, Shared):
        return "the coordinator, in the clear"
    return f"{summation.count} auxiliary servers from secret shares, of which {summation.corrupt} may be corrupt"


def _divisor(terms: Terms) -> str:
    if terms.counted == "realised":
        return "how many took part in the round (by weight), which everybody then sees"
    return f"{_numbers((terms.divisor_of(group) for group in range(terms.groups)), 'g')}, public"


def groups(facts: Facts) -> Labelled:
    """Groups, how they mix, and what an interval is; nothing without groups."""
    terms, topology = facts.terms, facts.terms.topology
    if not isinstance(topology, Groups):
        return []
    sizes = [len(group) for group in topology.members]
    several = sum(len(own) > 1 for own in topology.memberships.values())
    linked = "1 client is" if several == 1 else f"{several} clients are"
    period = terms.interval if terms.interval > 1 else topology.mixing_period
    return [
        ("Groups", f"{len(sizes)}, of {_span(sizes)} clients; {linked} in more than one"),
        ("Mixing period", _mixing(terms, period)),
        *([("Published groups", listed_groups(topology.publish, facts.group_names))] if topology.publish else []),
    ]


def _span(values: Sequence[int]) -> str:
    return f"{min(values)}" if min(values) == max(values) else f"{min(values)} to {max(values)}"


def _mixing(terms: Terms, period: int) -> str:
    if terms.interval == 1:
        every = "every round" if period == 1 else f"every {period} rounds"
        return f"{period}: {every}, clients start from the mean of the models of their groups"
    within = (
        "in it the members share their sums without noise"
        if terms.within == "shared"
        else "in it each member trains on its own model"
    )
    return (
        f"{period}: a round is an interval of {period} epochs; {within}, and a noisy sum is released at its end. Then "
        "clients start from the mean of the models of their groups"
    )


def split(facts: Facts) -> Labelled:
    """The two parts of a model; nothing where it is whole."""
    if not facts.split:
        return []
    channel, whole = facts.terms.channels[0], table(facts.environment, "model").get("parameters")
    of = f" of {whole:,}" if isinstance(whole, int) else ""
    left = f"{whole - channel.size:,} parameters: " if isinstance(whole, int) else ""
    return [
        ("Public part", f"{channel.size:,}{of} parameters ({channel.part}), which are trained together"),
        ("Private part", f"{left}not sent, which is all that is claimed of it; each client keeps its own"),
    ]
