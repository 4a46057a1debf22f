"""Sessions migrate to another version of their script over the API: planned, done, undone."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp

VISIT = """\
script: talk
phases:
  - phase: main
    topics:
      - topic: who
        actions:
          - {say: Welcome., id: welcome}
          - {ask: Your name?, id: ask_name, output: [{get: name}]}
          - {ask: Your age?, id: ask_age, output: [{get: age, type: number}]}
      - topic: more
        actions:
          - {ask: Anything else?, id: ask_more}
"""
RENAMED = VISIT.replace("ask_age", "how_old") + "migrations: {actions: {main/who/ask_age: main/who/how_old}}\n"
RESTARTS = VISIT.replace("ask_age", "how_old")
BLOCKS = VISIT.replace("topic: who", "topic: person")


async def begun(api: ApiClient, *replies: str, **fields: Any) -> Any:
    """Return a session of the first version at its second question."""
    await api.publish_script(VISIT)
    session = await api.create_session("talk", **fields)
    for reply in replies or ("Ana",):
        await api.send_texts(session, reply)
    return session


async def move(api: ApiClient, session: Any, status: int = 200, undo: bool = False, **wanted: Any) -> Any:
    path = f"/api/sessions/{session['sessionId']}/migrate"
    answer = await api.post(path + "/undo" * undo, json=wanted)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_a_dry_run_tells_and_changes_nothing(api: ApiClient) -> None:
    session = await begun(api)
    before = await api.read(f"/api/sessions/{session['sessionId']}")
    for text, verdict in ((VISIT, "current"), (RENAMED, "mapped"), (RESTARTS, "restart_topic"), (BLOCKS, "blocked")):
        report = await move(api, session, dryRun=True, yamlContent=text)
        assert (report["verdict"], report["moved"], report["turn"]) == (verdict, False, 1)
    await api.publish_script(RENAMED)
    report = await move(api, session, dryRun=True)
    assert (report["verdict"], report["fromVersion"], report["version"]) == ("mapped", 1, 2)
    assert (report["status"], report["executionStatus"]) == ("active", "waiting_input")
    assert (report["place"], report["newPlace"]) == ("main/who/ask_age", "main/who/how_old")
    assert await api.read(f"/api/sessions/{session['sessionId']}") == before


async def test_a_move_is_a_turn_and_a_second_one_does_nothing(api: ApiClient) -> None:
    session = await begun(api)
    await api.publish_script(RENAMED)
    moved = await move(api, session)
    assert (moved["moved"], moved["verdict"], moved["turn"]) == (True, "mapped", 2)
    assert moved["position"]["actionId"] == "how_old"
    again = await move(api, session)
    assert (again["moved"], again["verdict"], again["turn"]) == (False, "current", 2)
    for turn, position in (
        (1, {"actionId": "ask_age", "actionIndex": 2}),
        (2, {"actionId": "how_old", "actionIndex": 2}),
    ):
        snapshot = await api.read(f"/api/sessions/{session['sessionId']}/snapshots/{turn}")
        assert snapshot["position"].items() >= position.items()
    assert (await api.send_texts(session, "34"))["position"]["actionId"] == "ask_more"


async def test_a_topic_that_begins_again_is_recorded(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        session = await begun(api)
        await api.publish_script(RESTARTS)
        moved = await move(api, session)
        assert [message["content"] for message in moved["messages"]] == ["Welcome.", "Your name?"]
        assert moved["wait"] == {"kind": "text"}
        await api.send_texts(session, "Ben")
    async with app(tmp_path) as api:  # as the database has it
        found = await api.read(f"/api/sessions/{session['sessionId']}")
        assert (found["position"]["actionId"], found["turn"]) == ("how_old", 3)
        assert [said for _, said in await api.transcript(session)][-4:] == [
            "Welcome.",
            "Your name?",
            "Ben",
            "Your age?",
        ]
        assert (await move(api, session, dryRun=True))["fromVersion"] == 2


async def test_a_blocked_session_stays_and_the_reason_is_reported(api: ApiClient) -> None:
    session = await begun(api)
    await api.publish_script(BLOCKS)
    report = await move(api, session)
    assert (report["verdict"], report["moved"]) == ("blocked", False)
    assert "main/who is gone" in report["why"][0]
    assert (await api.send_texts(session, "34"))["position"]["actionId"] == "ask_more"


@pytest.mark.gate
@pytest.mark.parametrize("text", [RENAMED, RESTARTS], ids=["mapped", "restarted"])
async def test_the_way_back_leads_to_the_same_question(app: OpenApp, tmp_path: Path, text: str) -> None:
    async with app(tmp_path) as api:
        session = await begun(api)
        before = await api.read(f"/api/sessions/{session['sessionId']}")
        await api.publish_script(text)
        await move(api, session)
        back = await move(api, session, undo=True)
        assert (back["moved"], back["fromVersion"], back["version"], back["turn"]) == (True, 2, 1, 3)
    async with app(tmp_path) as api:
        after = await api.read(f"/api/sessions/{session['sessionId']}")
        for name in ("position", "variables", "variableStore", "wait", "status", "executionStatus"):
            assert after[name] == before[name]
        refused = await move(api, session, 409, undo=True)
        assert refused["error"]["code"] == "MIGRATION_BLOCKED"
        await move(api, session)
        await api.send_texts(session, "34")
        refused = await move(api, session, 409, undo=True)
        assert "later turns followed it" in refused["error"]["message"]


async def test_an_answer_given_before_a_move_is_repeated_as_it_was(api: ApiClient) -> None:
    session = await begun(api, "Ana")
    first = await api.send_message(session, {"content": "x"}, {"Idempotency-Key": "k"})
    await api.publish_script(RENAMED)
    await move(api, session)
    again = await api.send_message(session, {"content": "x"}, {"Idempotency-Key": "k"})
    assert again.json() == first.json()
    assert again.json()["position"]["actionId"] == "ask_age"


async def test_failed_session_starts_in_the_fixed_version(api: ApiClient) -> None:
    broken = VISIT.replace("{say: Welcome., id: welcome}", "{set: {n: 1 / 0}, id: welcome}")
    await api.publish_script(broken)
    headers = {"Idempotency-Key": "begin"}
    body = {"userId": "ana", "scriptId": "talk", "key": "k", "initialVariables": {"name": "Ana"}}
    failed = await api.post("/api/sessions", json=body, headers=headers)
    assert failed.status_code == 500
    session = (await api.read("/api/sessions"))["data"][0]
    await api.publish_script(VISIT)
    assert (await move(api, session))["verdict"] == "safe"
    begun = await api.post("/api/sessions", json=body, headers=headers)
    assert begun.status_code == 200, begun.text
    assert begun.json()["messages"][0]["content"] == "Welcome."
    assert (await api.post("/api/sessions", json=body, headers=headers)).json() == begun.json()


async def test_topic_that_cannot_begin_again_does_not_move_the_session(api: ApiClient) -> None:
    session = await begun(api)
    await api.publish_script(RESTARTS.replace("{say: Welcome., id: welcome}", "{set: {n: 1 / 0}, id: welcome}"))
    refused = await move(api, session, 500)
    assert refused["error"]["code"] == "ACTION_EXECUTION_ERROR"
    assert (await api.send_texts(session, "34"))["position"]["actionId"] == "ask_more"


async def test_wrong_requests_are_refused(api: ApiClient) -> None:
    session = await begun(api)
    for wanted, status, code in (
        ({"version": 9}, 404, "SCRIPT_NOT_FOUND"),
        ({"scriptId": "nobody"}, 404, "SCRIPT_NOT_FOUND"),
        ({"yamlContent": VISIT}, 400, "REQUEST_INVALID"),
        ({"yamlContent": "script: x\n", "dryRun": True}, 422, "SCRIPT_VALIDATION_ERROR"),
        ({"to": 2}, 400, "REQUEST_INVALID"),
    ):
        assert (await move(api, session, status, **wanted))["error"]["code"] == code
    assert (await move(api, {"sessionId": "none"}, 404))["error"]["code"] == "SESSION_NOT_FOUND"
    blocked = (await move(api, session, 409, undo=True))["error"]
    assert blocked["code"] == "MIGRATION_BLOCKED"
    assert blocked["message"] == "the session has no migration to undo"
    assert "migrations:" not in blocked["recovery"]["suggestion"]


async def test_renamed_global_variable_has_its_value_under_both_names(api: ApiClient) -> None:
    actions = "[{set: {visits: visits + 1}, id: a}, {ask: Hm?, id: b}]"
    old = f"script: g\nuse: [globals.yaml]\nphases: [{{phase: p, topics: [{{topic: t, actions: {actions}}}]}}]\n"
    new = old.replace("visits", "times") + "migrations: {variables: {visits: times}}\n"
    sides = "globals: [{var: visits, type: number, value: 0}]\n"
    await api.publish_script(old, files={"globals.yaml": sides})
    session = await api.create_session("g")
    await api.publish_script(new, files={"globals.yaml": sides.replace("visits", "times")})
    await move(api, session)
    found = await api.read(f"/api/sessions/{session['sessionId']}")
    assert found["globalVariables"]["times"] == 1
    second = await api.create_session("g")
    assert second["globalVariables"]["times"] == 2
