"""A client's half of a task: what it is invited to, checked; what it holds, kept; what it sends, sealed and charged.

Nothing here knows a network. Whoever brings an invitation, and takes the reports away, needs no trust: an invitation
counts as far as the coordinator and every server signed it, and a report is for the servers' eyes alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from onlooker.deployment.budget import Budget
from onlooker.deployment.memory import Memory
from onlooker.errors import FolderError, MessageError, ProtocolError
from onlooker.methods.groups import broadcast
from onlooker.methods.method import Method, State
from onlooker.methods.trainer import Trainer, answered
from onlooker.privacy.participation import takes_part
from onlooker.privacy.random import Source
from onlooker.secagg import coordinator
from onlooker.secagg.agreement import Context, Task
from onlooker.secagg.messages import Announcement, Invitation, Opening
from onlooker.secagg.reports import report
from onlooker.secagg.wire import Signed, packed, unpacked
from onlooker.types import Examples, Row, Vector


@dataclass(frozen=True)
class Participant:
    """One client in one task.

    Attributes:
        task: what all parties have agreed on.
        client: its place in the roster.
        method: under the task's terms.
        trainer: who computes its gradients.
        examples: its own rows.
        start: the weights that everybody starts from, `float32[d]`, which no data decided.
        signing_key: its own.
        memory: of this task.
        budget: of its data, over all tasks.
        source: where its coins and its noise come from.

    Guarantee: one report a round and group at the most, the same bytes however often it is asked; each charged to the
    budget before it is sealed, or not sealed; nothing else that depends on its data leaves.
    """

    task: Task
    client: int
    method: Method
    trainer: Trainer
    examples: Examples
    start: Vector
    signing_key: Ed25519PrivateKey
    memory: Memory
    budget: Budget
    source: Source

    def __post_init__(self) -> None:
        """Refuse files that are not of one time: what was forgotten would be drawn again, or sent and not charged.

        Raises:
            FolderError: if so.
        """
        charged, (decided, sealed) = self.budget.charged(self.task.digest), self.memory.places()
        if sealed - charged:
            raise FolderError(
                f"budget.file does not know of {len(sealed - charged)} reports that client:{self.client} sealed in "
                "this task, so it is a new file or an old copy; put back the one that was in use."
            )
        if charged - decided:
            raise FolderError(
                f"folder has forgotten {len(charged - decided)} rounds that client:{self.client} was charged for in "
                "this task, so it is a new one or an old copy; put back the one that was in use, or begin a new task."
            )

    def answer(self, invitation: bytes) -> list[bytes]:
        """The reports of a round, one for each group that it takes part in; none where its coins said no.

        Where traffic is to cover who takes part, a report of zeros stands for each of those, at the same pains.

        Raises:
            MessageError: if it was not invited by the coordinator with the models that it names, or for nothing of its.
            ProtocolError: if the round is over for it, or was opened before with another model.
            BudgetError: if a report would take it past its own limit.
            FolderError: if what it must not forget cannot be written.
        """
        contexts, models, announcements = self._opened(invitation)
        round = contexts[0].round
        if round < self.memory.last():
            if any(self.memory.decided(round, one.group) is None for one in contexts):
                raise ProtocolError(f"round {round} is over for client:{self.client}, which is in a later one.")
        reports = [self._report(one, models, announcements) for one in contexts]
        return [one for one in reports if one is not None]

    def _opened(self, invitation: bytes) -> tuple[list[Context], Mapping[int, Vector], list[Announcement]]:
        message = unpacked(invitation)
        if not isinstance(message, Invitation):
            raise MessageError(f"a {type(message).__name__} where an invitation belongs.")
        contexts = [self._context(Signed.from_bytes(one)) for one in message.openings]
        own = self.task.terms.topology.groups_of(self.client)
        if [one.group for one in contexts] != list(own) or len({one.round for one in contexts}) != 1:
            raise MessageError(f"an invitation that is not to one round of each group of client:{self.client}.")
        models: dict[int, Vector] = {}
        for context, model in zip(contexts, _one_each(message.models, contexts), strict=True):
            if hashlib.sha256(model).digest() != context.model or len(model) != 4 * len(self.method.parts.public):
                raise MessageError(f"round {context.round} came with another model than the coordinator signed.")
            models[context.group] = np.frombuffer(model, dtype="<f4").astype(np.float32)
        announced = coordinator.announced(self.task, [Signed.from_bytes(one) for one in message.announcements])
        return contexts, models, announced

    def _context(self, message: Signed) -> Context:
        opening = message.opened(self.task.coordinator)
        if not isinstance(opening, Opening) or opening.task != self.task.digest:
            raise MessageError("a message of the coordinator that opens no round of this task.")
        return Context(self.task, opening.round, opening.group, opening.model)

    def _report(
        self, context: Context, models: Mapping[int, Vector], announcements: Sequence[Announcement]
    ) -> bytes | None:
        """One group's; as it was first sent, if it was."""
        round, group, terms = context.round, context.group, self.task.terms
        decided = self.memory.decided(round, group)
        if decided is None:
            drawn = takes_part(terms, self.client, group, round, self.memory.picked, self.source)
            self.memory.decide(round, group, context.digest, drawn)
        elif decided.context != context.digest:
            raise ProtocolError(f"round {round} came before with another model; client:{self.client} takes part once.")
        elif decided.report is not None:
            return decided.report
        else:
            drawn = decided.drawn
        if not (drawn or terms.sampling.cover_traffic):
            return None
        self.budget.charge(self.task.digest, terms, self.client, round, group)
        rows, kept = self._trained(context, models)
        if not drawn:  # at the same pains: the private part is written again, as it was
            rows = {name: np.zeros_like(row) for name, row in rows.items()}
            kept = self.memory.private(group, self.start[self.method.parts.private])
        sealed = packed(report(context, self.client, rows, announcements, self.signing_key, self.source))
        self.memory.keep(round, group, sealed, kept if len(kept) else None)
        return sealed

    def _trained(self, context: Context, models: Mapping[int, Vector]) -> tuple[dict[str, Row], Vector]:
        """What local training comes to: a row for each sum, and the private part as it is now."""
        terms, parts, group = self.task.terms, self.method.parts, context.group
        state = _state(terms.groups, models)
        received = broadcast(terms, state, self.client, group, context.round)
        private = self.memory.private(group, self.start[parts.private])
        stream = self.source.stream("local training", context.round, f"client:{self.client}/group:{group}")
        (local,) = answered([self.method.local(received, private, self.examples, stream)], self.trainer)
        weight = terms.weight(self.client)
        rows = {one.name: local.rows[one.kind] for one in context.channels}
        return {name: row if weight == 1 else weight * row for name, row in rows.items()}, local.kept


def _one_each(models: Sequence[bytes], contexts: Sequence[Context]) -> Sequence[bytes]:
    if len(models) != len(contexts):
        raise MessageError(f"{len(models)} models for {len(contexts)} groups.")
    return models


def _state(groups: int, models: Mapping[int, Vector]) -> State:
    """The coordinator's state as far as a client is told: the models of its own groups, and zeros for the others."""
    size = len(next(iter(models.values())))
    rows = np.zeros((groups, size), dtype=np.float32)
    for group, model in models.items():
        rows[group] = model
    return State(rows, np.zeros((0, size), dtype=np.float32))
