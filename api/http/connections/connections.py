"""The connections of a server: uvicorn's HTTP/1.1, with bounds for headers, silence and the number of connections."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec
import structlog
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from api.auth.request_checks import Addresses
from api.errors import ApiError, answer
from api.http.connections.bounds import Bounds, Group, are_too_many, surplus
from api.schemas.ids import new_id
from api.schemas.timestamps import utc_now, utc_text

HEADER_BYTES_MAX = 65_536
RESERVE = 256
"""Connections beyond `connections_max` that are accepted until idle ones are closed."""
PIPELINED_MAX = 100
"""Requests that a client may send before the first of them is answered; uvicorn keeps any number."""
_LOG_EVERY_S = 60.0
_ASCII = bytes(range(128))

log = structlog.get_logger()


class Connections(ServerState):
    """The connections of a server. So that one client cannot take all, idle ones beyond the bounds are closed."""

    connections: set["Connection"]  # type: ignore[assignment]  # no other class of them is configured

    def __init__(self, bounds: Bounds, addresses: Addresses) -> None:
        super().__init__()
        self._bounds = bounds
        self._addresses = addresses
        self._closed = 0
        self._logged_at = float("-inf")

    def admit(self, connection: "Connection") -> None:
        """Close others if a new connection exceeds the bound and the reserve; if all have requests, refuse it."""
        if len(self.connections) > self._bounds.connections + RESERVE and not self.close_surplus():
            connection.transport.abort()

    def close_surplus(self) -> int:
        """Close idle connections beyond the bounds; return their number."""
        if len(self.connections) <= min(self._bounds.connections, self._bounds.of_address):
            return 0
        groups: dict[str, Group[Connection]] = {}
        for connection in self.connections:
            client = self._addresses.of_peer(connection.host)
            group = groups.setdefault(client.address, Group(is_proxy=client.is_proxy))
            group.size += 1
            if not connection.has_request:
                group.idle.append(connection)
        if not are_too_many(groups.values(), self._bounds):
            return 0
        for group in groups.values():
            group.idle.sort(key=lambda each: each.waiting_since, reverse=True)
        closed = surplus(groups.values(), self._bounds)
        for connection in closed:
            connection.transport.close()
            self.connections.discard(connection)  # uvicorn does so when the event loop gets to it
        self._closed += len(closed)
        self._log()
        return len(closed)

    def _log(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._closed and now >= self._logged_at + _LOG_EVERY_S:
            log.warning("idle connections were closed: there were too many", ended=self._closed)
            self._closed, self._logged_at = 0, now


class Connection(HttpToolsProtocol):
    """A connection that is closed if the headers of its next request are not complete in time.

    The time is `timeout_keep_alive` of uvicorn's configuration, and begins with the connection or its last response.
    """

    server_state: Connections
    write: Callable[[bytes], None]
    is_closing: Callable[[], bool]
    waiting_since: float
    """When it was accepted, or its last response ended, in seconds of the event loop's clock."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, unless the server has too many connections."""
        super().connection_made(transport)
        self.write, self.is_closing = transport.write, transport.is_closing
        self.waiting_since = self.loop.time()
        self._is_in_body = False
        self._stays = False
        self._is_half_closed = False
        self._header_bytes = 0
        self._problem = "Invalid HTTP request received."
        self._answering: RequestResponseCycle | None = None
        self._bound_silence()
        self.server_state.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request that is being answered; uvicorn tells only the last one that was received."""
        if self._answering is not None:
            self._answering.disconnected = True
            self._answering.message_event.set()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self.cycle = self._answering = None  # type: ignore[assignment]  # they refer to this object
        self.pipeline.clear()

    @property
    def host(self) -> str:
        """Return the address of the client; empty if it disconnected before it was accepted."""
        return self.client[0] if self.client is not None else ""

    @property
    def has_request(self) -> bool:
        """Return whether a request is being received or answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        """Parse what was received. The time for headers goes on until they are complete."""
        if self._is_half_closed:
            return
        if not (self._is_in_body or self._header_bytes or data.isascii()):
            data = _with_ascii_address(data)
        self._header_bytes += len(data)
        self._unset_keepalive_if_required()
        self._parse(data)
        if self.transport.is_closing():
            return
        if self._header_bytes > HEADER_BYTES_MAX:
            self.send_400_response(f"the headers have more than {HEADER_BYTES_MAX:,} bytes")
        elif not self.has_request:
            self._bound_silence()

    def _parse(self, data: bytes) -> None:
        """Parse requests. One that asks for another protocol is parsed again as if it did not: httptools reads no body
        of it, but clients such as Java's ask for HTTP/2 with any request.
        """
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            version = self.parser.get_http_version().encode()
            first = b"%s %s HTTP/%s\r\n" % (self.parser.get_method(), self.url, version)
            lines = [b"%s: %s\r\n" % each for each in self.headers if each[0] != b"upgrade"]
            self.parser = HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
            self._parse(b"%s%s\r\n%s" % (first, b"".join(lines), data[upgrade.args[0] :]))
        except HttpParserError:
            self.send_400_response(self._problem)

    def on_headers_complete(self) -> None:
        """Begin a request.

        Raises HttpParserError, which ends the connection, if too many wait for it, or if its host is missing or
        ambiguous (RFC 9112, 3.2).
        """
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise HttpParserError
            return
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (not hosts and self.parser.get_http_version() == "1.1"):
            self._problem = f"the request has {hosts or 'no'} `Host` headers; send one"
            raise HttpParserError
        super().on_headers_complete()
        self.cycle.transport = self  # type: ignore[assignment]  # has what a cycle calls
        self._stays, self.cycle.keep_alive = self.cycle.keep_alive, False  # until its body is complete
        self.headers = []  # of trailers, which are ignored
        self._is_in_body, self._header_bytes = True, 0
        if len(self.pipeline) > PIPELINED_MAX:
            raise HttpParserError

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        if cycle.scope["http_version"] == "1.0":
            app = partial(_answer_without_chunks, app, cycle)
        super()._start_asgi_task(cycle, app)

    def on_message_complete(self) -> None:
        """Expect the headers of the next request."""
        if self.parser.should_upgrade():
            return
        self._is_in_body, self._header_bytes = False, 0
        if not self.cycle.response_started:
            self.cycle.keep_alive = self._stays
        super().on_message_complete()

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body; other bytes between two parts are bounded like headers."""
        self._header_bytes = 0
        super().on_body(body)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.waiting_since = self.loop.time()
        super().on_response_complete()

    def close(self) -> None:
        """End the connection after an answer, or because there is none.

        If the body is still being sent after its answer, it is read meanwhile: the system would drop an answer of a
        connection that is closed before.
        """
        if self._is_in_body and not self.is_closing() and self.cycle.response_complete:
            self._is_half_closed = True
            self.transport.write_eof()
        else:
            self.transport.close()

    def shutdown(self) -> None:
        """End the connection when its request is answered."""
        self._stays = False
        super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Close the connection; answer what is not a request in the format of the API's errors.

        There is no answer after a request that waits for its own one, which it would be taken for.
        """
        is_of_body = self._is_in_body and not self.pipeline and not self.cycle.response_started
        if is_of_body or not self.has_request:
            problem = ApiError("REQUEST_INVALID", msg)
            body = msgspec.json.encode(answer(problem, new_id(), utc_text(utc_now())))
            headers = [*self.server_state.default_headers, (b"content-type", b"application/json")]
            headers += [(b"content-length", b"%d" % len(body)), (b"connection", b"close")]
            lines = b"".join(b"%s: %s\r\n" % each for each in headers)
            self.transport.write(b"%s%s\r\n%s" % (STATUS_LINE[problem.kind.status], lines, body))
        self.transport.close()

    def _bound_silence(self) -> None:
        """Close the connection if its next request does not begin in time."""
        until = self.waiting_since + self.timeout_keep_alive
        self.timeout_keep_alive_task = self.loop.call_at(until, self.timeout_keep_alive_handler)


def _with_ascii_address(data: bytes) -> bytes:
    """Encode bytes above 127 in the first line of a request as `%XX`: curl sends them, and httptools refuses them."""
    line, end, rest = data.partition(b"\r\n")
    return quote(line, _ASCII).encode() + end + rest


async def _answer_without_chunks(app: Any, cycle: RequestResponseCycle, scope: Any, receive: Any, send: Any) -> None:
    """Answer a client of HTTP/1.0, which knows neither chunks nor 100: an answer without a length ends with the
    connection.
    """
    cycle.waiting_for_100_continue = False
    has_length = False

    async def send_part(message: Any) -> None:
        nonlocal has_length
        if message["type"] == "http.response.start":
            has_length = b"content-length" in dict(message["headers"])
            cycle.chunked_encoding = None if has_length else False
        elif not has_length:
            cycle.expected_content_length = len(message.get("body", b""))
        await send(message)

    await app(scope, receive, send_part)
