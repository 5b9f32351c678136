"""What ran, on what, and where its randomness came from: labelled values for the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from onlooker.privacy.channel import Channel
from onlooker.privacy.sampling import ClientSampling
from onlooker.privacy.summation import Shared
from onlooker.privacy.terms import Terms
from onlooker.report.facts import Facts, table

Labelled: TypeAlias = list[tuple[str, str]]

UNKNOWN = "not recorded"

_NOISED_BY = {
    "server": "the coordinator, to the sum of each round",
    "servers": "each auxiliary server, to its own sum of shares",
    "clients": "each client, to its own row",
}


def settings(facts: Facts) -> Labelled:
    """The run at a glance; the configuration below it has every key."""
    terms, environment = facts.terms, facts.environment
    data, model = table(environment, "data"), table(environment, "model")
    size = model.get("parameters") or sum(channel.size for channel in terms.channels)
    return [
        ("Method", _known(environment, "task")),
        ("Data", f"{_known(data, 'name')}, {_known(data, 'partition')} partition"),
        (
            "Model",
            f"{_known(model, 'name')}, {size:,} parameters" if isinstance(size, int) else _known(model, "name"),
        ),
        ("Rounds", f"{terms.rounds} planned, {facts.charged} charged, {facts.committed} in the model"),
        ("Clients", f"{terms.clients}; {_clients_drawn(terms.sampling)}"),
        ("Persons" if terms.unit == "person" else "Records", _records_drawn(terms)),
        *(pair for channel in terms.channels for pair in _noise(channel, terms)),
        ("Target epsilon", _target(facts)),
    ]


def _clients_drawn(sampling: ClientSampling) -> str:
    if sampling.name == "all":
        return "all take part in every round"
    if sampling.name == "fixed-size":
        return f"{sampling.size} of them, drawn anew for each round, take part"
    if sampling.name == "cyclic":
        return f"each takes part in every {sampling.period}-th round, by a public schedule"
    if sampling.name == "fixed-offset":
        return (
            f"each takes part in every {sampling.period}-th round, from a first one that it draws and keeps to itself"
        )
    if sampling.name == "random-allocation":
        return (
            f"each takes part in {sampling.picks} of {sampling.rounds} rounds, which it draws once and keeps to itself"
        )
    rate = sampling.rate
    each = f"a public rate from {min(rate):g} to {max(rate):g}" if isinstance(rate, tuple) else f"{rate:g}"
    cover = ", hidden by cover traffic" if sampling.cover_traffic else ""
    return f"each takes part by its own coin, with probability {each}{cover}"


def _records_drawn(terms: Terms) -> str:
    records = terms.training.records
    if records is None:
        return "a client trains on all its data whenever it takes part"
    expected = terms.training.expected_records
    count = f", of {expected:,} that a client is taken to have" if expected else ""
    whole = " with all records" if terms.unit == "person" else ""
    return f"each is used{whole} by its own coin, with probability {records.rate:g} in a round{count}"


def _noise(channel: Channel, terms: Terms) -> Labelled:
    if channel.grid is None:
        return [("Clip", "none"), ("Noise", "none"), ("Summed by", _summed_by(channel))]
    multiplier = channel.mechanism.noise_multiplier
    return [
        (
            "Clip",
            f"{channel.grid.clip:g} (L2 norm of one {terms.unit}'s part)",
        ),
        ("Noise multiplier", f"{multiplier:.4g}, added by {_NOISED_BY[channel.noised_by]}"),
        ("Summed by", _summed_by(channel)),
        ("Divisor", f"{terms.divisor:g}, public"),
    ]


def _summed_by(channel: Channel) -> str:
    summation = channel.summation
    if not isinstance(summation, Shared):
        return "the coordinator, in the clear"
    return f"{summation.count} auxiliary servers from secret shares, of which {summation.corrupt} may be corrupt"


def _target(facts: Facts) -> str:
    target = facts.environment.get("target-epsilon")
    if facts.terms.unit == "none":
        return "none: no guarantee"
    return (
        f"the noise was calibrated to {target:g}" if isinstance(target, (int, float)) else "none: the noise was given"
    )


def randomness(facts: Facts) -> tuple[str, ...]:
    """Where the noise came from, and what that means for anybody's protection (rule 9)."""
    seed = facts.environment.get("seed")
    everything = "It is a simulation, too: one process held every client's data and every noise."
    if facts.terms.unit == "none":
        return ("No noise was drawn.", everything)
    if seed == "system":
        return (
            "Noise, masks and coins came from the operating system's generator, and none of it was kept.",
            everything,
        )
    origin = f"the seed {seed}" if isinstance(seed, int) else "a source that is not recorded, so take it for a seed"
    return (
        f"This is a seeded study: noise, masks and coins came from {origin}. A seeded study protects nobody: "
        "whoever knows the seed draws the same noise and takes it off.",
        "Every epsilon on this page says what the same run would promise with secret randomness.",
        everything,
    )


def seeded(facts: Facts) -> bool:
    """True unless the noise is known to be secret, or there is none."""
    return facts.terms.unit != "none" and facts.environment.get("seed") != "system"


def provenance(facts: Facts) -> Labelled:
    """Versions, seed, machine, and what ties the page to its run folder."""
    environment = facts.environment
    packages = table(environment, "packages")
    missing = facts.charged - facts.committed
    return [
        ("Onlooker", _known(environment, "onlooker")),
        ("Started", _known(environment, "started")),
        ("Python", _known(environment, "python")),
        ("Platform", _known(environment, "platform")),
        ("Device", f"{_known(environment, 'device')}, {_known(environment, 'threads')} threads"),
        ("Seed", _known(environment, "seed")),
        ("Packages", ", ".join(f"{name} {version}" for name, version in packages.items()) or UNKNOWN),
        ("Terms (SHA-256)", facts.terms.hash),
        (
            "Ledger",
            f"{facts.charged} digests of sealed rounds, {missing} of them not in the model",
        ),
    ]


def _known(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key)
    return UNKNOWN if value is None else str(value)
