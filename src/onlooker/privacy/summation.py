"""How rows are summed: in the clear by one coordinator, or as additive shares by several auxiliary servers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onlooker import _check
from onlooker.errors import TermsError
from onlooker.privacy import shares
from onlooker.privacy.random import Source, Stream

Ring: TypeAlias = NDArray[Any]
"""`uint32[d]` or `uint64[d]`: integers modulo 2^32 or 2^64."""
_MOST_SERVERS = 1000


@dataclass(frozen=True)
class Plain:
    """One coordinator receives every row and sums."""

    name: Literal["plain"] = "plain"

    @property
    def servers(self) -> int:
        """How many parties sum: one."""
        return 1

    def shard(self, row: Ring, purpose: str, client: int, round: int, source: Source) -> tuple[Ring, ...]:
        """The row itself."""
        del purpose, client, round, source
        return (row,)

    def gather(self, totals: Sequence[Ring], row: Ring, purpose: str, client: int, round: int, source: Source) -> None:
        """Add the row itself to the one sum."""
        del purpose, client, round, source
        np.add(totals[0], row, out=totals[0])


@dataclass(frozen=True)
class Shared:
    """Each client cuts its row into one additive share for each of `count` servers; each server sums its own.

    Attributes:
        count: n, the number of auxiliary servers.
        corrupt: t, how many of them may collude and still learn no more than the priced epsilon (rule 7).
        relay: who carries the reports: "coordinator", or "aux:j".
        hosted_by: where clients host servers, the client that hosts each (rule 7b); else empty.
        min_batch: the fewest reports that a deployed server sums; hygiene, not a guarantee, and idle in a study.

    Guarantee: any n - 1 shares of a row are together uniform and independent of it, as far as the key stream cannot be
    told from noise (FedDecouple, phase 1; rule 7a: computational).
    """

    count: int = 2
    corrupt: int = 1
    relay: str = "coordinator"
    hosted_by: tuple[int, ...] = ()
    min_batch: int = 5
    name: Literal["shares"] = "shares"

    def __post_init__(self) -> None:
        _check.at_least(2, servers__count=self.count)
        _check.at_most(_MOST_SERVERS, servers__count=self.count)
        _check.at_least(1, servers__min_batch=self.min_batch)
        if not 0 <= self.corrupt < self.count:
            raise TermsError(
                f"servers.corrupt = {self.corrupt} must be from 0 to {self.count - 1}, for at least one of "
                f"servers.count = {self.count} must be honest."
            )
        carriers = ("coordinator", *(f"aux:{server}" for server in range(self.count)))
        if self.relay not in carriers:
            raise TermsError(f'servers.relay = "{self.relay}" is not known; choose one of {", ".join(carriers)}.')
        if self.hosted_by and len(self.hosted_by) != self.count:
            raise TermsError(
                f"servers.hosted-by names {len(self.hosted_by)} hosts for servers.count = {self.count}; name one each."
            )

    @property
    def servers(self) -> int:
        """How many parties sum."""
        return self.count

    def shard(self, row: Ring, purpose: str, client: int, round: int, source: Source) -> tuple[Ring, ...]:
        """One share of the row for each server; the masks come from the client's own streams for this purpose."""
        return shares.split(row, self.count, self._streams(purpose, client, round, source))

    def gather(self, totals: Sequence[Ring], row: Ring, purpose: str, client: int, round: int, source: Source) -> None:
        """Add to each server's sum its share of the row, as `shard` cuts it; the row is overwritten."""
        shares.split_into(totals, row, self._streams(purpose, client, round, source))

    def _streams(self, purpose: str, client: int, round: int, source: Source) -> list[Stream]:
        return [source.stream(purpose, round, f"client:{client}/aux:{server}") for server in range(1, self.count)]

    def noise_share(self) -> float:
        """The noise that one server adds, as a multiple of z: 1/sqrt(n - t), so that n - t honest ones make up z."""
        return 1 / math.sqrt(self.count - self.corrupt)

    def noise_left(self, colluding: int) -> float:
        """The multiple of z that a coalition of `colluding` servers cannot subtract, never claimed above 1 (rule 7)."""
        return min(1.0, math.sqrt((self.count - colluding) / (self.count - self.corrupt)))

    def most_corrupt(self, subject: int) -> int:
        """How many servers may collude against a client: t of them, each with all that its host hosts (rule 7b).

        A host is a client, of which any may be corrupt, so it is one at the least. The subject's own are its own.
        """
        if not self.hosted_by:
            return self.corrupt
        others = Counter(host for host in self.hosted_by if host != subject)
        return sum(count for _, count in others.most_common(max(1, self.corrupt)))


Summation: TypeAlias = Plain | Shared
