"""What a client has spent on one data set over all tasks that it takes part in (rule 10c).

A client charges itself at its worst observer: everybody who may be corrupt, together, who see whenever it reports. So
nothing is amplified by its own coins, and a report costs the same whether or not its round ends. What it counts are
the reports that it sealed itself, which is its own knowledge and shown to nobody else (rule 17).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dp_accounting import ComposedDpEvent, DpEvent, NonPrivateDpEvent, NoOpDpEvent, SelfComposedDpEvent

from onlooker.errors import TermsError
from onlooker.privacy.accounting import Price, price
from onlooker.privacy.channel import Channel
from onlooker.privacy.composition import composed
from onlooker.privacy.events import joined
from onlooker.privacy.matrix import Correlated
from onlooker.privacy.summation import Shared
from onlooker.privacy.terms import Terms


@dataclass(frozen=True)
class Spent:
    """A client's reports in one task.

    Attributes:
        terms: of the task.
        client: who it is there.
        reports: how many it sealed for each group.
    """

    terms: Terms
    client: int
    reports: Mapping[int, int]


def spent(tasks: Sequence[Spent], delta: float) -> Price:
    """The price of all reports of all tasks together, against everybody who may be corrupt in each of them.

    Guarantee: whatever the servers, the coordinator and other clients do within the threat model of each task, and
    however many rounds end, no more than this is learned of a unit in the data. It is the joint price of adaptively
    chosen Gaussian releases, which compose whoever chooses the next one.

    Args:
        tasks: all that touch the data set; of one unit and one adjacency.
        delta: in (0, 1), for all of them together.

    Raises:
        TermsError: if units or adjacencies differ, for which there is no one number.
    """
    if len({(one.terms.unit, one.terms.priced_adjacency) for one in tasks}) > 1:
        kinds = sorted({f"{one.terms.unit} under {one.terms.priced_adjacency}" for one in tasks})
        raise TermsError(
            f"tasks that guard {' and '.join(kinds)} have no epsilon together; keep a budget for each, which then does "
            "not bound the other."
        )
    events = [_of_task(one) for one in tasks]
    if not events:
        return price(NoOpDpEvent(), delta, "zero-out")
    errors = sum(one.terms.sampler_error() for one in tasks if any(one.reports.values()))
    return price(ComposedDpEvent(events), delta, tasks[0].terms.priced_adjacency, errors)


def of_report(terms: Terms, client: int, group: int) -> DpEvent:
    """What one report costs against all who may be corrupt, and see that it was sent.

    The coins of records stay the client's own secret, and amplify; its coin whether to take part does not.
    """
    channels = terms.channels_of(group)
    met = [_noise_left(channel, client) * channel.multiplier(client) for channel in channels]
    if terms.unit == "none" or min(met) <= 0 or terms.within == "shared":
        return NonPrivateDpEvent()
    event = channels[0].mechanism.event(joined(met))
    return terms.training.amplified(event) if terms.unit in ("record", "person") else event


def _of_task(one: Spent) -> DpEvent:
    counts = {group: count for group, count in one.reports.items() if count}
    parts: list[DpEvent] = []
    for group, count in counts.items():
        event, mechanism = of_report(one.terms, one.client, group), one.terms.channels_of(group)[0].mechanism
        if isinstance(mechanism, Correlated):  # priced once for the whole run, from its first report on (rule 14)
            parts.append(composed(event, mechanism, one.terms.sampling_of(group), one.terms.rounds))
        else:
            parts.append(SelfComposedDpEvent(event, count))
    return ComposedDpEvent(parts) if parts else NoOpDpEvent()


def _noise_left(channel: Channel, client: int) -> float:
    """The multiple of z that is left where as many servers are corrupt as may be, with everybody else."""
    if channel.noised_by == "servers" and isinstance(channel.summation, Shared):
        return channel.summation.noise_left(channel.summation.most_corrupt(client))
    return 1.0 if channel.noised_by == "clients" else 0.0
