"""Who takes part in a round where a client's rounds are fixed for the whole run: a hard cap on its participations.

What is drawn is drawn once, before round 1, and kept by the client: `draw` gives it for a study, to be stored with the
run. A missed or aborted round is used up and never made up for, or the cap would not hold (rule 10b).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from dp_accounting import DpEvent

from onlooker import _check
from onlooker.errors import TermsError
from onlooker.privacy.allocation import RandomAllocationDpEvent
from onlooker.privacy.random import Source
from onlooker.types import Integers


@dataclass(frozen=True)
class Cyclic:
    """Client i takes part in the rounds t with t mod period = i mod period, as everybody knows.

    Attributes:
        period: how many rounds lie between two participations of one client.

    Guarantee: every observer knows who takes part, so nothing is amplified; a client takes part in at most every
    `period`-th round.
    """

    period: int
    cover_traffic: Literal[False] = False
    name: Literal["cyclic"] = "cyclic"

    def __post_init__(self) -> None:
        _check.at_least(1, sampling__clients__period=self.period)

    @property
    def drawn_by(self) -> Literal["clients", "coordinator", "nobody"]:
        """Who knows the cohort because it draws it."""
        return "nobody"

    def check(self, clients: int, rounds: int) -> None:
        """Refuse a period longer than the run, in which some clients would have no round."""
        del clients
        _refuse_longer(self.period, rounds)

    def rate_of(self, client: int, clients: int) -> float:
        """The share of rounds that this client takes part in."""
        del client, clients
        return 1 / self.period

    def draw(self, clients: int, source: Source) -> None:
        """Nothing: the schedule is public."""

    def cohort(self, clients: int, round: int, source: Source, kept: Integers | None = None) -> tuple[int, ...]:
        """The clients whose turn it is, in order."""
        del source, kept
        return tuple(range(round % self.period, clients, self.period))

    def participations(self, rounds: int) -> int:
        """The most rounds of the first `rounds` that one client takes part in."""
        return -(-rounds // self.period)

    def amplified(self, event: DpEvent, client: int, clients: int, accomplices: int) -> DpEvent:
        """No amplification: everybody knows who takes part."""
        del client, clients, accomplices
        return event


@dataclass(frozen=True)
class FixedOffset:
    """Each client secretly draws one offset below the period, once, and takes part in every `period`-th round from it.

    Attributes:
        period: how many rounds lie between two participations of one client.

    Guarantee: a client takes part in at most every `period`-th round, which is what correlated noise needs. No
    amplification is claimed, hidden though the offset is: none is proved for it yet, only estimated by simulation
    (balls in bins; rule 14).
    """

    period: int
    cover_traffic: Literal[False] = False
    name: Literal["fixed-offset"] = "fixed-offset"

    def __post_init__(self) -> None:
        _check.at_least(1, sampling__clients__period=self.period)

    @property
    def drawn_by(self) -> Literal["clients", "coordinator", "nobody"]:
        """Who knows the cohort because it draws it."""
        return "clients"

    def check(self, clients: int, rounds: int) -> None:
        """Refuse a period longer than the run, in which some clients would have no round."""
        del clients
        _refuse_longer(self.period, rounds)

    def rate_of(self, client: int, clients: int) -> float:
        """The probability that this client takes part in a round."""
        del client, clients
        return 1 / self.period

    def pick(self, client: int, source: Source) -> tuple[int, ...]:
        """The client's own draw: the first round, from 1, that it takes part in."""
        return (1 + source.stream("schedule", 0, f"client:{client}").below(self.period),)

    def draw(self, clients: int, source: Source) -> Integers:
        """Every client's draw, `int64[clients, 1]`: secret, and to be kept for the whole run."""
        return np.array([self.pick(client, source) for client in range(clients)], dtype=np.int64)

    def cohort(self, clients: int, round: int, source: Source, kept: Integers | None = None) -> tuple[int, ...]:
        """The clients that take part in this round, in order; it may be empty.

        Raises:
            TermsError: if nothing was kept, and the source cannot draw the same again.
        """
        firsts = _remembered(self, clients, 1, source, kept)
        return tuple(np.flatnonzero((round - firsts[:, 0]) % self.period == 0).tolist())

    def participations(self, rounds: int) -> int:
        """The most rounds of the first `rounds` that one client takes part in."""
        return -(-rounds // self.period)

    def amplified(self, event: DpEvent, client: int, clients: int, accomplices: int) -> DpEvent:
        """No amplification that is proved."""
        del client, clients, accomplices
        return event


@dataclass(frozen=True)
class RandomAllocation:
    """Each client secretly picks its rounds once: `picks` of all `rounds`, every set equally likely.

    Attributes:
        picks: k, how many rounds it picks.
        rounds: T, out of how many; those of the run.
        cover_traffic: as in Poisson sampling (rule 4b).

    Guarantee: a client takes part in at most k rounds, whoever watches; to an observer that does not see participation
    the run as a whole costs what `allocation` bounds (rule 5). For k > 1 a client may keep nothing between rounds: what
    it keeps would tell later rows how many were picked before.
    """

    picks: int
    rounds: int
    cover_traffic: bool = False
    name: Literal["random-allocation"] = "random-allocation"

    def __post_init__(self) -> None:
        _check.at_least(1, sampling__clients__participations=self.picks)
        if self.picks > self.rounds:
            raise TermsError(
                f"sampling.clients.participations = {self.picks} is more than the run has rounds; choose at most "
                f"task.rounds = {self.rounds}."
            )

    @property
    def drawn_by(self) -> Literal["clients", "coordinator", "nobody"]:
        """Who knows the cohort because it draws it."""
        return "clients"

    def check(self, clients: int, rounds: int) -> None:
        """Refuse a run of another length than the one that is picked from."""
        del clients
        if self.rounds != rounds:
            raise TermsError(
                f"sampling.clients picks from {self.rounds} rounds, and task.rounds = {rounds}; make them the same."
            )

    def rate_of(self, client: int, clients: int) -> float:
        """The probability that this client takes part in a round."""
        del client, clients
        return self.picks / self.rounds

    def pick(self, client: int, source: Source) -> tuple[int, ...]:
        """The client's own draw: the rounds, from 1, that it takes part in, in order."""
        stream = source.stream("schedule", 0, f"client:{client}")
        return tuple(1 + place for place in stream.subset(self.picks, self.rounds))

    def draw(self, clients: int, source: Source) -> Integers:
        """Every client's draw, `int64[clients, k]`: secret, and to be kept for the whole run."""
        return np.array([self.pick(client, source) for client in range(clients)], dtype=np.int64)

    def cohort(self, clients: int, round: int, source: Source, kept: Integers | None = None) -> tuple[int, ...]:
        """The clients that take part in this round, in order; it may be empty.

        Raises:
            TermsError: if nothing was kept, and the source cannot draw the same again.
        """
        picked = _remembered(self, clients, self.picks, source, kept)
        return tuple(np.flatnonzero((picked == round).any(axis=1)).tolist())

    def participations(self, rounds: int) -> int:
        """The most rounds of the first `rounds` that one client takes part in."""
        return min(self.picks, rounds)

    def amplified(self, event: DpEvent, client: int, clients: int, accomplices: int) -> DpEvent:
        """The price of a whole run to whoever does not see participation; what others drew says nothing of it."""
        del client, clients, accomplices
        if self.picks == self.rounds:
            return event
        return RandomAllocationDpEvent(event, self.picks, self.rounds, self.rounds)


def _refuse_longer(period: int, rounds: int) -> None:
    if period > rounds:
        raise TermsError(
            f"sampling.clients.period = {period} is longer than the run; choose at most task.rounds = {rounds}."
        )


def _remembered(
    sampling: FixedOffset | RandomAllocation, clients: int, width: int, source: Source, kept: Integers | None
) -> Integers:
    if kept is None and source.repeatable:
        return sampling.draw(clients, source)
    if kept is None or kept.shape != (clients, width):
        raise TermsError(
            f'sampling.clients.name = "{sampling.name}" goes on only with what {clients} clients drew before round 1; '
            "put their draws back."
        )
    return kept
