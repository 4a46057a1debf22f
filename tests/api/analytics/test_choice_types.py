"""What a `choose` takes for an undeclared variable is a choice, which analysts see; older records still replay."""

import asyncio
from pathlib import Path

import duckdb
import pytest

from store.analytics.file import Place
from tests.support import analytics_files
from tests.support.fixture_types import OpenApp, RunCommand

SCRIPT = """\
script: moods
phases:
  - phase: main
    topics:
      - topic: only
        actions:
          - {choose: mood, id: ask_mood, question: How are you?, choices: [{well: Well}, {ill: Ill}]}
          - {ask: Since when?, id: ask_since, output: [{get: since}]}
          - {ask: Anything else?, id: ask_more}
"""


@pytest.fixture
def session(app: OpenApp, tmp_path: Path) -> str:
    async def talk() -> str:
        async with app(tmp_path / "cuebook-data") as api:
            await api.publish_script(SCRIPT)
            session = await api.create_session("moods")
            await api.send_texts(session, "well", "Monday")
        return str(session["sessionId"])

    return asyncio.run(talk())


@pytest.mark.gate
def test_analysts_see_what_was_chosen(session: str, tmp_path: Path) -> None:
    place = Place(tmp_path / "a.duckdb")
    analytics_files.refresh_all(tmp_path / "cuebook-data", place, is_masked=True)
    with duckdb.connect(str(place.path), read_only=True) as connection:
        found = connection.execute("SELECT name, type, new_text FROM variable_history ORDER BY seq").fetchall()
    assert found == [("mood", "choice", "well"), ("since", "text", None)]


@pytest.mark.database_file
def test_older_records_with_texts_still_replay(session: str, tmp_path: Path, cuebook: RunCommand) -> None:
    older = """UPDATE turns SET variables = replace(variables::VARCHAR, '"type":"choice"', '"type":"text"')::JSON,
        state = replace(state::VARCHAR, '"type":"choice"', '"type":"text"')::JSON"""
    with duckdb.connect(str(tmp_path / "cuebook-data" / "cuebook.duckdb")) as store:
        store.execute(older)
        found = store.execute('SELECT count(*) FROM turns WHERE contains(variables::VARCHAR, \'"type":"text"\')')
        assert found.fetchall() == [(2,)]
    replayed = cuebook("replay", session)
    assert (replayed.exit_code, "match the recording" in replayed.output) == (0, True), replayed.output
    verified = cuebook("verify")
    assert verified.exit_code == 0, verified.output
