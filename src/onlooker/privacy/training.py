"""What local training keeps and draws, as far as it decides a price."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dp_accounting import DpEvent

from onlooker import _check
from onlooker.errors import TermsError
from onlooker.privacy.records import RecordBatches
from onlooker.privacy.sampling import PoissonRecords


@dataclass(frozen=True)
class Training:
    """The public facts of local training that a price rests on.

    Attributes:
        keeps: what a client keeps from one round to the next. Whatever it keeps carries every earlier record along,
            so record sampling then amplifies nothing (rule 6).
        records: how a client draws the records of one round; None where it may use all of them.
        expected_records: the public number of records of one silo that the divisor rests on (rule 3); or, for batches,
            that a client draws from at the least.
        max_records: B_max, the public cap: a silo with more records does not take part (rule 8b).

    Where the unit is a person, all three speak of persons: one coin for all rows of a person, and numbers of persons.
    """

    keeps: Literal["nothing", "state"] = "nothing"
    records: PoissonRecords | RecordBatches | None = None
    expected_records: int | None = None
    max_records: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("expected_records", self.expected_records), ("max_records", self.max_records)):
            if value is not None:
                _check.at_least(1, **{f"data__{name}": value})
                _check.at_most(10**12, **{f"data__{name}": value})
        if self.expected_records and self.max_records and self.max_records < self.expected_records:
            raise TermsError(
                f"data.max-records = {self.max_records} must be at least "
                f"data.expected-records = {self.expected_records}."
            )

    def amplified(self, event: DpEvent) -> DpEvent:
        """The price of one round for one record (or person), to everybody outside its silo."""
        if self.records is None or self.keeps != "nothing":
            return event
        if isinstance(self.records, PoissonRecords):
            return self.records.amplified(event)
        return self.records.amplified(event, self.expected_records or 1)

    @property
    def record_rate(self) -> float:
        """q, the probability that a record is used in a round at all; 1 where all may be used."""
        if self.records is None:
            return 1.0
        if isinstance(self.records, PoissonRecords):
            return self.records.rate
        return self.records.rate(self.expected_records or 1)
