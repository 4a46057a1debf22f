"""Participants: what a token permits, what it shows of a session, how it is renewed and how it ends."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.api.participants.test_links import STUDY, Clock, bearer, code_of, create_link, entry
from tests.support.api_client import ApiClient
from tests.support.fixture_types import NewStreamClient, OpenApp

VISIBLE = {
    "sessionId",
    "title",
    "locale",
    "turn",
    "status",
    "executionStatus",
    "wait",
    "lastEventId",
    "speaksByItself",
    "messages",
}
"""All that participants see of a session; a new field of a session does not come to them by itself."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def api(app: OpenApp, tmp_path: Path, clock: Clock) -> AsyncIterator[ApiClient]:
    async with app(tmp_path, clock=clock) as client:
        client.headers["Authorization"] = await client.create_key("app", "author")
        await client.publish_script(STUDY)
        yield client


async def token(api: ApiClient, **fields: Any) -> Any:
    answer = await api.post("/api/participants/tokens", json={"userId": "ana", **fields})
    assert answer.status_code == 201, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return answer.json()


async def test_an_application_gives_a_token_for_a_new_session(api: ApiClient) -> None:
    me = await token(api, scriptId="study")
    begun = (await api.post("/api/participants/session", headers=bearer(me))).json()
    assert begun.keys() == VISIBLE
    assert (begun["sessionId"], begun["title"], begun["turn"]) == (me["sessionId"], "A short study", 0)
    assert (await api.read(f"/api/sessions/{me['sessionId']}"))["userId"] == "ana"


async def test_an_application_gives_a_token_for_a_session_that_exists(api: ApiClient) -> None:
    session = await api.create_session("study")
    me = await token(api, sessionId=session["sessionId"])
    again = (await api.post("/api/participants/session", headers=bearer(me))).json()
    assert [message["content"] for message in again["messages"]] == ["Welcome to the lab.", "How are you?"]
    body = {"userId": "ben", "sessionId": session["sessionId"]}
    assert code_of(await api.post("/api/participants/tokens", json=body)) == (404, "SESSION_NOT_FOUND")


@pytest.mark.gate
@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({}, (400, "REQUEST_INVALID")),
        ({"scriptId": "nothing"}, (404, "SCRIPT_NOT_FOUND")),
        ({"scriptId": "study", "timezone": "Mars/Base"}, (400, "REQUEST_INVALID")),
        ({"scriptId": "study", "accessHours": 0}, (400, "REQUEST_INVALID")),
        ({"scriptId": "study", "roles": ["admin"]}, (400, "REQUEST_INVALID")),
    ],
)
async def test_a_token_that_could_not_work_is_refused(
    api: ApiClient, fields: dict[str, Any], refusal: tuple[int, str]
) -> None:
    assert code_of(await api.post("/api/participants/tokens", json={"userId": "ana", **fields})) == refusal


async def test_a_participant_sees_no_variables_and_no_script(api: ApiClient, stream_client: NewStreamClient) -> None:
    me = await token(api, scriptId="study")
    await api.post("/api/participants/session", headers=bearer(me))
    said = await api.post("/api/participants/session/messages", json={"content": "well"}, headers=bearer(me))
    session = await api.get("/api/participants/session", headers=bearer(me))
    messages = await api.get("/api/participants/session/messages", headers=bearer(me))
    for answer in (said, session, messages):
        assert answer.status_code == 200, answer.text
        for hidden in ("secret_score", "ask_mood", "variable", "phase", "actionId", "metadata", "debug"):
            assert hidden not in answer.text
    assert said.json().keys() == VISIBLE
    assert session.json().keys() == VISIBLE - {"messages"}


async def test_a_session_that_has_not_begun_says_how_it_begins(api: ApiClient) -> None:
    me = await token(api, scriptId="study")
    for answer in (
        await api.get("/api/participants/session", headers=bearer(me)),
        await api.post("/api/participants/session/messages", json={"content": "well"}, headers=bearer(me)),
    ):
        assert code_of(answer) == (404, "SESSION_NOT_FOUND")
        assert "POST /api/participants/session begins it" in answer.json()["error"]["message"]


async def test_the_stream_of_a_participant_has_words_and_no_values(api: ApiClient) -> None:
    me = await token(api, scriptId="study")
    accepting = bearer(me) | {"Accept": "text/event-stream"}
    begun = await api.post("/api/participants/session", headers=accepting)
    said = await api.post("/api/participants/session/messages", json={"content": "well"}, headers=accepting)
    ended = await api.post("/api/participants/session/messages", json={"choice": "no"}, headers=accepting)
    whole = await api.get("/api/participants/session/events", headers=accepting)
    for answer in (begun, said, ended, whole):
        assert answer.headers["content-type"].startswith("text/event-stream")
        for hidden in ("secret_score", "ask_mood", "event: variable", "event: position", "actionId"):
            assert hidden not in answer.text
    kinds = [line.removeprefix("event: ") for line in whole.text.splitlines() if line.startswith("event: ")]
    assert set(kinds) == {"message", "wait", "status"}
    assert kinds.count("message") == 5
    assert kinds[-1] == "status"
    last = [json.loads(line.removeprefix("data: ")) for line in whole.text.splitlines() if line.startswith("data: ")][
        -1
    ]
    assert last == {"turn": 2, "status": "completed", "executionStatus": "completed"}
    place = [line.removeprefix("id: ") for line in whole.text.splitlines() if line.startswith("id: ")][-1]
    rest = await api.get("/api/participants/session/events", headers=accepting | {"Last-Event-ID": place})
    assert rest.status_code == 204


async def test_a_turn_that_fails_tells_nothing_of_the_script(app: OpenApp, tmp_path: Path) -> None:
    script = STUDY.replace("How are you?\n", "How are you?\n").replace(
        'say: "Welcome to {{place}}."', 'set: {place: "1 / 0"}'
    )
    async with app(tmp_path, turn_s=5.0) as api:
        saved = await api.post("/api/scripts", json={"yamlContent": script})
        assert saved.status_code == 201, saved.text
        me = await token(api, scriptId="study")
        refused = await api.post("/api/participants/session", headers=bearer(me))
        assert refused.status_code == 500
        error = refused.json()["error"]
        assert error["context"].keys() == {"timestamp", "requestId"}
        assert (error["message"], error["details"]) == ("the message could not be answered", [])
        streamed = await api.post("/api/participants/session", headers=bearer(me) | {"Accept": "text/event-stream"})
        assert "study" not in streamed.text


async def test_a_token_is_renewed_until_the_session_or_the_access_ends(api: ApiClient, clock: Clock) -> None:
    me = await token(api, scriptId="study", accessHours=2)
    assert me["expiresAt"] == "2026-03-04T13:00:00Z"
    clock.now += timedelta(minutes=59)
    renewed = (await api.post("/api/participants/renew", headers=bearer(me))).json()
    assert renewed["expiresAt"] == "2026-03-04T13:59:00Z"
    clock.now += timedelta(minutes=1)
    assert code_of(await api.post("/api/participants/renew", headers=bearer(me))) == (401, "UNAUTHENTICATED")
    renewed = (await api.post("/api/participants/renew", headers=bearer(renewed))).json()
    assert renewed["expiresAt"] == "2026-03-04T14:00:00Z"
    await api.post("/api/participants/session", headers=bearer(renewed))
    await api.post("/api/participants/session/messages", json={"content": "well"}, headers=bearer(renewed))
    await api.post("/api/participants/session/messages", json={"choice": "no"}, headers=bearer(renewed))
    assert code_of(await api.post("/api/participants/renew", headers=bearer(renewed))) == (409, "SESSION_ENDED")
    assert (await api.get("/api/participants/session/messages", headers=bearer(renewed))).status_code == 200
    clock.now = datetime(2026, 3, 4, 14, 0, tzinfo=UTC)
    assert code_of(await api.get("/api/participants/session", headers=bearer(renewed))) == (401, "UNAUTHENTICATED")


async def test_an_altered_token_is_refused(api: ApiClient) -> None:
    me, you = await token(api, scriptId="study"), await token(api, scriptId="study")
    (mine, expiry, signature), (other, _, _) = me["token"].split("."), you["token"].split(".")
    longer = str(int(expiry) + 1)
    altered = (
        f"{other}.{expiry}.{signature}",
        f"{mine}.{longer}.{signature}",
        f"{mine}.{expiry}.{signature[:-2]}xx",
        f"{mine}.{expiry}.",
        "cbp_",
        "cbp_é",
    )
    for each in altered:
        sent = {"Authorization": f"Bearer {each}".encode("latin-1")}
        answer = await api.request("GET", "/api/participants/session", headers=sent)
        assert code_of(answer) == (401, "UNAUTHENTICATED"), each


async def test_a_revoked_participant_has_no_access(api: ApiClient) -> None:
    me, you = await token(api, scriptId="study"), await token(api, scriptId="study", userId="ben")
    path = f"/api/participants/{me['participantId']}"
    assert (await api.delete(path)).status_code == 204
    assert code_of(await api.delete(path)) == (404, "PARTICIPANT_NOT_FOUND")
    assert code_of(await api.post("/api/participants/session", headers=bearer(me))) == (401, "UNAUTHENTICATED")
    assert (await api.post("/api/participants/session", headers=bearer(you))).status_code == 200


async def test_participants_are_listed_without_secrets(api: ApiClient) -> None:
    link = await create_link(api)
    mine, yours = await token(api, scriptId="study"), await entry(api, link)
    listed = await api.get("/api/participants")
    assert {row["participantId"] for row in listed.json()["data"]} == {mine["participantId"], yours["participantId"]}
    assert yours["resume"] not in listed.text
    assert "igest" not in listed.text
    for query, expected in ({"link": link}, yours), ({"userId": "ana"}, mine):
        (row,) = (await api.read("/api/participants", **query))["data"]
        assert (row["participantId"], row["sessionId"]) == (expected["participantId"], expected["sessionId"])


async def test_erased_user_and_deleted_session_leave_no_participant(api: ApiClient) -> None:
    admin = {"Authorization": await api.create_key("admin")}
    mine, yours = await token(api, scriptId="study"), await token(api, scriptId="study", userId="ben")
    for each in (mine, yours):
        await api.post("/api/participants/session", headers=bearer(each))
    erased = await api.delete("/api/users/ana", headers=admin)
    assert erased.json()["counts"]["participants"] == 1
    assert (await api.delete(f"/api/sessions/{yours['sessionId']}")).status_code == 204
    for each in (mine, yours):
        assert code_of(await api.get("/api/participants/session", headers=bearer(each))) == (401, "UNAUTHENTICATED")
    assert (await api.read("/api/participants"))["data"] == []


async def test_a_participant_of_another_tenant_is_not_found(api: ApiClient) -> None:
    me, link = await token(api, scriptId="study"), await create_link(api)
    other = {"Authorization": await api.create_key("admin", tenant="clinic")}
    refused = await api.delete(f"/api/participants/{me['participantId']}", headers=other)
    assert code_of(refused) == (404, "PARTICIPANT_NOT_FOUND")
    for method in ("GET", "DELETE"):
        assert code_of(await api.request(method, f"/api/links/{link}", headers=other)) == (404, "LINK_NOT_FOUND")
    for path in ("/api/links", "/api/participants"):
        assert (await api.get(path, headers=other)).json()["data"] == []


async def test_a_participant_waits_after_too_many_requests(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, participant_requests_per_minute=2) as api:
        await api.publish_script(STUDY)
        me, you = await token(api, scriptId="study"), await token(api, scriptId="study")
        found = [(await api.get("/api/participants/session", headers=bearer(me))).status_code for _ in range(3)]
        assert found == [404, 404, 429]
        assert (await api.get("/api/participants/session", headers=bearer(you))).status_code == 404


async def test_a_shown_picture_is_in_the_message(api: ApiClient) -> None:
    await api.publish_script(
        STUDY.replace("script: study", "script: pictures").replace(
            'say: "Welcome to {{place}}."', "show: {image: /a.png, url: 'https://example.com', caption: A cat}"
        )
    )
    me = await token(api, scriptId="pictures")
    begun = (await api.post("/api/participants/session", headers=bearer(me))).json()
    shown = begun["messages"][0]
    assert (shown["content"], shown["media"]) == ("A cat", {"image": "/a.png", "url": "https://example.com"})
