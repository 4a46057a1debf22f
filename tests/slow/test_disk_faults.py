"""A server whose disk fails or whose clock is wrong: nothing acknowledged is lost, and nothing fails in silence."""

import asyncio
import errno
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.api_client import ApiClient
from tests.support.faulty_files import Faults
from tests.support.fixture_types import Serve

WAIT_S = 30.0
DAY_S = 86_400

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def faults(tmp_path: Path) -> Faults:
    return Faults(tmp_path)


async def until_ready(api: ApiClient, is_ready: bool) -> str:
    """Wait until `/ready` answers so; return what it says about the database."""
    async with asyncio.timeout(WAIT_S):
        while True:
            answer = await api.get("/ready")
            if answer.is_success == is_ready:
                return str(answer.json()["checks"]["database"])
            await asyncio.sleep(0.05)


async def say(api: ApiClient, session: Any, entry: str, key: str) -> Any:
    return await api.send_message(session, {"content": entry}, {"Idempotency-Key": key})


async def assert_entries(api: ApiClient, session: Any, entries: list[str]) -> None:
    transcript = await api.transcript(session)
    assert [text for role, text in transcript if role == "user"] == entries
    assert (await api.read(f"/api/sessions/{session['sessionId']}"))["turn"] == len(entries)


@pytest.mark.parametrize("path_end", [".duckdb.wal", ".last-commit"])
async def test_full_disk_refuses_turns_and_the_server_recovers(serve: Serve, faults: Faults, path_end: str) -> None:
    server = serve(**faults.environment)
    await server.ready()
    async with server.client() as api:
        session = await api.create_session("diary")
        assert (await say(api, session, "before", "1")).is_success
        faults.fill_disk(path_end)
        for _ in range(3):
            refused = await say(api, session, "during", "2")
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "DATABASE_UNAVAILABLE")
            assert refused.headers["Retry-After"] == "5"
        assert "No space left on device" in await until_ready(api, False)
        assert (await api.get("/health")).is_success
        faults.end()
        assert await until_ready(api, True) == "ok"
        assert (await say(api, session, "during", "2")).is_success
        await assert_entries(api, session, ["before", "during"])
    await server.stop(signal.SIGKILL)
    assert server.log.count("the database cannot be written") == 1
    assert server.log.count("the database can be written again") == 1
    again = serve()
    await again.ready()
    async with again.client() as api:
        assert await until_ready(api, True) == "ok"
        await assert_entries(api, session, ["before", "during"])


async def test_failed_sync_stops_acknowledgements_until_a_restart(serve: Serve, faults: Faults) -> None:
    server = serve(**faults.environment)
    await server.ready()
    async with server.client() as api:
        session = await api.create_session("diary")
        assert (await say(api, session, "before", "1")).is_success
        faults.begin(".duckdb.wal", sync=errno.EIO)
        headers = {"Idempotency-Key": "begin"}
        body = {"userId": "u", "scriptId": "diary"}
        first = await api.post("/api/sessions", json=body, headers=headers)
        assert (first.status_code, first.json()["error"]["code"]) == (503, "DATABASE_STOPPED")
        faults.end()  # the disk works again, but what was written before may be missing on it
        for _ in range(3):
            refused = await api.post("/api/sessions", json=body, headers=headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "DATABASE_STOPPED")
            assert "Retry-After" not in refused.headers
            await asyncio.sleep(0.5)  # the files are looked at meanwhile, which must not end the fault
        assert "restart the server" in await until_ready(api, False)
    await server.stop()
    assert server.log.count("cannot be written until a restart") == 1
    again = serve()
    await again.ready()
    async with again.client() as api:
        assert await until_ready(api, True) == "ok"
        assert (await api.post("/api/sessions", json=body, headers=headers)).is_success
        await assert_entries(api, session, ["before"])


async def test_a_full_disk_during_a_checkpoint_loses_nothing(serve: Serve, faults: Faults) -> None:
    server = serve(**faults.environment)
    await server.ready()
    async with server.client() as api:
        session = await api.create_session("diary")
        entries: list[str] = []
        faults.fill_disk("/cuebook.duckdb")  # a checkpoint happens when the log has 8 MB
        refused = None
        async with asyncio.timeout(120):
            while refused is None and len(entries) < 2_000:
                answer = await say(api, session, entry := f"{len(entries)} " + "x" * 18_000, str(len(entries)))
                if answer.is_success:
                    entries.append(entry)
                else:
                    refused = answer
        if refused is not None:
            assert refused.status_code == 503
            assert await until_ready(api, False) != "ok"
    await server.stop()
    faults.end()
    again = serve()
    await again.ready()
    async with again.client() as api:
        assert await until_ready(api, True) == "ok"
        assert (await api.read(f"/api/sessions/{session['sessionId']}"))["turn"] in {len(entries), len(entries) + 1}


@pytest.mark.parametrize("jump_s", [-DAY_S, DAY_S])
async def test_a_clock_that_jumps_changes_neither_order_nor_answers(serve: Serve, faults: Faults, jump_s: int) -> None:
    server = serve(**faults.environment)
    await server.ready()
    async with server.client() as api:
        sessions = [await api.create_session("diary")]
        first = (await say(api, sessions[0], "one", "1")).json()
        faults.begin(seconds_wrong=jump_s)
        assert (await say(api, sessions[0], "one", "1")).json() == first
        assert (await say(api, sessions[0], "two", "2")).is_success
        sessions.append(await api.create_session("diary"))
        faults.end()
        assert (await say(api, sessions[0], "three", "3")).is_success
        sessions.append(await api.create_session("diary"))
        ids = [session["sessionId"] for session in sessions]
        assert ids == sorted(set(ids))
        await assert_entries(api, sessions[0], ["one", "two", "three"])
        assert await until_ready(api, True) == "ok"
    assert await server.stop() == 0
    faults.begin(seconds_wrong=jump_s)
    again = serve(**faults.environment)
    await again.ready()
    async with again.client() as api:
        assert (await say(api, sessions[0], "one", "1")).json() == first
        assert (await say(api, sessions[0], "four", "4")).is_success
        await assert_entries(api, sessions[0], ["one", "two", "three", "four"])


async def query(api: ApiClient) -> Any:
    """Count the turns, once the tables of the analytics are built."""
    async with asyncio.timeout(WAIT_S):
        while True:
            asked = {"sql": "SELECT count(*) AS n FROM turns", "maxAgeS": 0}
            answer = await api.post("/api/analytics/query", json=asked)
            if answer.status_code != 503:
                return answer
            await asyncio.sleep(0.05)


async def test_a_full_disk_is_the_reason_of_a_query_that_fails(serve: Serve, faults: Faults) -> None:
    server = serve(**faults.environment)
    await server.ready()
    async with server.client() as api:
        await api.create_session("diary")
        faults.fill_disk("outlines.json")
        refused = await query(api)
        assert (refused.status_code, refused.json()["error"]["code"]) == (507, "DISK_TOO_SMALL")
        faults.end()
        assert (await query(api)).json()["rows"] == [{"n": 1}]
