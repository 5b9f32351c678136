"""Everything of HTTP: what an auxiliary server answers to, and how others ask it.

A request is bytes in, bytes out, over TLS of which both sides show a certificate. Who said what is decided by the
signatures inside, never by the connection: TLS keeps strangers out.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast

import httpx
import msgpack
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from onlooker.deployment.files import Credentials
from onlooker.errors import MessageError, OnlookerError, ProtocolError, UnreachableError, WaitingError

Answer = Callable[[bytes], Awaitable[bytes]]
"""What is done with the body of a request."""

_SECONDS = 30.0


class Pauses:
    """Ever longer waits between one try and the next.

    Args:
        soonest: seconds of the first.
        latest: seconds of the longest.
        patience: seconds from now after which there are no more.
    """

    def __init__(self, soonest: float, latest: float, patience: float = math.inf) -> None:
        self._soonest, self._latest, self._until = soonest, latest, time.monotonic() + patience
        self._wait = soonest

    async def next(self) -> bool:
        """Wait; False, and at once, where that would take longer than the patience."""
        if time.monotonic() + self._wait > self._until:
            return False
        await asyncio.sleep(self._wait)
        self._wait = min(2 * self._wait, self._latest)
        return True

    def reset(self) -> None:
        """Begin with the first again."""
        self._wait = self._soonest


def many(bodies: Sequence[bytes]) -> bytes:
    """Several messages as one body."""
    return cast(bytes, msgpack.packb(list(bodies)))


def each(body: bytes) -> list[bytes]:
    """The messages of one body.

    Raises:
        MessageError: if it is none of `many`.
    """
    try:
        found = cast(object, msgpack.unpackb(body))
    except (ValueError, TypeError, msgpack.UnpackException):
        found = None
    bodies = cast(list[object], found) if isinstance(found, list) else [None]
    if not all(isinstance(one, bytes) for one in bodies):
        raise MessageError("bytes that are no list of messages.")
    return cast(list[bytes], bodies)


def application(
    answers: Mapping[str, Answer], largest: int, lifespan: Callable[[Starlette], AbstractAsyncContextManager[None]]
) -> Starlette:
    """A server's half.

    Args:
        answers: for each path what is done.
        largest: the most bytes that a request may have.
        lifespan: what runs beside it.
    """
    routes = [Route(path, _endpoint(answer, largest), methods=["POST"]) for path, answer in answers.items()]
    return Starlette(routes=routes, lifespan=lifespan)


def server(app: Starlette, host: str, port: int, credentials: Credentials) -> uvicorn.Server:
    """What runs it, over TLS, for those who show a certificate of the authority."""
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    return uvicorn.Server(
        uvicorn.Config(
            app,
            host,
            port,
            ssl_certfile=credentials.certificate,
            ssl_keyfile=credentials.key,
            ssl_ca_certs=str(credentials.authority),
            ssl_cert_reqs=ssl.CERT_REQUIRED,
            http="h11",
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
    )


def _is_news(record: logging.LogRecord) -> bool:
    """An end at which peers were slow to close their connections, and nothing was cut off, is no error."""
    return not (record.msg.startswith("Cancel %s running task") and record.args == (0,))


def server_at(app: Starlette) -> uvicorn.Server:
    """What runs it at a socket of this machine, where the permissions of files say who may come."""
    return uvicorn.Server(
        uvicorn.Config(app, http="h11", ws="none", log_level="warning", access_log=False, server_header=False)
    )


def listening_at(path: Path, group: int | None = None) -> socket.socket:
    """A new socket of this machine.

    Args:
        path: where.
        group: whose users may come there too; None for its owner alone.

    Raises:
        OSError: if the path cannot be used.
    """
    listening = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        listening.bind(str(path))
        if group is not None:
            os.chown(path, -1, group)
            path.chmod(0o660)
        listening.listen()  # from now on whoever comes is answered, if a little later
    except OSError:
        listening.close()
        raise
    finally:
        os.umask(before)
    return listening


class Link:
    """A way to one auxiliary server.

    Args:
        name: whom it leads to, such as "aux:1".
        address: "https://host:port".
        credentials: one's own.
    """

    def __init__(self, name: str, address: str, credentials: Credentials) -> None:
        self.name = name
        context = ssl.create_default_context(cafile=credentials.authority)
        context.load_cert_chain(credentials.certificate, credentials.key)
        # Parties speak to each other and to no proxy: HTTPS_PROXY of the environment is not for them.
        self._client = httpx.AsyncClient(base_url=address, verify=context, trust_env=False, timeout=_SECONDS)

    async def ask(self, path: str, body: bytes = b"") -> bytes:
        """What the server answers.

        Raises:
            UnreachableError: if it does not answer.
            WaitingError: if it was started, and must first be told what others have heard from it.
            ProtocolError: if it may not be asked that where the round is.
            MessageError: if it never may.
        """
        try:
            response = await self._client.post(path, content=body)
        except httpx.HTTPError as error:
            raise UnreachableError(
                f"{self.name} at {self._client.base_url} does not answer: {error or type(error).__name__}."
            ) from error
        if response.status_code == HTTPStatus.OK:
            return response.content
        sentence = f"{self.name}: {response.text}"
        if response.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
            raise WaitingError(sentence)
        if response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise UnreachableError(f"{self.name} failed with status {response.status_code}; see what it printed.")
        raise ProtocolError(sentence) if response.status_code == HTTPStatus.CONFLICT else MessageError(sentence)

    async def close(self) -> None:
        """End it."""
        await self._client.aclose()


def _endpoint(answer: Answer, largest: int) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        body = bytearray()
        async for chunk in _chunks(request):
            body += chunk
            if len(body) > largest:
                return Response(f"a request of more than {largest} bytes.", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        try:
            return Response(await answer(bytes(body)), media_type="application/octet-stream")
        except WaitingError as error:
            return Response(str(error), HTTPStatus.SERVICE_UNAVAILABLE)
        except ProtocolError as error:
            return Response(str(error), HTTPStatus.CONFLICT)
        except OnlookerError as error:
            return Response(str(error), HTTPStatus.BAD_REQUEST)

    return endpoint


def _chunks(request: Request) -> AsyncGenerator[bytes]:
    stream: Any = request.stream()
    return cast(AsyncGenerator[bytes], stream)
