"""Checks of the database: a consistent one passes, also under load; every kind of damage is found in its place."""

import asyncio
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import pytest

from store.duckdb.connection import DuckDBConnection
from store.duckdb.database import Database
from store.duckdb.variables import merge_writes
from store.interface.findings import remedies
from store.interface.private_files import FILE_NAME
from store.sql.redaction import redact_sessions
from tests.support.analytics_rules import problems
from tests.support.api_client import OPERATOR_KEY, ApiClient
from tests.support.fixture_types import OpenApp, Table

pytestmark = pytest.mark.database_file

Cuebook = Callable[..., Any]
PATH = "/api/operations/verify"


@pytest.fixture(scope="module")
def talked(app: OpenApp, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, str]:
    """Return a record with variables of all scopes, a rewind and a fork; and the id of its session of ana's."""
    folder = tmp_path_factory.mktemp("talked")

    async def talk() -> str:
        async with app(folder) as api:
            session = await api.create_session("visit", key="ana's")
            await api.send_texts(session, "Anna", "34")
            path = f"/api/sessions/{session['sessionId']}"
            assert (await api.post(f"{path}/rewind", json={"turn": 1})).status_code == 200
            assert (await api.post(f"{path}/fork", json={"turn": 2})).status_code == 201
            await api.send_texts(session, "35", "well", "")
            await api.create_session("visit", user="ben", key="ben's")
            assert (await api.read(f"{path}/variables")) == {"visits": 1, "age": 35}
        return str(session["sessionId"])

    session_id = asyncio.run(talk())
    return (folder / FILE_NAME).read_bytes(), session_id


@pytest.fixture
def data(talked: tuple[bytes, str], tmp_path: Path) -> Path:
    """Return a folder with that record."""
    folder = tmp_path / "cuebook-data"
    folder.mkdir()
    (folder / FILE_NAME).write_bytes(talked[0])
    return folder


def damage(folder: Path, *statements: str) -> None:
    """Damage the database as a bad disk or somebody's SQL would."""
    database = Database.open(folder)
    cursor = database.cursor()
    merge_writes(cursor)  # so that rows of `user_variable_values` count
    for statement in statements:
        cursor.execute(statement)
    cursor.close()
    database.close()


async def verified(api: ApiClient, **how: Any) -> dict[str, Any]:
    """Return all batches, one after the other."""
    found: dict[str, Any] = {"findings": [], "sessions": 0, "turns": 0}
    after: dict[str, str] = {}
    while True:
        answer = await api.read(PATH, **after, **how)
        for name in found:
            found[name] += answer[name]
        if answer["next"] is None:
            return found
        after = {"after": answer["next"]}


@pytest.mark.gate
def test_a_sound_record_passes(data: Path, cuebook: Cuebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUEBOOK_EMBEDDER", "none")
    for flags in ((), ("--quick",)):
        result = cuebook("verify", *flags)
        assert (result.exit_code, result.stdout) == (0, "")
        assert "3 sessions and 11 turns: 0 damages found" in result.stderr


OF_SESSIONS: dict[str, str] = {
    "turn_missing": "DELETE FROM turns WHERE turn = 1 AND {it}",
    "turn_twice": "INSERT INTO turns SELECT * FROM turns WHERE turn = 2 AND {it}",
    "session_empty": "DELETE FROM turns WHERE {it}",
    "row_unreadable": "UPDATE turns SET messages = '[{{}}]' WHERE turn = 1 AND {it}",
    "user_differs": "UPDATE turns SET user_id = 'ben' WHERE turn = 1 AND {it}",
    "messages_misnumbered": "UPDATE turns SET message_count = message_count + 1 WHERE turn = 1 AND {it}",
    "events_misnumbered": """UPDATE turns SET events = replace(events, '"seq":9,', '"seq":99,')
        WHERE turn = 0 AND {it}""",
    "event_of_nothing": "UPDATE turns SET variables = '[]' WHERE turn = 1 AND {it}",
    "state_unreadable": "UPDATE turns SET state = '{{\"version\": 99}}' WHERE turn = 1 AND {it}",
    "state_differs": "UPDATE turns SET topic_id = 'elsewhere' WHERE turn = 1 AND {it}",
    "state_invalid": """UPDATE turns SET state = replace(state, '"frames":[{{"action":"ready"}}],', '')
        WHERE turn = 6 AND {it}""",
    "variables_differ": "UPDATE turns SET state = replace(state, '\"Anna\"', '\"Eva\"') WHERE turn = 2 AND {it}",
    "script_missing": "UPDATE session_starts SET digest = 'none' WHERE {it}",
    "migration_misfit": """INSERT INTO session_migrations SELECT tenant, session_id, 2, 'migrate', 'safe', '[]',
        script_uuid, script_id, 1, 'other', script_uuid, script_id, 1, digest, now() FROM session_starts WHERE {it}""",
    "session_twice": "INSERT INTO session_starts SELECT * FROM session_starts WHERE {it}",
    "key_twice": "UPDATE session_starts SET key = 'ben''s' WHERE {it}",
    "row_orphaned": "DELETE FROM session_starts WHERE {it}",
    "turn_past_end": """INSERT INTO turn_failures SELECT tenant, session_id, 99, 'MODEL_ERROR', '', NULL, NULL, NULL,
        now(), false FROM session_starts WHERE {it}""",
    "delivery_orphaned": """INSERT INTO webhook_deliveries SELECT tenant, uuid(), uuid(), session_id, user_id, 1, 1,
        'message', '{{}}', now(), 'pending', 0, now(), NULL, NULL, NULL, NULL FROM session_starts WHERE {it}""",
}
"""What is found, and what was done to the session `{it}`."""

OTHERS: dict[str, str] = {
    "variable_twice": "INSERT INTO user_variable_values SELECT * FROM user_variables WHERE user_id = 'ana'",
    "variable_differs": "UPDATE user_variable_values SET value = '9' WHERE user_id = 'ana'",
    "script_twice": "INSERT INTO scripts SELECT * FROM scripts",
    "script_altered": "UPDATE script_texts SET text = replace(text, 'Welcome', 'Goodbye')",
    "link_twice": """INSERT INTO links SELECT 'default', 'one', 'visit', NULL, 'anonymous', true, 1, 1, '{}', NULL,
        now(), NULL, NULL FROM range(2)""",
    "participant_twice": """INSERT INTO participants SELECT 'default', 'one', NULL, 'ana', uuid(), 'visit', NULL, NULL,
        NULL, NULL, now(), now(), NULL, NULL FROM range(2)""",
    "key_of_api_twice": """INSERT INTO api_keys SELECT 'default', 'one', 'a key', 'digest', ['app'], NULL, now(), NULL,
        NULL, NULL FROM range(2)""",
}
"""The same, done to what is of no session."""


@pytest.mark.gate
async def test_every_damage_is_found_where_it_is(talked: tuple[bytes, str], data: Path, app: OpenApp) -> None:
    numbers = {code: str(uuid5(NAMESPACE_OID, code)) for code in OF_SESSIONS}
    copies = [
        f"""INSERT INTO {table} SELECT * REPLACE ('{number}'::UUID AS session_id {more}) FROM {table}
        WHERE session_id = '{talked[1]}'"""
        for number in numbers.values()
        for table, more in (("session_starts", ", NULL AS key, NULL AS idempotency_key"), ("turns", ""))
    ]
    damages = [OF_SESSIONS[code].format(it=f"session_id = '{number}'") for code, number in numbers.items()]
    damage(data, *copies, *damages, *OTHERS.values())
    async with app(data, embedder="none") as api:
        api.headers["Authorization"] = f"Bearer {OPERATOR_KEY}"  # there is a key now
        findings = (await verified(api))["findings"]
    for code, number in numbers.items():
        found = {each["code"] for each in findings if each["sessionId"] == number}
        assert code in found | {each["code"] for each in findings if each["sessionId"] is None}, (code, found)
    assert {each["code"] for each in findings} >= {*OF_SESSIONS, *OTHERS}
    assert all(each["isDamage"] and each["remedy"] == remedies()[each["code"]] for each in findings)
    assert talked[1] not in {each["sessionId"] for each in findings if each["table"] == "turns"}
    assert "Anna" not in str(findings)


async def test_the_turn_is_reported_without_its_text(talked: tuple[bytes, str], data: Path, app: OpenApp) -> None:
    state = "UPDATE turns SET state = replace(state, '\"Anna\"', '\"Eva\"') WHERE turn = {turn} AND session_id = '{it}'"
    damage(data, state.format(turn=2, it=talked[1]))
    async with app(data, embedder="none") as api:
        first, second = (await verified(api))["findings"]
        assert (await verified(api, quick=True))["findings"] == []
    assert (first["code"], first["turn"], first["userId"]) == ("variables_differ", 2, "ana")
    assert first["what"] == "the topic variable `nickname` has another value or type in the state than was written"
    assert second["turn"] == 3  # it is back then


async def test_a_variable_that_was_written_later_is_reported(data: Path, app: OpenApp) -> None:
    damage(data, "UPDATE user_variable_values SET updated_at = updated_at - INTERVAL 1 HOUR")
    async with app(data, embedder="none") as api:
        [finding] = (await verified(api))["findings"]
    assert (finding["code"], finding["userId"], finding["isDamage"]) == ("variable_behind", "ana", False)


MOOD = """
cuebook: 1
script: mood
use: [globals.yaml]
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {ask: How are you?, id: now, into: mood}
          - {ask: And later?, id: later, into: mood}
          - {ask: And then?, id: then}
"""


async def test_a_clock_that_was_set_back_is_no_later_write(tmp_path: Path, app: OpenApp) -> None:
    times, scripts = [datetime(2026, 5, 4, 12, tzinfo=UTC)], tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "mood.yaml").write_text(MOOD)
    (scripts / "globals.yaml").write_text("globals: [{var: mood}]")
    async with app(tmp_path, embedder="none", scripts=scripts, clock=lambda: times[-1]) as api:
        session = await api.create_session("mood")
        await api.send_texts(session, "well")
        times.append(times[-1] - timedelta(hours=1))
        await api.send_texts(session, "better")
        assert (await api.read("/api/users/ana/variables"))["variables"]["mood"]["value"] == "better"
        assert (await verified(api))["findings"] == []
    damage(tmp_path, "UPDATE user_variable_values SET updated_at = updated_at - INTERVAL 1 HOUR")
    async with app(tmp_path, embedder="none") as api:
        [finding] = (await verified(api))["findings"]
    assert (finding["code"], finding["turn"]) == ("variable_behind", 2)


@pytest.mark.gate
def test_damage_to_memories_is_found_and_derived_rows_are_fixed(
    data: Path, cuebook: Cuebook, monkeypatch: pytest.MonkeyPatch, table: Table
) -> None:
    monkeypatch.setenv("CUEBOOK_EMBEDDER", "none")
    damage(data, "INSERT INTO memory_vectors VALUES ('default', 'ana', NULL, 7, 'hashed:64', ''::BLOB)")
    result = cuebook("verify")
    assert result.exit_code == 1
    [line] = table(result)
    assert line[:5] == ["vector_invalid", "memory_vectors", "default", "", "ana"]
    document = json.loads(cuebook("verify", "--json").stdout)
    assert (document["damages"], document["sessions"]) == (1, 3)
    damage(
        data,
        """INSERT INTO memory_groups SELECT tenant, user_id, session_id::VARCHAR, session_id, 99, NULL, now()
        FROM session_starts WHERE key = 'ben''s'""",
        "INSERT INTO memory_owners SELECT 'default', 'eve', 'all', 0, false, now() FROM range(2)",
    )
    fixed = cuebook("verify", "--fix", "--json")
    assert fixed.exit_code == 1
    assert "2 damages fixed, 1 damage left" in fixed.stderr
    document = json.loads(fixed.stdout)
    assert [each["code"] for each in document["fixed"]] == ["memory_past_end", "vector_invalid"]
    assert [each["code"] for each in document["findings"]] == ["memory_twice"]
    assert cuebook("verify", "--fix", "june.duckdb").exit_code == 2


@pytest.mark.gate
async def test_turns_under_way_are_no_damage(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "data", embedder="none") as api:

        async def talk(user: str) -> None:
            for _ in range(3):
                session = await api.create_session("visit", user=user)
                await api.send_texts(session, "Anna", "34", "well", "")

        talking = asyncio.gather(*(talk(f"user {number}") for number in range(4)))
        while not talking.done():
            assert (await verified(api))["findings"] == []
        await talking
        assert (await verified(api))["turns"] == 4 * 3 * 5


@pytest.mark.slow
async def test_redacted_session_is_verified_by_what_is_left(
    talked: tuple[bytes, str], data: Path, app: OpenApp, tmp_path: Path
) -> None:
    database = Database.open(data)
    cursor = database.cursor()
    cursor.execute("BEGIN")
    redact_sessions(DuckDBConnection(cursor), "default", [talked[1]], datetime.now(UTC))
    cursor.execute("COMMIT")
    cursor.close()
    database.close()
    async with app(data, embedder="none") as api:
        assert (await verified(api))["findings"] == []
        file = tmp_path / "snapshot.duckdb"
        taken = await api.get("/api/analytics/snapshot", params={"masked": "false"})
        await asyncio.to_thread(file.write_bytes, taken.content)
    assert problems(file) == []
    damage(
        data,
        f"""UPDATE turns SET messages = replace(messages, '"content":""', '"content":"x"')
        WHERE session_id = '{talked[1]}'""",
        f"UPDATE turns SET message_count = 1 WHERE turn = 2 AND session_id = '{talked[1]}'",
    )
    async with app(data, embedder="none") as api:
        found = {each["code"] for each in (await verified(api))["findings"]}
    assert found == {"text_left", "messages_misnumbered", "state_differs"}


async def test_a_long_session_is_read_in_parts(data: Path, app: OpenApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["api.integrity.check_sessions"], "BATCH_TURNS_MAX", 2)
    async with app(data, embedder="none") as api:
        found = await verified(api)
    assert (found["findings"], found["sessions"], found["turns"]) == ([], 3, 11)


async def test_a_place_that_is_none_is_refused(api: ApiClient) -> None:
    answer = await api.get(PATH, params={"after": "nonsense"})
    assert (answer.status_code, answer.json()["error"]["details"][0]["field"]) == (400, "after")


async def test_it_is_for_those_who_run_the_server(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "data", embedder="none") as api:
        for role in ("app", "author", "analyst"):
            key = await api.create_key(role)
            assert (await api.get(PATH, headers={"Authorization": key})).status_code == 403
        key = await api.create_key("admin", tenant="clinic")
        assert (await api.get(PATH, headers={"Authorization": key})).status_code == 403
