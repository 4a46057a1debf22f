"""The same request twice is one turn, whenever and however it comes again."""

import asyncio
from pathlib import Path

import pytest

from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp
from tests.support.held_model import HeldModel

ODD = """
script: odd
default_scope: session
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - ask: "Что? 什么? {{ small }} {{ whole }}"
            id: ask
            output: [{get: word, type: text}]
          - say: [a, b, c]
            id: variant
          - set:
              sum: small + whole
              third: 1 / 3
              half: 2.0
              nested: "{'b': [1, 2.5, none, true], 'a': {'ключ': word}}"
            id: compute
          - show: {image: "https://example.org/{{ word }}.png", caption: Look}
            id: show
          - choose: picked
            id: choose
            question: Which?
            choices: [{A: "{{ word }}"}, {B: other}]
"""
SLOW = """
script: slow
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - ask: Ready?
            id: ready
          - ai_say: Thinking about it.
            id: think
          - ask: Well?
            id: well
"""
ODD_VARIABLES = {"small": 1e-7, "whole": 2**53 - 1, "zero": 0.0, "text": '  \u2028"\\ 𝄞\n', "list": [{}, [], ""]}


def key(value: str) -> dict[str, str]:
    return {"Idempotency-Key": value}


async def test_a_message_sent_again_gets_the_very_same_answer(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, session_cache_max=1) as api:
        await api.publish_script(ODD)
        session = await api.create_session("odd", initialVariables=ODD_VARIABLES)
        message = {"content": "слово {{ small }} <b>"}
        first = await api.send_message(session, message, key("k"), events=True)
        assert first.status_code == 200, first.text
        again = [await api.send_message(session, message, key("k"), events=True) for _ in range(2)]
        await api.create_session("diary")  # which drives the session out of the cache
        again.append(await api.send_message(session, message, key("k"), events=True))
        await api.send_message(session, {"choice": "A"})  # and what came since does not matter
        again.append(await api.send_message(session, message, key("k"), events=True))
    async with app(tmp_path) as api:
        again.append(await api.send_message(session, message, key("k"), events=True))
        assert {each.content for each in again} == {first.content}
        assert {each.headers["etag"] for each in again} == {first.headers["etag"]}
        assert [role for role, _ in await api.transcript(session)].count("user") == 2


async def test_a_session_created_again_is_the_same_one(app: OpenApp, tmp_path: Path) -> None:
    body = {"userId": "ana", "scriptId": "odd", "initialVariables": ODD_VARIABLES, "metadata": {"a": 1.5}}
    async with app(tmp_path, session_cache_max=1) as api:
        await api.publish_script(ODD)
        first = await api.post("/api/sessions", json=body, headers=key("k"))
        await api.create_session("diary")
        reordered = dict(reversed(body.items()))
        again = [await api.post("/api/sessions", json=reordered, headers=key("k"))]
        await api.send_texts(first.json(), "on")
        again.append(await api.post("/api/sessions", json=body, headers=key("k")))
    async with app(tmp_path) as api:
        again.append(await api.post("/api/sessions", json=body, headers=key("k")))
        assert {each.content for each in again} == {first.content}
        assert len(await api.read("/api/users/ana/sessions")) == 2


async def test_a_key_with_another_body_is_refused(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        session = (await api.post("/api/sessions", json={"userId": "a", "scriptId": "diary"}, headers=key("c"))).json()
        assert (await api.send_message(session, {"content": "one"}, key("k"))).status_code == 200
    async with app(tmp_path) as api:
        refused = [
            await api.send_message(session, {"content": "two"}, key("k")),
            await api.send_message(session, {"choice": "one"}, key("k")),
            await api.send_message(session, {"content": "one"}, key("c")),  # the key of its own creation
            await api.post("/api/sessions", json={"userId": "b", "scriptId": "diary"}, headers=key("c")),
        ]
        for answer in refused:
            assert answer.status_code == 422
            assert answer.json()["error"]["code"] == "IDEMPOTENCY_MISMATCH"
        other = await api.create_session("diary")
        assert (await api.send_message(other, {"content": "two"}, key("k"))).status_code == 200
        assert (await api.send_texts(session, "three"))["turn"] == 2


async def test_recorded_answer_precedes_the_conditions_of_a_new_turn(api: ApiClient) -> None:
    session = await api.create_session("diary")
    headers = key("k") | {"If-Match": '"0"'}
    first = await api.send_message(session, {"content": "stop"}, headers)
    again = await api.send_message(session, {"content": "stop"}, headers)
    assert (again.status_code, again.content) == (200, first.content)


@pytest.mark.parametrize("prefer", ["busy=reject", "busy=queue"])
async def test_a_key_in_flight_is_a_conflict(app: OpenApp, tmp_path: Path, prefer: str) -> None:
    model = HeldModel()
    async with app(tmp_path, model) as api:
        await api.publish_script(SLOW)
        session = await api.create_session("slow")
        first = asyncio.create_task(api.send_message(session, {"content": "yes"}, key("k")))
        await model.asked.wait()
        second = await api.send_message(session, {"content": "yes"}, key("k") | {"Prefer": prefer})
        assert second.status_code == 409
        assert second.json()["error"]["code"] == "IDEMPOTENCY_IN_FLIGHT"
        assert int(second.headers["retry-after"]) >= 1
        assert second.json()["error"]["recovery"]["canRetry"] is True
        model.go.set()
        answer = await first
        again = await api.send_message(session, {"content": "yes"}, key("k"))
        assert (answer.status_code, again.content) == (200, answer.content)


async def test_ten_creations_at_once_with_one_key_make_one_session(api: ApiClient) -> None:
    body = {"userId": "ana", "scriptId": "diary"}
    answers = await asyncio.gather(*(api.post("/api/sessions", json=body, headers=key("k")) for _ in range(10)))
    assert {answer.status_code for answer in answers} <= {200, 409}
    assert len({answer.json()["sessionId"] for answer in answers if answer.status_code == 200}) == 1
    assert len(await api.read("/api/users/ana/sessions")) == 1


@pytest.mark.gate
async def test_keys_older_than_those_in_memory_are_looked_up(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        session = await api.create_session("diary")
        first = await api.send_message(session, {"content": "first"}, key("first"))
        for number in range(210):
            await api.send_message(session, {"content": "x"}, key(str(number)))
        again = await api.send_message(session, {"content": "first"}, key("first"))
        assert again.content == first.content
        assert (await api.send_texts(session, "last"))["turn"] == 212


@pytest.mark.gate
@pytest.mark.database_file
async def test_repeated_request_is_answered_once_its_turn_is_on_disk(
    app: OpenApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    async with app(tmp_path) as api:
        session = await api.create_session("visit")
        headers = {"Idempotency-Key": "k"}
        with monkeypatch.context() as patched:
            patched.setattr("store.duckdb.database.Database.sync_log", fail)
            for _ in range(3):  # the first attempt committed the turn, and its sync failed
                answer = await api.send_message(session, {"content": "Ana"}, headers)
                assert (answer.status_code, answer.json()["error"]["code"]) == (503, "DATABASE_UNAVAILABLE")
        answer = await api.send_message(session, {"content": "Ana"}, headers)
        assert (answer.status_code, answer.json()["turn"]) == (200, 1)
        assert (await api.read(f"/api/sessions/{session['sessionId']}"))["turn"] == 1


async def test_a_key_file_that_cannot_be_written_is_tried_again(app: OpenApp, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    async with app(tmp_path / "data", key_folder=keys) as api:
        body = {"userId": "ana", "scriptId": "diary"}
        refused = await api.post("/api/sessions", json=body, headers=key("k"))
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "DATABASE_UNAVAILABLE")
        assert refused.headers["retry-after"] == "5"
        assert refused.json()["error"]["message"].startswith("the key file pseudonyms.key cannot be written: ")
        links = await api.post("/api/participants/tokens", json=body)
        assert links.status_code == 503, links.text
        keys.mkdir()
        assert (await api.post("/api/sessions", json=body, headers=key("k"))).status_code == 200
        assert (await api.post("/api/participants/tokens", json=body)).status_code == 201
