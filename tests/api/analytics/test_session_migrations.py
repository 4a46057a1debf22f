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


async def moved(app: OpenApp, data: Path, later: list[str], steps: list[Any], first: str = FIRST) -> None:
    """A session of the first version; a text is said, a number a version to move to, 0 the undo of a move."""
    async with app(data) as api:
        await api.publish_script(first)
        session = await api.create_session("names")
        for text in later:
            await api.publish_script(text)
        for step in steps:
            path = f"/api/sessions/{session['sessionId']}/migrate"
            if isinstance(step, str):
                await api.send_texts(session, step)
            else:
                answer = await (api.post(path, json={"version": step}) if step else api.post(f"{path}/undo"))
                assert answer.is_success, answer.text


@pytest.mark.slow
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
        (RENAMED, [2, "7"], [("ask_number", 1, "done", 1)], [("ask_number", 1, "answered", 0, 2)]),
        (
            RENAMED,
            [2, "x", "7"],
            [("ask_number", 1, "done", 2)],
            [("ask_number", 1, "answered", 0, 2), ("ask_number", 2, "answered", 2, 3)],
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
    await moved(app, tmp_path / "data", [second], steps)
    place = Place(tmp_path / "a.duckdb")
    analytics_files.refresh_all(tmp_path / "data", place, is_masked=True)
    with duckdb.connect(str(place.path), read_only=True) as connection:
        assert connection.execute(VISITS).fetchall() == visits
        assert connection.execute(WAITS).fetchall() == waits
    assert problems(place.path) == []


TWICE = FIRST.replace("id: ask_name", "id: ask_figure") + (
    "migrations: {actions: {main/only/ask_name: main/only/ask_number, main/only/ask_number: main/only/ask_figure}}\n"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("later", "steps", "rows"),
    [
        ([RENAMED, TWICE], ["x", 2, "x", 3, "x", "7"], [("main/only/ask_figure", 1, 1, 1.0, 3)]),
        (
            [RENAMED],
            ["x", 2, "x", 2, "7", 1, "x"],
            [("main/only/ask_number", 1, 1, 1.0, 3)],
        ),
        (
            [RENAMED],
            ["x", 2, 0, "x", "7"],
            [("main/only/ask_name", 1, 1, 1.0, 2), ("main/only/ask_number", 1, 1, 1.0, 2)],
        ),
    ],
    ids=["twice", "left under its new name", "undone"],
)
async def test_renamed_question_is_repeated_only_as_often_as_visited(
    app: OpenApp, tmp_path: Path, later: list[str], steps: list[Any], rows: list[Any]
) -> None:
    await moved(app, tmp_path / "data", later, steps)
    place = Place(tmp_path / "a.duckdb")
    analytics_files.refresh_all(tmp_path / "data", place, is_masked=True)
    with duckdb.connect(str(place.path), read_only=True) as connection:
        found = connection.execute(
            "SELECT step, visits, asked_again, share, most_rounds FROM re_asked('names') "
            "WHERE string_split(step, '/')[3] IN ('ask_name', 'ask_number', 'ask_figure') ORDER BY step"
        ).fetchall()
        assert found == rows
    assert problems(place.path) == []


NESTED = """\
script: names
phases:
  - phase: main
    topics:
      - topic: only
        actions:
          - foreach: "['a', 'b'] as item"
            id: each
            do: [{call: breathe, id: calm}]
          - {ask: Anything else?, id: ask_more}
skills:
  - skill: breathe
    actions: [{ask: How tense?, id: ask_level}, {ask: And now?, id: ask_now}]
"""
CALL_RENAMED = NESTED.replace("id: calm", "id: soothe") + "migrations: {actions: {main/only/calm: main/only/soothe}}\n"
BOTH_RENAMED = (
    NESTED.replace("id: calm", "id: soothe").replace("id: each", "id: every")
    + "migrations: {actions: {main/only/calm: main/only/soothe, main/only/each: main/only/every}}\n"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("second", "steps", "visits"),
    [
        (CALL_RENAMED, [2, "1", "2"], [("each", 1, "open", 1), ("soothe", 1, "done", 2), ("soothe", 2, "open", 2)]),
        (CALL_RENAMED, [2, 0, "1", "2"], [("each", 1, "open", 1), ("calm", 1, "done", 1), ("calm", 2, "open", 1)]),
        (CALL_RENAMED, ["1", "2", 2], [("each", 1, "open", 1), ("calm", 1, "done", 1), ("calm", 2, "open", 1)]),
        (
            BOTH_RENAMED,
            ["1", 2, "2", "3", "4"],
            [("every", 1, "done", 2), ("soothe", 1, "done", 2), ("soothe", 2, "done", 2)],
        ),
    ],
    ids=["call", "undone", "open", "call and loop"],
)
async def test_renamed_action_around_the_current_one_is_one_visit(
    app: OpenApp, tmp_path: Path, second: str, steps: list[Any], visits: list[Any]
) -> None:
    await moved(app, tmp_path / "data", [second], steps, NESTED)
    place = Place(tmp_path / "a.duckdb")
    analytics_files.refresh_all(tmp_path / "data", place, is_masked=True)
    with duckdb.connect(str(place.path), read_only=True) as connection:
        found = connection.execute(
            "SELECT action_id, visit, outcome, script_version FROM action_visits "
            "WHERE skill IS NULL AND action_id != 'ask_more' ORDER BY seq"
        )
        assert found.fetchall() == visits
    assert problems(place.path) == []


MOVED_TOPIC = FIRST.replace("phase: main", "phase: begin").replace("topic: only", "topic: names") + (
    "          - {ask: Last one?, id: ask_last}\n"
    "migrations: {phases: {main: begin}, topics: {main/only: begin/names}}\n"
)


@pytest.mark.gate
async def test_a_renamed_topic_is_one_step(app: OpenApp, tmp_path: Path) -> None:
    await moved(app, tmp_path / "data", [MOVED_TOPIC], ["7", 2, "Rome"])
    place = Place(tmp_path / "a.duckdb")
    analytics_files.refresh_all(tmp_path / "data", place, is_masked=True)
    with duckdb.connect(str(place.path), read_only=True) as connection:
        for level, steps in {
            "phase": [("begin", 1, 1), ("main", 0, 0)],
            "topic": [("begin/names", 1, 1), ("main/only", 0, 0)],
        }.items():
            report = f"SELECT step, reached, stopped FROM funnel('names', level := '{level}') ORDER BY step"
            assert connection.execute(report).fetchall() == steps
        unknown = connection.execute("FROM funnel('names', level := 'action') WHERE position IS NULL").fetchall()
        stopped = connection.execute("SELECT step FROM funnel('names', level := 'action') WHERE stopped = 1").fetchall()
        values = connection.execute(
            "SELECT name, topic_id, value FROM variables_current WHERE scope = 'topic'"
        ).fetchall()
        assert ("name", "names", "7") in values
        assert (unknown, stopped) == ([], [("begin/names/ask_more",)])
    assert problems(place.path) == []


@pytest.mark.slow
async def test_an_action_that_is_gone_keeps_its_topic(app: OpenApp, tmp_path: Path) -> None:
    """A renamed topic starts again, since the session is at an action that the new version does not have."""
    await moved(app, tmp_path / "data", [MOVED_TOPIC.replace("id: fill", "id: fill_in")], ["7", 2])
    place = Place(tmp_path / "a.duckdb")
    analytics_files.refresh_all(tmp_path / "data", place, is_masked=True)
    with duckdb.connect(str(place.path), read_only=True) as connection:
        reached = dict(
            connection.execute(
                "SELECT step, reached FROM funnel('names', level := 'action') WHERE reached > 0"
            ).fetchall()
        )
        unknown = connection.execute("FROM funnel('names', level := 'action') WHERE position IS NULL").fetchall()
        topics = connection.execute(
            "SELECT topic_id, visit FROM scope_visits WHERE scope = 'topic' ORDER BY seq"
        ).fetchall()
    assert reached == {"main/only/ask_name": 1, "main/only/fill": 1, "begin/names/ask_name": 1}
    assert unknown == []
    assert topics == [("names", 1), ("names", 2)]
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
