"""Who sees what: the heart of the house is `TABLE`, which says it for every way to add noise and to sum.

A coalition sees the union of what its members see. Nothing here computes an epsilon: a `View` says how much noise is
left between the subject and the observers, and whether they see who takes part; `Terms` turns that into an event.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from onlooker.errors import TermsError
from onlooker.privacy.channel import Channel
from onlooker.privacy.sampling import ClientSampling, Cyclic, Everyone, FixedSize
from onlooker.privacy.summation import Shared
from onlooker.types import NoisedBy

Role: TypeAlias = Literal["coordinator", "relay", "auxiliary server", "all servers", "client", "public"]


@dataclass(frozen=True)
class Sight:
    """What one role sees of the rows of a round.

    Attributes:
        sees: "raw" for a sum or a row without noise, "rows" for each noisy row, "release" for the noisy sum.
        participation: True if it sees who takes part.
        because: the reason in words.
    """

    sees: Literal["raw", "rows", "release"]
    participation: bool
    because: str


_RELEASE = Sight("release", False, "sees the released model only")
_CARRIES = Sight("release", True, "relays the uploads")
_DRAWS = Sight("release", True, "draws the cohort")
_SCHEDULE = Sight("release", True, "knows the public schedule")
_KEPT = Sight("release", True, "sees the release, and by the rounds that keep the model who may have taken part")

TABLE: Mapping[tuple[NoisedBy, Literal["plain", "shares"]], Mapping[Role, Sight]] = {
    ("server", "plain"): {
        "coordinator": Sight("raw", True, "sums the rows in the clear, before any noise"),
        "relay": _CARRIES,
        "client": _RELEASE,
        "public": _RELEASE,
    },
    ("clients", "plain"): {
        "coordinator": Sight("rows", True, "sees each noisy row and who sent it"),
        "relay": Sight("rows", True, "carries each noisy row and sees who sent it"),
        "client": _KEPT,
        "public": _KEPT,
    },
    ("clients", "shares"): {
        "coordinator": _RELEASE,
        "relay": _CARRIES,
        "auxiliary server": Sight("release", True, "opens the envelopes, whose single shares say nothing"),
        "all servers": Sight("rows", True, "together hold every share, and so each noisy row"),
        "client": _KEPT,
        "public": _KEPT,
    },
    ("servers", "shares"): {
        "coordinator": _RELEASE,
        "relay": _CARRIES,
        "auxiliary server": Sight("release", True, "opens the envelopes and subtracts its own noise"),
        "all servers": Sight("raw", True, "together hold every share and every noise"),
        "client": _RELEASE,
        "public": _RELEASE,
    },
}


@dataclass(frozen=True)
class Coalition:
    """Observers who pool what they see: the coordinator, some auxiliary servers, some clients, or just the public."""

    coordinator: bool = False
    servers: frozenset[int] = frozenset()
    clients: frozenset[int] = frozenset()

    @staticmethod
    def parse(names: str, clients: int, servers: int) -> Coalition:
        """The coalition that `names` joins by "+": public, coordinator, aux:j, auditor:j, client:i.

        An auditor sees later what its server saw, so it counts as that server.

        Raises:
            TermsError: if a name is not known, or names a client or server that does not exist.

        >>> Coalition.parse("aux:0+client:3", clients=10, servers=2)
        Coalition(coordinator=False, servers=frozenset({0}), clients=frozenset({3}))
        """
        coordinator, seen_servers, seen_clients = False, set[int](), set[int]()
        for name in names.split("+"):
            match = re.fullmatch(r"(aux|auditor|client):(0|[1-9][0-9]{0,8})", name)
            if match and match[1] == "client" and int(match[2]) < clients:
                seen_clients.add(int(match[2]))
            elif match and match[1] != "client" and int(match[2]) < servers:
                seen_servers.add(int(match[2]))
            elif name == "coordinator":
                coordinator = True
            elif name != "public":
                raise TermsError(_unknown(name, clients, servers))
        return Coalition(coordinator, frozenset(seen_servers), frozenset(seen_clients))


@dataclass(frozen=True)
class View:
    """What a coalition sees of one subject through one channel.

    Attributes:
        noise: the multiple of z that is left between the subject's row and the coalition; 0 is the row itself.
        participation: True if the coalition sees who takes part, so that nothing is amplified (rule 4).
        accomplices: how many members know their own participation.
        computational: True if the guarantee rests on key streams, key derivation and envelopes (rule 7a).
        because: the reason in words.
    """

    noise: float
    participation: bool
    accomplices: int
    computational: bool
    because: str


def see(channel: Channel, sampling: ClientSampling, members: Sequence[int], subject: int, coalition: Coalition) -> View:
    """What the coalition sees of the subject, one of the `members` who feed this channel, by the rows of `TABLE`."""
    coalition = _with_hosts(channel, coalition)
    if subject in coalition.clients:
        return View(0.0, True, len(coalition.clients), False, "holds the data itself")
    roles = _roles(channel, coalition)
    table = TABLE[channel.noised_by, channel.summation.name]
    sights = [table[role] for role in roles]
    if coalition.coordinator and sampling.drawn_by == "coordinator":
        sights.append(_DRAWS)
    if sampling.name == "cyclic":
        sights.append(_SCHEDULE)
    return View(
        noise=min(_noise_left(channel, sampling, members, coalition, sight) for sight in sights),
        participation=any(sight.participation and not _is_covered(sampling, sight) for sight in sights),
        accomplices=len(coalition.clients),
        computational=channel.summation.name == "shares" and bool({"relay", "auxiliary server"} & set(roles)),
        because=_reasons(sights),
    )


def _roles(channel: Channel, coalition: Coalition) -> list[Role]:
    roles: list[Role] = ["client" if coalition.clients else "public"]
    if coalition.coordinator:
        roles.append("coordinator")
    if isinstance(channel.summation, Shared):
        if channel.summation.relay in _names(coalition):
            roles.append("relay")
        if coalition.servers:
            roles.append("all servers" if len(coalition.servers) == channel.summation.count else "auxiliary server")
    return roles


def _names(coalition: Coalition) -> set[str]:
    named = {f"aux:{server}" for server in coalition.servers}
    return named | {"coordinator"} if coalition.coordinator else named


def _with_hosts(channel: Channel, coalition: Coalition) -> Coalition:
    """A client that hosts a server sees what the server sees, and the server what its host sees (rule 7b).

    So a server sees what every other server of its host sees, too.
    """
    hosts = channel.summation.hosted_by if isinstance(channel.summation, Shared) else ()
    clients = coalition.clients | {host for server, host in enumerate(hosts) if server in coalition.servers}
    servers = coalition.servers | {server for server, host in enumerate(hosts) if host in clients}
    return Coalition(coalition.coordinator, servers, clients)


def _is_covered(sampling: ClientSampling, sight: Sight) -> bool:
    """Cover traffic hides participation from whoever counts reports, not from whoever draws (rule 4b)."""
    return sampling.cover_traffic and sight is not _DRAWS


def _noise_left(
    channel: Channel, sampling: ClientSampling, members: Sequence[int], coalition: Coalition, sight: Sight
) -> float:
    if sight.sees == "raw":
        return 0.0
    if isinstance(channel.summation, Shared) and channel.noised_by == "servers":
        return channel.summation.noise_left(len(coalition.servers))
    if channel.noised_by == "server" or sight.sees == "rows":
        return 1.0
    return math.sqrt(_honest_rows(channel, sampling, members, coalition))


def _honest_rows(channel: Channel, sampling: ClientSampling, members: Sequence[int], coalition: Coalition) -> int:
    """How many noisy rows a release holds at the least, beside those whose noise the coalition can subtract.

    Where coins decide there may be none but the subject's; where bounds differ, so do the rows' noises, and only the
    subject's own is claimed.
    """
    if isinstance(channel.bounds, tuple):
        return 1
    match sampling:
        case Everyone():
            sure = len(members)
        case FixedSize(size=size):
            sure = size
        case Cyclic(period=period):
            sure = len(members) // period
        case _:
            sure = 1
    return max(1, sure - sum(client in members for client in coalition.clients))


def _reasons(sights: list[Sight]) -> str:
    """The reasons that add something to what everybody sees."""
    reasons = list(dict.fromkeys(sight.because for sight in sights))
    telling = [reason for reason in reasons if reason not in (_RELEASE.because, _KEPT.because)]
    return ", ".join(telling or reasons)


def _unknown(name: str, clients: int, servers: int) -> str:
    known = ["public", "coordinator", *(f"aux:{server}" for server in range(servers))]
    nearest = difflib.get_close_matches(name, [*known, "client:0"], 1, 0.5)
    hint = f', perhaps "{nearest[0]}"' if nearest else ""
    return (
        f'observer "{name}" is not known{hint}; name {", ".join(known)}, client:0 to client:{clients - 1}, '
        'or several joined by "+".'
    )
