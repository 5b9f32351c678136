"""Groups, what is refused, and the structures people use."""

import json
import math

import numpy as np
import pytest
from pydantic import TypeAdapter

from onlooker.errors import DataError, TermsError
from onlooker.privacy.structures import BUILDERS, regions
from onlooker.privacy.topology import Groups, Star

LINE = Groups(((0, 1, 2), (2, 3), (3, 4)), mixing_period=4, publish=(1,))


def test_groups_are_what_they_say():
    assert LINE.incidence(5).tolist() == [[1, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]
    assert [LINE.groups_of(client) for client in range(6)] == [(0,), (0,), (0, 1), (1, 2), (2,), ()]
    assert [LINE.copies(client) for client in range(5)] == [1, 1, 2, 2, 1]
    assert LINE.observed(()) == {1} and LINE.observed((0, 4)) == {0, 1, 2}
    LINE.check(5)


def test_groups_travel_as_plain_tables():
    adapter = TypeAdapter(Star | Groups)
    for topology in (LINE, Star()):
        assert adapter.validate_json(json.dumps(adapter.dump_python(topology))) == topology
        assert hash(adapter.validate_python(adapter.dump_python(topology))) == hash(topology)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"members": ()}, "groups.members"),
        ({"members": ((0,), ())}, "groups.members leaves group 1 empty"),
        ({"members": ((0, 1, 0),)}, r"groups.members .* twice in group 0, \[0, 1, 0\]"),
        ({"members": ((0, -1),)}, r"groups.members = \[0, -1\]"),
        ({"members": ((0,),), "mixing_period": 0}, "groups.mixing-period = 0"),
        ({"members": ((0,),), "publish": (1,)}, r"groups.publish = \[1\]"),
    ],
)
def test_impossible_groups_are_refused(wrong, words):
    with pytest.raises(TermsError, match=words):
        Groups(**wrong)


def test_groups_that_do_not_fit_the_clients_are_refused():
    with pytest.raises(TermsError, match="client 4, but with data.clients = 4"):
        LINE.check(4)
    with pytest.raises(TermsError, match="leaves out client 5 of data.clients = 6"):
        LINE.check(6)


def test_a_trap_every_round_mixes_when_the_period_is_one():
    """t % S == 1 is never true for S = 1."""
    assert all(Groups(((0,),)).mixes(round) for round in (1, 2, 3))
    assert [round for round in range(1, 12) if LINE.mixes(round)] == [1, 5, 9]


def test_delays_count_rounds_to_the_first_release_that_shows_a_trace():
    unpublished = Groups(LINE.members, mixing_period=4)
    assert [unpublished.delay(0, observer) for observer in range(5)] == [math.inf, 1, 1, 5, 9]
    assert LINE.delay(0, 1) == 1 and LINE.delay(4, 0) == 5, "0 sees the published group 1 too"
    assert Groups(((0, 1), (2, 3))).delay(0, 3) == math.inf
    assert Groups(((0, 1, 2),)).delay(0, 1) == Star().delay(0, 1)


SHARED = {
    "string": lambda one, other: other == one + 1,
    "ring": lambda one, other: other - one in (1, 8),
    "star": lambda one, other: one == 0,
    "grid": lambda one, other: (other == one + 1 and other % 3 > 0) or other == one + 3,
}


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("overlap", [0, 1, 2])
@pytest.mark.parametrize("clients", [24, 40, 61])
def test_structures_deal_every_client_and_share_as_asked(name, overlap, clients):
    members = BUILDERS[name](clients, 9, overlap)
    Groups(members).check(clients)
    assert len(members) == 9
    for one in range(9):
        for other in range(one + 1, 9):
            expected = overlap if SHARED[name](one, other) else 0
            assert len(set(members[one]) & set(members[other])) == expected, (one, other)
    copies = np.bincount([client for group in members for client in group])
    assert copies.max() <= 2 and copies.sum() == clients + overlap * sum(
        SHARED[name](one, other) for one in range(9) for other in range(one + 1, 9)
    )


@pytest.mark.parametrize(
    ("name", "clients", "groups", "overlap"), [("string", 3, 3, 2), ("ring", 9, 2, 1), ("grid", 3, 4, 0)]
)
def test_structures_that_cannot_be_dealt_are_refused(name, clients, groups, overlap):
    with pytest.raises(TermsError, match=f'groups.structure = "{name}"'):
        BUILDERS[name](clients, groups, overlap)


def test_a_grid_is_as_square_as_can_be_and_the_smallest_ring_has_three_groups():
    """Twelve groups are three rows of four, five a single row: as many links as that."""
    links = {12: 17, 5: 4, 4: 4, 1: 0}
    for groups, count in links.items():
        members = BUILDERS["grid"](40, groups, 1)
        assert sum(len(group) for group in members) == 40 + count
    assert len(BUILDERS["ring"](6, 3, 1)) == 3


def test_numbers_of_a_structure_are_checked():
    with pytest.raises(TermsError, match="groups.groups = 0"):
        BUILDERS["string"](5, 0, 1)
    with pytest.raises(TermsError, match="groups.overlap = -1"):
        BUILDERS["grid"](5, 2, -1)


def test_regions_come_from_a_file(tmp_path):
    path = tmp_path / "regions.csv"
    path.write_text("client, group\n0,north\n2,south\n1,north\n\n1,south\n")
    assert regions(path) == (((0, 1), (1, 2)), ("north", "south"))
    path.write_text("client,group\n123456789,north\n")
    assert regions(path) == (((123456789,),), ("north",))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 'must start with the line "client,group"'),
        ("0,north\n", "must start with"),
        ("client,group\n", "names no client"),
        ("client,group\nzero,north\n", 'line 2: "zero,north"'),
        ("client,group\n0,north\n-1,north\n", "line 3"),
        ("client,group\n0\n", "line 2"),
        ("client,group\n1234567890,north\n", "line 2"),
        ("client,group\n0,\n", "line 2"),
        ("client,group\n0,{}\n".format("a" * 41), "line 2: the group's name 'a+' must be one line of at most 40"),
        ("client,group\n0,a\x07b\n", "line 2: the group's name .* that can be printed"),
        ("client,group\n0,a\n0,a\n", "line 3: client 0 is in group a already"),
    ],
)
def test_regions_that_cannot_be_read_are_refused(tmp_path, text, words):
    path = tmp_path / "regions.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=words):
        regions(path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("nowhere.csv", None, 'there is no such file; put one of lines "client,group" there, or correct the path'),
        (".", None, 'Is a directory; name a file of lines "client,group"'),
        ("file/regions.csv", None, "Not a directory; name a file"),
        ("a" * 300, None, "File name too long; name a file"),
        ("latin.csv", b"client,group\n0,\xcele\n", "it is not UTF-8 text; save it as UTF-8"),
        ("wide.csv", b"client,group\n0," + b"a" * 200_000, "field larger than field limit .*; write each line as"),
    ],
)
def test_a_file_of_regions_that_cannot_be_read_is_named_with_what_would_do(tmp_path, name, content, words):
    (tmp_path / "file").write_text("")
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=f"^groups.path = {path} cannot be read: {words}[^\n]*[.]$"):
        regions(path)
