"""A person takes a session over, talks to the user, and gives it back: over the API, durable, and once."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from api.catalog.catalog import Catalog
from api.replay.recorded_session import ReplaySource, find_session
from api.replay.replay_session import replay
from api.schemas.ids import TENANT
from runtime.state.limits import Limits
from store.open_store import open_store
from tests.support.api_client import ApiClient, Json
from tests.support.fixture_types import OpenApp

HELP = """
cuebook: 1
script: help
repairs: [hand_over]
actions:
  - {ask: What is wrong?, into: problem}
  - {emit: hand_over, id: call}
  - {ask: How bad is it?, into: {var: pain, type: number, min: 0, max: 10}}
  - {say: "Noted: {{ pain }}."}
"""


@pytest.fixture
async def helping(app: OpenApp, tmp_path: Path) -> AsyncIterator[ApiClient]:
    """Open the application with a script that asks for a person."""
    async with app(tmp_path) as api:
        await api.publish_script(HELP, strict=False)
        yield api


async def change(api: ApiClient, session: Json, what: str, body: Json | None = None, status: int = 200) -> Json:
    answer = await api.post(f"/api/sessions/{session['sessionId']}/{what}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


async def begun(api: ApiClient, user: str = "ana") -> Json:
    """Begin a session in which the script asks for a person."""
    session = await api.create_session("help", userId=user)
    await api.send_texts(session, "My knee hurts.")
    return session


async def test_who_waits_for_a_person_is_listed(helping: ApiClient) -> None:
    session = await begun(helping)
    (row,) = (await helping.read("/api/hand-overs"))["data"]
    assert row["sessionId"] == session["sessionId"]
    assert (row["userId"], row["scriptId"], row["status"], row["actionId"]) == ("ana", "help", "requested", "call")
    view = await helping.read(f"/api/sessions/{session['sessionId']}")
    assert view["handOver"] == {"status": "requested", "since": row["since"], "actionId": "call", "operator": ""}
    assert "handOver" not in await helping.create_session("help")


async def test_a_person_talks_and_the_script_continues_afterwards(helping: ApiClient) -> None:
    session = await begun(helping)
    taken = await change(helping, session, "take-over")
    assert (taken["handOver"]["status"], taken["handOver"]["operator"]) == ("taken", "anonymous")
    spoken = await change(helping, session, "speak", {"content": "Hello, this is Kim."})
    assert [(each["role"], each["content"]) for each in spoken["messages"]] == [("assistant", "Hello, this is Kim.")]
    answer = await helping.send_texts(session, "Seven, I think.")
    assert (answer["messages"], answer["wait"]) == ([], {"kind": "text"})
    given = await change(helping, session, "give-back")
    assert [each["content"] for each in given["messages"]] == ["How bad is it?"]
    assert "handOver" not in given
    assert (await helping.read("/api/hand-overs"))["data"] == []
    answer = await helping.send_texts(session, "7")
    assert [each["content"] for each in answer["messages"]] == ["Noted: 7."]


async def test_taking_over_and_giving_back_twice_changes_nothing(helping: ApiClient) -> None:
    session = await begun(helping)
    first = await change(helping, session, "take-over")
    assert (await change(helping, session, "take-over"))["turn"] == first["turn"]
    back = await change(helping, session, "give-back")
    assert (await change(helping, session, "give-back"))["turn"] == back["turn"]


async def test_what_is_out_of_order_is_refused(helping: ApiClient) -> None:
    session = await begun(helping)
    refused = await change(helping, session, "speak", {"content": "Hello."}, status=409)
    assert refused["error"]["code"] == "INTERVENTION_REFUSED"
    assert "take it over first" in refused["error"]["message"]
    empty = await change(helping, session, "speak", {"content": ""}, status=400)
    assert empty["error"]["code"] == "REQUEST_INVALID"
    await change(helping, session, "end")
    refused = await change(helping, session, "take-over", status=409)
    assert refused["error"]["code"] == "SESSION_ENDED"


async def test_request_for_a_person_survives_the_end_of_the_session(helping: ApiClient) -> None:
    session = await begun(helping)
    await helping.send_texts(session, "7")
    (row,) = (await helping.read("/api/hand-overs", status="requested"))["data"]
    assert row["hasEnded"] is True
    await change(helping, session, "give-back")
    assert (await helping.read("/api/hand-overs"))["data"] == []


async def test_people_are_known_by_their_keys(helping: ApiClient) -> None:
    kim, lee, browser = [
        {"Authorization": await helping.create_key("app", name=name, user=user)}
        for name, user in (("Kim", None), ("Lee", None), ("browser", "ana"))
    ]
    session = (await helping.post("/api/sessions", json={"userId": "ana", "scriptId": "help"}, headers=kim)).json()
    path = f"/api/sessions/{session['sessionId']}"
    assert (await helping.post(f"{path}/take-over", headers=kim)).json()["handOver"]["operator"] == "Kim"
    refused = await helping.post(f"{path}/take-over", headers=lee)
    assert refused.status_code == 409
    assert "Kim has taken the session over" in refused.json()["error"]["message"]
    refused = await helping.post(f"{path}/speak", json={"content": "Hi."}, headers=lee)
    assert refused.status_code == 409
    assert (await helping.post(f"{path}/give-back", headers=browser)).status_code == 403


async def test_what_a_person_says_reaches_who_follows_the_session(helping: ApiClient) -> None:
    session = await begun(helping)
    await change(helping, session, "take-over")
    path = f"/api/sessions/{session['sessionId']}/events"
    seen = len((await helping.read(path, limit=100))["data"])
    await change(helping, session, "speak", {"content": "Hello."})
    events = (await helping.read(path, after=seen, limit=100))["data"]
    assert [each["kind"] for each in events] == ["intervention", "message"]
    assert events[0]["data"] == {"what": "speak", "first": 4, "last": 4, "operator": "anonymous"}
    assert events[1]["data"]["metadata"] == {"operator": "anonymous"}


async def test_session_joined_by_a_person_is_replayed_with_one_result(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "data") as api:
        await api.publish_script(HELP, strict=False)
        session = await begun(api)
        for what, body in (("take-over", None), ("speak", {"content": "Hello."}), ("give-back", None)):
            await change(api, session, what, body)
        await api.send_texts(session, "7")
    store = open_store(tmp_path / "data", read_only=True)
    try:
        source = ReplaySource(store, Catalog(store, lambda: datetime.now(UTC)), Limits())
        recorded = await find_session(source, TENANT, session["sessionId"])
        assert [turn.outcome async for turn in replay(recorded)] == ["same"] * 6
    finally:
        await store.close()
