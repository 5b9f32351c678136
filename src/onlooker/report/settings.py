"""What ran, on what, and where its randomness came from: labelled values for the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from onlooker.privacy.sampling import ClientSampling, PoissonRecords
from onlooker.privacy.terms import Terms
from onlooker.report import channels
from onlooker.report.facts import Facts, table

Labelled: TypeAlias = list[tuple[str, str]]

UNKNOWN = "not recorded"
_ELIDED = (
    "not cut in this simulation: rows were added whole, which gives the same sums, noise and release to the bit; "
    'engine.shares = "cut" cuts them'
)
_NO_COVER = ", and makes the rows of zeros of clients that stay out, which add nothing and were left out as well"


def settings(facts: Facts) -> Labelled:
    """The run at a glance; the configuration below it has every key."""
    terms, environment = facts.terms, facts.environment
    data, model = table(environment, "data"), table(environment, "model")
    size = model.get("parameters") or terms.channels[0].size
    return [
        ("Method", _known(environment, "task")),
        ("Data", f"{_known(data, 'name')}, {_known(data, 'partition')} partition"),
        (
            "Model",
            f"{_known(model, 'name')}, {size:,} parameters" if isinstance(size, int) else _known(model, "name"),
        ),
        *channels.split(facts),
        ("Rounds", f"{terms.rounds} planned, {facts.charged} charged, {facts.committed} in the model"),
        ("Clients", f"{terms.clients}; {_clients_drawn(terms)}"),
        *channels.groups(facts),
        ("Persons" if terms.unit == "person" else "Records", _records_drawn(terms)),
        *channels.noise(facts),
        ("Target epsilon", _target(facts)),
        *_computed(terms, environment),
    ]


def _computed(terms: Terms, environment: Mapping[str, Any]) -> Labelled:
    """Who computed the clients, and what was left out because it changes no sum."""
    engine = table(environment, "engine")
    if not engine:
        return []
    workers = _known(engine, "workers")
    by = (
        "one client after another"
        if engine.get("name") == "loop"
        else f"{workers} workers, {_known(engine, 'trainer')} steps"
    )
    left = f"{_ELIDED}{_NO_COVER * terms.sampling.cover_traffic}"
    shares = [("Shares", left)] if engine.get("elided") else []
    return [("Computed by", by), *shares]


def _clients_drawn(terms: Terms) -> str:
    sampling = terms.sampling
    if terms.groups > 1 and sampling.name == "poisson":
        rates = [float(terms.sampling_of(group).rate_of(0, terms.clients)) for group in range(terms.groups)]
        span = f"{min(rates):g}" if min(rates) == max(rates) else f"{min(rates):g} to {max(rates):g}, by group"
        coin = f"by a coin of its own for each, with probability {span}"
        return f"each takes part in each of its groups {coin}{_cover(sampling)}"
    return _drawn(sampling)


def _drawn(sampling: ClientSampling) -> str:
    if sampling.name == "all" or getattr(sampling, "period", 0) == 1:
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
        picks = f"{sampling.picks} of {sampling.rounds} rounds, which it draws once and keeps to itself"
        return f"each takes part in {picks}{_cover(sampling)}"
    rate = sampling.rate
    each = f"a public rate from {min(rate):g} to {max(rate):g}" if isinstance(rate, tuple) else f"{rate:g}"
    return f"each takes part by its own coin, with probability {each}{_cover(sampling)}"


def _cover(sampling: ClientSampling) -> str:
    return ", hidden by cover traffic" if sampling.cover_traffic else ""


def _records_drawn(terms: Terms) -> str:
    records = terms.training.records
    if records is None:
        return "a client trains on all its data whenever it takes part"
    expected = terms.training.expected_records
    if not isinstance(records, PoissonRecords):
        ways = {"without-replacement": "all of them different", "with-replacement": "each record drawn from all"}
        used = f"; a record is used with probability q = {terms.training.record_rate:.4g}" if expected else ""
        least = f" at a client of at least {expected:,}" if expected else ""
        batches = f"{records.steps} batches of {records.batch_size} in a round, {ways[records.name]} ({records.name})"
        return f"{batches}{used}{least}"
    count = f", of {expected:,} that a client is taken to have" if expected else ""
    whole = " with all records" if terms.unit == "person" else ""
    return f"each is used{whole} by its own coin, with probability {records.rate:g} in a round{count}"


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
    if facts.environment.get("deployment") is True:
        return (
            "It was no simulation: each client drew its own coins and masks, and each party that adds noise its own, "
            "from its operating system's generator. This is the coordinator's page, which cannot tell on whose "
            "machines that was; a server's noise can be checked by its own auditor alone.",
        )
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
