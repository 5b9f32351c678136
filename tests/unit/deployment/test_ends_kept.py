"""What a coordinator has heard of the ends of servers' logs: kept, and missed where it is gone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from onlooker.deployment.ends import Ends
from onlooker.deployment.leading import conducting
from onlooker.errors import FolderError
from secure_rounds import parties, played


def two_ends():
    """Of two servers, in two rounds."""
    everybody = parties()
    for round in (1, 2):
        played(everybody, everybody.context(round), (0, 1, 2))
    return everybody.closings


def kept(path, closings, rounds=2):
    ends = Ends(path, 2)
    for server in (0, 1):
        for end in closings[server][:rounds]:
            ends.add(server, end)
    return ends


def test_they_are_kept_and_what_a_death_left_half_written_is_not(tmp_path):
    closings, path = two_ends(), tmp_path / "ends.jsonl"
    kept(path, closings).require(2)
    whole = path.read_bytes()
    for torn in (b"{", whole[:70]):
        path.write_bytes(whole + torn)
        assert [Ends(path, 2).of(server) for server in (0, 1)] == [closings[0], closings[1]]
        assert path.read_bytes() == whole
    path.write_bytes(b"[]\n" + whole)
    with pytest.raises(FolderError, match="no end of a server's log"):
        Ends(path, 2)


@pytest.mark.parametrize("rounds", [0, 1])
def test_a_file_that_was_lost_or_put_back_is_missed(tmp_path, rounds):
    """Its coordinator would hide from a server that was put back, too, what it has said since."""
    path = tmp_path / "ends.jsonl"
    kept(path, two_ends(), rounds)
    if not rounds:
        path.unlink()
    own = SimpleNamespace(shared=SimpleNamespace(addresses=("https://a:1", "https://b:1")))
    folder = SimpleNamespace(path=tmp_path, metrics=lambda: [{"round": 1}, {"round": 2}])
    with pytest.raises(FolderError, match="lacks ends of servers' logs .* 2 finished rounds"), conducting(own, folder):
        pass
