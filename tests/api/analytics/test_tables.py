"""What analysts are shown is what the API shows, table by table."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pytest

from tests.support.api_client import ApiClient
from tests.support.data_folders import copied
from tests.support.fixture_types import OpenApp

ROLES = {"assistant": "ai"}
Row = dict[str, Any]


class Shown(NamedTuple):
    """The same record by two ways: what the API tells, and the analytics file that a query has made of it."""

    file: duckdb.DuckDBPyConnection
    sessions: list[Row]
    """As the API shows them one by one, with what it lists of them."""
    variables: dict[str, Row]
    """Global ones, by user."""

    def rows(self, sql: str) -> list[Row]:
        found = self.file.execute(sql)
        names = [name for name, *_ in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def by_session(self, sql: str) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {session["sessionId"]: [] for session in self.sessions}
        for row in self.rows(sql):
            found[str(row.pop("session_id"))].append(row)
        return found


async def pages(api: ApiClient, path: str, **query: Any) -> list[Row]:
    """Return all of a list."""
    data: list[Row] = []
    while True:
        page = await api.read(path, limit=100, **query)
        data += page["data"]
        if page["nextCursor"] is None:
            return data
        query["cursor"] = page["nextCursor"]


async def read_api(app: OpenApp, folder: Path) -> tuple[list[Row], dict[str, Row]]:
    """Return what the API tells, once a query has had the file made."""
    sessions = []
    async with app(folder, embedder="none") as api:
        asked = await api.post("/api/analytics/query", json={"sql": "FROM memory_units", "masked": False})
        assert asked.status_code == 200, asked.text
        for listed in await pages(api, "/api/sessions"):
            path = f"/api/sessions/{listed['sessionId']}"
            lists = {name: await pages(api, f"{path}/{name}") for name in ("snapshots", "events", "calls")}
            messages = await pages(api, f"{path}/messages", all=True)
            turns = [await api.read(f"{path}/snapshots/{turn['turn']}") for turn in lists["snapshots"]]
            sessions.append(await api.read(path) | {"listed": listed, "messages": messages, "turns": turns} | lists)
        users = {session["userId"] for session in sessions}
        return sessions, {user: (await api.read(f"/api/users/{user}/variables"))["variables"] for user in users}


@pytest.fixture(scope="module")
def views(app: OpenApp, made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    folder = tmp_path_factory.mktemp("shown") / "data"
    copied(made, folder)
    sessions, variables = asyncio.run(read_api(app, folder))
    (path,) = (folder / "analytics").glob("*-full.duckdb")
    with duckdb.connect(str(path), read_only=True) as file:
        file.execute("SET TimeZone = 'UTC'")
        views = Shown(file, sessions, variables)
        assert len(sessions) == views.rows("FROM about")[0]["sessions"] > 5
        yield views


def moment(text: str | None) -> str | None:
    return None if text is None else text.replace("Z", "+00:00")


def as_text(value: Any) -> str | None:
    return value if isinstance(value, str) or value is None else json.dumps(value, separators=(",", ":"))


def value_of(row: Row) -> tuple[str | None, str]:
    """Without its source, because a rewind writes values again that came from elsewhere."""
    return row["value_text"], row["type"]


def cells(store: dict[str, Any]) -> dict[tuple[str, str], tuple[str | None, str]]:
    """Return the cells of a session's own scopes that were written."""
    return {
        (scope, name): (as_text(cell["value"]), cell["type"])
        for scope in ("session", "phase", "topic")
        for name, cell in store[scope].items()
        if cell["lastUpdated"] is not None and cell["value"] is not None  # else it has its default
    }


@pytest.mark.gate
def test_sessions(views: Shown) -> None:
    found = views.by_session("FROM sessions")
    for session in views.sessions:
        (row,), listed, position = found[session["sessionId"]], session["listed"], session["position"] or {}
        assert row["user_id"] == session["userId"]
        assert row["key"] == session["key"]
        assert (row["script_uuid"], row["script_id"], row["script_version"]) == (
            session["scriptId"], listed["scriptKey"], listed["scriptVersion"],
        )  # fmt: skip
        assert (row["status"], row["execution_status"]) == (session["status"], session["executionStatus"])
        assert (row["turn"], row["message_count"]) == (session["turn"], listed["messageCount"])
        assert row["wait_kind"] == (session["wait"] or {}).get("kind")
        for name, field in (("phase_id", "phaseId"), ("topic_id", "topicId"), ("action_id", "actionId")):
            assert (row[name] or None) == (position.get(field) or None)
        for name, field in (
            ("created_at", "createdAt"), ("updated_at", "updatedAt"), ("completed_at", "completedAt"),
        ):  # fmt: skip
            assert (row[name] and row[name].isoformat()) == moment(session[field])
        metadata = json.loads(row["metadata"])
        assert metadata == listed["metadata"]
        assert str(row["forked_from"]) == metadata.get("forkedFrom", {}).get("sessionId", "None")
    for user, number in Counter(session["userId"] for session in views.sessions).items():
        of_user = views.rows(f"SELECT number FROM sessions WHERE user_id = '{user}' ORDER BY created_at")
        assert [row["number"] for row in of_user] == list(range(1, number + 1))


def test_turns(views: Shown) -> None:
    found = views.by_session("FROM turns ORDER BY turn")
    for session in views.sessions:
        turns = session["snapshots"]
        rows = found[session["sessionId"]]
        assert [
            (row["turn"], row["status"], row["execution_status"], row["phase_id"], row["topic_id"], row["action_id"],
             row["wait_kind"], row["finished_at"].isoformat()) for row in rows
        ] == [
            (turn["turn"], turn["status"], turn["executionStatus"], turn["phaseId"] or None, turn["topicId"] or None,
             turn["actionId"] or None, turn["waitKind"], moment(turn["at"])) for turn in turns
        ]  # fmt: skip


def test_messages(views: Shown) -> None:
    found = views.by_session("FROM messages ORDER BY seq")
    taken_back = 0
    for session in views.sessions:
        rows = found[session["sessionId"]]
        assert [
            (row["message_id"], row["seq"], ROLES.get(row["role"], row["role"]), row["content"], row["action_id"] or "",
             row["created_at"].isoformat(), row["is_taken_back"], row["characters"])
            for row in rows
        ] == [
            (each["messageId"], each["number"], each["role"], each["content"], each["actionId"] or "",
             moment(each["timestamp"]), each.get("removed", False), len(each["content"]))
            for each in session["messages"]
        ]  # fmt: skip
        taken_back += sum(row["is_taken_back"] for row in rows)
    assert taken_back > 0


def test_events(views: Shown) -> None:
    found = views.by_session("FROM events ORDER BY seq")
    for session in views.sessions:
        events = session["events"]
        rows = found[session["sessionId"]]
        assert [(row["seq"], row["kind"]) for row in rows] == [(each["seq"], each["kind"]) for each in events]


def test_variables_that_have_a_value(views: Shown) -> None:
    found = views.by_session("FROM variables_current WHERE session_id IS NOT NULL")
    of_users = views.rows("FROM variables_current WHERE session_id IS NULL")
    for session in views.sessions:
        rows = {(row["scope"], row["name"]): value_of(row) for row in found[session["sessionId"]]}
        assert rows == cells(session["variableStore"])
    for user, known in views.variables.items():
        rows_of = {row["name"]: (row["value_text"], row["source"]) for row in of_users if row["user_id"] == user}
        assert rows_of == {name: (as_text(each["value"]), each["source"]) for name, each in known.items()}


@pytest.mark.slow
def test_variables_at_every_turn(views: Shown) -> None:
    for session in views.sessions:
        for turn in session["turns"]:
            at = f"variables_at('{session['sessionId']}', turn := {turn['turn']})"
            own = views.rows(f"FROM {at} WHERE scope != 'global'")
            rows = {(row["scope"], row["name"]): value_of(row) for row in own}
            assert rows == cells(turn["variableStore"]), at


def test_users_calls_moves_and_failures(views: Shown) -> None:
    users = {row["user_id"]: row for row in views.rows("FROM users")}
    for user, of_user in users.items():
        theirs = [session for session in views.sessions if session["userId"] == user]
        assert of_user["sessions"] == len(theirs)
        assert of_user["completed_sessions"] == sum(each["status"] == "completed" for each in theirs)
        assert of_user["turns"] == sum(each["turn"] + 1 for each in theirs)
    calls = views.by_session("FROM llm_calls WHERE session_id IS NOT NULL ORDER BY turn, number")
    moved = views.by_session("FROM session_migrations ORDER BY turn")
    failed = views.by_session("FROM failed_turns")
    for session in views.sessions:
        assert [
            (row["call_id"], row["turn"], row["purpose"], row["outcome"], row["used"], row["model"])
            for row in calls[session["sessionId"]]
        ] == [
            (each["callId"], each["turn"], each["purpose"], each["outcome"], each["used"], each["model"])
            for each in session["calls"]
        ]
        if session["executionStatus"] == "error":
            assert failed[session["sessionId"]][-1]["code"] == session["error"]["code"]
        for row in moved[session["sessionId"]]:
            assert row["turn"] <= session["turn"]
    assert any(failed.values())
    assert any(moved.values())
    assert any(calls.values())
