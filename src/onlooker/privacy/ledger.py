"""The append-only public facts of a run, and the epsilon that they add up to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from onlooker.errors import SealedError, TermsError
from onlooker.privacy.accounting import Price, price
from onlooker.privacy.pairs import pair_of
from onlooker.privacy.terms import Terms
from onlooker.privacy.topology import Groups
from onlooker.types import Unit


@dataclass(frozen=True)
class Release:
    """One round's sealed sums, all channels together: charged when sealed, whether or not the round ends (rule 10b).

    Attributes:
        round: from 1 to T.
        digest: SHA-256 of the sealed bytes. It tells a retry of the same bytes, which costs nothing, from another
            release; it is no part of what two ledgers are compared by.
    """

    round: int
    digest: str = field(default="", compare=False)


@dataclass(frozen=True)
class Ledger:
    """What was released under which terms: privacy is a pure function of this object.

    >>> from onlooker.privacy.example import terms
    >>> ledger = Ledger.plan(terms())
    >>> round(ledger.epsilon(0, "public"), 2), round(ledger.epsilon(0, "aux:0"), 2), ledger.epsilon(0, "aux:0+aux:1")
    (8.0, 17.14, inf)
    """

    terms: Terms
    releases: tuple[Release, ...] = ()

    @staticmethod
    def plan(terms: Terms, rounds: int | None = None) -> Ledger:
        """The ledger that a run of `rounds` rounds (all of them by default) will have left behind."""
        count = terms.rounds if rounds is None else rounds
        return Ledger(terms, tuple(Release(round) for round in range(1, count + 1)))

    def charge(self, round: int, digest: str) -> Ledger:
        """This ledger with one more release; the same bytes for the same round are charged once.

        Raises:
            SealedError: if other bytes were sealed for this round before. Two noises on one sum would tell more than
                one, so the round is to be given up: it stays charged and is never released again.
        """
        sealed = [release.digest for release in self.releases if release.round == round]
        if sealed and sealed != [digest]:
            raise SealedError(f"round {round} was sealed before with other bytes; it is charged and given up.")
        return self if sealed else replace(self, releases=(*self.releases, Release(round, digest)))

    def price(self, subject: int, observers: str, delta: float | None = None) -> Price:
        """What all releases so far cost the subject against the observers, and by which accountant.

        Args:
            subject: the client whose data (or record, or person) it is.
            observers: one name, or several joined by "+".
            delta: the terms' own by default.

        Raises:
            TermsError: if a name is not known.
        """
        asked = self.terms.delta if delta is None else delta
        if isinstance(self.terms.topology, Groups):
            return pair_of(self.terms, subject, observers, len(self.releases), asked).price
        event = self.terms.event(subject, observers, len(self.releases))
        return price(event, asked, self.terms.priced_adjacency, self.terms.sampler_error())

    def epsilon(self, subject: int, observers: str, delta: float | None = None, unit: Unit | None = None) -> float:
        """The epsilon of all releases so far; infinity where there is no guarantee.

        A guarantee for a client or a person covers what is in it, at the price of replace-one: where one record of
        several comes or goes, the row is no longer zero on one side, but may be turned from +C to -C. One for a record
        says nothing of a person or a client.
        """
        finest_first = ("record", "person", "client")
        if unit is not None and unit not in finest_first:
            raise TermsError(f'unit = "{unit}" has no epsilon; ask for one of {", ".join(finest_first)}.')
        if not self.releases:
            return 0.0
        if self.terms.unit == "none":
            return math.inf
        if unit is None or unit == self.terms.unit:
            return self.price(subject, observers, delta).epsilon
        if finest_first.index(unit) > finest_first.index(self.terms.unit):
            return math.inf
        event = self.terms.event(subject, observers, len(self.releases))
        asked = self.terms.delta if delta is None else delta
        return price(event, asked, "replace-one", self.terms.sampler_error()).epsilon
