"""From a configuration to the terms: every choice that decides privacy is made here, before any data are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from onlooker import _check
from onlooker.config import choices, evaluation, tables
from onlooker.config.kinds import Kind
from onlooker.config.schema import Configuration
from onlooker.errors import ConfigError, TermsError, UnpricedError
from onlooker.models import Parts
from onlooker.privacy import measures
from onlooker.privacy.channel import Channel
from onlooker.privacy.grid import Grid, choose_fraction_bits
from onlooker.privacy.matrix import Correlated, peak
from onlooker.privacy.mechanisms import NoNoise
from onlooker.privacy.summation import Shared
from onlooker.privacy.target import noise_for
from onlooker.privacy.terms import Terms
from onlooker.privacy.topology import Groups, Star
from onlooker.types import Unit

_PLAIN_RING_BITS = 64  # nothing is saved by a narrow ring where rows are summed in one place


@dataclass(frozen=True)
class Agreement:
    """The terms of a configuration, and who is to be guarded against.

    Attributes:
        terms: all that decides privacy.
        observers: the threat model: the observers whose epsilon is reported.
        target: the epsilon that the noise was calibrated to, or None where the noise was given.
        group_names: what the user calls each group; empty where they have numbers alone. They decide nothing.
    """

    terms: Terms
    observers: tuple[str, ...]
    target: float | None
    group_names: tuple[str, ...] = ()


def agree(configuration: Configuration, kind: Kind, parts: Parts) -> Agreement:
    """The agreement that a configuration comes to for a model of these parts.

    Raises:
        OnlookerError: one sentence for the first impossible, unbuilt or unpriceable choice.
    """
    choices.refuse_unbuilt(configuration)
    privacy = configuration.privacy
    unit = choices.unit_of(configuration, kind)
    evaluation.refuse_unpriced(configuration, kind, unit)
    topology, names = tables.topology_of(configuration, kind)
    at = _terms_at(configuration, kind, unit, parts, topology)
    if unit == "none":
        if privacy.epsilon is not None or privacy.noise_multiplier:
            raise TermsError(
                'privacy.unit = "none" adds no noise; leave out privacy.epsilon and privacy.noise-multiplier.'
            )
        if configuration.servers:
            raise TermsError(
                'privacy.unit = "none" sums rows without a bound, which no ring can hold; leave out [servers].'
            )
        choices.refuse_impossible(configuration, unit)
        terms = at(0.0)
        observers = choices.observers_of(configuration, kind, terms)
        return Agreement(_with_known(terms, observers), observers, None, names)
    own = configuration.groups.noise_multiplier if configuration.groups else None
    given = {
        "privacy.epsilon": privacy.epsilon,
        "privacy.noise-multiplier": privacy.noise_multiplier,
        "groups.noise-multiplier": own,
    }
    named = [f"{key} = {value}" for key, value in given.items() if value is not None]
    if len(named) > 1:
        raise TermsError(f"{' and '.join(named)} say the same thing twice; name one of them.")
    if not named:
        raise TermsError(
            "privacy.epsilon is missing; name it, or privacy.noise-multiplier, to say how much noise is added."
        )
    observers = choices.observers_of(configuration, kind, at(1.0))
    if privacy.epsilon is not None:
        _check.positive(privacy__epsilon=privacy.epsilon)
        evaluation.refuse_too_dear(configuration, at(1.0), observers, privacy.epsilon)
        terms = at(noise_for(privacy.epsilon, at, observers))
    else:
        if privacy.noise_multiplier is not None:
            _check.non_negative(privacy__noise_multiplier=privacy.noise_multiplier)
        terms = at(privacy.noise_multiplier or 0.0)
    return Agreement(_with_known(terms, observers), observers, privacy.epsilon, names)


def _terms_at(
    configuration: Configuration, kind: Kind, unit: Unit, parts: Parts, topology: Star | Groups
) -> Callable[[float], Terms]:
    """The terms as a function of the noise multiplier: everything else is settled once."""
    privacy = configuration.privacy
    sampling = choices.client_sampling_of(configuration, kind)
    keeps: Literal["nothing", "state"] = "state" if len(parts.private) else "nothing"
    interval = tables.interval_of(configuration, kind)
    counted = _counted(configuration, unit)
    shared = kind.intervals == "shared" and interval > 1
    first = Terms(
        unit=unit,
        adjacency=choices.adjacency_of(privacy.adjacency),
        delta=privacy.delta,
        rounds=configuration.task.rounds // interval,
        clients=configuration.data.clients,
        sampling=sampling,
        training=choices.training_of(configuration, kind, unit, keeps),
        channels=(),
        weights=choices.weights_of(configuration, unit),
        topology=topology,
        counted=counted,
        interval=interval,
        within="shared" if shared else "alone",
    )
    return lambda multiplier: replace(first, channels=_channels(configuration, kind, first, parts, multiplier))


def _counted(configuration: Configuration, unit: Unit) -> Literal["public", "realised"]:
    """What sums are divided by; and whether a model may be clipped in place of an update (rule 1)."""
    privacy, method = configuration.privacy, configuration.task.method
    _check.one_of(("public", "realised"), privacy__divisor=privacy.divisor)
    _check.one_of(("update", "model"), privacy__clip_mode=privacy.clip_mode)
    for key, value, usual in (
        ("divisor", privacy.divisor, "public"),
        ("clip-mode", privacy.clip_mode, "update"),
    ):
        if value != usual and method != "ms-pafl":
            raise ConfigError(f'privacy.{key} = "{value}" is not built for {method}; write "{usual}".')
    sampling = configuration.sampling.clients
    everyone = sampling is not None and sampling.name == "all"
    if privacy.clip_mode == "model" and configuration.groups is not None:
        raise UnpricedError(
            'privacy.clip-mode = "model" is not built for groups, whose models start from different ones; write '
            '"update".'
        )
    if privacy.clip_mode == "model" and not (everyone or privacy.divisor == "realised"):
        # A realised divisor has no price with these, so that only one way is left.
        without = configuration.data.weights or privacy.adjacency == "add-or-remove"
        realised = "" if without else 'privacy.divisor = "realised", or '
        raise UnpricedError(
            'privacy.clip-mode = "model" with a public divisor would shrink the model by the share that takes part; '
            f'write {realised}sampling.clients.name = "all".'
        )
    return "realised" if privacy.divisor == "realised" and unit != "none" else "public"


def _channels(
    configuration: Configuration, kind: Kind, terms: Terms, parts: Parts, multiplier: float
) -> tuple[Channel, ...]:
    """One channel, and one for measures where they are private; or one for each group with its own clip and noise."""
    size = len(parts.public)
    if terms.unit == "none":
        return (Channel(size + 1, NoNoise(), None, "server"),)  # one more coordinate: the weights travel along
    if not isinstance(terms.topology, Groups):
        bounds = choices.bounds_of(configuration, terms.unit)
        model = _channel(configuration, kind, terms, size, multiplier, bounds, "model", parts.rule)
        if not configuration.evaluation.private:
            return (model,)
        own, bounds = (
            evaluation.multiplier_of(configuration, multiplier),
            choices.bounds_of(configuration, terms.unit, measures.BOUND),
        )
        return model, _channel(configuration, kind, terms, measures.SIZE, own, bounds, measures.CHANNEL)
    table = configuration.groups
    assert table is not None
    found: list[Channel] = []
    for group in range(terms.groups):
        clip = table.clip[group] if table.clip else None
        bounds = tables.scaled(choices.bounds_of(configuration, terms.unit, clip), terms.interval)
        own = table.noise_multiplier[group] if table.noise_multiplier else multiplier
        found.append(_channel(configuration, kind, terms, size, own, bounds, f"model/{group}", parts.rule))
    return tuple(found)


def _channel(
    configuration: Configuration,
    kind: Kind,
    terms: Terms,
    size: int,
    multiplier: float,
    bounds: float | tuple[float, ...],
    name: str,
    part: str = "*",
) -> Channel:
    sampling, training = terms.sampling, terms.training
    summation = choices.summation_of(configuration, kind)
    noised_by = choices.noised_by_of(configuration, summation)
    cohort = sampling.size if sampling.name == "fixed-size" else configuration.data.clients
    rows = cohort * ((training.max_records or 1) if kind.by_records else 1)
    adders = cohort if noised_by == "clients" else summation.servers
    bits = configuration.servers.ring_bits if configuration.servers else 32
    ring = bits if isinstance(summation, Shared) else _PLAIN_RING_BITS
    mechanism = choices.mechanism_of(configuration, multiplier)
    finer, wider = (
        (mechanism.finer_bits, peak(mechanism, terms.rounds)) if isinstance(mechanism, Correlated) else (0, 1)
    )
    fraction = choose_fraction_bits(
        ring, rows, multiplier * wider, adders, dimension=size, unit=terms.unit, finer_bits=finer
    )
    clip = max(bounds) if isinstance(bounds, tuple) else bounds
    return Channel(
        size=size,
        mechanism=mechanism,
        grid=Grid(clip, fraction, ring),
        noised_by=noised_by,
        summation=summation,
        bounds=bounds,
        sums_records=kind.by_records,
        max_records=training.max_records or 1 if kind.by_records else 1,
        part=part,
        name=name,
    )


def _with_known(terms: Terms, observers: tuple[str, ...]) -> Terms:
    """The same terms, once every observer named is known to them."""
    for observer in observers:
        terms.coalition(observer)
    return terms
