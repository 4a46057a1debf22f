"""uvicorn in an event loop of ours: who stops it and where it listens is decided by `api.server`."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import structlog
import uvicorn

from api.auth.request_checks import Addresses
from api.http.connections.bounds import Bounds
from api.http.connections.connections import Connection, Connections
from api.settings import Settings

BACKLOG = 2_048
"""Connections that wait in the kernel to be accepted."""
_LOOK_S = 0.5

log = structlog.get_logger()


class HttpServer(uvicorn.Server):
    """Serves an ASGI application over HTTP/1.1 until it is stopped; it runs no lifespan and handles no signals.

    `silence_s` is the time within which clients must begin a request.
    """

    def __init__(self, app: Any, connections: Connections, silence_s: float) -> None:
        config = uvicorn.Config(
            self._handle,
            http=Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="critical",  # it would log messages of exceptions, which may contain a user's text
            access_log=False,
            proxy_headers=False,  # AuthMiddleware reads them
            server_header=False,
            backlog=BACKLOG,
        )
        config.timeout_keep_alive = silence_s  # type: ignore[assignment]  # parts of a second as well
        super().__init__(config)
        self._app = app
        self.server_state = self.connections = connections
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Accept no more connections, and end when the last response has ended."""
        self.should_exit = True
        self._stopping.set()

    def abort(self) -> None:
        """Cut the connections that are left; their requests end as if the clients had disconnected."""
        for connection in list(self.connections.connections):
            connection.transport.abort()

    async def _handle(self, scope: Any, receive: Any, send: Any) -> None:
        """Call the application, and log what fails after it has answered. uvicorn then closes the connection."""
        try:
            await self._app(scope, receive, send)
        except Exception:
            log.exception("a request failed after its response had begun")
            raise

    async def main_loop(self) -> None:
        """Set the date of responses and close connections beyond the bounds twice a second, until stopped."""
        while not await self.on_tick(0):
            self.connections.close_surplus()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._stopping.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the caller."""
        yield


def create_server(app: Any, settings: Settings, connections_max: int) -> HttpServer:
    """Return the server of an application, for as many connections as there can be open files."""
    bounds = Bounds(connections_max, settings.address_connections_max)
    return HttpServer(app, Connections(bounds, Addresses(settings.trusted_proxies)), settings.receive_s)


def bind(host: str, port: int, unread_s: float) -> socket.socket:
    """Return a socket with this address, to which nobody can connect before it listens. Raises OSError.

    The kernel closes connections whose client acknowledges none of the sent data for `unread_s`, on Linux: an accepted
    socket inherits that of the listening one. `::` takes connections over IPv4, too.
    """
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, max(1, int(unread_s * 1_000)))
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock
