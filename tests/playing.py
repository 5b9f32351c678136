"""Rounds played one by one, for tests that look inside a run."""

import numpy as np

from onlooker.engines.work import Worker
from onlooker.methods.method import initial_vector
from onlooker.methods.plain import Plain
from onlooker.methods.trainer import answered
from onlooker.privacy.channel import Channel
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


class Watched:
    """What clients start from and what they send, in rounds that are played in this process.

    Attributes:
        starts: by round, group and client: the public part that was received, and the private one that was kept.
        rows: by round, channel and client: the row as it comes to its channel.
    """

    def __init__(self, monkeypatch):
        self.starts, self.rows = {}, {}
        play, gather, encode = Worker.play, Channel.gather, Channel.encode

        def watched_play(worker, round, jobs, starts, private, *rest):
            for job in jobs:
                kept = private[job.seat].copy() if len(private) else np.empty(0, np.float32)
                self.starts[round, job.group, job.client] = starts[job.start].copy(), kept
            self._round = round
            return play(worker, round, jobs, starts, private, *rest)

        def watched_gather(channel, sums, row, client, round, source, **more):
            self.rows[round, channel.name, client] = np.array(row)
            return gather(channel, sums, row, client, round, source, **more)

        def watched_encode(channel, row, client):
            self.rows[self._round, channel.name, client] = np.array(row)
            return encode(channel, row, client)

        monkeypatch.setattr(Worker, "play", watched_play)
        monkeypatch.setattr(Channel, "gather", watched_gather)
        monkeypatch.setattr(Channel, "encode", watched_encode)
