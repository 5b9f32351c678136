"""The one door: everything that leaves a client leaves through a `Channel`, which knows its own price.

Four verbs, in the order of a round: a client `shard`s its row, each summing party `aggregate`s its shares and `seal`s
the sum with its noise, and the sealed sums together are the `release`. A method never sees a sum that is not sealed. A
simulator, which is everybody, may `gather` a row in one step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onlooker import _check
from onlooker.privacy.grid import Grid
from onlooker.privacy.matrix import Correlated, no_noise_yet, spread
from onlooker.privacy.mechanisms import Mechanism, NoNoise
from onlooker.privacy.random import Source
from onlooker.privacy.shares import combine
from onlooker.privacy.summation import Plain, Ring, Shared, Summation
from onlooker.privacy.sums import Report, Sealed, Sums
from onlooker.types import Array, Integers, NoisedBy, Row


@dataclass(frozen=True)
class Channel:
    """One sum that clients feed in every round: its bound, its noise, who adds it, how it is summed, and its price.

    Attributes:
        size: d, the number of coordinates of a row.
        mechanism: the noise, with z.
        grid: the integers that rows are encoded on; None for the baseline without a bound, which sums floats.
        noised_by: who adds noise of standard deviation z times the clip.
        summation: how rows are summed.
        bounds: the public L2 bound of each client's row, at most the grid's clip; one number where all are equal
            (rule 17). Where a row is a sum of records it bounds what one record adds.
        sums_records: True where a row is a sum over records, or over persons, each of whom the method clips to
            `record_clip` as a whole (rule 8b).
        max_records: B_max, the most of them in one row.
        part: which parameters travel; "*" is all of them.
        name: the channel's name in the ledger.

    Guarantee: one unit changes the integer sum by at most its bound in L2, exactly; the noise that meets it in an
    observer's view is the view's multiple of z times the clip (see `observers`).
    """

    size: int
    mechanism: Mechanism
    grid: Grid | None
    noised_by: NoisedBy
    summation: Summation = Plain()
    bounds: float | tuple[float, ...] = math.inf
    sums_records: bool = False
    max_records: int = 1
    part: str = "*"
    name: str = "model"

    def __post_init__(self) -> None:
        _check.at_least(1, model__size=self.size)

    @property
    def kind(self) -> str:
        """What it carries, "model" or "evaluation", whichever group's it is."""
        return self.name.partition("/")[0]

    def bound(self, client: int) -> float:
        """The L2 bound of what one unit of this client adds to the sum."""
        return self.bounds[client] if isinstance(self.bounds, tuple) else self.bounds

    def multiplier(self, client: int) -> float:
        """z of this client: the claimed noise over its own bound (rule 17: z_i = sigma / C_i).

        A client that adds its own noise scales it to its own bound, so there z is z.
        """
        if self.grid is None:
            return 0.0
        if self.noised_by == "clients":
            return self.mechanism.noise_multiplier
        return self.mechanism.noise_multiplier * self.grid.clip / self.bound(client)

    @property
    def record_clip(self) -> float:
        """C': what a method must clip a record (or person) to, so that a rounded sum changes by at most the clip."""
        if self.grid is None:
            return math.inf
        return self.grid.record_bound(self.size, self.max_records)

    def encode(self, row: Row, client: int) -> Array:
        """The client's row as it is summed: `int64[d]` on the grid, within its bound; floats where nothing is bounded.

        A row with a value that is not finite becomes zero (rule 1), silently to everybody but the client.
        """
        if self.grid is None:
            return np.asarray(row, dtype=np.float64)
        if self.sums_records:
            return self.grid.encode_sum(row)
        return self.grid.encode_row(row, self.bound(client))

    def shard(self, encoded: Array, client: int, round: int, source: Source) -> Report:
        """The client's half: add its own noise where clients do, and cut the row into shares."""
        if self.grid is None:
            return Report(client, (encoded,))
        if self.noised_by == "clients":
            encoded = encoded + self._noise(self.bound(client) / self.grid.clip, round, f"client:{client}", source)
        ring = self.grid.to_ring(encoded)
        return Report(client, self.summation.shard(ring, f"mask/{self.name}", client, round, source))

    def empty(self) -> Sums:
        """The sums of a round in which nobody has reported yet."""
        if self.grid is None:
            return Sums((np.zeros(self.size),))
        nothing = np.zeros(self.size, dtype=np.int64)
        return Sums(tuple(self.grid.to_ring(nothing) for _ in range(self.summation.servers)))

    def aggregate(self, sums: Sums, report: Report) -> None:
        """Each summing party adds its share of one report to its sum, in place; the ring wraps around."""
        for total, share in zip(sums.shares, report.shares, strict=True):
            np.add(total, share, out=total)
        sums.reports += 1

    def gather(self, sums: Sums, row: Row, client: int, round: int, source: Source, *, elide: bool = False) -> None:
        """Encode, shard and aggregate one row in one pass, for a simulator that is the client and every party at once.

        The sums are those of the three verbs, bit for bit, and no report is ever made.

        Args:
            sums: what was aggregated before; changed in place.
            row: `float64[d]` or `float32[d]`, left as it is.
            client: whose row it is.
            round: from 1.
            source: where the client's masks, and its noise, come from.
            elide: give the whole row to the first party, and none a mask. The sum over all parties is the same to the
                bit, and so are the noise, the release and `Sealed.digest`, because masks cancel in the ring; what each
                party would hold is not simulated.
        """
        sums.reports += 1
        if self.grid is None:
            np.add(sums.shares[0], row, out=sums.shares[0])
            return
        if sums.room is None:
            sums.room = np.empty_like(sums.shares[0])
        if self.sums_records:
            self.grid.put_sum(row, sums.room)
        else:
            self.grid.put_row(row, sums.room, self.bound(client))
        if self.noised_by == "clients":
            noise = self._noise(self.bound(client) / self.grid.clip, round, f"client:{client}", source)
            np.add(sums.room, self.grid.to_ring(noise), out=sums.room)
        summation = Plain() if elide else self.summation
        summation.gather(sums.shares, sums.room, f"mask/{self.name}", client, round, source)

    def seal(self, sums: Sums, round: int, source: Source, states: tuple[Integers, ...] = ()) -> Sealed:
        """The summing parties' half: each adds its own noise, also to an empty sum (rule 2).

        Args:
            sums: what was aggregated.
            round: from 1.
            source: where the noise comes from.
            states: `Sealed.states` of the round before; empty in round 1.

        Raises:
            TermsError: if the noise is correlated, and the states are not those of the round before.
        """
        if self.grid is None or self.noised_by == "clients":
            return Sealed(sums.shares, sums.reports)
        before: tuple[Integers | None, ...] = states or (None,) * len(self._noising_parties)
        parts = [
            self.noised(share, party, round, source, state)
            for share, party, state in zip(sums.shares, self._noising_parties, before, strict=True)
        ]
        return Sealed(
            tuple(share for share, _ in parts), sums.reports, tuple(state for _, state in parts if state is not None)
        )

    def noised(
        self, share: Ring, party: str, round: int, source: Source, state: Integers | None = None
    ) -> tuple[Ring, Integers | None]:
        """One summing party's part of `seal`: its share of the sum with its own noise, and what it has to remember.

        Args:
            share: `Ring[d]`, left as it is.
            party: who: "aux:j", or "coordinator".
            round: from 1.
            source: where its noise comes from.
            state: what it remembers of the round before, where noise is correlated; None in round 1.

        Raises:
            TermsError: if the noise is correlated, and the state is not that of the round before.
        """
        assert self.grid is not None
        noise = self._noise(self._each, round, party, source)
        after: Integers | None = None
        if isinstance(self.mechanism, Correlated):
            noise, after = self.mechanism.step(no_noise_yet(self.size) if state is None else state, noise, round)
        return share + self.grid.to_ring(noise), after

    def passed(self, state: Integers | None, rounds: Iterable[int]) -> Integers | None:
        """What a summing party remembers after rounds that ended without a sum, where noise is correlated.

        Args:
            state: what it remembered before them.
            rounds: which, in order.
        """
        if isinstance(self.mechanism, Correlated):
            for round in rounds:
                state = self.mechanism.passed(no_noise_yet(self.size) if state is None else state, round)
        return state

    def release(self, sealed: Sealed, divisor: float) -> Row | None:
        """What everybody may see: `float64[d]`, the sum over the public divisor.

        None where clients add the noise and nobody took part: there is no noise to release, so the model is kept, and
        participation counts as visible (rule 2).
        """
        if sealed.reports == 0 and (self.noised_by == "clients" or self.grid is None):
            return None
        if self.grid is None:
            return sealed.shares[0] / divisor
        return self.grid.decode(self.grid.from_ring(combine(sealed.shares))) / divisor

    def deviation(self, cohort: float, round: int | None = None) -> float:
        """The standard deviation of each coordinate of the noisy sum of `cohort` rows, in units of a row.

        Where noise is correlated it differs by round: without a round, this is the root of its mean square.
        """
        if self.grid is None:
            return 0.0
        adders = cohort if self.noised_by == "clients" else len(self._noising_parties)
        once = spread(self.mechanism, round) if isinstance(self.mechanism, Correlated) else 1.0
        return once * self.mechanism.noise_multiplier * self.grid.clip * self._each * math.sqrt(adders)

    @property
    def adder_deviation(self) -> float:
        """The least standard deviation that one adder adds, in units of the grid."""
        if self.grid is None:
            return 0.0
        least = min(self.bounds) if isinstance(self.bounds, tuple) and self.noised_by == "clients" else self.grid.clip
        each = self._each * least / self.grid.clip
        return each * self.mechanism.noise_multiplier * 2.0**self.grid.fraction_bits

    @property
    def claims_several_adders(self) -> bool:
        """True if an observer may be priced at noises that several parties rounded apart (see `rounding`)."""
        if self.noised_by == "clients":
            return True
        return isinstance(self.summation, Shared) and self.summation.count - self.summation.corrupt > 1

    def sampler_error(self, rounds: int) -> float:
        """The total variation that the noise sampler leaves over a whole run, in one unit's view (rule 8)."""
        if self.grid is None:
            return 0.0
        adders = max(1, len(self._noising_parties))
        deviation = self.mechanism.noise_multiplier * 2.0**self.grid.fraction_bits
        return self.mechanism.sampler_error(deviation, self.size * rounds * adders)

    @property
    def _noising_parties(self) -> tuple[str, ...]:
        if self.noised_by == "clients":
            return ()
        if isinstance(self.summation, Shared):
            return tuple(f"aux:{server}" for server in range(self.summation.count))
        return ("coordinator",)

    @property
    def _each(self) -> float:
        """The multiple of z that one adder adds."""
        return (
            self.summation.noise_share() if isinstance(self.summation, Shared) and self.noised_by == "servers" else 1.0
        )

    def _noise(self, multiple: float, round: int, party: str, source: Source) -> NDArray[np.int64]:
        assert self.grid is not None and not isinstance(self.mechanism, NoNoise)
        deviation = multiple * self.mechanism.noise_multiplier * 2.0**self.grid.fraction_bits
        return self.mechanism.noise(deviation, self.size, source.stream(f"noise/{self.name}", round, party))
