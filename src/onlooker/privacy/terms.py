"""All that decides privacy in a run, and nothing else: public, frozen, hashed."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any

from dp_accounting import (
    DpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
)
from pydantic import TypeAdapter

from onlooker import _check
from onlooker.errors import TermsError, UnpricedError
from onlooker.privacy.allocation import RandomAllocationDpEvent
from onlooker.privacy.channel import Channel
from onlooker.privacy.composition import composed, refuse_unpriced
from onlooker.privacy.observers import Coalition, View, see
from onlooker.privacy.rounding import LEAST_ADDED_SIGMA
from onlooker.privacy.sampling import ClientSampling, expected_weight
from onlooker.privacy.summation import Shared
from onlooker.privacy.training import Training
from onlooker.types import Adjacency, Unit

_MOST = 1_000_000
"""Rounds and clients, each: what a ledger can list and a plan can look at one by one."""


@dataclass(frozen=True)
class Terms:
    """The public facts that every party of a run agrees to before it starts.

    Attributes:
        unit: what a neighbouring data set differs in; "none" for a run without any guarantee.
        adjacency: how it differs.
        delta: the delta of every epsilon.
        rounds: T.
        clients: N, the number of registered clients.
        sampling: who takes part in a round.
        training: what local training keeps and draws.
        channels: every sum that clients feed, all under one participation coin.
        weights: the public weight of each client, or empty where all weigh 1 (rule 3).
    """

    unit: Unit
    adjacency: Adjacency
    delta: float
    rounds: int
    clients: int
    sampling: ClientSampling
    training: Training
    channels: tuple[Channel, ...]
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        _check.at_least(1, task__rounds=self.rounds, data__clients=self.clients)
        _check.at_most(_MOST, task__rounds=self.rounds, data__clients=self.clients)
        _check.probability(privacy__delta=self.delta)
        _refuse_what_has_no_price(self)

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical form: two runs with one hash have one price."""
        return hashlib.sha256(json.dumps(to_dict(self), sort_keys=True).encode()).hexdigest()

    @property
    def divisor(self) -> float:
        """What every released sum is divided by: the expected weight of a round, known before any coin (rule 2)."""
        if self.unit == "none":
            return 1.0
        expected = expected_weight(self.sampling, self.weights or (1.0,) * self.clients)
        records = self.training.records
        if records is not None and self.training.expected_records is not None:
            expected *= records.rate * self.training.expected_records
        return expected

    def weight(self, client: int) -> float:
        """The public weight that multiplies this client's row before it is clipped to its bound (rule 3)."""
        return self.weights[client] if self.weights else 1.0

    @property
    def expected_units(self) -> float:
        """How many units there are, as far as the public knows: delta should be well below its inverse."""
        return self.clients * (self.training.expected_records or 1 if self.unit in ("record", "person") else 1)

    def views(self, subject: int, observers: str) -> tuple[View, ...]:
        """What the observers, a name or several joined by "+", see of the subject through each channel.

        Raises:
            TermsError: if a name is not known.
        """
        coalition = Coalition.parse(observers, self.clients, self.shared.count if self.shared else 0)
        return tuple(see(channel, self.sampling, self.clients, subject, coalition) for channel in self.channels)

    def round_event(self, subject: int, observers: str) -> DpEvent:
        """The price of one round.

        All channels under one coin are one Gaussian, joined before amplification (rule 10a).
        """
        views = self.views(subject, observers)
        met = [view.noise * channel.multiplier(subject) for view, channel in zip(views, self.channels, strict=True)]
        if self.unit == "none" or min(met) <= 0:
            return NonPrivateDpEvent()
        least = min(met)
        joined = least / math.sqrt(sum((least / multiplier) ** 2 for multiplier in met))
        event = self.channels[0].mechanism.event(joined)
        if self.unit in ("record", "person"):
            # The silo's own coin amplifies nothing at this level: the other records of the silo come and go with it,
            # and so may give it away. What is left is the record's coin, seen or unseen silo alike.
            return self.training.amplified(event)
        if any(view.participation for view in views):
            return event
        accomplices = max(view.accomplices for view in views)
        return self.sampling.amplified(event, subject, self.clients, accomplices)

    def event(self, subject: int, observers: str, rounds: int | None = None) -> DpEvent:
        """ONE event for the first `rounds` rounds (all of them by default), ready for an accountant."""
        count = self.rounds if rounds is None else rounds
        return composed(self.round_event(subject, observers), self.channels[0].mechanism, self.sampling, count)

    def has_guarantee(self, subject: int, observers: str) -> bool:
        """True if some finite epsilon holds for the subject against these observers."""
        return not isinstance(self.round_event(subject, observers), NonPrivateDpEvent)

    def amplified(self, subject: int, observers: str) -> bool:
        """True if sampling lowers what is charged against these observers."""
        return isinstance(
            self.round_event(subject, observers),
            (PoissonSampledDpEvent, SampledWithoutReplacementDpEvent, RandomAllocationDpEvent),
        )

    def sampler_error(self) -> float:
        """The total variation that all noise samplers leave over the run."""
        return sum(channel.sampler_error(self.rounds) for channel in self.channels)

    @property
    def shared(self) -> Shared | None:
        """The auxiliary servers, where there are any."""
        summations = [channel.summation for channel in self.channels if isinstance(channel.summation, Shared)]
        return summations[0] if summations else None


def _refuse_what_has_no_price(terms: Terms) -> None:
    """Refuse, before any data is read, what no row of the table of observers covers."""
    if terms.weights and len(terms.weights) != terms.clients:
        raise TermsError(
            f"data.weights names {len(terms.weights)} weights for data.clients = {terms.clients}; name one each."
        )
    terms.sampling.check(terms.clients, terms.rounds)
    refuse_unpriced(terms.sampling, terms.channels, terms.unit, terms.training)
    if terms.unit == "person":
        raise UnpricedError('privacy.unit = "person" has no price yet: a person may have several records.')
    if len({channel.name for channel in terms.channels}) < len(terms.channels):
        raise TermsError("two channels have one name, by which their noises and masks would be the same.")
    for channel in terms.channels:
        _refuse_channel(terms, channel)


def _refuse_channel(terms: Terms, channel: Channel) -> None:
    shared = isinstance(channel.summation, Shared)
    if channel.noised_by == "servers" and not shared:
        raise UnpricedError('privacy.noised-by = "servers" needs auxiliary servers; add a [servers] table.')
    if channel.noised_by == "server" and shared:
        raise UnpricedError(
            'privacy.noised-by = "server" has no price where auxiliary servers sum: the coordinator would see the sum '
            'without noise; write "servers".'
        )
    if isinstance(channel.bounds, tuple):
        if len(channel.bounds) != terms.clients:
            raise TermsError(
                f"privacy.clip names {len(channel.bounds)} bounds for data.clients = {terms.clients}; name one each."
            )
        _check.positive(**{"privacy__clip": min(channel.bounds)})
        if channel.grid is not None and min(channel.bounds) * 2**channel.grid.fraction_bits < channel.grid.clip:
            raise TermsError(
                f"privacy.clip = {min(channel.bounds):g} (weights included) is below one unit of the grid, "
                f"2^-{channel.grid.fraction_bits} of the largest, {channel.grid.clip:g}; bring the two nearer."
            )
    elif terms.unit != "none":
        _check.positive(privacy__clip=channel.bounds)
    if terms.unit != "none" and channel.grid is None:
        raise UnpricedError(f'privacy.unit = "{terms.unit}" needs rows on a grid with a bound.')
    if terms.sampling.cover_traffic and channel.noised_by != "servers":
        raise UnpricedError(
            "sampling.clients.cover-traffic = true is priced only where auxiliary servers add the noise; "
            'add a [servers] table and write privacy.noised-by = "servers".'
        )
    if terms.unit != "none":
        _refuse_rows_of_another_unit(terms, channel)
    _refuse_neighbours(terms, channel)
    _refuse_narrow_noise(channel)
    hosts = channel.summation.hosted_by if isinstance(channel.summation, Shared) else ()
    if any(not 0 <= host < terms.clients for host in hosts):
        raise TermsError(f"servers.hosted-by = {list(hosts)} names a client outside 0 to {terms.clients - 1}.")


def _refuse_rows_of_another_unit(terms: Terms, channel: Channel) -> None:
    """Refuse a channel whose rows are bounded for another unit, or by another bound, than the one that is priced."""
    if channel.sums_records != (terms.unit == "record"):
        raise UnpricedError(
            f'privacy.unit = "{terms.unit}" has no price here: a row that is a sum of records is bounded record by '
            "record, and any other row as a whole."
        )
    assert channel.grid is not None
    as_priced = channel.bounds == channel.grid.clip and channel.max_records == terms.training.max_records
    if channel.sums_records and not as_priced:
        raise UnpricedError(
            f"a sum of up to {channel.max_records} records of bound {channel.bounds} is not what is priced: "
            f"data.max-records = {terms.training.max_records} and privacy.clip = {channel.grid.clip}."
        )


def _refuse_neighbours(terms: Terms, channel: Channel) -> None:
    """Refuse pairs of neighbours that differ in more than what one Gaussian event stands for."""
    if terms.unit == "client" and terms.adjacency == "add-or-remove" and channel.noised_by == "clients":
        raise UnpricedError(
            'privacy.adjacency = "add-or-remove" has no price where privacy.noised-by = "clients": a client that goes '
            'takes its noise along, and noise that is less tells that it went; write "zero-out" or "replace-one".'
        )
    differ = isinstance(channel.bounds, tuple) and len(set(channel.bounds)) > 1
    if terms.sampling.name == "fixed-size" and differ and channel.noised_by != "clients":
        raise UnpricedError(
            'sampling.clients.name = "fixed-size" has a price only where all clients have one bound, for a client '
            "displaces another, whose row may be the longer one; write one privacy.clip without data.weights, or "
            'name = "poisson".'
        )


def _refuse_narrow_noise(channel: Channel) -> None:
    """Refuse to claim what several adders make up together where their grid is too coarse to add up (rule 8)."""
    if 0 < channel.adder_deviation < LEAST_ADDED_SIGMA and channel.claims_several_adders:
        raise TermsError(
            f"privacy.noise-multiplier = {channel.mechanism.noise_multiplier:g} makes noises of "
            f"{channel.adder_deviation:.2g} units of the grid, and several add up to a Gaussian only from "
            f"{LEAST_ADDED_SIGMA:g} units each; add noise, or widen servers.ring-bits."
        )


@functools.cache
def _adapter() -> TypeAdapter[Terms]:
    return TypeAdapter(Terms)


def to_dict(terms: Terms) -> dict[str, Any]:
    """The terms as plain tables; `from_dict` gives the same terms back."""
    return _adapter().dump_python(terms, exclude_none=True)


def from_dict(table: dict[str, Any]) -> Terms:
    """The terms that `to_dict` wrote down.

    Raises:
        TermsError: if the table is not one of terms.
    """
    try:
        channels = [{"grid": None, **channel} for channel in table["channels"]]  # a TOML file has no null
        return _adapter().validate_python({**table, "channels": channels})
    except (KeyError, TypeError, ValueError) as error:
        raise TermsError(f"the terms cannot be read: {str(error).splitlines()[0]}.") from error
