"""Sessions are imported as they were: equal rows, the same answers, and nothing is replaced unasked."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scripts.parse.read_script import Source
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp

JSON = {"Content-Type": "application/json"}
YAML = {"Content-Type": "application/yaml"}


async def exported(api: ApiClient, session: Any, form: str = "json") -> bytes:
    answer = await api.get(f"/api/sessions/{session['sessionId']}/export", params={"format": form})
    assert answer.status_code == 200, answer.text
    content: bytes = answer.content
    return content


async def import_document(api: ApiClient, content: bytes, headers: dict[str, str] = JSON, **query: Any) -> Any:
    answer = await api.post("/api/sessions/import", content=content, headers=headers, params=query)
    assert answer.is_success, answer.text
    found = answer.json()
    is_new = not found["dryRun"] and not found["replaced"]
    assert answer.status_code == (201 if is_new else 200)
    assert answer.headers.get("Location") == (None if found["dryRun"] else f"/api/sessions/{found['sessionId']}")
    return found


async def refused(
    api: ApiClient, content: bytes | str, headers: dict[str, str] = JSON, **query: Any
) -> tuple[int, str, str]:
    answer = await api.post("/api/sessions/import", content=content, headers=headers, params=query)
    error = answer.json()["error"]
    return answer.status_code, error["code"], error["message"]


async def session_of(api: ApiClient) -> Any:
    session = await api.create_session("visit", key="telegram:7", metadata={"plan": "gold"})
    await api.send_texts(session, "Ana")
    return session


def as_rows(content: bytes) -> Any:
    document = json.loads(content)
    del document["exported_at"]
    return document


@pytest.mark.gate
@pytest.mark.parametrize(("form", "headers"), [("json", JSON), ("yaml", YAML)])
async def test_a_session_goes_on_elsewhere(app: OpenApp, tmp_path: Path, form: str, headers: dict[str, str]) -> None:
    nothing = tmp_path / "no-scripts"
    nothing.mkdir()
    async with app(tmp_path / "here") as here, app(tmp_path / "there", scripts=nothing) as there:
        session = await session_of(here)
        found = await import_document(there, await exported(here, session, form), headers)
        assert (found["sessionId"], found["userId"], found["key"]) == (session["sessionId"], "ana", "telegram:7")
        assert (found["turns"], found["messages"], found["format"]) == (2, 5, "cuebook.session")
        assert as_rows(await exported(there, session)) == as_rows(await exported(here, session))
        answers = [await api.send_texts(session, "34", "A", "", "yes") for api in (here, there)]
        assert answers[0]["aiMessage"] == answers[1]["aiMessage"]
        assert answers[0]["sessionStatus"] == "completed"
        assert await here.transcript(session) == await there.transcript(session)
        assert (await there.read("/api/scripts"))["data"] == []  # nothing was published


async def test_it_is_found_again_after_a_restart(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "here") as here:
        session = await session_of(here)
        content = await exported(here, session)
    async with app(tmp_path / "there") as there:
        await import_document(there, content)
    async with app(tmp_path / "there") as there:
        assert (await there.send_texts(session, "34"))["turn"] == 2


async def test_requests_answered_before_get_the_same_answer(app: OpenApp, tmp_path: Path) -> None:
    sent = {"content": "Ana"}
    async with app(tmp_path / "here") as here, app(tmp_path / "there") as there:
        session = await here.create_session("visit")
        first = await here.send_message(session, sent, {"Idempotency-Key": "k-1"})
        await import_document(there, await exported(here, session))
        again = await there.send_message(session, sent, {"Idempotency-Key": "k-1"})
        assert again.json()["messages"] == first.json()["messages"]
        assert again.json()["turn"] == 1


async def test_a_copy_answers_no_requests_of_the_original(api: ApiClient) -> None:
    session = await api.create_session("visit")
    await api.send_message(session, {"content": "Ana"}, {"Idempotency-Key": "1"})
    copy = await import_document(api, await exported(api, session), copy=True)
    sent = await api.send_message(copy, {"content": "34"}, {"Idempotency-Key": "1"})
    assert (sent.status_code, sent.json()["turn"]) == (200, 2)


async def test_a_session_that_moved_keeps_its_way(app: OpenApp, tmp_path: Path) -> None:
    text = "script: tea\nphases: [{phase: p, topics: [{topic: t, actions: [{ask: Milk?, id: milk}, {say: Fine.}]}]}]\n"
    async with app(tmp_path / "here") as here, app(tmp_path / "there") as there:
        await here.publish_script(text)
        session = await here.create_session("tea")
        await here.publish_script(text.replace("Fine.", "Thanks."))
        path = f"/api/sessions/{session['sessionId']}"
        assert (await here.post(f"{path}/migrate", json={})).json()["moved"]
        content = await exported(here, session)
        assert len(json.loads(content)["scripts"]) == 2
        await there.publish_script(text.replace("Fine.", "Another one."))
        assert (await import_document(there, content))["scriptVersion"] == 2
        assert json.loads(await exported(there, session))["turns"] == json.loads(content)["turns"]
        assert (await there.post(f"{path}/migrate/undo", json={})).json()["version"] == 1
        assert (await there.send_texts(session, "yes"))["aiMessage"] == "Fine."


async def test_what_is_there_is_not_replaced_unasked(api: ApiClient) -> None:
    session = await session_of(api)
    content = await exported(api, session)
    await api.send_texts(session, "34")
    status, code, message = await refused(api, content)
    assert (status, code) == (409, "SESSION_KEY_EXISTS")
    assert "replace" in message
    document = json.loads(content)
    document["session"]["key"] = None
    assert (await refused(api, json.dumps(document)))[:2] == (409, "SESSION_EXISTS")
    assert len(await api.transcript(session)) == 7


async def test_replacing_leaves_nothing_of_what_was_there(api: ApiClient) -> None:
    session = await session_of(api)
    content = await exported(api, session)
    await api.send_texts(session, "34", "A")
    assert (await import_document(api, content, replace=True))["replaced"]
    assert as_rows(await exported(api, session)) == as_rows(content)
    assert (await api.send_texts(session, "35"))["turn"] == 2
    assert (await api.read(f"/api/sessions/{session['sessionId']}"))["variables"]["age"] == 35


@pytest.mark.slow
@pytest.mark.parametrize("is_deleted", [False, True])
async def test_the_tables_of_analysts_follow_a_message_that_was_edited(api: ApiClient, is_deleted: bool) -> None:
    async def said() -> list[str]:
        sql = "SELECT content FROM messages WHERE role = 'user'"
        answer = await api.post("/api/analytics/query", json={"sql": sql, "masked": False, "maxAgeS": 0})
        return [row["content"] for row in answer.json()["rows"]]

    session = await api.create_session("visit")
    await api.send_texts(session, "555 0199", "34")
    content = await exported(api, session)
    assert await said() == ["555 0199", "34"]
    for text in (b"removed", b"edited again"):
        if is_deleted:
            await api.delete(f"/api/sessions/{session['sessionId']}")
        await import_document(api, content.replace(b"555 0199", text), replace=not is_deleted)
        assert await said() == [text.decode(), "34"]


async def test_replaced_session_with_the_same_key_keeps_its_id(api: ApiClient) -> None:
    theirs = await session_of(api)
    content = await exported(api, theirs)
    document = json.loads(content)
    document["session"]["session_id"] = "7109d623-8314-4cc4-b6a2-11c8d5b88e58"
    found = await import_document(api, json.dumps(document).encode(), replace=True)
    assert (found["sessionId"], found["replaced"]) == (theirs["sessionId"], True)


async def test_a_copy_stands_beside(api: ApiClient) -> None:
    session = await session_of(api)
    content = await exported(api, session)
    found = await import_document(api, content, copy=True, userId="ben", key="copy:1")
    assert found["sessionId"] != session["sessionId"]
    assert (found["userId"], found["key"]) == ("ben", "copy:1")
    await api.send_texts(found, "34")
    assert len(await api.transcript(session)) == 5
    assert (await refused(api, content, copy=True, key="copy:1"))[1] == "SESSION_KEY_EXISTS"
    assert (await refused(api, content, copy=True, replace=True))[1] == "REQUEST_INVALID"
    assert (await import_document(api, content, copy=True))["key"] is None


async def test_a_dry_run_changes_nothing(app: OpenApp, api: ApiClient, tmp_path: Path) -> None:
    session = await session_of(api)
    async with app(tmp_path / "there") as there:
        found = await import_document(there, await exported(api, session), dryRun=True)
        assert (found["dryRun"], found["turns"]) == (True, 2)
        assert (await there.get(f"/api/sessions/{session['sessionId']}")).status_code == 404
        assert (await there.read("/api/sessions"))["data"] == []


async def test_the_users_own_variables_come_along_where_there_are_none(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "here") as here, app(tmp_path / "there") as there:
        session = await session_of(here)
        await here.send_texts(session, "34", "A", "", "yes")  # the first visit is counted
        content = await exported(here, session)
        await import_document(there, content)
        assert (await there.create_session("visit"))["globalVariables"] == {"visits": 1}
        other = await there.create_session("visit")
        await there.send_texts(other, "Ana", "34", "A", "", "yes")
        await import_document(there, content, replace=True)  # older than what is there
        assert (await there.create_session("visit"))["globalVariables"] == {"visits": 2}


async def test_many_at_once_and_one_of_two_with_the_same_id(api: ApiClient) -> None:
    session = await session_of(api)
    document = json.loads(await exported(api, session))
    document["session"] |= {"session_id": "7109d623-8314-4cc4-b6a2-11c8d5b88e58", "key": "same"}
    sent = [api.post("/api/sessions/import", json=document) for _ in range(6)]
    answers = [answer.status_code for answer in await asyncio.gather(*sent)]
    assert sorted(answers) == [201, 409, 409, 409, 409, 409]


def with_change(content: bytes, *path: Any, value: Any) -> str:
    document = json.loads(content)
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return json.dumps(document)


async def test_each_wrong_part_is_named(api: ApiClient) -> None:
    content = await exported(api, await session_of(api))
    for path, value, words in (
        (("format",), "cuebook.sessions", "the format 'cuebook.sessions' is unknown"),
        (("version",), 2, "a newer Cuebook wrote the document: its format has version 2, this one reads up to 1"),
        (("version",), "1", "the version of the format is unknown"),
        (("session", "session_id"), "../etc", "its session_id is not a UUID"),
        (("session", "seed"), -1, "$.session.seed"),
        (("session", "digest"), "x", "`scripts` has no script with its digest"),
        (("scripts", 0, "text"), "script: other", "scripts[0]: the text does not match its digest"),
        (("turns", 1, "turn"), 2, "turns[1]: it is turn 2"),
        (("turns", 1, "messages", 0, "seq"), 9, "turns[1]: messages must be numbered from 4"),
        (("turns", 1, "events", 0, "seq"), 9, "turns[1].events[0]: events must be numbered without gaps"),
        (("turns", 1, "events", 0, "kind"), "burnt", "there is no kind of event 'burnt'"),
        (("turns", 1, "state", "version"), 99, "the saved state has version 99"),
        (("turns", 1, "state", "topic"), "nowhere", "the script has no topic hello/nowhere"),
        (("turns", 1, "state", "message_seq"), 4, "the state counts other messages"),
        (("turns", 1, "finished_at"), "2026-01-01T00:00:00", "$.turns[1].finished_at"),
        (("turns", 1, "extra"), 1, "unknown field"),
    ):
        status, code, message = await refused(api, with_change(content, *path, value=value), copy=True)
        assert (status, code) == (422, "DOCUMENT_INVALID"), path
        assert words in message, (path, message)


async def test_a_script_that_cannot_run_is_not_imported(api: ApiClient) -> None:
    document = json.loads(await exported(api, await session_of(api)))
    text = document["scripts"][0]["text"].replace("say: Welcome.", "say: '{{ 1 +'")
    digest = Source(text, "", document["scripts"][0]["files"]).digest
    document["scripts"][0] |= {"text": text, "digest": digest}
    document["session"]["digest"] = digest
    assert "the script cannot be run" in (await refused(api, json.dumps(document), copy=True))[2]


BOMB = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10 if n else ['x'] * 10)}]\n" for n in range(9)).encode()


NONE_OF_THEM = [
    (b"", JSON, "empty"),
    (b"[]", JSON, "a session is an object"),
    (b'{"a": 1}', JSON, "the document is not supported"),
    (b"{", JSON, "not JSON"),
    (b"\xff\xfe", YAML, "not UTF-8"),
    (b"a: [1", YAML, "not YAML"),
    (b"a: &x [*x]", YAML, "line 1: there is no complete value with the anchor x"),
    (BOMB, YAML, "more than 100,000,000 characters, with aliases expanded"),
    (b"a: !!python/object:os.system {}", YAML, "tags"),
    (b"[" * 100_000, YAML, "nested"),
    (b"- " * 100_000, YAML, "nested"),
    (b"a: 1\n---\nb: 2", YAML, "a second document"),
]


async def test_what_is_no_session(api: ApiClient) -> None:
    for content, headers, words in NONE_OF_THEM:
        status, code, message = await refused(api, content, headers)
        assert (status, code) in {(422, "DOCUMENT_INVALID"), (400, "REQUEST_INVALID")}
        assert words in message, message


async def test_a_page_in_a_browser_cannot_send_one_unasked(api: ApiClient) -> None:
    for media_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        assert (await refused(api, b"{}", {"Content-Type": media_type}))[1] == "UNSUPPORTED_MEDIA_TYPE"
    answer = await api.post("/api/sessions", content=b"a: 1", headers=YAML)  # other routes take JSON as before
    assert answer.status_code == 415


async def test_document_may_be_larger_than_other_bodies_up_to_a_bound(app: OpenApp, tmp_path: Path) -> None:
    lines = b"\n".join(msgspec.json.encode({"role": "user", "content": "x" * 1_000}) for _ in range(50))
    headers = {"Content-Type": "application/x-ndjson"}
    async with app(tmp_path, body_bytes_max=10_000, import_bytes_max=60_000) as api:
        assert (await import_document(api, lines, headers))["messages"] == 50
        status, code, _ = await refused(api, lines * 2, headers)
        assert (status, code) == (413, "PAYLOAD_TOO_LARGE")
