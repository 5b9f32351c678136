"""What left the clients, what only a simulator could see, and what no epsilon accounts for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from onlooker.privacy.channel import Channel
from onlooker.report.facts import Facts, sentences, table

Tag: TypeAlias = Literal["released", "public", "simulation only"]

MEASURED = {"accuracy": "Accuracy", "loss": "Loss", "mean-absolute-error": "Mean absolute error"}
"""What a round may measure on the test records, and its heading."""

_SIMULATED = {
    "clients": (
        "How many clients took part in each round",
        "a count of private coins; the divisor is the expected one",
    ),
    "signal-norm": (
        "The norm of each round's sum before noise",
        "computed from rows that nobody else sees in the clear",
    ),
    "noise-norm": ("The expected norm of the noise beside it", "it may depend on how many clients took part"),
}
_SUMS = {
    ("server", "plain"): (
        "The noisy mean of each round",
        "the coordinator adds the noise, and sees the sum before it",
    ),
    ("clients", "plain"): (
        "Each client's noisy row in each round",
        "to the coordinator; to all others, their mean",
    ),
    ("clients", "shares"): (
        "The mean of each round's noisy rows",
        "servers see single shares, which say nothing",
    ),
    ("servers", "shares"): (
        "Each server's noisy sum of shares in each round",
        "their total is the noisy mean of the round",
    ),
}


@dataclass(frozen=True)
class Item:
    """One thing that a run makes.

    Attributes:
        what: what it is.
        tag: "released" to the observers who are priced for it, "public" before any data are read, or
            "simulation only".
        charged: whether the epsilons account for it, in words.
        remark: why.
    """

    what: str
    tag: Tag
    charged: str
    remark: str


def items(facts: Facts) -> list[Item]:
    """Everything that the run made, and who may see it."""
    charged = "no: no guarantee" if facts.terms.unit == "none" else "yes"
    return [
        *(_sum(channel, charged) for channel in facts.terms.channels),
        Item(
            "The model after each round",
            "released",
            charged,
            "made of the noisy means alone: neither it nor anything done with it costs more than they do",
        ),
        *_measured(facts),
        Item(
            "The round and digest of each release",
            "released",
            "costs nothing",
            "a hash of bytes that are released",
        ),
        Item(
            "Configuration, terms, expected cohort size and divisor",
            "public",
            "costs nothing",
            "settled before any data were read",
        ),
        *_simulated(facts),
    ]


def _sum(channel: Channel, charged: str) -> Item:
    if channel.grid is None:
        return Item("Each client's row in each round", "released", charged, "to the coordinator, without any noise")
    what, remark = _SUMS[channel.noised_by, channel.summation.name]
    return Item(what, "released", charged, remark)


def _measured(facts: Facts) -> Iterable[Item]:
    count = table(facts.environment, "data").get("test-records")
    held = f"the {count:,} test records" if isinstance(count, int) else "the test records"
    for key, heading in MEASURED.items():
        if any(key in line for line in facts.metrics):
            remark = f"free only if {held} are public; if they are private, this is an uncharged release"
            yield Item(f"{heading} of the released model", "released", "not charged", remark)


def _simulated(facts: Facts) -> Iterable[Item]:
    found = dict.fromkeys(key for line in facts.metrics for key in table(line, "simulation"))
    for key in found:
        what, remark = _SIMULATED.get(key, (key, "recorded by the simulator"))
        yield Item(what, "simulation only", "not charged", remark)
    if any("seconds" in line for line in facts.metrics):
        remark = "time tells how many clients and records were drawn"
        yield Item("The seconds that each round took", "simulation only", "not charged", remark)


@dataclass(frozen=True)
class Uncharged:
    """One kind of knowledge that may have come from private data without being paid for.

    Attributes:
        what: the kind.
        sentences: what is known of it.
    """

    what: str
    sentences: tuple[str, ...]


def uncharged(facts: Facts) -> list[Uncharged]:
    """What no epsilon on the page accounts for, said even where nothing is known of it (rules 10 and 16)."""
    data = table(facts.environment, "data")
    count = data.get("test-records")
    held = f"{count:,} test records" if isinstance(count, int) else "an unrecorded number of test records"
    recorded = sentences(data.get("preprocessing"))
    others = sentences(data.get("uncharged"))
    return [
        Uncharged(
            "Choice of hyper-parameters",
            (
                "The model, clip, learning rate, sampling rates and number of rounds were given to this run. "
                "If they were chosen by looking at results on the same data, that search was a release, and "
                "it is not charged.",
            ),
        ),
        Uncharged(
            "Other runs on the same data",
            ("This page prices one run. The epsilons of several runs on the same data add up.",),
        ),
        Uncharged(
            "Preprocessing",
            recorded or ("The run folder records none. Whatever shaped the data before the run is not charged.",),
        ),
        Uncharged(
            "Evaluation",
            (f"Measured on {held}, which are taken to be public. Nothing is charged for it.",),
        ),
        Uncharged("Anything else", others or ("The run folder records nothing else.",)),
    ]
