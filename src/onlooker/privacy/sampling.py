"""Who takes part in a round: the sampler that runs and the event that is priced are one object (rule 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from dp_accounting import DpEvent, PoissonSampledDpEvent, SampledWithoutReplacementDpEvent
from numpy.typing import NDArray

from onlooker import _check
from onlooker.errors import TermsError
from onlooker.privacy.random import Source, Stream
from onlooker.privacy.schedules import Cyclic, FixedOffset, RandomAllocation
from onlooker.types import Integers


@dataclass(frozen=True)
class Poisson:
    """Each client takes part by its own secret coin, in each round anew.

    Attributes:
        rate: the probability of taking part, one for all clients or a public list with one for each.
        cover_traffic: every registered client fetches the model and sends one report of the same size in every round,
            of zeros when its coin said no, so that whoever carries or opens reports does not see who takes part
            (rule 4b).

    Guarantee: to an observer that does not see participation a round is a Poisson-sampled Gaussian at `rate`; whoever
    sees it may see up to `rounds` participations, because no coin is ever refused (rule 4).
    """

    rate: float | tuple[float, ...]
    cover_traffic: bool = False
    name: Literal["poisson"] = "poisson"

    def __post_init__(self) -> None:
        for one in self.rate if isinstance(self.rate, tuple) else (self.rate,):
            _check.rate(sampling__clients__rate=one)

    @property
    def drawn_by(self) -> Literal["clients", "coordinator", "nobody"]:
        """Who knows the cohort because it draws it."""
        return "clients"

    def check(self, clients: int, rounds: int) -> None:
        """Refuse a list of rates that is not one for each of `clients`."""
        del rounds
        if isinstance(self.rate, tuple) and len(self.rate) != clients:
            raise TermsError(
                f"sampling.clients.rate names {len(self.rate)} rates for data.clients = {clients}; name one each."
            )

    def rate_of(self, client: int, clients: int) -> float:
        """The probability that this client takes part in a round."""
        del clients
        return self.rate[client] if isinstance(self.rate, tuple) else self.rate

    def among(self, members: Sequence[int], round: int, source: Source, group: int | None = None) -> tuple[int, ...]:
        """Those of `members` whose coins say so in this round, in order; in groups each flips one a group (rule 13).

        What counts is that coins are independent and each the client's own secret. A deployed client flips its coin at
        home; a simulator, which is all clients at once, flips those of a round together: the coin of member i is
        integer i of one stream for the round and the group, whichever worker asks.
        """
        stream = source.stream("participation", round, "" if group is None else f"group:{group}")
        rates = np.array([self.rate[one] for one in members]) if isinstance(self.rate, tuple) else self.rate
        return tuple(members[place] for place in np.flatnonzero(stream.coins(rates, len(members))).tolist())

    def draw(self, clients: int, source: Source) -> None:
        """Nothing: coins are drawn round by round."""

    def cohort(self, clients: int, round: int, source: Source, kept: Integers | None = None) -> tuple[int, ...]:
        """The clients that take part in this round, in order; it may be empty."""
        del kept
        return self.among(range(clients), round, source)

    def participations(self, rounds: int) -> int:
        """The most rounds of `rounds` that one client can be seen in: all of them, for coins have no memory."""
        return rounds

    def amplified(self, event: DpEvent, client: int, clients: int, accomplices: int) -> DpEvent:
        """The price of one round to whoever does not see participation."""
        del accomplices  # coins are independent: what others drew says nothing of this one
        rate = self.rate_of(client, clients)
        return event if rate >= 1 else PoissonSampledDpEvent(rate, event)


@dataclass(frozen=True)
class FixedSize:
    """The coordinator draws the same number of clients in each round, without replacement.

    Attributes:
        size: m, how many of the N clients take part in each round.

    Guarantee: to an observer that does not see participation a round is a Gaussian sampled without replacement, which
    under zero-out is *not* a Poisson event (rule 2b): whoever the subject displaces may send the opposite row. The
    coordinator is never amplified against, for it draws.
    """

    size: int
    cover_traffic: Literal[False] = False
    name: Literal["fixed-size"] = "fixed-size"

    def __post_init__(self) -> None:
        _check.at_least(1, sampling__clients__size=self.size)

    @property
    def drawn_by(self) -> Literal["clients", "coordinator", "nobody"]:
        """Who knows the cohort because it draws it."""
        return "coordinator"

    def check(self, clients: int, rounds: int) -> None:
        """Refuse a cohort that is larger than the roster."""
        del rounds
        if self.size > clients:
            raise TermsError(f"sampling.clients takes {self.size} clients, more than data.clients = {clients}.")

    def rate_of(self, client: int, clients: int) -> float:
        """The probability that this client takes part in a round."""
        del client
        return self.size / clients

    def draw(self, clients: int, source: Source) -> None:
        """Nothing: cohorts are drawn round by round."""

    def cohort(self, clients: int, round: int, source: Source, kept: Integers | None = None) -> tuple[int, ...]:
        """The `size` clients that take part in this round, in order."""
        del kept
        return source.stream("cohort", round).subset(self.size, clients)

    def participations(self, rounds: int) -> int:
        """The most rounds of `rounds` that one client can be seen in."""
        return rounds

    def amplified(self, event: DpEvent, client: int, clients: int, accomplices: int) -> DpEvent:
        """The price of one round to whoever does not see participation.

        Accomplices know whether they themselves were drawn, which leaves the subject a rate of at most
        m / (N - accomplices).
        """
        del client
        others = clients - accomplices
        return event if self.size >= others else SampledWithoutReplacementDpEvent(others, self.size, event)


@dataclass(frozen=True)
class Everyone:
    """Every client takes part in every round: the usual choice for a few silos with many records each."""

    cover_traffic: Literal[False] = False
    name: Literal["all"] = "all"

    @property
    def drawn_by(self) -> Literal["clients", "coordinator", "nobody"]:
        """Who knows the cohort because it draws it."""
        return "nobody"

    @property
    def period(self) -> int:
        """How many rounds lie between two participations: always 1, which correlated noise rests on (rule 14)."""
        return 1

    def check(self, clients: int, rounds: int) -> None:
        """Any roster will do."""

    def rate_of(self, client: int, clients: int) -> float:
        """The probability that this client takes part in a round: 1."""
        del client, clients
        return 1.0

    def draw(self, clients: int, source: Source) -> None:
        """Nothing."""

    def cohort(self, clients: int, round: int, source: Source, kept: Integers | None = None) -> tuple[int, ...]:
        """All clients, in order."""
        del round, source, kept
        return tuple(range(clients))

    def participations(self, rounds: int) -> int:
        """The most rounds of `rounds` that one client can be seen in."""
        return rounds

    def amplified(self, event: DpEvent, client: int, clients: int, accomplices: int) -> DpEvent:
        """No amplification: everyone is always there."""
        del client, clients, accomplices
        return event


ClientSampling: TypeAlias = Poisson | FixedSize | Everyone | Cyclic | FixedOffset | RandomAllocation


def fixed_size(rate: float, clients: int) -> FixedSize:
    """The fixed-size sampler that takes a share of `rate` of `clients`, which must come to a whole number.

    Raises:
        TermsError: if rate times clients is not a whole number.
    """
    _check.rate(sampling__clients__rate=rate)
    size = rate * clients
    if abs(size - round(size)) > 1e-9 * clients or round(size) < 1:
        raise TermsError(
            f"sampling.clients.rate = {rate} of data.clients = {clients} is {size:g} clients, not a whole number; "
            f"{max(1, round(size)) / clients:g} would be {max(1, round(size))}."
        )
    return FixedSize(round(size))


@dataclass(frozen=True)
class PoissonRecords:
    """Each record of a silo, or each person, is used in a round by its own secret coin, drawn in the silo.

    Attributes:
        rate: the public probability that a record is used in a round.

    Guarantee: to everybody outside the silo a round is a Poisson-sampled Gaussian at `rate`, whether or not they see
    which silos take part, as long as the silo keeps nothing between rounds (rules 4 and 6).
    """

    rate: float
    name: Literal["poisson"] = "poisson"

    def __post_init__(self) -> None:
        _check.rate(sampling__records__rate=self.rate)

    def draw(self, count: int, stream: Stream) -> NDArray[np.int64]:
        """The indices among `count` records that are used, `int64[k]`, sorted; k may be 0."""
        return np.flatnonzero(stream.coins(self.rate, count))

    def amplified(self, event: DpEvent) -> DpEvent:
        """The price of one round to everybody outside the silo."""
        return event if self.rate >= 1 else PoissonSampledDpEvent(self.rate, event)


def expected_weight(sampling: ClientSampling, weights: Sequence[float]) -> float:
    """The public divisor of a round, the sum of rate_i times weight_i: never what was realised (rule 2)."""
    clients = len(weights)
    return float(sum(sampling.rate_of(client, clients) * weight for client, weight in enumerate(weights)))
