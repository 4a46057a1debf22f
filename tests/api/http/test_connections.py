"""How many connections, requests and streams a server bears, of whom, and for how long it waits for them."""

import asyncio
import contextlib
import json
import re
import resource
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.auth.request_checks import Addresses, ClientAddress
from api.http.connections.bounds import Bounds, Group, are_too_many, surplus
from api.local_files.settings_file import load_settings
from api.settings import SettingsInvalid
from tests.support.fixture_types import OpenApp, Serve

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
UNFINISHED = (
    b"POST /api/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
)
NO_PROXY = {"CUEBOOK_TRUSTED_PROXIES": ""}
PROBE_S = 10.0  # generous: the machine is busy with the connections as well


@asynccontextmanager
async def connected(port: int, number: int, first: bytes = b"") -> AsyncIterator[list[socket.socket]]:
    """Open connections to a server, and send some bytes over each."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < number + 200:
        pytest.skip(f"the tests may open {hard} files only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    connections: list[socket.socket] = []
    try:
        for count in range(number):
            connections.append(socket.create_connection(("127.0.0.1", port)))
            if first:
                connections[-1].sendall(first)
            if count % 50 == 0:
                await asyncio.sleep(0)
        yield connections
    finally:
        for each in connections:
            each.close()


async def ended(connection: socket.socket, within_s: float) -> bytes:
    """Return what comes over a connection until the server ends it."""
    loop, got = asyncio.get_running_loop(), b""
    connection.setblocking(False)
    async with asyncio.timeout(within_s):
        while True:
            try:
                chunk = await loop.sock_recv(connection, 65_536)
            except ConnectionResetError:
                return got
            if not chunk:
                return got
            got += chunk


async def until(holds: Callable[[], bool], within_s: float = 60) -> None:
    """Wait until something holds, and looks ten times a second."""
    async with asyncio.timeout(within_s):
        while True:
            if holds():
                return
            await asyncio.sleep(0.1)


def alive(connections: list[socket.socket]) -> int:
    """Return how many of them the server has not ended."""
    count = 0
    for each in connections:
        each.setblocking(False)
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            while each.recv(65_536):
                pass
            continue
        count += 1
    return count


async def probe(server: Any) -> float:
    """Ask both probes over new connections; how long the slower took."""
    slowest = 0.0
    for path in ("/health", "/ready"):
        async with httpx.AsyncClient(base_url=server.url, timeout=PROBE_S) as client:
            answer = await client.get(path)
        assert answer.status_code == 200, answer.text
        slowest = max(slowest, answer.elapsed.total_seconds())
    return slowest


# -- connections ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", [b"", HEALTH, b"GET / HTTP/1.1\r\nX"], ids=["silent", "idle", "in headers"])
async def test_turns_go_on_beside_2200_idle_connections(serve: Serve, first: bytes) -> None:
    server = serve()
    await server.ready()
    async with server.client() as api, connected(server.port, 2_200, first):
        session = await api.create_session("diary")
        for number in range(1, 6):
            assert (await api.send_texts(session, f"entry {number}"))["turn"] == number
        await probe(server)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_thousand_streams_are_served_while_turns_run(serve: Serve) -> None:
    server = serve()
    await server.ready()
    async with server.client() as api, contextlib.AsyncExitStack() as stack:
        sessions = [await api.create_session("diary") for _ in range(100)]
        streams = []
        for session in sessions:
            request = f"GET /api/sessions/{session['sessionId']}/events HTTP/1.1\r\n"
            request += "Host: localhost\r\nAccept: text/event-stream\r\n\r\n"
            streams += await stack.enter_async_context(connected(server.port, 10, request.encode()))
        assert (await api.send_texts(sessions[0], "one"))["turn"] == 1
        await probe(server)
        for stream in streams[:10]:  # those of the first session hear its turn
            stream.setblocking(False)
            heard = b""
            async with asyncio.timeout(30):
                while b"Entry 1: one" not in heard:
                    heard += await asyncio.get_running_loop().sock_recv(stream, 65_536)
        metrics = (await api.get("/metrics")).text
        assert "cuebook_streams 1000.0" in metrics


@pytest.mark.gate
@pytest.mark.parametrize(
    "sent",
    [b"", HEALTH, b"GET /health HTTP/1.1\r\nHost: loc", b"G", UNFINISHED],
    ids=["silent", "idle", "in headers", "one byte", "in body"],
)
async def test_what_a_client_does_not_send_is_not_waited_for(serve: Serve, sent: bytes) -> None:
    server = serve(CUEBOOK_RECEIVE_S="1")
    await server.ready()
    async with connected(server.port, 1, sent) as (connection,):
        got = await ended(connection, 20)
    if sent == UNFINISHED:
        head, _, body = got.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 ")
        error = json.loads(body)["error"]
        assert (error["code"], error["recovery"]["canRetry"]) == ("REQUEST_TIMEOUT", True)
    else:
        assert got.count(b"HTTP/1.1 200") == (1 if sent == HEALTH else 0)


@pytest.mark.slow
async def test_a_body_in_drops_ends_and_a_slow_one_does_not(serve: Serve) -> None:
    server = serve(CUEBOOK_RECEIVE_S="1")
    await server.ready()

    async def sent(chunk: bytes, pause_s: float) -> httpx.Response:
        async def body() -> AsyncIterator[bytes]:
            for _ in range(12):
                yield chunk
                await asyncio.sleep(pause_s)

        async with server.client() as api:
            return await api.post("/api/sessions", content=body(), headers={"Content-Type": "application/json"})

    with contextlib.suppress(httpx.TransportError):  # it may be cut off before it reads the answer
        assert (await sent(b" ", 0.25)).status_code == 408
    assert (await sent(b" " * 20_000, 0.25)).json()["error"]["code"] == "REQUEST_INVALID"


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        (b"hello\r\n\r\n", "Invalid HTTP request received."),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", "Invalid HTTP request received."),
        (
            b"POST /api/sessions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "Invalid HTTP request received.",
        ),
        (
            b"POST / HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0",
            "Invalid HTTP request received.",
        ),
        (b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", "Invalid HTTP request received."),
        (b"GET /health HTTP/1.1\r\n\r\n", "the request has no `Host` headers; send one"),
        (b"GET /health HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "the request has 2 `Host` headers; send one"),
        (b"GET http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n", "Invalid HTTP request received."),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000, "the headers have more than 65,536 bytes"),
    ],
    ids=["no HTTP", "HTTP/2", "chunk", "two lengths", "tunnel", "no host", "two hosts", "address", "headers"],
)
async def test_what_is_no_request_is_refused(serve: Serve, sent: bytes, problem: str) -> None:
    server = serve()
    await server.ready()
    async with connected(server.port, 1, sent) as (connection,):
        head, _, body = (await ended(connection, 20)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in head
    error = json.loads(body)["error"]
    assert (error["code"], error["message"]) == ("REQUEST_INVALID", problem)
    assert "exception" not in server.log


async def test_requests_that_wait_for_others_have_a_bound(serve: Serve) -> None:
    server = serve()
    await server.ready()
    last = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    async with connected(server.port, 1, HEALTH * 99 + last) as (connection,):
        assert (await ended(connection, 20)).count(b"HTTP/1.1 200 ") == 100
    async with connected(server.port, 1, HEALTH * 1_000) as (connection,):
        assert (await ended(connection, 20)).count(b"HTTP/1.1 ") <= 1
    await probe(server)


async def test_requests_of_one_connection_are_answered_in_order(serve: Serve) -> None:
    """Java's client asks for HTTP/2 with the first request; the others are sent without waiting for an answer.

    An answer to HEAD has the length of a body, and none.
    """
    upgrade = (
        b"POST /api/sessions HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    )
    upgrade += b"HTTP2-Settings: AAMAAABk\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    server = serve()
    await server.ready()
    async with connected(server.port, 1, upgrade) as (connection,):
        loop, got = asyncio.get_running_loop(), b""
        connection.setblocking(False)
        async with asyncio.timeout(20):
            while b"REQUEST_INVALID" not in got:
                got += await loop.sock_recv(connection, 65_536)
            last = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            await loop.sock_sendall(connection, HEALTH + HEALTH.replace(b"GET", b"HEAD") + HEALTH + last)
        got += await ended(connection, 20)
    assert [int(each) for each in re.findall(rb"HTTP/1.1 (\d+) ", got)] == [400, 200, 200, 200, 404]
    lengths = [int(each) for each in re.findall(rb"content-length: (\d+)\r\n", got)]
    bodies = [each.rpartition(b"\r\n\r\n")[2] for each in re.split(rb"HTTP/1.1 \d+ ", got)[1:]]
    assert [len(each) for each in bodies] == [*lengths[:2], 0, *lengths[3:]]
    assert "exception" not in server.log


@pytest.mark.parametrize("is_chunked", [False, True], ids=["length", "chunks"])
async def test_requests_for_another_protocol_keep_their_bodies(serve: Serve, is_chunked: bool) -> None:
    body = b'{"userId": "ana", "scriptId": "nowhere"}'
    length = b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: %d" % len(body)
    sent = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if is_chunked else body
    head = b"POST /api/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + length
    upgrade = head + b"\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"
    server = serve()
    await server.ready()
    async with connected(server.port, 1, upgrade) as (connection,):
        await asyncio.sleep(0.2)  # the body is not in the first packet
        last = head + b"\r\nConnection: close, Upgrade\r\nUpgrade: websocket\r\n\r\n" + sent
        connection.sendall(sent + HEALTH + upgrade + sent + last)
        got = await ended(connection, 20)
    assert [int(each) for each in re.findall(rb"HTTP/1.1 (\d+) ", got)] == [404, 200, 404, 404]
    assert got.count(b"SCRIPT_NOT_FOUND") == 3


async def test_trailers_are_not_headers(serve: Serve) -> None:
    request = b"POST /api/sessions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    trailer = b"Content-Type: application/json\r\n"
    last = HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    server = serve()
    await server.ready()
    async with connected(server.port, 1, request + trailer + b"\r\n" + last) as (connection,):
        got = await ended(connection, 20)
    assert [int(each) for each in re.findall(rb"HTTP/1.1 (\d+) ", got)] == [415, 200]
    async with connected(server.port, 1, request + b"X: ") as (connection,):
        with contextlib.suppress(ConnectionError):
            for _ in range(300):
                connection.sendall(b"a" * 10_000)
                await asyncio.sleep(0.01)
            pytest.fail("a trailer without an end is received")


@pytest.mark.parametrize("asked", [b"", b"Connection: close\r\n"], ids=["stays", "closes"])
async def test_a_client_that_is_refused_reads_the_answer(serve: Serve, asked: bytes) -> None:
    """It reads after it has sent its body, as most clients do. The answer says that the connection ends."""
    head = b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\n" + asked
    server = serve()
    await server.ready()
    async with connected(server.port, 1, head + b"Content-Length: 20000000\r\n\r\n") as (connection,):
        await asyncio.sleep(0.2)
        async with asyncio.timeout(20):
            connection.setblocking(False)
            for _ in range(200):
                await asyncio.get_running_loop().sock_sendall(connection, b" " * 100_000)
        got = await ended(connection, 20)
    assert got.startswith(b"HTTP/1.1 404 ")
    assert got.count(b"connection: close") == 1


async def test_clients_of_http_1_0_get_no_chunks(serve: Serve) -> None:
    server = serve()
    await server.ready()
    async with server.client() as api:
        session = (await api.create_session("diary"))["sessionId"].encode()
    body = b'{"content": "one"}'
    head = b"POST /api/sessions/%s/messages HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n" % session
    head += b"Accept: text/event-stream\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with connected(server.port, 1, head) as (connection,):
        await asyncio.sleep(0.2)
        connection.sendall(body)
        head, _, stream = (await ended(connection, 20)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert b"chunked" not in head
    assert stream.startswith((b"id: ", b"event: ", b"retry: "))
    assert b"Entry 1: one" in stream
    assert stream.endswith(b"\n\n")


async def test_addresses_need_not_be_encoded(serve: Serve) -> None:
    server = serve()
    await server.ready()
    request = "GET /api/sessions/jürgen?größe=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    async with connected(server.port, 1, request) as (connection,):
        got = (await ended(connection, 20)).decode()
    assert got.startswith("HTTP/1.1 400 ")
    assert "größe: there is no such parameter" in got
    async with connected(server.port, 1, request.replace("?größe=1".encode(), b"")) as (connection,):
        got = (await ended(connection, 20)).decode()
    assert got.startswith("HTTP/1.1 404 ")
    assert '"sessionId":"jürgen"' in got


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no such bound")
async def test_an_answer_that_is_not_read_ends_its_connection(serve: Serve) -> None:
    server = serve(CUEBOOK_STREAM_WRITE_S="1")
    await server.ready()
    async with server.client() as api, connected(server.port, 1) as (connection,):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.sendall(b"GET /schema/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 60)
        port = connection.getsockname()[1]
        await until(lambda: port not in peers(server.port))
        await api.read("/health")


def peers(port: int) -> set[int]:
    """Return the ports of clients that a server on a port has established connections with."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    found = [line for line in lines if line[3] == "01" and int(line[1].partition(":")[2], 16) == port]
    return {int(line[2].partition(":")[2], 16) for line in found}


@pytest.mark.gate
@pytest.mark.parametrize("proxies", ["", "127.0.0.1"])
async def test_probes_answer_where_one_client_takes_all(serve: Serve, proxies: str) -> None:
    server = serve(
        CUEBOOK_CONNECTIONS_MAX="300", CUEBOOK_ADDRESS_CONNECTIONS_MAX="100", CUEBOOK_TRUSTED_PROXIES=proxies
    )
    await server.ready()
    async with connected(server.port, 900) as connections:
        for _ in range(3):
            await probe(server)
        await until(lambda: alive(connections) <= (300 if proxies else 100))
        assert alive(connections) >= (250 if proxies else 50)
        await probe(server)
    assert "idle connections were closed" in server.log


async def test_probes_answer_where_unfinished_bodies_take_all(serve: Serve) -> None:
    server = serve(
        CUEBOOK_CONNECTIONS_MAX="300", CUEBOOK_REQUESTS_MAX="200", CUEBOOK_CLIENT_REQUESTS_MAX="150", **NO_PROXY
    )
    await server.ready()
    async with connected(server.port, 250, UNFINISHED) as connections:
        await probe(server)
        refused = [await asyncio.wait_for(ended(each, 20), 20) for each in connections[-50:]]
        assert all(b" 429 " in each and b"REQUESTS_FULL" in each and b"retry-after: 1" in each for each in refused)
        assert alive(connections[:140]) == 140
        probe_with_body = b"GET /ready HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{"
        async with connected(server.port, 1, probe_with_body) as (connection,):
            assert (await ended(connection, 20)).startswith(b"HTTP/1.1 200 ")


async def test_busy_connections_are_not_ended(serve: Serve) -> None:
    server = serve(CUEBOOK_ADDRESS_CONNECTIONS_MAX="64", **NO_PROXY)
    await server.ready()
    async with server.client() as api, connected(server.port, 1) as (stream,):
        session = await api.create_session("diary")
        request = f"GET /api/sessions/{session['sessionId']}/events HTTP/1.1\r\nHost: localhost\r\n"
        stream.sendall(f"{request}Accept: text/event-stream\r\n\r\n".encode())
        stream.setblocking(False)
        loop = asyncio.get_running_loop()
        assert (await asyncio.wait_for(loop.sock_recv(stream, 65_536), 20)).startswith(b"HTTP/1.1 200 ")
        await asyncio.sleep(0.2)  # idle for the longest time, it would be closed first
        async with connected(server.port, 200) as connections:
            await until(lambda: alive(connections) <= 64)
        assert alive([stream]) == 1
        assert (await api.send_texts(session, "still there"))["turn"] == 1


def test_the_address_with_most_connections_loses_first() -> None:
    def group(size: int, idle: int, *, is_proxy: bool = False, number: int = 0) -> Group[tuple[int, int]]:
        return Group(is_proxy, size, [(number, each) for each in range(idle)])

    bounds = Bounds(connections=100, of_address=50)
    assert not are_too_many([group(50, 50), group(50, 0)], bounds)
    assert are_too_many([group(51, 0)], bounds)
    assert not are_too_many([group(60, 60, is_proxy=True)], bounds)
    assert surplus([group(53, 10)], bounds) == [(0, 9), (0, 8), (0, 7)]
    assert len(surplus([group(60, 4)], bounds)) == 4  # what has a request stays
    groups = [group(80, 80, is_proxy=True, number=1), group(40, 40, number=2), group(3, 3, number=3)]
    assert {number for number, _ in surplus(groups, bounds)} == {1}
    assert [each.size for each in groups] == [57, 40, 3]


# -- requests and streams of one client -------------------------------------------------------------------------------


async def test_one_key_cannot_take_all_streams(server: OpenApp, tmp_path: Path) -> None:
    async with server(tmp_path, client_streams_max=2, streams_max=3) as api:
        one, two = await api.create_key(), await api.create_key()
        created = await api.post(
            "/api/sessions", json={"userId": "ana", "scriptId": "diary"}, headers={"Authorization": one}
        )
        session = created.json()
        path = f"/api/sessions/{session['sessionId']}/events"
        sse = {"Accept": "text/event-stream"}
        async with (
            api.open_stream(path, headers={"Authorization": one}) as first,
            api.open_stream(path, headers={"Authorization": one}) as second,
        ):
            assert (first.status_code, second.status_code) == (200, 200)
            refused = await api.get(path, headers={"Authorization": one} | sse)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
            assert refused.json()["error"]["code"] == "STREAMS_FULL"
            assert "this key has 2" in refused.json()["error"]["message"]
            async with api.open_stream(path, headers={"Authorization": two}) as other:
                assert other.status_code == 200


async def test_one_address_cannot_take_all_requests(server: OpenApp, tmp_path: Path) -> None:
    async with server(tmp_path, client_requests_max=2, requests_max=4) as api:
        session = await api.create_session("diary")
        path = f"/api/sessions/{session['sessionId']}/events"

        def of(address: str) -> dict[str, str]:
            return {"X-Forwarded-For": f"9.9.9.9, {address}"}

        async with (
            api.open_stream(path, headers=of("192.0.2.1")) as one,
            api.open_stream(path, headers=of("192.0.2.1")) as two,
        ):
            assert (one.status_code, two.status_code) == (200, 200)
            refused = await api.get(path, headers=of("192.0.2.1"))
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            assert refused.json()["error"]["code"] == "REQUESTS_FULL"
            assert "this address has 2" in refused.json()["error"]["message"]
            assert (await api.get(path, headers=of("192.0.2.2"))).status_code == 200
            async with api.open_stream(path, headers=of("192.0.2.3")), api.open_stream(path, headers=of("192.0.2.4")):
                full = await api.get(path, headers=of("192.0.2.5"))
                assert (full.status_code, full.json()["error"]["code"]) == (503, "SERVER_BUSY")
                assert (await api.get("/health", headers=of("192.0.2.1"))).status_code == 200
                assert (await api.get("/ready", headers=of("192.0.2.1"))).status_code == 200


async def test_requests_are_counted_out_however_they_end(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, client_requests_max=1, trusted_proxies=[]) as api:
        for path in ("/api/sessions", "/api/sessions/nothing", "/nowhere", "/metrics", "/health"):
            for _ in range(3):
                assert (await api.get(path)).status_code in {200, 404}
        for _ in range(3):
            assert (await api.post("/api/sessions", content=b"{")).status_code == 415
        assert "cuebook_open_requests 1.0" in (await api.get("/metrics")).text


@pytest.mark.parametrize(
    ("host", "forwarded", "client"),
    [
        ("192.0.2.7", ["10.0.0.1"], ClientAddress("192.0.2.7", is_proxy=False)),
        ("10.0.0.1", [], ClientAddress("10.0.0.1", is_proxy=True)),
        ("10.0.0.1", ["1.1.1.1, 192.0.2.7"], ClientAddress("192.0.2.7", is_proxy=False)),
        ("10.0.0.1", ["1.1.1.1", "192.0.2.7, 10.0.0.2"], ClientAddress("192.0.2.7", is_proxy=False)),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], ClientAddress("10.0.0.3", is_proxy=True)),
        ("10.0.0.1", ["192.0.2.7:5678"], ClientAddress("192.0.2.7", is_proxy=False)),
        ("10.0.0.1", ["1.1.1.1, secret"], ClientAddress("unknown", is_proxy=False)),
        ("10.0.0.1", ["[2001:db8:1:2::3]:443"], ClientAddress("2001:db8:1:2::/64", is_proxy=False)),
        ("::ffff:10.0.0.1", ["::ffff:192.0.2.7"], ClientAddress("192.0.2.7", is_proxy=False)),
        ("2001:db8:9:9:1:2:3:4", [], ClientAddress("2001:db8:9:9::/64", is_proxy=False)),
        ("10.0.0.1", [", ,"], ClientAddress("10.0.0.1", is_proxy=True)),
        ("10.0.0.1", [",".join(["10.0.0.2"] * 1_000)], ClientAddress("10.0.0.2", is_proxy=True)),
        ("", [], ClientAddress("unknown", is_proxy=False)),
    ],
)
def test_only_trusted_proxies_name_clients(host: str, forwarded: list[str], client: ClientAddress) -> None:
    headers = [(b"x-forwarded-for", each.encode()) for each in forwarded]
    assert Addresses(["10.0.0.0/8", "::1"]).of_request(host, headers) == client


def test_trusted_proxies_are_addresses_or_networks() -> None:
    given = load_settings(environment={"CUEBOOK_TRUSTED_PROXIES": "10.0.0.0/8, ::1"}).trusted_proxies
    assert given == ["10.0.0.0/8", "::1"]
    for wrong in ("proxy.example.com", "10.0.0.1/8"):
        with pytest.raises(SettingsInvalid, match="of `trusted_proxies` is not an address or network"):
            load_settings(flags={"trusted_proxies": [wrong]}, environment={})
    with pytest.raises(SettingsInvalid, match="receive_s"):
        load_settings(flags={"receive_s": 31}, environment={})


# -- open files -------------------------------------------------------------------------------------------------------

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, int(sys.argv[1])), int(sys.argv[1])))
from api.http.connections.files import raise_open_files
from api.settings import SettingsInvalid
try:
    print(raise_open_files(int(sys.argv[2]), int(sys.argv[3])), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
except SettingsInvalid as error:
    print(error)
"""


def limited(hard: int, connections: int, reserve: int = 0) -> str:
    command = [sys.executable, "-c", LIMITED, str(hard), str(connections), str(reserve)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_the_limit_of_open_files_is_raised() -> None:
    possible, soft = map(int, limited(8_000, 2_000).split())
    assert possible == 2_000
    assert 2_500 <= soft <= 2_600


@pytest.mark.gate
def test_a_low_hard_limit_of_open_files_is_said_at_start() -> None:
    printed = limited(1_000, 2_000)
    assert "the limit of open files allows fewer connections" in printed
    possible, soft = map(int, printed.splitlines()[-1].split())
    assert soft == 1_000
    assert 400 <= possible < 500
    assert limited(300, 2_000).startswith("connections_max: the limit of open files is 300; raise it to 25")


@pytest.mark.gate
def test_the_reserve_is_not_taken_from_the_connections() -> None:
    """With 700 files there is room for the reserve of 256 and no connection beside it."""
    assert limited(700, 8_192, 256).startswith("connections_max: the limit of open files is 700; raise it to 89")
    possible = int(limited(1_000, 8_192, 256).splitlines()[-1].split()[0])
    assert 64 <= possible <= 1_000 - 512 - 256
