"""Links: who comes through one, how often, and what then is possible."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
STUDY = """\
script: study
title: A short study
locale: en
phases:
  - phase: main
    topics:
      - topic: start
        actions:
          - say: "Welcome to {{place}}."
          - ask: How are you?
            id: ask_mood
            output: [{get: mood}]
          - choose: is_sure
            id: ask_sure
            question: Is that so?
            choices: [{key: "yes", text: "Yes"}, {key: "no", text: "No"}]
declare:
  - {var: place, type: text, value: the lab}
  - {var: secret_score, type: number, value: 42}
"""


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def api(app: OpenApp, tmp_path: Path, clock: Clock) -> AsyncIterator[ApiClient]:
    """Return a server with keys and the script `study`; the client sends no key."""
    async with app(tmp_path, clock=clock) as client:
        key = await client.create_key("app", "author")
        client.headers["Authorization"] = key
        await client.publish_script(STUDY)
        yield client


async def create_link(api: ApiClient, **fields: Any) -> str:
    answer = await api.post("/api/links", json={"scriptId": "study", **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["linkId"])


async def enter(api: ApiClient, link: str, **body: Any) -> Any:
    """Come through a link as a browser does: without a key."""
    return await api.post(f"/api/links/{link}/sessions", json=body, headers={"Authorization": ""})


async def entry(api: ApiClient, link: str, **body: Any) -> Any:
    answer = await enter(api, link, **body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def bearer(entry: Any) -> dict[str, str]:
    return {"Authorization": f"Bearer {entry['token']}"}


def code_of(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


async def test_a_participant_comes_through_a_link_and_talks(api: ApiClient) -> None:
    link = await create_link(api)
    page = (await api.get(f"/api/links/{link}/page", headers={"Authorization": ""})).json()
    assert page == {"title": "A short study", "locale": "en", "users": "anonymous", "resumes": True}
    for browser, language in (("en-GB", "en-GB"), ("fr-FR", "en")):  # a language that the script has, or its own
        page = (await api.get(f"/api/links/{link}/page?locale={browser}", headers={"Authorization": ""})).json()
        assert page["locale"] == language
    me = await entry(api, link)
    assert me["sessionId"]
    assert (await api.get("/api/participants/session", headers=bearer(me))).status_code == 404
    begun = (await api.post("/api/participants/session", headers=bearer(me))).json()
    assert [message["content"] for message in begun["messages"]] == ["Welcome to the lab.", "How are you?"]
    assert begun["sessionId"] == me["sessionId"]
    said = await api.post("/api/participants/session/messages", json={"content": "well"}, headers=bearer(me))
    assert [choice["key"] for choice in said.json()["wait"]["choices"]] == ["yes", "no"]
    ended = await api.post("/api/participants/session/messages", json={"choice": "yes"}, headers=bearer(me))
    assert (ended.json()["status"], ended.json()["wait"]) == ("completed", None)
    listed = (await api.get("/api/participants/session/messages", headers=bearer(me))).json()
    assert [message["role"] for message in listed["data"]] == ["assistant", "assistant", "user", "assistant", "user"]
    session = await api.read(f"/api/sessions/{me['sessionId']}")
    assert (session["metadata"], session["userId"].split("/")[0]) == ({"link": link}, f"link:{link}")


async def test_a_session_begins_once_however_often_it_is_asked_for(api: ApiClient) -> None:
    me = await entry(api, await create_link(api))
    answers = await asyncio.gather(*[api.post("/api/participants/session", headers=bearer(me)) for _ in range(8)])
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.json()["sessionId"] for answer in answers} == {me["sessionId"]}
    assert len((await api.read("/api/sessions"))["data"]) == 1


async def test_the_same_device_comes_back_to_its_session(api: ApiClient, clock: Clock) -> None:
    link = await create_link(api, accessDays=2)
    me = await entry(api, link)
    await api.post("/api/participants/session", headers=bearer(me))
    clock.now += timedelta(days=1)
    assert code_of(await api.get("/api/participants/session", headers=bearer(me))) == (401, "UNAUTHENTICATED")
    again = await entry(api, link, resume=me["resume"])
    assert (again["sessionId"], again["resume"]) == (me["sessionId"], me["resume"])
    seen = (await api.get("/api/participants/session", headers=bearer(again))).json()
    assert (seen["turn"], seen["wait"]["kind"]) == (0, "text")
    assert code_of(await enter(api, link, resume="another")) == (404, "PARTICIPANT_NOT_FOUND")
    clock.now += timedelta(days=1)
    assert code_of(await enter(api, link, resume=me["resume"])) == (404, "PARTICIPANT_NOT_FOUND")


async def test_a_link_without_resumption_gives_no_secret(api: ApiClient) -> None:
    assert (await entry(api, await create_link(api, resumes=False)))["resume"] is None


async def test_a_link_admits_no_more_than_its_maximum(api: ApiClient) -> None:
    link = await create_link(api, sessionsMax=2)
    first = await entry(api, link)
    await entry(api, link)
    refused = await enter(api, link)
    assert code_of(refused) == (409, "LINK_FULL")
    assert refused.json()["error"]["message"] == "2 of 2 participants have come"
    assert (await entry(api, link, resume=first["resume"]))["sessionId"] == first["sessionId"]


async def test_a_link_admits_nobody_after_its_time(api: ApiClient, clock: Clock) -> None:
    link = await create_link(api, expiresAt=(NOON + timedelta(hours=1)).isoformat())
    me = await entry(api, link)
    clock.now += timedelta(hours=1)
    assert code_of(await enter(api, link)) == (410, "LINK_ENDED")
    assert (await entry(api, link, resume=me["resume"]))["sessionId"] == me["sessionId"]


async def test_each_code_of_a_named_link_has_one_session(api: ApiClient) -> None:
    link = await create_link(api, users="named")
    assert code_of(await enter(api, link)) == (400, "REQUEST_INVALID")
    me = await entry(api, link, code="P-017")
    assert code_of(await enter(api, link, code="P-017")) == (409, "LINK_CODE_USED")
    await api.post("/api/participants/session", headers=bearer(me))
    assert (await api.read(f"/api/sessions/{me['sessionId']}"))["userId"] == f"link:{link}/P-017"
    other = await create_link(api)
    assert code_of(await enter(api, other, code="P-017")) == (400, "REQUEST_INVALID")


async def test_a_revoked_link_ends_the_access_of_its_participants(api: ApiClient) -> None:
    link, other = await create_link(api, linkId="our-study"), await create_link(api)
    me, you = await entry(api, link), await entry(api, other)
    for each in (me, you):
        assert (await api.post("/api/participants/session", headers=bearer(each))).status_code == 200
    assert (await api.delete(f"/api/links/{link}")).status_code == 204
    assert code_of(await enter(api, link)) == (404, "LINK_NOT_FOUND")
    assert code_of(await api.get("/api/participants/session", headers=bearer(me))) == (401, "UNAUTHENTICATED")
    assert (await api.get("/api/participants/session", headers=bearer(you))).status_code == 200
    assert code_of(await api.delete(f"/api/links/{link}")) == (404, "LINK_NOT_FOUND")
    assert code_of(await api.post("/api/links", json={"scriptId": "study", "linkId": link})) == (409, "LINK_EXISTS")
    assert (await api.read(f"/api/sessions/{me['sessionId']}"))["status"] == "active"


async def test_a_link_to_a_draft_runs_the_draft(api: ApiClient) -> None:
    draft = STUDY.replace("Welcome", "Draft")
    saved = await api.publish_script(draft, publish=False)
    me = await entry(api, await create_link(api, version=saved["version"]))
    you = await entry(api, await create_link(api))
    texts = []
    for each in (me, you):
        begun = (await api.post("/api/participants/session", headers=bearer(each))).json()
        texts.append(begun["messages"][0]["content"])
    assert texts == ["Draft to the lab.", "Welcome to the lab."]


async def test_a_link_sets_initial_variables_and_the_language(api: ApiClient) -> None:
    me = await entry(api, await create_link(api, initialVariables={"place": "the ward"}, locale="ar"))
    begun = (await api.post("/api/participants/session", headers=bearer(me))).json()
    assert (begun["messages"][0]["content"], begun["locale"]) == ("Welcome to the ward.", "ar")


@pytest.mark.gate
@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"scriptId": "nothing"}, (404, "SCRIPT_NOT_FOUND")),
        ({"version": 9}, (404, "SCRIPT_NOT_FOUND")),
        ({"linkId": "A Name"}, (400, "REQUEST_INVALID")),
        ({"expiresAt": "2020-01-01T00:00:00Z"}, (400, "REQUEST_INVALID")),
        ({"expiresAt": "2030-01-01T00:00:00"}, (400, "REQUEST_INVALID")),
        ({"sessionsMax": 0}, (400, "REQUEST_INVALID")),
        ({"initialVariables": {"place": {"x": 1}}}, (400, "REQUEST_INVALID")),
    ],
)
async def test_a_link_that_could_not_work_is_refused(
    api: ApiClient, fields: dict[str, Any], refusal: tuple[int, str]
) -> None:
    assert code_of(await api.post("/api/links", json={"scriptId": "study", **fields})) == refusal


async def test_links_are_listed_in_pages(api: ApiClient) -> None:
    made = [await create_link(api) for _ in range(3)]
    first = await api.read("/api/links", limit=2)
    rest = await api.read("/api/links", limit=2, cursor=first["nextCursor"])
    assert sorted(row["linkId"] for row in first["data"] + rest["data"]) == sorted(made)


async def test_entries_are_limited_by_link_and_by_address(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, link_entries_per_minute=2, address_entries_per_minute=4) as api:
        await api.publish_script(STUDY)
        link, other = await create_link(api), await create_link(api)
        api.headers["X-Forwarded-For"] = "203.0.113.7"
        found = [(await enter(api, each)).status_code for each in (link, link, link, other, other)]
        assert found == [201, 201, 429, 201, 429]
        api.headers["X-Forwarded-For"] = "203.0.113.8"
        assert [(await enter(api, each)).status_code for each in (other, other)] == [201, 429]


async def test_links_work_without_keys(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        await api.publish_script(STUDY)
        me = await entry(api, await create_link(api))
        assert (await api.post("/api/participants/session", headers=bearer(me))).status_code == 200
        assert (await api.get("/api/sessions", headers=bearer(me))).status_code == 403
