"""Rounds played one by one, for tests that look inside a run."""

from onlooker.engines.loop import Job, run_clients
from onlooker.methods.method import initial_vector
from onlooker.round import Kept, beginning, play


def begin(study, source=None):
    """The state before round 1, and what clients hold."""
    return beginning(study.method, initial_vector(study.model, source or study.source))


def start(study):
    """The weights that everybody starts from."""
    return begin(study)[0].models[0]


def one_round(study, state, round=1, charge=lambda digest, noise: None, kept=None):
    """What a round leaves."""
    return play(study, state, kept or Kept(begin(study)[1].private, begin(study)[1].seats), round, charge)


def rows_of(study, clients, round=1, received=None):
    """The row of each client, by its number."""
    state, kept = begin(study)
    public = state.models[0] if received is None else received
    jobs = [Job(client, f"client:{client}", public, kept.of(client, 0)) for client in clients]
    found = run_clients(study.method, study.model, study.federation.clients, jobs, round, study.source, study.device)
    return {job.client: local.rows["model"] for job, local in found}
