"""Rounds played one by one, for tests that look inside a run."""

from onlooker.methods.method import initial_vector
from onlooker.methods.plain import Plain
from onlooker.methods.trainer import answered
from onlooker.round import Kept, beginning, play


def begin(study, source=None):
    """The state before round 1, and what clients hold."""
    return beginning(study.method, initial_vector(study.model, source or study.source))


def start(study):
    """The weights that everybody starts from."""
    return begin(study)[0].models[0]


def one_round(study, state, round=1, charge=lambda digest, noise: None, kept=None, engine=None):
    """What a round leaves, with an engine of its own if none is open."""
    kept = kept or Kept(begin(study)[1].private, begin(study)[1].seats)
    if engine is not None:
        return play(study, engine, state, kept, round, charge)
    with study.opened() as opened:
        return play(study, opened, state, kept, round, charge)


def rows_of(study, clients, round=1, received=None):
    """The row of each client, by its number."""
    state, kept = begin(study)
    public = state.models[0] if received is None else received
    return {client: local_of(study, client, public, kept.of(client, 0), round).rows["model"] for client in clients}


def local_of(study, client, received, kept, round=1, party=None, examples=None):
    """One client's half of a round, computed plainly."""
    stream = study.source.stream("local training", round, party or f"client:{client}")
    rows = study.federation.clients[client] if examples is None else examples
    (found,) = answered([study.method.local(received, kept, rows, stream)], Plain(study.model, study.device))
    return found
