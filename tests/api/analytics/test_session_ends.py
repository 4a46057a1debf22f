"""What ended a conversation: recorded, masked or not, and found out for records that do not say it."""

from pathlib import Path

import duckdb
import msgspec
import pytest

from api.analytics.charts.chart import chart_of
from store.analytics.file import Place
from tests.support import analytics_files, eventful_database
from tests.support.analytics_rules import problems
from tests.support.fixture_types import OpenApp

CONSENT = """\
script: consent
detectors:
  - {detector: danger, rules: [{words: [fire]}], do: [{end: an emergency, id: to_emergency}]}
interrupts: [{interrupt: enough, on: [leave me alone], then: end}]
phases:
  - phase: main
    topics:
      - topic: consent
        actions:
          - choose: agreed
            question: Do you agree?
            choices: [{"yes": "Yes"}, {"no": "No"}]
            id: ask_consent
            max_rounds: 1
            on_fail: end
          - if: agreed == "no"
            id: refused
            then: [{end: no consent, id: decline}]
          - {ask: How are you?, id: ask_mood}
"""
ENDS = {  # what is said, and what comes of it
    ("yes", "fine"): ("script", None, None),
    ("no",): ("end_action", "decline", "no consent"),
    ("yes", "there is a fire"): ("end_action", "to_emergency", "an emergency"),
    ("perhaps",): ("rounds", "ask_consent", "no valid answer to ask_consent"),
    ("yes", "leave me alone"): ("user", "ask_mood", "the user ended it"),
    ("yes",): ("application", None, f"of {eventful_database.WORD}"),
}


STUDY = """\
cuebook: 1
script: study
phases:
  - phase: main
    topics:
      - topic: consent
        milestone: consented
        actions:
          - {ask: Will you take part?, into: {var: agrees, type: boolean}, id: ask_consent, milestone: asked}
          - {end: {reason: no consent, outcome: refused}, when: not agrees, id: decline}
      - topic: diary
        actions: [{ask: How are you?, into: mood, expire: {after: 7 days, then: end}, milestone: diary}]
"""


@pytest.mark.gate
async def test_milestones_and_outcomes_reach_the_reports(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "data") as api:
        await api.publish_script(STUDY)
        for replies in (["yes", "fine"], ["yes"], ["no"]):
            await api.send_texts(await api.create_session("study"), *replies)
    place = Place(tmp_path / "a.duckdb")
    analytics_files.refresh_all(tmp_path / "data", place, is_masked=True)
    assert problems(place.path) == []
    with duckdb.connect(str(place.path), read_only=True) as connection:
        reached = "SELECT milestone, count(*) FROM milestones GROUP BY ALL ORDER BY ALL"
        assert connection.execute(reached).fetchall() == [("asked", 3), ("consented", 2), ("diary", 1)]
        placed = "SELECT DISTINCT phase_id, topic_id, action_id FROM milestones WHERE milestone = 'consented'"
        assert connection.execute(placed).fetchall() == [("main", "consent", None)]
        share = "SELECT reached FROM completion(milestone := 'consented')"
        assert connection.execute(share).fetchall() == [(2,)]
        found = connection.execute("SELECT outcome, sessions, share FROM outcomes()").fetchall()
        assert found == [("completed", 1, 0.5), ("refused", 1, 0.5)]


@pytest.fixture
async def ended(app: OpenApp, tmp_path: Path) -> dict[str, tuple[str, ...]]:
    """Return what was said in each session; the application ends the one that is left."""
    said = {}
    async with app(tmp_path / "data") as api:
        await api.publish_script(CONSENT)
        for replies in ENDS:
            session = await api.create_session("consent")
            await api.send_texts(session, *replies)
            said[session["sessionId"]] = replies
            if replies == ("yes",):
                path = f"/api/sessions/{session['sessionId']}/end"
                assert (await api.post(path, json={"reason": f"of {eventful_database.WORD}"})).is_success
    return said


def sessions(data: Path, place: Place, *, is_masked: bool) -> dict[str, tuple[str | None, ...]]:
    analytics_files.refresh_all(data, place, is_masked=is_masked)
    assert problems(place.path) == []
    with duckdb.connect(str(place.path), read_only=True) as connection:
        found = connection.execute("SELECT session_id::VARCHAR, ended_by, end_action_id, end_reason FROM sessions")
        return {session: tuple(ends) for session, *ends in found.fetchall()}


@pytest.mark.gate
@pytest.mark.parametrize("is_masked", [False, True])
async def test_a_session_says_what_ended_it(ended: dict[str, tuple[str, ...]], tmp_path: Path, is_masked: bool) -> None:
    place = Place(tmp_path / "a.duckdb")
    found = sessions(tmp_path / "data", place, is_masked=is_masked)
    for session, said in ended.items():
        by, action, reason = ENDS[said]
        assert found[session] == (by, action, None if is_masked and by == "application" else reason)
    with duckdb.connect(str(place.path), read_only=True) as connection:
        counted = "completed, finished, ended_by_action, ended_by_user, ended_by_application, ended_by_rounds, reached"
        assert connection.execute(f"SELECT {counted} FROM completion()").fetchall() == [(6, 1, 2, 1, 1, 1, 1)]
        reached = connection.execute("SELECT reached FROM completion(milestone := 'ask_mood')").fetchall()
        assert reached == [(4,)]


@pytest.mark.slow
@pytest.mark.database_file
async def test_older_records_tell_what_ended_a_session(ended: dict[str, tuple[str, ...]], tmp_path: Path) -> None:
    now = sessions(tmp_path / "data", Place(tmp_path / "now.duckdb"), is_masked=True)
    with duckdb.connect(str(tmp_path / "data" / "cuebook.duckdb")) as store:
        rows = store.execute("SELECT session_id, turn, events::VARCHAR FROM turns").fetchall()
        for session_id, turn, events in rows:
            older = msgspec.json.decode(events)
            for event in older:
                if event["kind"] == "ended":
                    event["data"] = {"reason": event["data"]["reason"]}
            store.execute(
                "UPDATE turns SET events = ?::JSON WHERE session_id = ? AND turn = ?",
                [msgspec.json.encode(older).decode(), session_id, turn],
            )
    before = sessions(tmp_path / "data", Place(tmp_path / "before.duckdb"), is_masked=True)
    by_user = next(session for session, said in ended.items() if ENDS[said][0] == "user")
    assert before.pop(by_user) == ("user", None, "the user ended it")  # at which action it does not say
    now.pop(by_user)
    assert before == now
    with duckdb.connect(str(tmp_path / "before.duckdb"), read_only=True) as connection:
        found = connection.execute("SELECT ended_by FROM sessions WHERE outcome = 'completed'").fetchall()
        assert found == [("script",)]


@pytest.mark.gate
async def test_what_follows_the_end_of_a_session_does_not_move_it(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "data") as api:
        await api.publish_script(STUDY)
        session = await api.create_session("study")
        path = f"/api/sessions/{session['sessionId']}"
        ending = await api.send_texts(session, "no")
        assert ending["executionStatus"] == "completed"
        assert (await api.post(f"{path}/clear")).json()["turn"] == ending["turn"] + 1
        again = await api.create_session("study")
        path = f"/api/sessions/{again['sessionId']}"
        await api.send_texts(again, "no")
        assert (await api.post(f"{path}/rewind", json={"turn": 0})).is_success
        await api.send_texts(again, "no")
    place = Place(tmp_path / "a.duckdb")
    analytics_files.refresh_all(tmp_path / "data", place, is_masked=True)
    query = """SELECT t.turn, s.turn FROM sessions AS s JOIN turns AS t
        ON t.session_id = s.session_id AND t.finished_at = s.completed_at ORDER BY s.created_at"""
    with duckdb.connect(str(place.path), read_only=True) as connection:
        assert connection.execute(query).fetchall() == [(1, 2), (3, 3)]
    assert problems(place.path) == []


@pytest.mark.gate
async def test_a_session_that_expires_is_counted(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "data") as api:
        await api.publish_script(STUDY)
        session = await api.create_session("study")
        await api.send_texts(session, "yes")
        await api.create_session("study")
        (timer,) = (await api.get("/api/timers")).json()["data"]
        fired = {"timerId": timer["timerId"]}
        assert (await api.post(f"/api/sessions/{session['sessionId']}/timers/fire", json=fired)).is_success
    place = Place(tmp_path / "a.duckdb")
    found = sessions(tmp_path / "data", place, is_masked=True)
    assert found[session["sessionId"]] == ("expired", "ask_mood", "no answer to ask_mood in time")
    with duckdb.connect(str(place.path), read_only=True) as connection:
        counted = connection.execute(
            "SELECT started, completed, ended_by_expiry, going_on FROM completion()"
        ).fetchall()
        assert counted == [(2, 1, 1, 1)]
        chart = chart_of("completion")
        assert chart
        parts = " + ".join(chart.values)
        assert connection.execute(f"SELECT {parts} FROM completion()").fetchall() == [(2,)]
        steps = connection.execute("SELECT next_step FROM next_steps('study') ORDER BY ALL").fetchall()
        assert steps == [("ended by expiry",), ("main/diary",), ("stands",)]
