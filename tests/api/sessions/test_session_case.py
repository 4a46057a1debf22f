"""A recorded session becomes a test case that repeats it: with choices, forms, time, models and tools."""

from pathlib import Path
from typing import Any

import pytest

from runtime.models.recorded_models import ScriptedModel
from tests.api.sessions.test_languages import SCRIPT, TABLE
from tests.api.sessions.test_timers import Calendar, turn_of
from tests.support.api_client import ApiClient, Json
from tests.support.fixture_types import OpenApp

TALK = """
cuebook: 1
script: talk
timezone: Europe/Berlin
use: [globals.yaml]
tools:
  - tool: look_up
    params: {word: {type: string}}
    example: {meaning: a fruit}
forms:
  - {form: about, fields: [{field: city}, {field: age, type: number}]}
actions:
  - {say: "Welcome back, {{ pal }}.", when: pal}
  - {ask: Your name?, into: name}
  - {choose: Tea or coffee?, choices: [tea, coffee], into: drink}
  - {form: about}
  - {tool: look_up, with: {word: pear}, into: found}
  - {say: "{{ found.meaning }}, {{ name }}: {{ drink }} in {{ city }}"}
  - {chat: Talk about fruit., id: fruit, rounds: 2}
  - {wait: 3 days}
  - {say: "Here we are again: 100% * [x]?"}
  - {ask: Done?, into: done}
"""
GLOBALS = {"globals.yaml": "globals: [{var: pal}]\n"}
REPLIES = {"fruit": ["Do you like pears?", "So do I.", "Until then."]}


@pytest.fixture
def calendar() -> Calendar:
    return Calendar()


async def case_of(api: ApiClient, session: Json, status: int = 200) -> Any:
    answer = await api.get(f"/api/sessions/{session['sessionId']}/case")
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_case_of_a_session_passes_and_says_the_same(app: OpenApp, tmp_path: Path, calendar: Calendar) -> None:
    async with app(tmp_path, ScriptedModel(REPLIES), clock=calendar) as api:
        await api.publish_script(TALK, strict=False, files=GLOBALS)
        await api.patch("/api/users/ana/variables", json={"variables": {"pal": "Ana"}})
        session = await api.create_session("talk", userId="ana")
        await api.send_texts(session, "Ana")
        await api.send_message(session, {"choice": "tea"})
        await api.send_message(session, {"form": {"city": "Berlin", "age": 7}})
        await api.send_texts(session, "Yes, a lot.", "Indeed.")
        calendar.passed = calendar.passed.__class__(days=3, seconds=5)
        await api.create_session("talk", userId="ben")  # the change of a timer wakes the scheduler
        await turn_of(api, session, 6)
        await api.send_texts(session, "yes")
        case = await case_of(api, session)
        files = GLOBALS | {case["fileName"]: case["yamlContent"]}
        report = (await api.post("/api/scripts/test", json={"yamlContent": TALK, "files": files})).json()
    assert report["diagnostics"] == []
    assert [result["failures"] for result in report["results"]] == [[]]
    assert "Do you like pears?" in case["yamlContent"]
    assert report["results"][0]["turns"] == 8


async def test_timer_that_was_fired_by_hand_is_no_case(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        await api.publish_script(
            "cuebook: 1\nscript: nap\nactions:\n  - {wait: 3 days}\n  - say: Hello.\n", strict=False
        )
        session = await api.create_session("nap")
        (timer,) = (await api.read("/api/timers"))["data"]
        path = f"/api/sessions/{session['sessionId']}/timers/fire"
        assert (await api.post(path, json={"timerId": timer["timerId"]})).status_code == 200
        refused = await case_of(api, session, 400)
        assert "in turn 1 a timer was fired by hand" in refused["error"]["message"]


async def test_session_that_was_changed_is_no_case(api: ApiClient) -> None:
    session = await api.create_session("visit")
    await api.post(f"/api/sessions/{session['sessionId']}/pause")
    refused = await case_of(api, session, 400)
    assert "in turn 1 the application changed the session" in refused["error"]["message"]


async def report_of(api: ApiClient, script: str, session: Json, files: dict[str, str]) -> Json:
    """Run the case of a session with its script."""
    case = await case_of(api, session)
    files = files | {case["fileName"]: case["yamlContent"]}
    return (await api.post("/api/scripts/test", json={"yamlContent": script, "files": files})).json()


async def test_case_is_in_the_language_of_the_session(api: ApiClient) -> None:
    script = SCRIPT.replace("locale: en", "locale: fr").replace("How many cups?", "Combien de tasses ?")
    files = {"tea.de.yaml": TABLE.replace("strings: de", "strings: en")}
    await api.publish_script(script, files=files)
    session = await api.create_session("tea", locale="en")
    assert session["aiMessage"] == "Wie viele Tassen?"
    assert [each["failures"] for each in (await report_of(api, script, session, files))["results"]] == [[]]


@pytest.mark.parametrize("own", ["", "timezone: Europe/Berlin\n"])
async def test_case_is_in_the_time_zone_of_the_session(app: OpenApp, tmp_path: Path, own: str) -> None:
    script = f'cuebook: 1\nscript: clock\n{own}actions:\n  - {{say: "{{{{ now }}}}"}}\n  - {{ask: Well?, into: well}}\n'
    async with app(tmp_path, timezone="Pacific/Kiritimati") as api:
        await api.publish_script(script, strict=False)
        session = await api.create_session("clock")
        assert ("+14:00" in session["aiMessage"]) == (not own)
        assert [each["failures"] for each in (await report_of(api, script, session, {}))["results"]] == [[]]
