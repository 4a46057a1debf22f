"""Each column of a masked file: shown to everybody, or masked; a new one fails here until somebody has decided."""

import asyncio
import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import duckdb
import pytest

from runtime.models.offline_model import OfflineModel
from runtime.state.ports import ModelReply, ModelRequest, OnReply, Usage
from store.analytics.export_folder import ExportFolder
from store.analytics.file import Place, described_tables
from store.analytics.snapshots import check
from store.duckdb.database import Database
from store.interface.event_fields import EVENT_FIELDS
from store.interface.masking import HIDDEN, MASKED
from tests.support import analytics_files, eventful_database
from tests.support.data_folders import database_file
from tests.support.fixture_types import OpenApp

SHOWN = {
    "about": "model_version tenant is_masked as_of sessions turns messages events",
    "scripts": (
        "script_uuid script_id name version version_label digest status created_at updated_at tags author description"
    ),
    "script_actions": (
        "digest script_id position phase_id phase_position topic_id topic_position action_id action_type "
        "is_question says"
    ),
    "script_arms": "digest script_id experiment unit arm position weight define",
    "script_milestones": "digest script_id milestone",
    "script_variables": "digest script_id scope phase_id topic_id name type define is_pii",
    "users": "first_seen_at last_seen_at sessions completed_sessions turns user_messages",
    "sessions": (
        "session_id number script_uuid script_id script_version digest first_version locale forked_from "
        "created_at updated_at completed_at seconds status execution_status outcome ended_by end_action_id phase_id "
        "topic_id action_id action_type wait_kind turn message_count user_messages event_count is_redacted"
    ),
    "turns": (
        "session_id turn script_id script_version digest started_at finished_at seconds status "
        "execution_status phase_id topic_id action_id action_type wait_kind messages writes events"
    ),
    "failed_turns": "session_id turn_attempted code phase_id topic_id action_id failed_at",
    "session_migrations": "session_id turn kind verdict from_version to_version script_id migrated_at",
    "messages": "session_id turn seq message_id role characters action_id is_taken_back created_at",
    "events": "session_id turn seq kind action_id recorded_at",
    "action_visits": (
        "session_id script_id script_version digest visit phase_id topic_id action_id action_type skill "
        "interrupt detector seq entered_turn entered_at left_seq left_turn left_at seconds rounds outcome "
        "exit_source"
    ),
    "scope_visits": (
        "session_id script_id script_version digest visit scope phase_id topic_id seq entered_turn entered_at "
        "left_seq left_turn left_at seconds outcome"
    ),
    "waits": (
        "session_id script_id script_version turn answered_turn phase_id topic_id action_id action_type kind "
        "round asked_at answered_at seconds outcome"
    ),
    "variable_history": "session_id turn seq written_at scope phase_id topic_id name type source action_id is_pii",
    "variables_current": "session_id scope phase_id topic_id name type source turn written_at is_pii",
    "llm_calls": (
        "session_id script_id script_version turn number call_id purpose action_id round model endpoint_model "
        "started_at ended_at outcome used input_tokens cached_tokens output_tokens counted cost latency_ms "
        "first_words_ms attempts parameters"
    ),
    "detections": "session_id script_id script_version turn seq detector score severity seen_by message detected_at",
    "exposures": "session_id script_id script_version experiment arm turn seq action_id unit exposed_at",
    "milestones": ("session_id script_id script_version milestone turn seq phase_id topic_id action_id reached_at"),
    "ratings": "review_id review session_id turn question kind answer number rated_at",
    "memory_units": (
        "sequence session_id turn message rank level characters creation_time end_time visit_count last_visit "
        "never_delete trust is_extract is_stale valid_from valid_to"
    ),
}
"""Columns in which no user's words, names or values are, nor anything made from those."""
PSEUDONYM = "[um]_[0-9a-f]{16}|notes|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(:[0-9]+)?"
CANDIDATES = ("Adalbert", "Beatrix", "Cleopatra", "Dorothea")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


LISTENING = """\
script: listening
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {ai_ask: Ask who they are., id: ask_who, output: [{get: who}], exit: they said it, max_rounds: 3}
          - {ask: And now?, id: ask_now}
"""


class Telling(OfflineModel):
    """A language model that tells of each call what it was sent."""

    def goes_to(self, request: ModelRequest) -> str:
        return "main"

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        said = request.history[-1].content if request.history else ""
        usage = Usage(model="m-1", prompt_digest=digest(said), degraded=f"it said {said} alone", latency_ms=1)
        if not request.replies:
            return ModelReply(text=f"Hello {said}", usage=usage)
        return ModelReply(text="So", values={"who": said}, exit=True, exit_reason=f"it was {said}", usage=usage)


def test_each_column_is_shown_or_masked() -> None:
    decided = {table: {*columns.split(), *MASKED.get(table, {})} for table, columns in SHOWN.items()}
    decided["llm_calls"] -= {"failures"}  # it is in exports alone
    assert {table.name: {column.name for column in table.columns} for table in described_tables()} == decided
    assert not [table for table, columns in SHOWN.items() if {*columns.split()} & {*MASKED.get(table, {})}]


@pytest.fixture(scope="module")
def personal_folder(app: OpenApp, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a record in which the masked columns have values."""
    folder = tmp_path_factory.mktemp("told")
    asyncio.run(tell(app, folder))
    return folder


async def tell(app: OpenApp, folder: Path) -> None:
    await eventful_database.made(app, folder, seed=3, steps=90)
    async with app(folder, Telling(), embedder="hashed:64") as api:
        await api.publish_script(LISTENING)
        for name in CANDIDATES:
            headers = {"Idempotency-Key": name}
            begun = {"userId": f"{name} {eventful_database.WORD}", "key": f"chat:{name}", "metadata": {"name": name}}
            begun |= {"scriptId": "listening"}
            answer = await api.post("/api/sessions", json=begun, headers=headers)
            assert answer.status_code == 200, answer.text
            await api.send_message(answer.json(), {"content": name})
        ended = await api.post(f"/api/sessions/{answer.json()['sessionId']}/end", json={"reason": name})
        assert ended.status_code == 200, ended.text
        questions = [
            {"questionId": "warm", "text": "How warm?", "kind": "scale", "min": 1, "max": 5},
            {"questionId": "remarks", "text": "What else?", "kind": "text"},
        ]
        rated = answer.json()["sessionId"]
        review = await api.post("/api/reviews", json={"name": "Warmth", "questions": questions, "sessionIds": [rated]})
        rating = {"sessionId": rated, "answers": {"warm": 4, "remarks": f"{name} {eventful_database.WORD}"}}
        stored = await api.put(f"/api/reviews/{review.json()['reviewId']}/ratings", json=rating)
        assert stored.status_code == 200, stored.text
        unit = {"content": eventful_database.WORD, "source": eventful_database.WORD, "metadata": {"of": "me"}}
        units = [unit | {"unitId": f"{eventful_database.WORD}-{number}"} for number in range(2)]
        units[1]["supersedes"] = units[0]["unitId"]
        for each in units:
            body = {"userId": CANDIDATES[0], "group": eventful_database.WORD, "units": [each]}
            answer = await api.post("/api/memory/units", json=body)
            assert answer.status_code in {200, 201}, answer.text


@pytest.fixture(scope="module")
def files(personal_folder: Path) -> Mapping[bool, Path]:
    """Return two analytics files of it, by whether they are masked."""
    found = {is_masked: personal_folder / f"masked-{is_masked}.duckdb" for is_masked in (True, False)}
    for is_masked, path in found.items():
        analytics_files.refresh_all(personal_folder, Place(path), is_masked=is_masked)
    return found


def values(path: Path, table: str, column: str) -> list[Any]:
    with duckdb.connect(str(path), read_only=True) as connection:
        found = connection.execute(f"SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL")
        return [value for (value,) in found.fetchall()]


NEVER_SET = {("memory_units", "parent_id"), ("memory_units", "duplicate_of"), ("llm_calls", "failures")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "column"),
    [(table, column) for table in MASKED for column in MASKED[table] if (table, column) not in NEVER_SET],
)
def test_a_masked_column_is_masked(files: Mapping[bool, Path], table: str, column: str) -> None:
    whole, masked = values(files[False], table, column), values(files[True], table, column)
    assert [value for value in whole if value != ""], "nothing is there that could be masked"
    match MASKED[table][column]:
        case "words" | "digest":
            assert masked == []
        case "flag":
            assert {HIDDEN} <= {*masked} <= {"", HIDDEN}
        case "pseudonym":
            with duckdb.connect() as connection:
                assert connection.execute(
                    "SELECT list_filter($given, lambda each: NOT regexp_full_match(each, $pattern))",
                    {"given": masked, "pattern": PSEUDONYM},
                ).fetchall() == [([],)]
        case "fields":
            allowed = {path.split(".")[0].removesuffix("[]") for fields in EVENT_FIELDS.values() for path in fields}
            with duckdb.connect(str(files[True]), read_only=True) as connection:
                keys = connection.execute("SELECT DISTINCT unnest(json_keys(data)) FROM events").fetchall()
            assert {key for (key,) in keys} <= allowed
        case "value" | "label":
            assert not [word for word in (eventful_database.WORD, *CANDIDATES) if word in str(masked)]


@pytest.mark.gate
@pytest.mark.parametrize("column", ["reply", "request_digest", "prompt_digest", "degraded"])
def test_check_finds_an_unmasked_column(files: Mapping[bool, Path], tmp_path: Path, column: str) -> None:
    assert [finding for finding in check(files[True]).findings if finding.code == "file_unmasked"] == []
    damaged = tmp_path / "damaged.duckdb"
    shutil.copyfile(files[True], damaged)
    with duckdb.connect(str(damaged)) as connection:
        connection.execute(f"UPDATE llm_calls SET {column} = '\"{eventful_database.WORD}\"'")
    assert {finding.code for finding in check(damaged).findings} == {"file_unmasked"}


def strings(path: Path) -> Iterator[str]:
    """Return every value of every column of every schema, as text."""
    with duckdb.connect(str(path), read_only=True) as connection:
        tables = connection.execute("SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal").fetchall()
        for schema, table in tables:
            for row in connection.execute(f"FROM {schema}.{table}").fetchall():
                yield from map(str, row)


def guesses(store: Path) -> set[str]:
    """Return what somebody who knows the candidates concludes, and what the database itself contains."""
    made = {digest(name) for name in CANDIDATES}
    made |= {str(uuid5(NAMESPACE_OID, f"default\n{name}")) for name in CANDIDATES}
    database = Database.open(database_file(store).parent, read_only=True)
    try:
        cursor = database.cursor()
        retained = cursor.execute(
            """SELECT request_digest FROM llm_calls UNION ALL SELECT prompt_digest FROM llm_calls
            UNION ALL SELECT hash(key, metadata::VARCHAR)::VARCHAR FROM session_starts WHERE key IS NOT NULL"""
        ).fetchall()
    finally:
        database.close()
    return made | {value for (value,) in retained if value}


@pytest.mark.gate
async def test_no_way_out_has_a_digest_of_a_guess(
    app: OpenApp, personal_folder: Path, files: Mapping[bool, Path], tmp_path: Path
) -> None:
    known = guesses(personal_folder)
    assert {digest(name) for name in CANDIDATES} <= known & {*strings(files[False])}  # who may see all sees them
    async with app(personal_folder, embedder="none") as api:
        analyst = {"Authorization": await api.create_key("analyst")}
        tables = " UNION ALL ".join(
            f"SELECT '{table.name}' AS name, to_json({table.name}) AS row FROM {table.name}"
            for table in described_tables()
        )
        asked = await api.post("/api/analytics/query", json={"sql": tables, "rowsMax": 100_000}, headers=analyst)
        assert (asked.status_code, asked.json()["truncatedBy"]) == (200, None), asked.text
        rows = [json.dumps(row) for row in asked.json()["rows"]]
        assert len(rows) > 1_000
        assert [row for row in rows if any(guess in row for guess in known)] == []
        (tmp_path / "snapshot.duckdb").write_bytes((await api.get("/api/analytics/snapshot", headers=analyst)).content)
    assert known.isdisjoint(strings(tmp_path / "snapshot.duckdb"))
    with closing(ExportFolder(tmp_path / "parts")) as folder:
        folder.update(tmp_path / "snapshot.duckdb")
    with duckdb.connect() as connection:
        read = [
            str(value)
            for path in (tmp_path / "parts").rglob("*.parquet")
            for row in connection.execute("FROM read_parquet(?)", [str(path)]).fetchall()
            for value in row
        ]
    assert len(read) > 1_000
    assert known.isdisjoint(read)
