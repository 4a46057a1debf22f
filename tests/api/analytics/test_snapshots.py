"""Analytics as files: a snapshot is consistent, also under load; a folder of Parquet files follows the database."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from store.analytics.snapshots import check
from tests.support.analytics_rules import Violation, problems
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp

Cuebook = Callable[..., Any]
SNAPSHOT = "/api/analytics/snapshot"
UNMASKED = {"masked": "false"}


def asked(sql: str) -> list[tuple[Any, ...]]:
    """Return the answer of a DuckDB that knows nothing of all this."""
    with duckdb.connect() as connection:
        return connection.execute(sql).fetchall()


async def talk(api: ApiClient, user: str) -> Any:
    """Return a session with a rewind, a fork, and variables of all scopes."""
    session = await api.create_session("visit", user=user)
    await api.send_texts(session, "Anna", "34")
    path = f"/api/sessions/{session['sessionId']}"
    assert (await api.post(f"{path}/rewind", json={"turn": 1})).status_code == 200
    assert (await api.post(f"{path}/fork", json={"turn": 2})).status_code == 201
    await api.send_texts(session, "35", "well", "")
    return session


async def snapshot(api: ApiClient, **how: str) -> bytes:
    answer = await api.get(SNAPSHOT, params=how)
    assert answer.status_code == 200, answer.text
    return bytes(answer.content)


@pytest.fixture(scope="module")
def snapshots(app: OpenApp, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """Take snapshots while sessions go on: one of everything, and a masked one."""
    folder = tmp_path_factory.mktemp("taken")

    async def take() -> tuple[bytes, bytes]:
        async with app(folder / "data", embedder="none") as api:
            await talk(api, "ana")
            talking = asyncio.gather(*(talk(api, f"user {number}") for number in range(6)))
            both = await snapshot(api, **UNMASKED), await snapshot(api)
            await talking
            return both

    return asyncio.run(take())


@pytest.fixture
def files(snapshots: tuple[bytes, bytes], tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Copy of them."""
    full, masked = tmp_path / "full.duckdb", tmp_path / "masked.duckdb"
    full.write_bytes(snapshots[0])
    masked.write_bytes(snapshots[1])
    yield full, masked


@pytest.mark.slow
def test_a_snapshot_taken_under_load_is_sound(files: tuple[Path, Path], cuebook: Cuebook) -> None:
    for file in files:
        result = cuebook("verify", file)
        assert (result.exit_code, result.stdout) == (0, ""), result.output
        assert "0 damages found" in result.stderr
    document = json.loads(cuebook("verify", files[1], "--json").stdout)
    assert (document["about"]["isMasked"], document["findings"]) == (True, [])
    assert document["about"]["sessions"] >= 2


DAMAGES: dict[str, tuple[str, str]] = {
    "DELETE FROM turns WHERE turn = 1": ("file_differs", "turns"),
    "DELETE FROM messages WHERE seq = 2": ("file_differs", "messages"),
    "UPDATE events SET seq = 1 WHERE seq = 2": ("file_differs", "events"),
    "DELETE FROM variable_history WHERE name = 'age'": ("file_differs", "variable_history"),
    "UPDATE sessions SET status = 'completed'": ("file_differs", "sessions"),
    "UPDATE users SET turns = 99": ("file_differs", "users"),
    "UPDATE variables_current SET value = '99' WHERE name = 'age'": ("file_differs", "variables_current"),
    "DELETE FROM action_visits WHERE action_id = 'ask_age'": ("file_differs", "action_visits"),
    "DELETE FROM scope_visits": ("file_differs", "scope_visits"),
    "DELETE FROM waits WHERE turn = 0": ("file_differs", "waits"),
    "UPDATE script_actions SET digest = 'other'": ("file_differs", "script_actions"),
    "UPDATE about SET messages = 1": ("file_counts_differ", "messages"),
}
OTHER_MODELS: dict[str, tuple[str, str]] = {
    "DROP TABLE waits": ("model_differs", "waits"),
    "ALTER TABLE messages ALTER COLUMN characters TYPE VARCHAR": ("model_differs", "messages"),
    "ALTER TABLE turns DROP COLUMN seconds": ("model_differs", "turns"),
}
RULED = {
    *(("file_misnumbered", table) for table in ("turns", "messages", "events", "variable_history")),
    *(("file_differs", table) for table in ("sessions", "users", "variables_current", "action_visits")),
    *(("file_differs", table) for table in ("scope_visits", "waits", "script_actions")),
}
"""What the rules of tests find after the damages."""
LEAKS: dict[str, tuple[str, str]] = {
    "UPDATE messages SET content = 'secret' WHERE seq = 1": ("file_unmasked", "messages"),
    "UPDATE sessions SET key = 'secret'": ("file_unmasked", "sessions"),
    "UPDATE turns SET user_id = 'secret'": ("file_unmasked", "turns"),
    """UPDATE events SET data = json_merge_patch(data, '{"text": "secret"}') WHERE seq = 1""": (
        "file_unmasked",
        "events",
    ),
    "UPDATE variables_current SET value = '\"secret\"' WHERE name = 'age'": ("file_unmasked", "variables_current"),
    "UPDATE variable_history SET is_pii = true WHERE name = 'age'": ("file_unmasked", "variable_history"),
}
"""What was done to a file, and what is found."""


@pytest.mark.slow
@pytest.mark.parametrize(("which", "done"), [(0, DAMAGES), (0, OTHER_MODELS), (1, LEAKS)])
def test_what_is_wrong_with_a_file_is_found_and_not_quoted(
    files: tuple[Path, Path], which: int, done: dict[str, tuple[str, str]]
) -> None:
    with duckdb.connect(str(files[which])) as connection:
        for statement in done:
            connection.execute(statement)
    findings = check(files[which]).findings
    assert {(each.code, each.table) for each in findings} >= set(done.values())
    assert all(each.is_damage and each.remedy for each in findings)
    assert "secret" not in str(findings)


@pytest.mark.slow
def test_the_rules_of_a_refresh_find_the_same(files: tuple[Path, Path]) -> None:
    assert problems(files[0]) == problems(files[1]) == []
    with duckdb.connect(str(files[0])) as connection:
        for statement in DAMAGES:
            connection.execute(statement)
    by_rules = {(each.code, each.table) for each in problems(files[0]) if isinstance(each, Violation)}
    assert by_rules == RULED


def test_digests_of_another_duckdb_are_not_compared(files: tuple[Path, Path]) -> None:
    with duckdb.connect(str(files[0])) as connection:
        connection.execute("UPDATE internal.digests SET written_by = 'v3.0.0'")
        connection.execute("UPDATE users SET turns = 99")
        connection.execute("DELETE FROM events WHERE seq = 1")
    assert [(each.code, each.table) for each in check(files[0]).findings] == [("file_counts_differ", "events")]


def test_what_is_no_snapshot_is_refused(cuebook: Cuebook, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear mother")
    duckdb.connect(str(tmp_path / "other.duckdb")).close()
    for name, why in (("letter.txt", "cannot be opened"), ("other.duckdb", "no table `about`"), ("none", "no file")):
        result = cuebook("verify", tmp_path / name)
        assert result.exit_code == 2
        assert why in result.stderr
    assert "are for the database" in cuebook("verify", "other.duckdb", "--quick").stderr


def test_a_stranger_s_file_reads_nothing_else(files: tuple[Path, Path], tmp_path: Path, cuebook: Cuebook) -> None:
    (tmp_path / "secret.csv").write_text("content\nsecret\n")
    with duckdb.connect(str(files[0])) as connection:
        connection.execute("ALTER TABLE messages RENAME TO kept")
        connection.execute(f"CREATE VIEW messages AS SELECT k.* FROM kept AS k, read_csv('{tmp_path}/secret.csv')")
    result = cuebook("verify", files[0])
    assert result.exit_code == 2
    assert "secret\n" not in result.output


# -- Parquet ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_folder_of_parquet_follows_the_database(
    app: OpenApp, tmp_path: Path, cuebook: Cuebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, folder = tmp_path / "cuebook-data", tmp_path / "lake"
    monkeypatch.setenv("CUEBOOK_EMBEDDER", "none")

    async def exported() -> Any:
        result = await asyncio.to_thread(cuebook, "export", "--parquet", folder, "--json", "--unmasked")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    async with app(data, embedder="none") as api:
        await talk(api, "ana")
        await talk(api, "ben")
    first = await exported()
    assert (first["written"] == first["files"] > 10, first["isMasked"]) == (True, False)
    said = asked(f"""SELECT user_id, count(*), count(content) FROM read_parquet('{folder}/messages/**')
        GROUP BY ALL ORDER BY ALL""")
    assert said == [("ana", 20, 20), ("ben", 20, 20)]
    assert (await exported())["written"] == 0
    async with app(data, embedder="none") as api:
        assert (await api.delete("/api/users/ana")).status_code == 200
    assert (await exported())["written"] > 0
    for path in folder.glob("*/**/*.parquet"):
        assert "ana" not in {row[0] for row in _users(path)}
    refused = await asyncio.to_thread(cuebook, "export", "--parquet", folder)
    assert (refused.exit_code, "is an unmasked export" in refused.stderr) == (2, True)


def _users(path: Path) -> list[tuple[Any, ...]]:
    columns = [row[0] for row in asked(f"DESCRIBE SELECT * FROM read_parquet('{path}')")]
    return asked(f"SELECT DISTINCT user_id FROM read_parquet('{path}')") if "user_id" in columns else []
