"""What a round left, as tensors by name and back: the model of each group, and what clients hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from onlooker._shadowed import Shadowed
from onlooker.errors import FolderError
from onlooker.evaluation import personal_model
from onlooker.folder import DRAWS, MOMENTUM, USED, Commit
from onlooker.methods.method import Method, State
from onlooker.models import Model
from onlooker.privacy.terms import Terms
from onlooker.privacy.topology import Groups, named
from onlooker.round import Kept, beginning
from onlooker.types import Array, Integers, Vector


def tensors_of(method: Method, model: Model, state: State, start: Vector) -> dict[str, Array]:
    """Every group's model by the names of its tensors; private places hold what everybody started from."""
    parts, found = method.parts, dict[str, Array]()
    for group, public in enumerate(state.models):
        found |= _named(model, parts.join(public, start[parts.private]), _prefix(method.terms, group))
    if np.any(state.momentum):
        found[MOMENTUM] = state.momentum if len(state.momentum) > 1 else state.momentum[0]
    return found


def _prefix(terms: Terms, group: int) -> str:
    return f"group:{group}/" if isinstance(terms.topology, Groups) else ""


def kept_of(kept: Kept) -> dict[str, Array]:
    """What clients hold, by the name of its tensor; empty where they hold nothing."""
    private: dict[str, Array] = {USED: kept.private.used} if kept.seats else {}
    return private if kept.draws is None else {**private, DRAWS: kept.draws}


def noise_of(noise: Mapping[str, tuple[Integers, ...]]) -> dict[str, Array]:
    """What noising parties remember, by channel and party."""
    return {f"{name}#{party}": state for name, states in noise.items() for party, state in enumerate(states)}


def remembered(tensors: Mapping[str, Array]) -> dict[str, tuple[Integers, ...]]:
    """The same, back from tensors."""
    found: dict[str, dict[int, Integers]] = {}
    for name, state in tensors.items():
        channel, _, party = name.rpartition("#")
        found.setdefault(channel, {})[int(party)] = state
    return {channel: tuple(states[party] for party in sorted(states)) for channel, states in found.items()}


def resumed(method: Method, model: Model, commit: Commit, go_on: bool = False) -> tuple[State, Kept]:
    """What the last committed round left, to look at or to go on from.

    Raises:
        FolderError: if a tensor is missing or of another shape.
    """
    state, kept = state_of(method, model, commit), beginning(method, whole_of(method, model, commit, 0))[1]
    kept = replace(kept, draws=commit.kept.get(DRAWS))
    if not kept.seats or (not go_on and not commit.round):
        return state, kept
    used = commit.kept.get(USED) if commit.round else None
    if commit.round and (used is None or used.shape != kept.private.used.shape):
        raise FolderError("the private parts of the clients are not what the last round left; put the file back.")
    try:
        private = Shadowed.on_disk(len(kept.private), kept.private.start, commit.private, used)
    except (OSError, ValueError) as error:
        raise FolderError(f"{commit.private}, with the clients' private parts, cannot be used: {error}.") from error
    return state, replace(kept, private=private)


def state_of(method: Method, model: Model, commit: Commit) -> State:
    """The coordinator's half of it.

    Raises:
        FolderError: if a tensor is missing or of another shape.
    """
    wholes = [whole_of(method, model, commit, group) for group in range(method.terms.groups)]
    models = np.stack([whole[method.parts.public] for whole in wholes])
    momentum = commit.tensors.get(MOMENTUM, np.zeros_like(models)).reshape(len(models), -1)
    if momentum.shape != models.shape:
        raise FolderError(f'model.safetensors has "{MOMENTUM}" of shape {momentum.shape}; put it back.')
    return State(models, momentum)


def whole_of(method: Method, model: Model, commit: Commit, group: int) -> Vector:
    """A group's model as it was committed, `float32[d]`; its private places hold what everybody started from.

    Raises:
        FolderError: if a tensor is missing or of another shape.
    """
    whole: list[Array] = []
    for parameter in model.layout:
        name = f"{_prefix(method.terms, group)}{parameter.name}"
        found = commit.tensors.get(name)
        if found is None or found.shape != parameter.shape:
            raise FolderError(f'model.safetensors has no "{name}" of shape {parameter.shape}; put it back.')
        whole.append(found.reshape(-1))
    return np.concatenate(whole).astype(np.float32)


def view_of(method: Method, model: Model, commit: Commit, client: int, names: Sequence[str] = ()) -> dict[str, Array]:
    """What a client holds after the last committed round, and nothing that it does not.

    The model that it uses, and with groups the models of its own groups beside it, each joined with its own private
    part. Groups go by their `names`, where they have any.

    Raises:
        FolderError: if a tensor is missing or of another shape.
    """
    state, kept = resumed(method, model, commit)
    found = _named(model, personal_model(method, state, kept, client), "")
    if isinstance(method.terms.topology, Groups):
        for group in method.terms.topology.groups_of(client):
            whole = method.parts.join(state.models[group], kept.of(client, group))
            found |= _named(model, whole, f"group:{named(group, names)}/")
    return found


def _named(model: Model, vector: Vector, prefix: str) -> dict[str, Array]:
    tensors = model.fresh(vector).state_dict().items()
    return {f"{prefix}{name}": value.detach().cpu().numpy() for name, value in tensors}
