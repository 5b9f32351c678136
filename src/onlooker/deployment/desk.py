"""How a process of the same machine asks `onlooker client`: the app of a SuperNode, or a script.

Nothing of a task is imported here: an app is started anew for every message, and must not take seconds to be there.
"""

from __future__ import annotations

import socket
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from onlooker.errors import MessageError, UnreachableError

ANSWER, GREET = "/1/answer", "/1/greet"
"""What a client is asked."""


def ask_at(path: Path, name: str, what: str, body: bytes, seconds: float) -> bytes:
    """What a process of this machine answers at its socket.

    Args:
        path: of the socket.
        name: who waits there, for messages.
        what: is asked.
        body: of the request.
        seconds: that an answer may take.

    Raises:
        UnreachableError: if nobody answers.
        MessageError: if it refuses.
    """
    if not path.is_socket():
        raise UnreachableError(f"{name} has no socket at {path}; start it by `onlooker client`, or correct the path.")
    connection = HTTPConnection("localhost")
    try:
        with socket.socket(socket.AF_UNIX) as connected:
            connected.settimeout(seconds)
            connected.connect(str(path))
            connection.sock = connected
            connection.request("POST", what, body)
            response = connection.getresponse()
            content = response.read()
    except (OSError, HTTPException) as error:
        raise UnreachableError(
            f"{name} does not answer at {path}: {error or type(error).__name__}; start it by `onlooker client`."
        ) from error
    if response.status == HTTPStatus.OK:
        return content
    raise MessageError(f"{name} refused: {content.decode(errors='replace')}")
