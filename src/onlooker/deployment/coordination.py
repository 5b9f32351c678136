"""A coordinator's half of a task: it invites clients, relays what it cannot read, and moves the model by noisy sums.

It leaves a run folder as a simulation does, with the same ledger and the same report.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from onlooker import config
from onlooker.deployment.coordinator_file import OwnCoordinator
from onlooker.deployment.http import Pauses
from onlooker.deployment.job import initial, test_rows
from onlooker.deployment.leading import Drawing, Lead, brought, conducting
from onlooker.errors import MessageError, ProtocolError, SealedError, UnreachableError, WaitingError
from onlooker.folder import RunFolder
from onlooker.methods.measuring import estimated
from onlooker.methods.method import Released, State
from onlooker.models import evaluate
from onlooker.privacy.batches import shows_coins
from onlooker.privacy.measures import Estimate
from onlooker.privacy.sums import Sealed
from onlooker.round import beginning
from onlooker.run import Progress, expected_clients, told
from onlooker.secagg import coordinator
from onlooker.secagg.agreement import Context
from onlooker.secagg.messages import Invitation, Report
from onlooker.secagg.wire import packed, unpacked
from onlooker.stored import state_of, tensors_of, whole_of
from onlooker.types import Examples, Vector

Result = TypeVar("Result")
_SOONEST, _LATEST = 0.2, 5.0
"""Seconds until clients are looked for again, at first and in the end."""


class Courier(Protocol):
    """Who brings invitations to clients and reports back; it is trusted with nothing."""

    def present(self) -> frozenset[int]:
        """The clients that can be reached now, as they say themselves."""
        ...

    def ask(self, round: int, invitations: Mapping[int, bytes], patience: float) -> Iterable[bytes]:
        """What clients answered in time: of each its reports, as bytes.

        Args:
            round: from 1.
            invitations: for each client that is to be asked.
            patience: seconds that all of it may take.
        """
        ...


def coordinated(
    own: OwnCoordinator, courier: Courier, say: Callable[[str], None], start: Vector | None = None
) -> Iterator[Progress]:
    """Play every round that the run folder has not seen, and yield after each.

    A round is charged before any server is told that its reports are complete, for then a noisy share may leave
    (rule 10b). One whose coordinator died is gone on with: servers say the same again, so that it costs nothing.

    Args:
        own: what the coordinator is started with.
        courier: who brings messages to clients and back.
        say: shows its operator a sentence.
        start: `float32[d]`, the model of round 0, that no private data decided; None for weights made of the task's
            public name. Private parts start from the latter.

    Raises:
        UnreachableError: if clients or servers stay away; nothing was charged that is not in the ledger, and the same
            call goes on later.
        FolderError: if the folder cannot be written.
    """
    test = None if own.test_root is None else test_rows(own.prepared, own.test_root)
    folder = begun(own, 0 if test is None else len(test), start)
    with folder.lock(), conducting(own, folder) as lead:
        yield from _Task(own, folder, courier, say, lead, test).rounds()


def begun(own: OwnCoordinator, tested: int, start: Vector | None = None) -> RunFolder:
    """The run folder, with round 0 in it where it was not there."""
    if own.run.exists():
        return RunFolder.open(own.run)
    prepared = own.prepared
    start = initial(prepared, own.shared.task) if start is None else start
    return RunFolder.create(
        own.run,
        config.as_toml(prepared.configuration),
        own.shared.task.terms,
        config.deployed(prepared, own.run.name, config.warnings_of(prepared, deployed=True), tested),
        tensors_of(prepared.method, prepared.model, beginning(prepared.method, start)[0], start),
    )


class _Task:
    """A task on its way."""

    def __init__(
        self,
        own: OwnCoordinator,
        folder: RunFolder,
        courier: Courier,
        say: Callable[[str], None],
        lead: Lead,
        test: Examples | None,
    ) -> None:
        self._own, self._folder, self._courier = own, folder, courier
        self._say, self._lead, self._test = say, lead, test
        self._task, self._terms, self._method = own.shared.task, own.shared.task.terms, own.prepared.method
        self._ledger = folder.ledger()

    def rounds(self) -> Iterator[Progress]:
        """All that the folder has not seen."""
        prepared, folder = self._own.prepared, self._folder
        commit = folder.commit()
        start = whole_of(self._method, prepared.model, commit, 0)
        state = state_of(self._method, prepared.model, commit)
        expected = expected_clients(self._terms)
        for round in range(commit.round + 1, self._terms.rounds + 1):
            contexts = [
                Context(self._task, round, group, hashlib.sha256(_bytes(model)).digest())
                for group, model in enumerate(state.models)
            ]
            sums, reports = self._sums(contexts, state)
            if not any(sums):
                yield Progress(self._ledger, None)
                continue
            released = self._released(contexts, sums)
            state = self._method.update(state, released)
            metrics = {
                "round": round,  # and no time: it would tell how much was drawn, and is not charged (rule 10)
                "expected-clients": expected,
                **self._measured(round, state, start),
                **told(self._estimated(round, released, reports)),
            }
            folder.finish(metrics, tensors_of(self._method, prepared.model, state, start))
            yield Progress(self._ledger, metrics)

    def _sums(self, contexts: Sequence[Context], state: State) -> tuple[Sequence[Mapping[str, Sealed] | None], int]:
        """Every group's noisy sums, None for one whose round ended without any; and the first group's reports.

        A round that was given up too early may have a sum when it is asked for again, after a death. Then the next one
        may have been opened with the model before that sum, and is used up.
        """
        try:
            delivered = self._gather(contexts, state)
            return self._finish(contexts, delivered), len(delivered[0])
        except WaitingError:
            raise
        except (ProtocolError, SealedError) as error:
            if not any(release.round == contexts[0].round for release in self._ledger.releases):
                self._charge(contexts)
            self._say(f"{error} It is charged and given up.")
            return [None] * len(contexts), 0

    # -- Before a round is charged ----------------------------------------------------------------------------------

    def _gather(self, contexts: Sequence[Context], state: State) -> list[set[int]]:
        """Bring the servers the reports of a round; of each group the clients whose reports all servers took."""
        delivered: list[set[int]] = [set() for _ in contexts]
        if any(release.round == contexts[0].round for release in self._ledger.releases):
            return delivered  # the servers may have been told that reports are complete
        present = self._present(contexts)
        if any(channel.noised_by == "clients" for channel in self._terms.channels):
            self._charge(contexts)  # by the first report that a client seals
        for context in contexts:
            self._lead(self._lead.conductor.open(context))
        announcements = tuple(one.to_bytes() for one in self._lead(self._lead.conductor.announcements()))
        invitations = {
            client: packed(self._invitation(client, contexts, state, announcements))
            for client in sorted(present & self._invited(contexts[0].round))
        }
        by_digest = {context.digest: context for context in contexts}
        found = self._courier.ask(contexts[0].round, invitations, self._own.report_patience)
        reports = [one for one in map(self._report, found) if one is not None and one.context in by_digest]
        for report in self._lead(brought(self._lead.conductor, reports, self._say)):
            delivered[by_digest[report.context].group].add(report.client)
        return delivered

    def _present(self, contexts: Sequence[Context]) -> frozenset[int]:
        """Whoever is there, once there are enough of them in every group."""
        pauses, told = Pauses(_SOONEST, _LATEST, self._own.client_patience), ""
        while True:
            present = self._courier.present()
            short = [one for one in contexts if len(present & one.members) < self._task.min_batch]
            if not short and not shows_coins(self._terms, present):
                return present
            one, needed = (short[0], str(self._task.min_batch)) if short else (contexts[0], "more")
            there = len(present & one.members)
            where = f" of group {one.group}" if len(contexts) > 1 else ""
            sentence = f"round {one.round} waits for clients{where}: {there} are here, and {needed} are needed."
            if not short:
                sentence += " Of so few, who took part would show by whether there is a sum."
            if sentence != told:
                self._say(sentence)
                told = sentence
            if not self._lead(pauses.next()):
                raise UnreachableError(
                    f"round {one.round} needs {needed} clients{where}, and {there} came in "
                    f"{self._own.client_patience:g} seconds; nothing was charged for it, and the same command goes on."
                )

    def _invited(self, round: int) -> frozenset[int]:
        """The clients that may be asked: all, unless the coordinator draws the cohort.

        What it draws follows from its key, so that one who is started again draws the same.
        """
        if self._terms.sampling.drawn_by != "coordinator":
            return frozenset(range(self._terms.clients))
        drawing = Drawing(self._own.signing_key.private_bytes_raw(), self._task.digest)
        return frozenset(self._terms.cohort(0, round, drawing))

    def _invitation(
        self, client: int, contexts: Sequence[Context], state: State, announcements: tuple[bytes, ...]
    ) -> Invitation:
        own = self._terms.topology.groups_of(client)
        openings = tuple(coordinator.opening(contexts[group], self._own.signing_key).to_bytes() for group in own)
        return Invitation(openings, tuple(_bytes(state.models[group]) for group in own), announcements)

    def _report(self, body: bytes) -> Report | None:
        try:
            report = unpacked(body)
        except MessageError as error:
            self._say(f"a client sent no report: {error}")
            return None
        return report if isinstance(report, Report) else None

    # -- From the charge on -----------------------------------------------------------------------------------------

    def _finish(self, contexts: Sequence[Context], delivered: Sequence[set[int]]) -> list[Mapping[str, Sealed] | None]:
        """Every group's noisy sums; None for one whose round ended without any."""
        self._charge(contexts)
        sums: list[Mapping[str, Sealed] | None] = []
        # Whoever died after its charge knows of no reports, but a share is never of fewer than a batch.
        for context, clients in zip(contexts, delivered, strict=True):
            try:
                sums.append(self._lead(self._lead.conductor.finish(context, max(len(clients), self._task.min_batch))))
            except ProtocolError as error:
                self._say(f"{error} It is charged and given up.")
                sums.append(None)
        return sums

    def _charge(self, contexts: Sequence[Context]) -> None:
        digest = hashlib.sha256(b"".join(one.digest for one in contexts)).hexdigest()
        charged = self._ledger.charge(contexts[0].round, digest)
        if charged is not self._ledger:
            self._folder.charge(charged.releases[-1])
        self._ledger = charged

    def _released(self, contexts: Sequence[Context], sums: Sequence[Mapping[str, Sealed] | None]) -> list[Released]:
        """What the channels of each group release: nothing where there are no sums."""
        found: list[Released] = []
        for context, sealed in zip(contexts, sums, strict=True):
            divisor = self._terms.divisor_of(context.group)
            found.append(
                {
                    one.kind: None if sealed is None else one.release(sealed[one.name], divisor)
                    for one in context.channels
                }
            )
        return found

    def _estimated(self, round: int, released: Sequence[Released], reports: int) -> Mapping[str, Estimate | None]:
        """What clients told of the model before the round, where they do.

        Where they add the noise its size goes by the number of reports, which a coordinator that was started again in
        between does not know.
        """
        if not reports and any(channel.noised_by == "clients" for channel in self._terms.channels):
            return {}
        return estimated(self._method, released, reports, self._terms.divisor_of(0), round)

    def _measured(self, round: int, state: State, start: Vector) -> dict[str, float]:
        """The model on public rows, where it is due and there is one model."""
        every, parts = self._own.prepared.configuration.evaluation.every, self._method.parts
        due = not round % every or round == self._terms.rounds
        if self._test is None or not due or len(parts.private) or self._terms.groups > 1:
            return {}
        return evaluate(self._own.prepared.model, parts.join(state.models[0], start[parts.private]), self._test)


def _bytes(model: Vector) -> bytes:
    return model.astype("<f4", copy=False).tobytes()
