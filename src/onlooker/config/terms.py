"""From a configuration to the terms: every choice that decides privacy is made here, before any data are read."""

from __future__ import annotations

from dataclasses import dataclass

from onlooker import _check
from onlooker.config import choices
from onlooker.config.kinds import Kind
from onlooker.config.schema import Configuration
from onlooker.errors import TermsError
from onlooker.privacy.channel import Channel
from onlooker.privacy.grid import Grid, choose_fraction_bits
from onlooker.privacy.mechanisms import NoNoise
from onlooker.privacy.sampling import ClientSampling
from onlooker.privacy.summation import Shared
from onlooker.privacy.target import noise_for
from onlooker.privacy.terms import Terms
from onlooker.privacy.training import Training
from onlooker.types import Unit

_PLAIN_RING_BITS = 64  # nothing is saved by a narrow ring where rows are summed in one place


@dataclass(frozen=True)
class Agreement:
    """The terms of a configuration, and who is to be guarded against.

    Attributes:
        terms: all that decides privacy.
        observers: the threat model: the observers whose epsilon is reported.
        target: the epsilon that the noise was calibrated to, or None where the noise was given.
    """

    terms: Terms
    observers: tuple[str, ...]
    target: float | None


def agree(configuration: Configuration, kind: Kind, size: int) -> Agreement:
    """The agreement that a configuration comes to for a model of `size` parameters.

    Raises:
        OnlookerError: one sentence for the first impossible, unbuilt or unpriceable choice.
    """
    choices.refuse_unbuilt(configuration)
    privacy = configuration.privacy
    unit = choices.unit_of(configuration, kind)
    observers = choices.observers_of(configuration, kind)
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
        terms = _terms(configuration, kind, unit, size, 0.0)
        return Agreement(_with_known(terms, observers), observers, None)
    if privacy.epsilon is not None and privacy.noise_multiplier is not None:
        raise TermsError(
            f"privacy.epsilon = {privacy.epsilon} and privacy.noise-multiplier = {privacy.noise_multiplier} say the "
            "same thing twice; name one of them."
        )
    if privacy.epsilon is not None:
        _check.positive(privacy__epsilon=privacy.epsilon)
        multiplier = noise_for(privacy.epsilon, lambda z: _terms(configuration, kind, unit, size, z), observers)
    elif privacy.noise_multiplier is not None:
        _check.non_negative(privacy__noise_multiplier=privacy.noise_multiplier)
        multiplier = privacy.noise_multiplier
    else:
        raise TermsError(
            "privacy.epsilon is missing; name it, or privacy.noise-multiplier, to say how much noise is added."
        )
    terms = _terms(configuration, kind, unit, size, multiplier)
    return Agreement(_with_known(terms, observers), observers, privacy.epsilon)


def _terms(configuration: Configuration, kind: Kind, unit: Unit, size: int, multiplier: float) -> Terms:
    clients = configuration.data.clients
    sampling = choices.client_sampling_of(configuration, kind)
    training = choices.training_of(configuration, kind)
    return Terms(
        unit=unit,
        adjacency=choices.adjacency_of(configuration.privacy.adjacency),
        delta=configuration.privacy.delta,
        rounds=configuration.task.rounds,
        clients=clients,
        sampling=sampling,
        training=training,
        channels=(_channel(configuration, kind, unit, size, multiplier, sampling, training),),
        weights=choices.weights_of(configuration, unit),
    )


def _channel(
    configuration: Configuration,
    kind: Kind,
    unit: Unit,
    size: int,
    multiplier: float,
    sampling: ClientSampling,
    training: Training,
) -> Channel:
    if unit == "none":
        return Channel(size + 1, NoNoise(), None, "server")  # one more coordinate: the weights travel along
    bounds = choices.bounds_of(configuration, unit)
    summation = choices.summation_of(configuration, kind)
    noised_by = choices.noised_by_of(configuration, summation)
    cohort = sampling.size if sampling.name == "fixed-size" else configuration.data.clients
    rows = cohort * ((training.max_records or 1) if kind.by_records else 1)
    adders = cohort if noised_by == "clients" else summation.servers
    bits = configuration.servers.ring_bits if configuration.servers else 32
    ring = bits if isinstance(summation, Shared) else _PLAIN_RING_BITS
    fraction = choose_fraction_bits(ring, rows, multiplier, adders, dimension=size, unit=unit)
    clip = max(bounds) if isinstance(bounds, tuple) else bounds
    return Channel(
        size=size,
        mechanism=choices.mechanism_of(configuration.privacy.mechanism, multiplier),
        grid=Grid(clip, fraction, ring),
        noised_by=noised_by,
        summation=summation,
        bounds=bounds,
        sums_records=kind.by_records,
        max_records=training.max_records or 1,
    )


def _with_known(terms: Terms, observers: tuple[str, ...]) -> Terms:
    """The same terms, once every observer named is known to them."""
    for observer in observers:
        terms.views(0, observer)
    return terms
