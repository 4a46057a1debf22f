"""Forks: a session copied up to a turn, which goes on by itself; the one it was copied from stays as it is."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp

CHANCE = """
script: chance
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - repeat: {max: 30}
            id: loop
            do:
              - say: [one, two, three, four, five, six, seven, eight]
                id: drawn
              - {ask: Next?, id: next, output: [{get: word}]}
"""


async def fork(
    api: ApiClient, session: Any, status: int = 201, headers: dict[str, str] | None = None, **place: Any
) -> Any:
    path = f"/api/sessions/{session['sessionId']}/fork"
    answer = await api.post(path, json=place, headers=headers)
    assert answer.status_code == status, answer.text
    if status == 201:
        assert answer.headers["location"] == f"/api/sessions/{answer.json()['sessionId']}"
    return answer.json()


async def seen(api: ApiClient, session: Any) -> Any:
    """Return a session without what names it and when it was."""
    found = await api.read(f"/api/sessions/{session['sessionId']}")
    retained = {
        name: found[name] for name in ("position", "variables", "wait", "status", "turn", "aiMessage", "userId")
    }
    return retained | {"said": await api.transcript(session)}


async def test_a_fork_goes_on_as_the_session_did_and_leaves_it_alone(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        await api.publish_script(CHANCE)
        session = await api.create_session("chance", metadata={"team": "north", "draft": True})
        for word in ("a", "b", "c", "d"):
            await api.send_texts(session, word)
        whole = await seen(api, session)
        copy = await fork(api, session, turn=2, metadata={"draft": None, "why": "try"})
        assert copy["turn"] == 2
        assert copy["metadata"]["forkedFrom"] == {"sessionId": session["sessionId"], "turn": 2}
        assert {name: copy["metadata"].get(name) for name in ("team", "draft", "why")} == {
            "team": "north",
            "draft": None,
            "why": "try",
        }
        await api.send_texts(copy, "c", "d")
        assert await seen(api, copy) == whole
        await api.send_texts(copy, "other")
        assert await seen(api, session) == whole
    async with app(tmp_path) as api:
        assert await seen(api, session) == whole
        again = await fork(api, copy, turn=4)  # a fork of a fork
        assert await seen(api, again) == whole
        assert (await fork(api, session))["turn"] == 4


async def test_a_fork_before_a_message_of_the_users(api: ApiClient) -> None:
    await api.publish_script(CHANCE)
    session = await api.create_session("chance")
    await api.send_texts(session, "a", "b")
    said = await api.transcript(session)
    for place, length in ((0, 2), (1, 5), (2, 8)):
        copy = await fork(api, session, beforeUserMessage=place)
        assert await api.transcript(copy) == said[:length]
    for wrong in (-1, 3, 2**31):
        refused = await fork(api, session, 400, beforeUserMessage=wrong)
        assert refused["error"]["code"] == "REQUEST_INVALID"
    assert (await fork(api, session, 404, turn=3))["error"]["code"] == "TURN_NOT_FOUND"
    assert (await fork(api, {"sessionId": "none"}, 404))["error"]["code"] == "SESSION_NOT_FOUND"


async def test_messages_that_were_taken_out_do_not_count(api: ApiClient) -> None:
    await api.publish_script(CHANCE)
    session = await api.create_session("chance")
    await api.send_texts(session, "a", "b")
    path = f"/api/sessions/{session['sessionId']}"
    await api.post(f"{path}/rewind", json={"turn": 1})
    await api.send_texts(session, "c")
    copy = await fork(api, session, beforeUserMessage=1)
    assert [said for role, said in await api.transcript(copy) if role == "user"] == ["a"]
    assert copy["turn"] == 3
    await api.send_texts(copy, "c")
    assert await api.transcript(copy) == await api.transcript(session)


async def test_a_place_amid_messages_that_were_added_together_is_none(api: ApiClient) -> None:
    await api.publish_script(CHANCE)
    session = await api.create_session("chance")
    messages = [{"role": "user", "content": "x"}, {"role": "user", "content": "y"}]
    path = f"/api/sessions/{session['sessionId']}/messages/append"
    assert (await api.post(path, json={"messages": messages})).status_code == 200
    assert (await fork(api, session, beforeUserMessage=0))["turn"] == 0
    refused = await fork(api, session, 400, beforeUserMessage=1)
    assert "name a turn" in refused["error"]["message"]


async def test_a_session_is_copied_while_it_is_talked_to(api: ApiClient) -> None:
    await api.publish_script(CHANCE)
    session = await api.create_session("chance")

    async def talk() -> None:
        for number in range(15):
            await api.send_texts(session, str(number))

    talking = asyncio.create_task(talk())
    copies = []
    while not talking.done():
        copies.append(await fork(api, session))
    await talking
    said = await api.transcript(session)
    for copy in copies:
        assert await api.transcript(copy) == said[: 2 + 3 * copy["turn"]]


async def test_a_request_to_fork_makes_one_session(app: OpenApp, tmp_path: Path) -> None:
    headers = {"Idempotency-Key": "k"}
    async with app(tmp_path) as api:
        await api.publish_script(CHANCE)
        session = await api.create_session("chance")
        copies = await asyncio.gather(*(fork(api, session, headers=headers, key="copy") for _ in range(5)))
        assert len({copy["sessionId"] for copy in copies}) == 1
    async with app(tmp_path) as api:
        assert (await fork(api, session, headers=headers, key="copy"))["sessionId"] == copies[0]["sessionId"]
        other = await fork(api, session, 422, headers=headers, key="other")
        assert other["error"]["code"] == "IDEMPOTENCY_MISMATCH"
        assert len((await api.read("/api/sessions"))["data"]) == 2
        taken = await fork(api, session, 409, key="copy")
        assert taken["error"]["code"] == "SESSION_KEY_EXISTS"
        assert len((await api.read("/api/sessions"))["data"]) == 2


async def test_times_of_a_fork_are_not_before_its_creation(api: ApiClient) -> None:
    await api.publish_script("script: short\nphases: [{phase: p, topics: [{topic: t, actions: [{say: Hi, id: a}]}]}]")
    session = await api.create_session("short")
    made = await fork(api, session)
    read = await api.read(f"/api/sessions/{made['sessionId']}")
    listed = next(each for each in (await api.read("/api/sessions"))["data"] if each["sessionId"] == made["sessionId"])
    query = """SELECT (updated_at = created_at) AS updated, (completed_at = created_at) AS completed, seconds
        FROM sessions WHERE forked_from IS NOT NULL"""
    counted = (await api.post("/api/analytics/query", json={"sql": query})).json()
    assert made["createdAt"] == made["updatedAt"] == read["updatedAt"] == read["completedAt"] == listed["updatedAt"]
    assert counted["rows"] == [{"updated": True, "completed": True, "seconds": 0}]


async def test_a_repeated_request_to_fork_has_the_answer_of_the_first(api: ApiClient) -> None:
    headers = {"Idempotency-Key": "k"}
    await api.publish_script(CHANCE)
    session = await api.create_session("chance")
    await api.send_texts(session, "a")
    first = await fork(api, session, headers=headers)
    await api.send_texts(first, "b", "c")
    again = await fork(api, session, headers=headers)
    assert again == first
    assert (first["turn"], (await seen(api, first))["turn"]) == (1, 3)


@pytest.mark.parametrize("turn", [1, 2])
async def test_a_fork_runs_the_version_of_its_turn(api: ApiClient, turn: int) -> None:
    await api.publish_script(CHANCE)
    session = await api.create_session("chance")
    await api.send_texts(session, "a")
    await api.publish_script(CHANCE.replace("Next?", "And?"))
    moved = await api.post(f"/api/sessions/{session['sessionId']}/migrate", json={})
    assert moved.json()["turn"] == 2
    copy = await fork(api, session, turn=turn)
    assert (await api.send_texts(copy, "b"))["aiMessage"].endswith({1: "Next?", 2: "And?"}[turn])


async def test_where_a_fork_is_from_cannot_be_changed(api: ApiClient) -> None:
    await api.publish_script(CHANCE)
    copy = await fork(api, await api.create_session("chance"))
    answer = await api.patch(f"/api/sessions/{copy['sessionId']}", json={"metadata": {"forkedFrom": None}})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "REQUEST_INVALID")


async def test_a_session_that_is_no_fork_cannot_name_an_origin(api: ApiClient) -> None:
    copy = await fork(api, await api.create_session("chat"))
    new = {"userId": "ana", "scriptId": "chat", "metadata": copy["metadata"]}
    for path, more in (("/api/sessions", {}), ("/api/sessions/by-key", {"key": "telegram:1"})):
        answer = await api.post(path, json=new | more)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "REQUEST_INVALID")
        assert "`forkedFrom` is the origin of a fork" in answer.json()["error"]["message"]
