"""The server as a process: one on a record, a clean end, and the same conversation after it."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.api_client import ApiClient
from tests.support.fixture_types import Serve
from tests.support.server_process import start_cuebook

pytestmark = pytest.mark.slow

START_S = 60.0
LONG = """
script: long
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - ask: Ready?
            id: ready
          - repeat: {max: 1000}
            id: loop
            do:
              - set: {a: "range(900) | sum", b: "range(900) | sum", c: "range(900) | sum"}
                id: compute
          - ask: Done?
            id: done
"""


async def begun_turn(api: ApiClient, session: Any, message: Any, headers: dict[str, str]) -> asyncio.Task[Any]:
    """Return a turn that has reached the server and still runs, so that the session is busy."""
    turn = asyncio.create_task(api.send_message(session, message, {**headers, "Prefer": "busy=queue"}))
    async with asyncio.timeout(START_S):
        while True:
            other = await api.send_message(session, {"content": "x"}, {"If-Match": '"99"'})
            if other.status_code == 409:
                break
            await asyncio.sleep(0.01)
    assert not turn.done()
    return turn


async def test_a_second_server_on_the_same_record_stops_and_names_it(serve: Serve, tmp_path: Path) -> None:
    first = serve()
    await first.ready()
    second = serve()
    assert await asyncio.to_thread(second.process.wait, START_S) == 2
    said = second.log.replace("\n", "")
    assert str(tmp_path / "data") in said
    assert f"process {first.process.pid}" in said
    assert "Traceback" not in said
    async with first.client() as api:
        assert (await api.create_session("diary"))["turn"] == 0


async def test_a_taken_port_and_an_address_for_all_are_refused(serve: Serve, tmp_path: Path) -> None:
    first = serve()
    await first.ready()
    other = tmp_path / "other"
    other.mkdir()
    for flags, message in [
        (["--port", str(first.port)], f"port {first.port}"),
        (["--host", "0.0.0.0"], "there are no API keys"),  # noqa: S104
        (["--model", "no-such"], "no-such"),
    ]:
        refused = serve(*flags, folder=other)
        assert await asyncio.to_thread(refused.process.wait, START_S) == 2
        assert message in refused.log
        assert "Traceback" not in refused.log


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
async def test_a_stop_finishes_the_turn_under_way(serve: Serve, how: signal.Signals) -> None:
    server = serve(start=start_cuebook, CUEBOOK_ACTIONS_MAX="1000000")
    await server.ready()
    async with server.client() as api:
        await api.publish_script(LONG, strict=False)
        session = await api.create_session("long")
        turn = await begun_turn(api, session, {"content": "yes"}, {"Idempotency-Key": "k"})
        assert await server.stop(how) == 0
        answer = await turn
    assert server.log.index('"server is stopping"') < server.log.index('"server stopped"')
    server = serve()
    await server.ready()
    async with server.client() as api:
        seen = await api.read(f"/api/sessions/{session['sessionId']}")
        assert (seen["turn"], seen["position"]["actionId"]) == (1, "done")
        again = await api.send_message(session, {"content": "yes"}, {"Idempotency-Key": "k"})
        assert again.json()["aiMessage"] == "Done?"
        assert again.content == answer.content


async def test_a_server_says_that_it_is_about_to_stop(serve: Serve) -> None:
    """It takes requests for a while, so that a proxy notices before a request is lost."""
    server = serve(CUEBOOK_STOP_DELAY_S="5")
    await server.ready()
    async with server.client() as api:
        session = await api.create_session("diary")
        assert (await api.get("/ready")).status_code == 200
        stopping = asyncio.create_task(server.stop())
        await server.unready()
        answer = await api.send_message(session, {"content": "a last entry"})
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")
        assert await stopping == 0


async def test_a_client_that_hangs_up_in_mid_turn_does_not_stop_it(serve: Serve) -> None:
    server = serve(CUEBOOK_ACTIONS_MAX="1000000")
    await server.ready()
    async with server.client() as api:
        await api.publish_script(LONG, strict=False)
        session = await api.create_session("long")
        message, headers = {"content": "yes"}, {"Idempotency-Key": "k"}
    async with server.client() as hasty:
        turn = await begun_turn(hasty, session, message, headers)
        turn.cancel()
        await asyncio.wait([turn])
    async with server.client() as api:
        async with asyncio.timeout(START_S):
            while True:
                answer = await api.send_message(session, message, headers)
                if answer.status_code != 409:
                    break
                await asyncio.sleep(0.05)
        assert (answer.status_code, answer.json()["turn"]) == (200, 1)
        assert [role for role, _ in await api.transcript(session)] == ["assistant", "user", "assistant"]


async def test_too_large_bodies_are_refused_however_they_are_sent(
    serve: Serve,
) -> None:
    server = serve()
    await server.ready()

    async def pieces() -> Any:
        for _ in range(200):
            yield b" " * 10_000

    async with server.client(headers={"Content-Type": "application/json"}) as api:
        for content in (b" " * 2_000_000, pieces(), b" " * 2_000_000):
            answer = await api.post("/api/sessions", content=content)
            assert (answer.status_code, answer.json()["error"]["code"]) == (413, "PAYLOAD_TOO_LARGE")
        assert (await api.create_session("diary"))["turn"] == 0
