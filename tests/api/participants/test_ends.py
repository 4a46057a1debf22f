"""How access ends while a page is open, and that what gives access is in no log."""

import asyncio
import json
from pathlib import Path

import pytest

from api.logs.configuration import configure_logging
from tests.api.participants.test_links import STUDY, bearer, create_link, enter, entry
from tests.support.fixture_types import OpenApp

EVENTS = "/api/participants/session/events"


@pytest.mark.parametrize("by", ["link", "participant"])
async def test_open_streams_end_when_access_is_revoked(server: OpenApp, tmp_path: Path, by: str) -> None:
    async with server(tmp_path) as api:
        await api.publish_script(STUDY)
        link = await create_link(api)
        me, you = await entry(api, link), await entry(api, await create_link(api))
        for each in (me, you):
            await api.post("/api/participants/session", headers=bearer(each))
        async with (
            api.open_stream(EVENTS, headers=bearer(me)) as mine,
            api.open_stream(EVENTS, headers=bearer(you)) as yours,
        ):
            words, others = mine.aiter_bytes(), yours.aiter_bytes()
            for stream in (words, others):
                await anext(stream)
            path = f"/api/links/{link}" if by == "link" else f"/api/participants/{me['participantId']}"
            assert (await api.delete(path)).status_code == 204
            async with asyncio.timeout(30):
                assert b"event: turn" not in b"".join([chunk async for chunk in words])
            said = await api.post("/api/participants/session/messages", json={"content": "well"}, headers=bearer(you))
            assert said.status_code == 200
            async with asyncio.timeout(30):
                heard = ""
                while "event: status" not in heard.partition("well")[2]:
                    heard += (await anext(others)).decode()


async def test_a_second_tab_sees_what_the_first_one_sends(server: OpenApp, tmp_path: Path) -> None:
    async with server(tmp_path) as api:
        await api.publish_script(STUDY)
        me = await entry(api, await create_link(api))
        begun = (await api.post("/api/participants/session", headers=bearer(me))).json()
        place = {"Last-Event-ID": begun["lastEventId"]}
        async with api.open_stream(EVENTS, headers=bearer(me) | place) as stream:
            await api.post("/api/participants/session/messages", json={"content": "well"}, headers=bearer(me))
            seen = []
            async with asyncio.timeout(30):
                async for line in stream.aiter_lines():
                    if line.startswith("data: "):
                        seen.append(json.loads(line.removeprefix("data: ")))
                    if seen and "executionStatus" in seen[-1]:
                        break
        assert [each["content"] for each in seen if "content" in each] == ["well", "Is that so?"]
        assert seen[-1]["turn"] == 1


async def test_the_log_has_no_token_and_no_secret(
    app: OpenApp, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging("debug")
    async with app(tmp_path) as api:
        await api.publish_script(STUDY)
        link = await create_link(api)
        me = await entry(api, link)
        await api.post("/api/participants/session", headers=bearer(me))
        await api.post("/api/participants/session/messages", json={"choice": "none"}, headers=bearer(me))
        await enter(api, link, resume=me["resume"] + "x")
        await api.get("/api/sessions", headers=bearer(me))
        metrics = (await api.get("/metrics")).text
    logged = "".join(capsys.readouterr())
    assert "a request was refused" in logged
    for secret in (me["token"], me["resume"]):
        assert secret not in logged + metrics
