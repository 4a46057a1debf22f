"""A question asked once is one visit and one wait, also where the session moves to another version meanwhile."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

from store.analytics.file import Place
from tests.support import analytics_files
from tests.support.analytics_rules import problems
from tests.support.fixture_types import OpenApp

FIRST = """\
script: names
declare: [{var: known}]
forms: [{form: about, title: "About {{ known or 'you' }}", fields: [{field: city, placeholder: "{{ known }}"}]}]
phases:
  - phase: main
    topics:
      - topic: only
        actions:
          - {ask: Your name?, id: ask_name, output: [{get: name, type: number}]}
          - {form: about, id: fill}
          - {ask: Anything else?, id: ask_more}
"""
RENAMED = FIRST.replace("id: ask_name", "id: ask_number") + (
    "migrations: {actions: {main/only/ask_name: main/only/ask_number}}\n"
)
GONE = FIRST.replace("id: ask_name", "id: ask_again")
OF_THE_NAME = "action_id IN ('ask_name', 'ask_number', 'ask_again')"
VISITS = f"SELECT action_id, visit, outcome, rounds FROM action_visits WHERE {OF_THE_NAME} ORDER BY seq"
WAITS = f"SELECT action_id, round, outcome, turn, answered_turn FROM waits WHERE {OF_THE_NAME} ORDER BY turn"


async def moved(app: OpenApp, data: Path, second: str, steps: list[Any]) -> None:
    """A session of the first version; a text is said, a number a version to move to."""
    async with app(data) as api:
        script = await api.publish_script(FIRST)
        session = await api.create_session("names")
        await api.publish_script(second)
        assert script
        for step in steps:
            if isinstance(step, str):
                await api.send_texts(session, step)
            else:
                answer = await api.post(f"/api/sessions/{session['sessionId']}/migrate", json={"version": step})
                assert answer.is_success, answer.text


@pytest.mark.gate
@pytest.mark.parametrize(
    ("second", "steps", "visits", "waits"),
    [
        (FIRST + "# again\n", [2, "7"], [("ask_name", 1, "done", 1)], [("ask_name", 1, "answered", 0, 2)]),
        (
            FIRST + "# again\n",
            ["x", 2, "7"],
            [("ask_name", 1, "done", 2)],
            [("ask_name", 1, "answered", 0, 1), ("ask_name", 2, "answered", 1, 3)],
        ),
        (RENAMED, [2, "7"], [("ask_name", 1, "done", 1)], [("ask_name", 1, "answered", 0, 2)]),
        (
            RENAMED,
            [2, "x", "7"],
            [("ask_name", 1, "done", 2)],
            [("ask_name", 1, "answered", 0, 2), ("ask_number", 2, "answered", 2, 3)],
        ),
        (
            GONE,
            [2, "7"],
            [("ask_name", 1, "done", 0), ("ask_again", 1, "done", 1)],
            [("ask_name", 1, "ended", 0, None), ("ask_again", 1, "answered", 1, 2)],
        ),
    ],
    ids=["same", "asked again", "renamed", "renamed and asked again", "begun again"],
)
async def test_a_move_asks_nothing_again(
    app: OpenApp, tmp_path: Path, second: str, steps: list[Any], visits: list[Any], waits: list[Any]
) -> None:
    await moved(app, tmp_path / "data", second, steps)
    place = Place(tmp_path / "a.duckdb")
    analytics_files.refresh_all(tmp_path / "data", place, is_masked=True)
    with duckdb.connect(str(place.path), read_only=True) as connection:
        assert connection.execute(VISITS).fetchall() == visits
        assert connection.execute(WAITS).fetchall() == waits
    assert problems(place.path) == []


@pytest.mark.gate
async def test_a_form_that_is_drawn_again_is_one_wait(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "data") as api:
        await api.publish_script(FIRST)
        session = await api.create_session("names")
        await api.send_texts(session, "7")
        for known in ("Rome", "Bern"):
            path = f"/api/sessions/{session['sessionId']}/variables"
            answer = await api.patch(path, json={"variables": {"known": known}})
            assert answer.is_success, answer.text
    place = Place(tmp_path / "a.duckdb")
    analytics_files.refresh_all(tmp_path / "data", place, is_masked=True)
    with duckdb.connect(str(place.path), read_only=True) as connection:
        found = connection.execute("SELECT action_id, round, outcome FROM waits WHERE action_id = 'fill'").fetchall()
        drawn = connection.execute("SELECT count(*) FROM events WHERE kind = 'wait' AND action_id = 'fill'").fetchall()
    assert (found, drawn) == ([("fill", 1, "open")], [(3,)])
    assert problems(place.path) == []
