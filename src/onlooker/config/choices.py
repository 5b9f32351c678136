"""Each choice of the file that decides privacy, on its own: from words and numbers to one frozen part of the terms."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Literal, cast

from onlooker import _check
from onlooker.config.kinds import Kind
from onlooker.config.schema import ClientSamplingTable, Configuration
from onlooker.config.tables import batches_of
from onlooker.errors import ConfigError, TermsError, UnpricedError
from onlooker.privacy.matrix import Banded, Tree
from onlooker.privacy.mechanisms import Gaussian, Mechanism, RoundedGaussian
from onlooker.privacy.sampling import (
    ClientSampling,
    Cyclic,
    Everyone,
    FixedOffset,
    Poisson,
    PoissonRecords,
    RandomAllocation,
    fixed_size,
)
from onlooker.privacy.summation import Plain, Shared, Summation
from onlooker.privacy.terms import Terms
from onlooker.privacy.topology import Groups
from onlooker.privacy.training import Training
from onlooker.types import Adjacency, NoisedBy, Unit

_SAMPLERS = ("poisson", "fixed-size", "random-allocation", "cyclic", "fixed-offset", "all")
_GOES_BY = {
    "poisson": "rate",
    "fixed-size": "rate",
    "random-allocation": "participations",
    "cyclic": "period",
    "fixed-offset": "period",
}
_RECORD_SAMPLERS = ("poisson", "without-replacement", "with-replacement")
_MOST_PEERS = 6
_UNITS = ("client", "person", "record", "none")
_ADJACENCIES = ("zero-out", "add-or-remove", "replace-one")
_MECHANISMS: Mapping[str, Callable[[float], Mechanism]] = {"gaussian": RoundedGaussian, "float-gaussian": Gaussian}


def unit_of(configuration: Configuration, kind: Kind) -> Unit:
    """What is guarded."""
    unit = configuration.privacy.unit or kind.unit
    _check.one_of(_UNITS, privacy__unit=unit)
    return cast(Unit, unit)


def adjacency_of(name: str) -> Adjacency:
    """How a neighbouring data set differs."""
    _check.one_of(_ADJACENCIES, privacy__adjacency=name)
    return cast(Adjacency, name)


def mechanism_of(configuration: Configuration, multiplier: float) -> Mechanism:
    """What noise is drawn."""
    privacy, ftrl = configuration.privacy, configuration.task.method == "dp-ftrl"
    name = privacy.mechanism or ("tree" if ftrl else "gaussian")
    _check.one_of((*_MECHANISMS, "tree", "banded"), privacy__mechanism=name)
    if ftrl != (name in ("tree", "banded")):
        usual = "tree or banded" if ftrl else "gaussian"
        raise ConfigError(
            f'privacy.mechanism = "{name}" is not the noise of {configuration.task.method}; choose {usual}.'
        )
    if privacy.bands is not None and name != "banded":
        raise ConfigError(f'privacy.bands = {privacy.bands} is for privacy.mechanism = "banded"; leave it out.')
    if name == "tree":
        return Tree(multiplier)
    if name == "banded":
        if privacy.bands is None:
            raise ConfigError(
                "privacy.bands is missing; name how many rounds noise reaches back, such as the number that "
                "sampling.clients.period names."
            )
        return Banded(multiplier, privacy.bands)
    return _MECHANISMS[name](multiplier)


def noised_by_of(configuration: Configuration, summation: Summation) -> NoisedBy:
    """Who adds it."""
    name = configuration.privacy.noised_by or ("servers" if isinstance(summation, Shared) else "server")
    _check.one_of(("server", "servers", "clients"), privacy__noised_by=name)
    return cast(NoisedBy, name)


def bounds_of(configuration: Configuration, unit: Unit, own_clip: float | None = None) -> float | tuple[float, ...]:
    """What one unit of each client adds at the most: its clip (or a group's own) times its weight."""
    clip, weights = configuration.privacy.clip if own_clip is None else own_clip, weights_of(configuration, unit)
    if isinstance(clip, list) and unit in ("record", "person"):
        raise TermsError(f"privacy.clip = {clip} must be one number where the unit is a {unit}.")
    for one in clip if isinstance(clip, list) else [clip]:
        _check.positive(privacy__clip=one)
    if not isinstance(clip, list) and not weights:
        return clip
    clients = configuration.data.clients
    each = tuple(clip) if isinstance(clip, list) else (clip,) * clients
    if len(each) != clients:
        raise TermsError(f"privacy.clip names {len(each)} bounds for data.clients = {clients}; name one each.")
    return tuple(one * weight for one, weight in zip(each, weights or (1.0,) * clients, strict=True))


def weights_of(configuration: Configuration, unit: Unit) -> tuple[float, ...]:
    """The public weight of each client; empty where all weigh 1."""
    weights = tuple(configuration.data.weights or ())
    if not weights:
        return ()
    if unit != "client":
        raise TermsError(f'data.weights weighs clients, which privacy.unit = "{unit}" cannot price; leave it out.')
    if len(weights) != configuration.data.clients:
        raise TermsError(
            f"data.weights names {len(weights)} weights for data.clients = {configuration.data.clients}; name one each."
        )
    for weight in weights:
        _check.positive(data__weights=weight)
    return weights


def summation_of(configuration: Configuration, kind: Kind) -> Summation:
    """How rows are summed."""
    servers = configuration.servers
    if servers is None:
        return Shared() if kind.shares else Plain()
    if servers.ring_bits not in (32, 64):
        raise TermsError(f"servers.ring-bits = {servers.ring_bits} is no ring that shares travel in; choose 32 or 64.")
    return Shared(servers.count, servers.corrupt, servers.relay, _hosts(servers.hosted_by), servers.min_batch)


def _hosts(names: list[str]) -> tuple[int, ...]:
    hosts: list[int] = []
    for name in names:
        match = re.fullmatch(r"client:(0|[1-9][0-9]{0,8})", name)
        if not match:
            raise TermsError(f'servers.hosted-by = "{name}" is no client; write it as "client:0".')
        hosts.append(int(match[1]))
    return tuple(hosts)


def client_sampling_of(configuration: Configuration, kind: Kind) -> ClientSampling:
    """Who takes part in a round."""
    table = configuration.sampling.clients
    name = table.name if table and table.given("name") else kind.sampling
    rate = 0.5 if table is None or table.rate is None else table.rate
    _check.one_of(_SAMPLERS, sampling__clients__name=name)
    if table and table.cover_traffic and name not in ("poisson", "random-allocation"):
        raise UnpricedError(
            f'sampling.clients.cover-traffic = true hides coins that clients flip, and "{name}" has none; '
            'use name = "poisson".'
        )
    if table:
        _refuse_meaningless(name, table)
    if name in ("random-allocation", "cyclic", "fixed-offset"):
        return _schedule(name, table or ClientSamplingTable(), configuration.task.rounds)
    if name == "all":
        return Everyone()
    if name == "fixed-size":
        if isinstance(rate, list):
            raise TermsError(f"sampling.clients.rate = {rate} must be one number where the cohort has a fixed size.")
        return fixed_size(rate, configuration.data.clients)
    cover = table.cover_traffic if table else False
    return Poisson(tuple(float(one) for one in rate) if isinstance(rate, list) else float(rate), cover)


def _refuse_meaningless(name: str, table: ClientSamplingTable) -> None:
    """Refuse what another sampler goes by."""
    own = _GOES_BY.get(name)
    goes = f", which goes by {own}" if own else ""
    for key, value in {"rate": table.rate, "period": table.period, "participations": table.participations}.items():
        everybody = name == "all" and key == "rate" and value == 1
        if value is not None and key != own and not everybody:
            raise TermsError(
                f'sampling.clients.{key} = {value} means nothing with name = "{name}"{goes}; leave it out.'
            )


def _schedule(name: str, table: ClientSamplingTable, rounds: int) -> ClientSampling:
    """A sampler that settles a client's rounds for the whole run."""
    if name == "random-allocation":
        if table.participations is None:
            raise ConfigError("sampling.clients.participations is missing; name how many rounds each client picks.")
        return RandomAllocation(table.participations, rounds, table.cover_traffic)
    if table.period is None:
        raise ConfigError(
            f'sampling.clients.period is missing; name how many rounds lie between two of a client with "{name}".'
        )
    return Cyclic(table.period) if name == "cyclic" else FixedOffset(table.period)


def training_of(configuration: Configuration, kind: Kind, unit: Unit, keeps: Literal["nothing", "state"]) -> Training:
    """What a silo draws and keeps."""
    table = configuration.sampling.records
    if table is not None:
        _check.one_of(_RECORD_SAMPLERS, sampling__records__name=table.name)
    if not kind.by_records:
        return _training_in_batches(configuration, kind, unit, keeps)
    name, rate = (table.name, table.rate) if table else ("poisson", None)
    if name != "poisson":
        raise ConfigError(f'sampling.records.name = "{name}" is not built for dp-sgd; choose poisson.')
    expected = configuration.data.expected_records
    if expected is None:
        counted = "persons" if configuration.privacy.unit == "person" else "records"
        raise ConfigError(
            f"data.expected-records is missing; name the public number of {counted} that a silo is taken to have, "
            "which the released mean is divided by."
        )
    rate = 0.01 if rate is None else rate
    return Training("nothing", PoissonRecords(rate), expected, configuration.data.max_records or 2 * expected)


def _training_in_batches(
    configuration: Configuration, kind: Kind, unit: Unit, keeps: Literal["nothing", "state"]
) -> Training:
    expected = configuration.data.expected_records
    if unit == "record" and expected is None and kind.draws_batches:
        raise ConfigError(
            "data.expected-records is missing; name the public number of records that every client draws from at the "
            "least, which the rate of a record rests on."
        )
    return Training(keeps, batches_of(configuration, kind), expected if unit == "record" else None)


def observers_of(configuration: Configuration, kind: Kind, terms: Terms) -> tuple[str, ...]:
    """The threat model: those named, or every role that there is, and with groups a client of each of the first."""
    named = configuration.privacy.observers
    if named is not None:
        if not named:
            raise TermsError("privacy.observers = [] names nobody; name at least public.")
        return tuple(named)
    summation = summation_of(configuration, kind)
    if not isinstance(summation, Shared):
        return ("public", "coordinator", *_peers(terms))
    every = "+".join(f"aux:{server}" for server in range(summation.count))
    hosted = [f"aux:{server}+client:{host}" for server, host in enumerate(summation.hosted_by)]
    return ("public", "coordinator", "aux:0", *hosted, every, *_peers(terms))


def _peers(terms: Terms) -> tuple[str, ...]:
    """Of each of the first groups the member that is in most groups, for it sees most; the report draws all pairs."""
    if not isinstance(terms.topology, Groups):
        return ()
    chosen = (min(members, key=lambda one: (-terms.topology.copies(one), one)) for members in terms.topology.members)
    return tuple(dict.fromkeys(f"client:{one}" for one in chosen))[:_MOST_PEERS]


def refuse_impossible(configuration: Configuration, unit: Unit) -> None:
    """Refuse what no run could have, also where this one adds no noise and would not look at it."""
    bounds_of(configuration, unit)
    mechanism_of(configuration, 0.0)
    noised_by_of(configuration, Plain())


def refuse_unbuilt(configuration: Configuration) -> None:
    """Refuse what the file can say but no method does yet."""
    privacy = configuration.privacy
    if privacy.adaptive_clip is not None:
        shown = str(privacy.adaptive_clip).lower()
        raise ConfigError(
            f"privacy.adaptive-clip = {shown} is not built for {configuration.task.method}; leave it out."
        )
    if math.isnan(privacy.delta):
        raise TermsError("privacy.delta = nan must be above 0 and below 1.")
