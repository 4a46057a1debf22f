"""Retention over HTTP: what is due is dropped and nothing else, and what is left can be looked at."""

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from api.privacy import retention_worker
from store.interface.retention_rows import Policy, RetentionAction
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp, RunCommand
from tests.support.held_model import HeldModel

WORD = "Schmetterling"
PATH = "/api/operations/retention"
TEXTS = [Policy(after_days=30)]
NOTES = """
script: notes
use: [mine.yaml]
memory: {remember: messages}
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - repeat: {max: 100}
            id: loop
            do:
              - ask: Next?
                id: next
                output: [{get: word}]
              - remember: "It was {{ word }}"
                id: note
              - emit: {event: noted, data: {said: word}}
                id: tell
              - set: {mine: word}
                id: keep
              - ai_say: "Heard {{ word }}."
                id: heard
"""
FILES = {"mine.yaml": "globals: [{var: mine, type: text}]\n"}


def at(days: float) -> Callable[[], datetime]:
    """Return a clock that is so many days ahead."""
    return lambda: datetime.now(UTC) + timedelta(days=days)


def traces(folder: Path, word: str) -> list[str]:
    """Return the files of a folder that have a word in their bytes."""
    return [path.name for path in folder.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]


@pytest.fixture
def opened(app: OpenApp, tmp_path: Path) -> Callable[..., Any]:
    """Open the application so many days from now: ``async with opened(40, TEXTS) as api``."""

    def open_(days: float = 0, policies: Sequence[Policy] = (), **settings: Any) -> Any:
        retained = {"retention": [*policies], "embedder": "hashed:64"}
        return app(tmp_path / "data", clock=at(days), **retained, **settings)

    return open_


async def talk(api: ApiClient, user: str = "ana", word: str = WORD, **fields: Any) -> Any:
    """Return a session with a word in all that it has."""
    session = await api.create_session("notes", user=user, metadata={"title": word}, **fields)
    await api.send_texts(session, word, f"{word} again")
    return session


async def code(answer: Any) -> tuple[int, str]:
    """Return the status and code of a refusal."""
    refused = await answer
    return refused.status_code, refused.json()["error"]["code"]


async def test_the_text_of_a_session_goes_and_its_counts_stay(opened: Any) -> None:
    async with opened() as api:
        await api.publish_script(NOTES, files=FILES)
        session = await talk(api, key="telegram:1")
        path = f"/api/sessions/{session['sessionId']}"
        before = await api.read(path)
        stats, events = await api.read(f"{path}/stats"), (await api.read(f"{path}/events", limit=200))["data"]
        said = (await api.read(f"{path}/messages"))["data"]
    async with opened(40, TEXTS) as api:
        await api.create_session("notes", user="ben")
        (due,) = (await api.read(PATH))["policies"]
        assert (due["action"], due["afterDays"], due["sessions"], due["turns"]) == ("redact", 30, 1, 3)
        assert (due["messages"], due["bytes"] > 100, due["oldest"][:10]) == (len(said), True, before["updatedAt"][:10])
        assert (await api.read(path))["redactedAt"] is None
        done = (await api.post(PATH)).json()
        assert (done["redacted"], done["deleted"], done["passed"]) == (1, 0, 0)
        assert (await api.read(PATH))["policies"][0]["sessions"] == 0

        after = await api.read(path)
        same = ("status", "executionStatus", "turn", "position", "createdAt", "updatedAt", "scriptId", "userId")
        assert {name: after[name] for name in same} == {name: before[name] for name in same}
        assert (after["key"], "title" in after["metadata"], after["aiMessage"]) == (None, False, "")
        assert after["redactedAt"]
        assert WORD not in json.dumps(after)
        left = (await api.read(f"{path}/messages"))["data"]
        assert [(each["number"], each["role"], each["characters"], each["content"]) for each in left] == [
            (each["number"], each["role"], len(each["content"]), "") for each in said
        ]
        counts = await api.read(f"{path}/stats")
        assert {name: counts[name] for name in stats if name != "transcriptTokens"} == {
            name: stats[name] for name in stats if name != "transcriptTokens"
        }
        happened = (await api.read(f"{path}/events", limit=200))["data"]
        assert [(each["seq"], each["kind"]) for each in happened] == [(each["seq"], each["kind"]) for each in events]
        assert WORD not in json.dumps(happened)
        assert (await api.read(f"{path}/snapshots"))["data"][-1]["turn"] == 2
        listed = {each["sessionId"]: each for each in (await api.read("/api/sessions"))["data"]}
        mine = listed[session["sessionId"]]
        assert (mine["preview"], mine["lastMessage"], mine["title"]) == (None, None, "notes")
        assert mine["redactedAt"] == after["redactedAt"]
        assert (await api.read("/api/sessions/search", q=WORD))["data"] == []
        export = await api.read("/api/users/ana/export")
        assert [each["sessionId"] for each in export["sessions"]] == [session["sessionId"]]
        assert WORD not in json.dumps(export["sessions"])
        assert export["variables"]["mine"]["value"] == f"{WORD} again"  # which is the user's


async def test_redacted_session_can_only_be_deleted(opened: Any) -> None:
    async with opened() as api:
        await api.publish_script(NOTES, files=FILES)
        session = await talk(api)
        again = {"Idempotency-Key": "one"}
        body = {"userId": "ana", "scriptId": "notes"}
        keyed = (await api.post("/api/sessions", json=body, headers=again)).json()
    async with opened(40, TEXTS) as api:
        await api.post(PATH)
        path, gone = f"/api/sessions/{session['sessionId']}", (410, "SESSION_REDACTED")
        for what, sent in {
            "messages": {"content": "Hello"},
            "pause": None,
            "resume": None,
            "end": {},
            "clear": None,
            "rewind": {"turn": 0},
            "fork": {"turn": 1},
            "compress": {"keep": 1},
            "migrate": {},
            "migrate/undo": None,
            "messages/append": {"messages": [{"role": "user", "content": "Hi"}]},
        }.items():
            assert await code(api.post(f"{path}/{what}", json=sent)) == gone, what
        for what in ("variables", "context", "history", "snapshots/1", "export"):
            assert await code(api.get(f"{path}/{what}")) == gone, what
        assert await code(api.patch(path, json={"metadata": {"title": "new"}})) == gone
        assert await code(api.patch(f"{path}/variables", json={"variables": {"word": "new"}})) == gone
        assert await code(api.post("/api/sessions", json=body, headers=again)) == gone
        refused = (await api.post(f"{path}/messages", json={"content": "Hello"})).json()["error"]
        assert refused["context"]["redactedAt"][:10] in refused["message"]
        assert refused["recovery"]["canRetry"] is False
        assert (await api.delete(path)).status_code in {200, 204}
        assert await code(api.get(path)) == (404, "SESSION_NOT_FOUND")
        assert (await api.read(f"/api/sessions/{keyed['sessionId']}"))["redactedAt"]


async def test_key_is_free_again_and_its_user_has_a_new_session(opened: Any) -> None:
    wanted = {"key": "telegram:7", "userId": "ana", "scriptId": "notes"}
    async with opened() as api:
        await api.publish_script(NOTES, files=FILES)
        first = await talk(api, key="telegram:7")
    async with opened(40, TEXTS) as api:
        await api.post(PATH)
        assert (await api.get("/api/sessions/by-key", params={"key": "telegram:7"})).status_code == 404
        second = (await api.post("/api/sessions/by-key", json=wanted)).json()
        assert second["sessionId"] != first["sessionId"]
        await api.send_texts(second, "Kolibri")


@pytest.mark.gate
async def test_a_fork_has_its_own_text_and_time(opened: Any, cuebook: RunCommand, tmp_path: Path) -> None:
    async with opened() as api:
        await api.publish_script(NOTES, files=FILES)
        session = await talk(api)
        await talk(api, "ben", key="telegram:9")
    async with opened(20) as api:
        fork = (await api.post(f"/api/sessions/{session['sessionId']}/fork", json={"turn": 1})).json()
    async with opened(40, TEXTS) as api:
        assert (await api.post(PATH)).json()["redacted"] == 2
        assert WORD in json.dumps(await api.transcript(fork))
        assert (await api.send_texts(fork, "Kolibri"))["turn"] == 2
        again = await api.post("/api/sessions/by-key", json={"key": "telegram:9", "userId": "ben", "scriptId": "notes"})
        assert again.status_code == 201
    refused = await asyncio.to_thread(cuebook, "replay", fork["sessionId"], "--data", tmp_path / "data")
    assert refused.exit_code == 2
    assert "was redacted" in refused.stderr.replace("\n", " ")


@pytest.mark.gate
async def test_memory_forgets_the_session_and_ingests_no_more_of_it(opened: Any) -> None:
    async with opened() as api:
        await api.publish_script(NOTES, files=FILES)
        gone = await talk(api)
        units = (await api.read("/api/memory/units", userId="ana"))["data"]
        assert any(WORD in unit["content"] for unit in units)
    async with opened(20) as api:
        retained = await talk(api, word="Kolibri")
    async with opened(40, TEXTS) as api:
        before = (await api.read("/api/memory/units", userId="ana"))["data"]
        assert {WORD in unit["content"] for unit in before} == {True, False}
        assert (await api.post(PATH)).json()["redacted"] == 1
        after = (await api.read("/api/memory/units", userId="ana"))["data"]
        assert [unit["unitId"] for unit in after] == [
            unit["unitId"] for unit in before if unit["groupId"] == retained["sessionId"]
        ]
        groups = (await api.read("/api/memory/groups", userId="ana"))["data"]
        assert gone["sessionId"] not in {group["groupId"] for group in groups}
        found = await api.post("/api/memory/search", json={"userId": "ana", "query": WORD, "k": 5})
        assert WORD not in found.text


@pytest.mark.slow
@pytest.mark.parametrize("action", ["redact", "delete"])
async def test_after_compaction_no_byte_of_it_is_in_the_files(
    opened: Any, tmp_path: Path, action: RetentionAction
) -> None:
    async with opened() as api:
        await api.publish_script(NOTES.replace("set: {mine: word}", "set: {mine: '\"-\"'}"), files=FILES)
        await api.post(
            "/api/webhooks", json={"url": "https://example.org/hook", "events": ["*"], "description": "all of it"}
        )
        session = await talk(api)
        assert (await api.post(f"/api/sessions/{session['sessionId']}/fork", json={"turn": 1})).status_code == 201
        await api.read("/api/memory/units", userId="ana")
        assert action == "delete" or await count_said(api) > 0
    assert traces(tmp_path / "data", WORD)
    async with opened(40, [Policy(after_days=30, action=action)]) as api:
        done = (await api.post(PATH)).json()
        assert (done["redacted"], done["deleted"]) == ((2, 0) if action == "redact" else (0, 2))
        assert action == "delete" or await count_said(api) == 0
        await api.post("/api/operations/compact")
        assert traces(tmp_path / "data", WORD) == []
    assert traces(tmp_path / "data", WORD) == []


async def count_said(api: ApiClient) -> int:
    """Return the messages whose words an analyst can read, if not masked."""
    query = "SELECT count(content) AS said FROM messages WHERE content LIKE '%Schmetterling%'"
    answer = await api.post("/api/analytics/query", json={"sql": query, "masked": False})
    assert answer.status_code == 200, answer.text
    (row,) = answer.json()["rows"]
    return int(row["said"])


@pytest.mark.gate
async def test_a_session_that_is_talked_to_is_left_for_the_next_time(opened: Any) -> None:
    async with opened() as api:
        await api.publish_script(NOTES, files=FILES)
        busy, idle = await talk(api), await talk(api, "ben")
    held = HeldModel()
    async with opened(40, TEXTS, model=held) as api:
        saying = asyncio.ensure_future(api.send_message(busy, {"content": "still here"}))
        await asyncio.wait_for(held.asked.wait(), 30)
        done = (await api.post(PATH)).json()
        assert (done["sessionsDue"], done["redacted"], done["passed"]) == (2, 1, 1)
        held.go.set()
        assert (await saying).status_code == 200
        assert (await api.post(PATH)).json()["redacted"] == 0
        assert (await api.read(f"/api/sessions/{busy['sessionId']}"))["redactedAt"] is None
        assert (await api.read(f"/api/sessions/{idle['sessionId']}"))["redactedAt"]


@pytest.mark.gate
async def test_many_sessions_go_in_groups_while_others_talk(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention_worker, "SESSIONS_MAX", 3)
    async with opened() as api:
        await api.publish_script(NOTES, files=FILES)
        for number in range(10):
            await api.create_session("notes", user=f"user {number % 4}")
    async with opened(40, TEXTS) as api:
        fresh = await api.create_session("notes", user="user 1")
        dropping = asyncio.ensure_future(api.post(PATH))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(api.post(PATH))
        for number in range(10):
            await api.send_texts(fresh, f"word {number}")
        assert (await dropping).json()["redacted"] == 10
        assert (await second).status_code in {200, 409}
        assert len(await api.transcript(fresh)) > 20
        metrics = (await api.get("/metrics")).text
        assert re.search(r'^cuebook_retention_sessions_total\{action="redact"\} 10.0$', metrics, re.MULTILINE)


@pytest.mark.gate
async def test_one_run_at_a_time_and_how_far_it_is(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention_worker, "SESSIONS_MAX", 1)
    resting, go = asyncio.Event(), asyncio.Event()

    async def rest(_: float, __: asyncio.Event) -> None:
        resting.set()
        await go.wait()

    async with opened() as api:
        await api.publish_script(NOTES, files=FILES)
        for user in ("ana", "ben"):
            await api.create_session("notes", user=user)
    async with opened(40, TEXTS, retention_every_h=0) as api:
        monkeypatch.setattr(retention_worker, "wait_at_most", rest)
        dropping = asyncio.ensure_future(api.post(PATH))
        await asyncio.wait_for(resting.wait(), 30)
        running = (await api.read(PATH))["running"]
        assert running == {"sessionsDue": 2, "redacted": 1, "deleted": 0, "passed": 0}
        assert await code(api.post(PATH)) == (409, "RETENTION_RUNNING")
        go.set()
        assert (await dropping).json()["redacted"] == 2
        assert (await api.read(PATH))["running"] is None


@pytest.mark.gate
async def test_a_server_drops_by_itself(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention_worker, "FIRST_S", 0.0)
    async with opened() as api:
        await api.publish_script(NOTES, files=FILES)
        session = await talk(api)
    async with opened(40, TEXTS, retention_every_h=0) as api:
        await asyncio.sleep(0.05)
        assert (await api.read(f"/api/sessions/{session['sessionId']}"))["redactedAt"] is None
    async with opened(40, TEXTS) as api:
        for _ in range(1_000):
            if (await api.read(f"/api/sessions/{session['sessionId']}"))["redactedAt"] is not None:
                break
            await asyncio.sleep(0.02)
        else:
            pytest.fail("nothing was dropped")


async def test_without_policies_nothing_is_ever_dropped(opened: Any) -> None:
    async with opened() as api:
        await api.publish_script(NOTES, files=FILES)
        session = await talk(api)
    async with opened(40_000) as api:
        assert (await api.read(PATH))["policies"] == []
        assert (await api.post(PATH)).json()["redacted"] == 0
        assert (await api.read(f"/api/sessions/{session['sessionId']}"))["redactedAt"] is None
        await api.send_texts(session, "still here")
