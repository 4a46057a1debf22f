"""Only what users say to the script is a reply to its question."""

from pathlib import Path

import duckdb
import pytest

from store.analytics.file import Place
from tests.support import analytics_files
from tests.support.analytics_rules import problems
from tests.support.fixture_types import OpenApp

SCRIPT = """\
cuebook: 1
script: greeting
actions:
  - {ask: Your name?, id: ask_name, into: name}
  - {ask: Your city?, id: ask_city, into: city}
"""
APPENDED = {"messages": [{"role": "user", "content": "by phone: Ana"}]}
WAITS = "SELECT action_id, turn, answered_turn, outcome FROM waits ORDER BY turn"


@pytest.mark.gate
async def test_appended_messages_and_those_to_a_person_are_no_replies(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "data") as api:
        await api.publish_script(SCRIPT)
        session = await api.create_session("greeting")
        path = f"/api/sessions/{session['sessionId']}"
        assert (await api.post(f"{path}/messages/append", json=APPENDED)).is_success
        await api.send_texts(session, "Ana")
        for step in ("take-over", "messages", "give-back"):
            answer = await api.post(f"{path}/{step}", json={"content": "Rome"} if step == "messages" else None)
            assert answer.is_success, answer.text
        await api.send_texts(session, "Bern")
    place = Place(tmp_path / "a.duckdb")
    analytics_files.refresh_all(tmp_path / "data", place, is_masked=True)
    with duckdb.connect(str(place.path), read_only=True) as connection:
        assert connection.execute(WAITS).fetchall() == [
            ("ask_name", 0, 2, "answered"),
            ("ask_city", 2, None, "ended"),
            ("ask_city", 5, 6, "answered"),
        ]
        rounds = connection.execute("SELECT action_id, rounds FROM action_visits ORDER BY seq").fetchall()
    assert rounds == [("ask_name", 1), ("ask_city", 1)]
    assert problems(place.path) == []
