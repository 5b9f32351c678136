"""What left the clients, what only a simulator could see, and what no epsilon accounts for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from onlooker.privacy.matrix import Banded, Tree
from onlooker.privacy.terms import Terms
from onlooker.privacy.topology import Groups, listed_groups
from onlooker.report.facts import Facts, sentences, table

Tag: TypeAlias = Literal["released", "public", "never sent", "simulation only"]

MEASURED = {"accuracy": "Accuracy", "loss": "Loss", "mean-absolute-error": "Mean absolute error"}
"""What a round may measure on the test records, and its heading."""

_WHOSE = (
    ("", " on the common test set", "own models are the clients', and no observer is priced for all of them"),
    ("own-", " on their own distributions", "it weighs test records by the labels of a client's private data"),
)
_OVER = (("", "mean"), ("-worst", "of the worst client"), ("-spread", "spread over clients"))
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
    **{
        f"{kind}{key}{of}": (f"{heading} of the clients' own models{whose}, {over}", remark)
        for key, heading in MEASURED.items()
        for kind, whose, remark in _WHOSE
        for of, over in _OVER
    },
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
        tag: "released" to the observers who are priced for it, "public" before any data are read, "never sent"
            where its owner alone holds it, or "simulation only".
        charged: whether the epsilons account for it, in words.
        remark: why.
    """

    what: str
    tag: Tag
    charged: str
    remark: str


def items(facts: Facts) -> list[Item]:
    """Everything that the run made, and who may see it."""
    terms = facts.terms
    charged = "no: no guarantee" if terms.unit == "none" else "yes"
    return [
        _sum(facts, charged),
        *_within(terms),
        _model(facts, charged),
        *_told(terms, charged),
        *_realised(terms, charged),
        *_kept(facts),
        *_measured(facts),
        Item(
            "The round and digest of each release",
            "released",
            "costs nothing",
            "a hash of bytes that are released",
        ),
        Item(
            "Configuration, terms, expected cohort size and divisor"
            if terms.counted == "public"
            else "Configuration, terms and expected cohort size",
            "public",
            "costs nothing",
            "settled before any data were read",
        ),
        *_schedule(terms),
        *_simulated(facts),
    ]


def _sum(facts: Facts, charged: str) -> Item:
    """What clients send; the channels of all groups are of one kind."""
    terms, channel = facts.terms, facts.terms.channels[0]
    if channel.grid is None:
        return Item("Each client's row in each round", "released", charged, "to the coordinator, without any noise")
    what, remark = _SUMS[channel.noised_by, channel.summation.name]
    if isinstance(terms.topology, Groups):
        what = f"In each group: {what[0].lower()}{what[1:]}"
        remark = (
            f"{remark}; the release goes to the members of the group{_published(terms.topology, facts.group_names)}"
        )
    return Item(what, "released", charged, remark)


def _published(groups: Groups, names: Sequence[str]) -> str:
    if not groups.publish:
        return " alone"
    return f", and of group {listed_groups(groups.publish, names)} to everybody"


def _within(terms: Terms) -> list[Item]:
    """What an interval shares before its end, as DP-OGL+ is printed."""
    if terms.within == "alone" or terms.interval == 1:
        return []
    what = f"In each group: the sum without noise after each of the {terms.interval} epochs of a round"
    remark = "to the members of the group, against whom there is no guarantee; it leaves the group under noise alone"
    return [Item(what, "released", "no: no guarantee", remark)]


def _model(facts: Facts, charged: str) -> Item:
    terms = facts.terms
    remark = "made of the noisy means alone: neither it nor anything done with it costs more than they do"
    part = "public part of the model" if terms.channels[0].part != "*" else "model"
    if not isinstance(terms.topology, Groups):
        return Item(f"The {part} after each round", "released", charged, remark)
    what = f"The {part} of each group after each round"
    members = f"to the members of the group{_published(terms.topology, facts.group_names)}"
    return Item(what, "released", charged, f"{members}; {remark}")


def _told(terms: Terms, charged: str) -> list[Item]:
    """What clients tell under noise of how good the model is."""
    if terms.measured_by is None:
        return []
    what = "How good the model is that a round starts from, on the training rows of those who take part, under noise"
    return [Item(what, "released", charged, "three noisy sums in each round, priced together with those of the model")]


def _realised(terms: Terms, charged: str) -> list[Item]:
    """How many took part, where a public act depends on it."""
    if terms.counted == "realised":
        return [Item("How many clients took part in each round", "released", charged, "means are divided by it")]
    if terms.channels[0].noised_by == "clients" and terms.sampling.name in ("poisson", "random-allocation"):
        return [Item("Which rounds nobody took part in", "released", charged, "they keep the model as it was")]
    return []


def _kept(facts: Facts) -> Iterable[Item]:
    """What its owner alone holds, from one round to the next."""
    terms = facts.terms
    if facts.split:
        remark = "not sent, which is all that is claimed of it: in the hands of others it has no guarantee"
        yield Item("The private part of each client's model", "never sent", "not charged", remark)
    if terms.sampling.name in ("fixed-offset", "random-allocation"):
        remark = "drawn once before round 1; whoever carries reports sees the rounds as they come, and is priced so"
        yield Item("The rounds that each client drew for itself", "never sent", "not charged", remark)
    if isinstance(terms.channels[0].mechanism, (Tree, Banded)):
        remark = "later noise takes it back, so whoever has it can take off the noise of releases"
        yield Item("What noising parties remember of their noise", "never sent", "not charged", remark)


def _schedule(terms: Terms) -> Iterable[Item]:
    if terms.sampling.name == "cyclic":
        remark = "every observer is priced as one who knows it"
        yield Item("Who takes part in which round", "public", "costs nothing", remark)
    if terms.sampling.cover_traffic:
        remark = "of zeros where its coin said no, so that reports do not tell who takes part"
        yield Item("A report of the same size from every client in each round", "released", "yes", remark)


def _measured(facts: Facts) -> Iterable[Item]:
    count = table(facts.environment, "data").get("test-records")
    held = f"the {count:,} test records" if isinstance(count, int) else "the test records"
    for key, heading in MEASURED.items():
        if not any(key in line for line in facts.metrics):
            continue
        if facts.personal:
            what, remark = _SIMULATED[key]
            yield Item(what, "simulation only", "not charged", remark)
        else:
            remark = f"free only if {held} are public; if they are private, this is an uncharged release"
            yield Item(f"{heading} of the released model", "released", "not charged", remark)


def _simulated(facts: Facts) -> Iterable[Item]:
    found = dict.fromkeys(key for line in facts.metrics for key in table(line, "simulation"))
    for key in found:
        if key == "clients" and facts.terms.counted == "realised":
            continue  # it is released, and said above
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
            (
                f"Measured on {held}, which are taken to be public. Nothing is charged for it.",
                *(["What clients tell of the model under noise is charged."] if facts.terms.measured_by else []),
            ),
        ),
        Uncharged("Anything else", others or ("The run folder records nothing else.",)),
    ]
