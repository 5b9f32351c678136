"""All that decides privacy in a run, and nothing else: public, frozen, hashed."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, Literal

from dp_accounting import DpEvent
from pydantic import TypeAdapter

from onlooker import _check
from onlooker.errors import TermsError
from onlooker.privacy import events
from onlooker.privacy.allocation import RandomAllocationDpEvent
from onlooker.privacy.channel import Channel
from onlooker.privacy.measures import CHANNEL
from onlooker.privacy.observers import Coalition, View, see
from onlooker.privacy.random import Source
from onlooker.privacy.refusals import refuse_what_has_no_price
from onlooker.privacy.rounds import read
from onlooker.privacy.sampling import ClientSampling, Poisson, expected_weight
from onlooker.privacy.summation import Shared
from onlooker.privacy.topology import Groups, Star
from onlooker.privacy.training import Training
from onlooker.types import Adjacency, Integers, Unit

_MOST = 1_000_000
"""Rounds and clients, each: what a ledger can list and a plan can look at one by one."""


@dataclass(frozen=True)
class Terms:
    """The public facts that every party of a run agrees to before it starts.

    Attributes:
        unit: what a neighbouring data set differs in; "none" for a run without any guarantee.
        adjacency: how it differs.
        delta: the delta of every epsilon.
        rounds: T, or the number of intervals where a round is one.
        clients: N, the number of registered clients.
        sampling: who takes part in a round.
        training: what local training keeps and draws.
        channels: every sum that clients feed: all under one participation coin, or with groups one for each group,
            each with its own coins and noise.
        weights: the public weight of each client, or empty where all weigh 1 (rule 3).
        topology: who feeds which sum, and when a trace of it can arrive.
        counted: what a sum is divided by: the "public" expected weight, or the "realised" count, which everybody then
            sees (MS-PAFL, eq. 17; rule 2).
        interval: S where a round is an interval of S epochs (DP-OGL+), else 1.
        within: what an interval shares in a group before its end: nothing ("alone"), or sums without noise ("shared").
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
    topology: Star | Groups = Star()
    counted: Literal["public", "realised"] = "public"
    interval: int = 1
    within: Literal["alone", "shared"] = "alone"

    def __post_init__(self) -> None:
        _check.at_least(1, task__rounds=self.rounds, data__clients=self.clients, groups__mixing_period=self.interval)
        _check.at_most(_MOST, task__rounds=self.rounds, data__clients=self.clients)
        _check.probability(privacy__delta=self.delta)
        refuse_what_has_no_price(self)

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical form: two runs with one hash have one price."""
        return hashlib.sha256(json.dumps(to_dict(self), sort_keys=True).encode()).hexdigest()

    @property
    def groups(self) -> int:
        """How many groups there are: 1 for a star."""
        return len(self.topology.members) if isinstance(self.topology, Groups) else 1

    def members(self, group: int) -> range | tuple[int, ...]:
        """The clients that feed the sums of a group."""
        return self.topology.members[group] if isinstance(self.topology, Groups) else range(self.clients)

    def channels_of(self, group: int) -> tuple[Channel, ...]:
        """The sums that the members of a group feed."""
        return (self.channels[group],) if isinstance(self.topology, Groups) else self.channels

    @property
    def model_channels(self) -> tuple[Channel, ...]:
        """The sums that move a model: one, or one for each group."""
        return tuple(channel for channel in self.channels if channel.kind == "model")

    @property
    def measured_by(self) -> Channel | None:
        """The sum that tells how good the model is, where clients measure it."""
        return next((channel for channel in self.channels if channel.kind == CHANNEL), None)

    def sampling_of(self, group: int) -> ClientSampling:
        """Who takes part in a round of a group."""
        if isinstance(self.topology, Groups) and self.topology.rates and isinstance(self.sampling, Poisson):
            return replace(self.sampling, rate=self.topology.rates[group])
        return self.sampling

    def cohort(self, group: int, round: int, source: Source, draws: Integers | None = None) -> tuple[int, ...]:
        """The clients of a group that take part in this round, in order; it may be empty.

        Args:
            group: of the topology.
            round: from 1.
            source: where coins come from.
            draws: what clients drew before round 1, where they draw for the whole run.
        """
        sampling = self.sampling_of(group)
        if not isinstance(self.topology, Groups):
            return sampling.cohort(self.clients, round, source, draws)
        if not isinstance(sampling, Poisson):
            return self.topology.members[group]
        return sampling.among(sorted(self.members(group)), round, source, group)

    @property
    def divisor(self) -> float:
        """What the released sums of the first group are divided by: known before any coin (rule 2)."""
        return self.divisor_of(0)

    def divisor_of(self, group: int) -> float:
        """What the released sums of a group are divided by: the expected weight of a round (rule 2)."""
        return self._divisors[group]

    @functools.cached_property
    def _divisors(self) -> tuple[float, ...]:
        """Of each group; a sum over all clients, so it is made once and not in every round."""
        if self.unit == "none":
            return (1.0,) * self.groups
        if isinstance(self.topology, Groups):
            return tuple(
                sum(self.sampling_of(group).rate_of(one, self.clients) * self.weight(one) for one in members)
                for group, members in enumerate(self.topology.members)
            )
        expected = expected_weight(self.sampling, self.weights or (1.0,) * self.clients)
        if self.training.expected_records is not None and self.channels[0].sums_records:
            expected *= self.training.record_rate * self.training.expected_records
        return (expected,)

    def weight(self, client: int) -> float:
        """The public weight that multiplies this client's row before it is clipped to its bound (rule 3)."""
        return self.weights[client] if self.weights else 1.0

    @property
    def expected_units(self) -> float:
        """How many units there are, as far as the public knows: delta should be well below its inverse."""
        return self.clients * (self.training.expected_records or 1 if self.unit in ("record", "person") else 1)

    def coalition(self, observers: str) -> Coalition:
        """The observers, a name or several joined by "+".

        Raises:
            TermsError: if a name is not known.
        """
        return Coalition.parse(observers, self.clients, self.shared.count if self.shared else 0)

    def observed(self, observers: str) -> frozenset[int]:
        """The groups whose releases the observers see; the one there is, without groups.

        Raises:
            TermsError: if a name is not known.
        """
        if not isinstance(self.topology, Groups):
            return frozenset({0})
        return events.observed(self, self.topology, self.coalition(observers))

    def kind_of(self, client: int) -> Hashable:
        """What a client's price depends on beside the observers: clients of one kind have one price."""
        hosts = self.shared.hosted_by if self.shared else ()
        fed = [channel for group in self.topology.groups_of(client) for channel in self.channels_of(group)]
        bounds = tuple(channel.bound(client) for channel in fed)
        own = tuple(host for host in range(len(hosts)) if hosts[host] == client)
        return self.topology.groups_of(client), bounds, self.sampling.rate_of(client, self.clients), own

    def one_of_each_kind(self, observers: str) -> list[int]:
        """The first client of each kind, the observing clients left out: nobody has another price to the observers.

        Raises:
            TermsError: if a name is not known.
        """
        observing = self.coalition(observers).clients
        found: dict[Hashable, int] = {}
        for client in range(self.clients):
            if client not in observing:
                found.setdefault(self.kind_of(client), client)
        return list(found.values())

    def views(self, subject: int, observers: str) -> tuple[View, ...]:
        """What the observers see of the subject through each channel that it feeds.

        Raises:
            TermsError: if a name is not known.
        """
        coalition = self.coalition(observers)
        fed = [(group, one) for group in self.topology.groups_of(subject) for one in self.channels_of(group)]
        return tuple(see(one, self.sampling, self.members(group), subject, coalition) for group, one in fed)

    @property
    def priced_adjacency(self) -> Adjacency:
        """How a row differs between neighbours: a record moves a row that is clipped as a whole by up to 2C."""
        if self.unit in ("record", "person") and not self.channels[0].sums_records:
            return "replace-one"
        return self.adjacency

    def round_event(self, subject: int, observers: str) -> DpEvent:
        """The price of one round, where there are no groups."""
        return events.of_round(self, subject, observers)

    def event(self, subject: int, observers: str, rounds: int | None = None) -> DpEvent:
        """ONE event for the first `rounds` rounds (all of them by default), ready for an accountant."""
        return events.of_run(self, subject, observers, self.rounds if rounds is None else rounds)

    def signature(self, subject: int, observers: str, rounds: int | None = None) -> Hashable:
        """What the event comes to: pairs with one signature have one price."""
        event = self.event(subject, observers, rounds)
        return event if isinstance(event, RandomAllocationDpEvent) else read(event, self.priced_adjacency)

    def has_guarantee(self, subject: int, observers: str) -> bool:
        """True if some finite epsilon holds for the subject against these observers."""
        return events.is_private(self.event(subject, observers))

    def amplified(self, subject: int, observers: str) -> bool:
        """True if what is charged against these observers is sampled, which a price may yet credit nothing for."""
        return events.amplified(self, subject, observers)

    def sampler_error(self) -> float:
        """The total variation that all noise samplers leave over the run."""
        return sum(channel.sampler_error(self.rounds) for channel in self.channels)

    @functools.cached_property
    def shared(self) -> Shared | None:
        """The auxiliary servers, where there are any."""
        summations = [channel.summation for channel in self.channels if isinstance(channel.summation, Shared)]
        return summations[0] if summations else None


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
