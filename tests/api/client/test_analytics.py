"""The client of analysts: from Python, with and without an event loop."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest

from api.client.analytics import Analytics
from api.client.client import SyncAnalytics
from api.embedded import open_runtime
from cuebook import Client, CuebookError, SyncClient
from tests.support.fixture_types import OpenApp


def test_both_clients_can_do_the_same() -> None:
    public = {name for name in vars(Analytics) if not name.startswith("_")}
    assert {name for name in vars(SyncAnalytics) if not name.startswith("_")} == public


@pytest.mark.timeout(600)
async def test_a_program_asks_its_own_record(conversations: Path, tmp_path: Path) -> None:
    async with open_runtime(tmp_path / "data", scripts=conversations, settings={"embedder": "none"}) as cuebook:
        await cuebook.sessions.create("ana", "visit")
        answered = await cuebook.analytics.query("SELECT role, count(*) AS n FROM messages GROUP BY role")
        assert (answered.rows, answered.truncated, answered.masked) == ([{"role": "assistant", "n": 3}], False, True)
        assert [(column.name, column.type) for column in answered.columns] == [("role", "VARCHAR"), ("n", "BIGINT")]
        assert answered.as_of <= datetime.now(UTC)
        users = await cuebook.analytics.query("SELECT user_id FROM users", masked=False, rows_max=1)
        assert users.rows == [{"user_id": "ana"}]
        funnel = await cuebook.analytics.report("funnel", {"script": "visit", "level": "topic"})
        assert [row["step"] for row in funnel.rows] == ["hello/who", "bye/parting"]
        picture = await cuebook.analytics.report_as("svg", "funnel", {"script": "visit"})
        assert picture.startswith((b"<?xml", b"<svg"))
        chart = json.loads(await cuebook.analytics.report_as("vega-lite", "funnel", {"script": "visit"}))
        assert [point["label"] for point in chart["data"]["values"]] == ["hello", "bye"]
        await cuebook.analytics.snapshot(tmp_path / "monday.duckdb")
        with pytest.raises(CuebookError) as refused:
            await cuebook.analytics.query("DELETE FROM turns")
        assert refused.value.code == "QUERY_INVALID"
        assert "funnel" in {report.name for report in (await cuebook.analytics.reports()).data}
        assert "waits" in {table.name for table in (await cuebook.analytics.model()).tables}
        assert (await cuebook.analytics.status()).as_of is not None
    with duckdb.connect(str(tmp_path / "monday.duckdb"), read_only=True) as snapshot:
        assert snapshot.execute("SELECT count(*) FROM sessions").fetchall() == [(1,)]


async def test_it_waits_until_the_analytics_are_made(tmp_path: Path) -> None:
    asked = 0

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        if asked < 8:  # more often than a request is tried again
            error = {
                "code": "ANALYTICS_NOT_READY", "type": "system", "message": "ask again",
                "details": [], "context": {"turns": asked, "of": 9, "timestamp": "2025-03-01T00:00:00Z"},
                "recovery": {"canRetry": True, "retryAction": "wait", "suggestion": "Ask again."},
            }  # fmt: skip
            return httpx.Response(503, json={"success": False, "error": error}, headers={"Retry-After": "0"})
        return httpx.Response(200, content=b"a file")

    async with Client("http://cuebook", transport=httpx.MockTransport(answer)) as cuebook:
        await cuebook.analytics.snapshot(tmp_path / "file.duckdb")
    assert ((tmp_path / "file.duckdb").read_bytes(), asked) == (b"a file", 8)


async def test_programs_without_an_event_loop_wait_for_it(server: OpenApp, tmp_path: Path) -> None:
    async with server(tmp_path / "data", embedder="none") as api:
        await api.create_session("visit")

        def ask() -> list[dict[str, Any]]:
            with SyncClient(str(api.base_url)) as cuebook:
                return cuebook.analytics.query("SELECT count(*) AS n FROM turns").rows

        assert await asyncio.to_thread(ask) == [{"n": 1}]
