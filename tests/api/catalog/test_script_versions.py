"""Versions of a script: drafts, publishing, archiving, describing, comparing; sessions keep theirs."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from api.catalog.catalog import Catalog
from api.schemas.scripts import NewScript
from api.schemas.timestamps import utc_now
from store.interface.rows import ScriptRow
from store.open_store import open_store
from tests.support.api_client import ApiClient
from tests.support.data_folders import change_rows
from tests.support.fixture_types import OpenApp
from tests.support.paths import LIBRARY

HELLO = """\
script: hello
title: A greeting
phases:
  - phase: main
    topics:
      - topic: greeting
        actions:
          - {ask: "What is your name?", id: ask_name, output: [{get: name}]}
          - {say: "Hello, {{ name }}!", id: greet}
"""
SECOND = HELLO.replace("Hello,", "Good evening,")
THIRD = HELLO.replace("id: greet", "id: welcome")


async def publish(api: ApiClient, text: str, **fields: Any) -> Any:
    return await api.publish_script(text, **fields)


async def change(api: ApiClient, verb: str, body: Any = None, script: str = "hello") -> Any:
    answer = await api.post(f"/api/scripts/{script}/{verb}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def statuses(api: ApiClient) -> list[tuple[int, str]]:
    page = await api.read("/api/scripts/hello/versions")
    return [(row["version"], row["status"]) for row in page["data"]]


async def greeting(api: ApiClient) -> str:
    answer: str = (await api.send_texts(await api.create_session("hello"), "Ana"))["aiMessage"]
    return answer


async def refusal(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


async def test_a_draft_begins_no_session_until_it_is_published(api: ApiClient) -> None:
    draft = await publish(api, HELLO, publish=False)
    assert (draft["status"], draft["version"]) == ("draft", 1)
    for script in ("hello", draft["scriptId"]):
        answer = await api.post("/api/sessions", json={"userId": "ana", "scriptId": script})
        assert await refusal(answer) == (409, "SCRIPT_NOT_PUBLISHED")
    assert (await api.read("/api/scripts/hello"))["status"] == "draft"
    assert (await publish(api, HELLO, publish=False))["version"] == 1
    assert (await change(api, "publish"))["status"] == "published"
    assert await greeting(api) == "Hello, Ana!"
    await publish(api, SECOND, publish=False)
    assert await greeting(api) == "Hello, Ana!"
    assert (await api.read("/api/scripts/hello"))["version"] == 1
    published = await api.post("/api/scripts", json={"yamlContent": SECOND})
    assert (published.status_code, published.json()["version"], published.json()["status"]) == (200, 2, "published")
    assert await greeting(api) == "Good evening, Ana!"


async def test_an_earlier_version_is_published_again(api: ApiClient) -> None:
    for text in (HELLO, SECOND, THIRD):
        await publish(api, text)
    session = await api.create_session("hello")
    published = await change(api, "publish", {"version": 2})
    assert (published["version"], published["status"]) == (2, "published")
    assert await statuses(api) == [(3, "draft"), (2, "published"), (1, "published")]
    assert await greeting(api) == "Good evening, Ana!"
    assert (await api.send_texts(session, "Ben"))["aiMessage"] == "Hello, Ben!"
    again = await publish(api, THIRD)
    assert (again["version"], again["status"]) == (3, "published")


async def test_archived_script_begins_no_session_but_continues_them(api: ApiClient) -> None:
    await publish(api, HELLO)
    await publish(api, SECOND)
    session = await api.create_session("hello")
    assert (await change(api, "archive", {"version": 2}))["version"] == 2
    assert await greeting(api) == "Hello, Ana!"
    archived = await change(api, "archive")
    assert (archived["version"], archived["status"]) == (2, "archived")
    assert await statuses(api) == [(2, "archived"), (1, "archived")]
    answer = await api.post("/api/sessions", json={"userId": "ana", "scriptId": "hello"})
    assert await refusal(answer) == (409, "SCRIPT_NOT_PUBLISHED")
    assert "archived" in answer.json()["error"]["message"]
    assert (await api.send_texts(session, "Ana"))["aiMessage"] == "Good evening, Ana!"
    assert [
        row["scriptKey"] for row in (await api.read("/api/scripts", status="published", search="hello"))["data"]
    ] == []
    assert (await publish(api, SECOND))["status"] == "published"
    assert await greeting(api) == "Good evening, Ana!"


@pytest.mark.gate
async def test_a_file_that_is_still_there_takes_no_archiving_back(app: OpenApp, tmp_path: Path) -> None:
    folder = tmp_path / "scripts"
    folder.mkdir()
    file = folder / "hello.yaml"
    file.write_text(HELLO)
    async with app(tmp_path, scripts=folder) as api:
        await publish(api, SECOND)
        await change(api, "archive")
    for _ in range(2):
        async with app(tmp_path, scripts=folder) as api:
            assert await statuses(api) == [(2, "archived"), (1, "archived")]
    file.write_text(THIRD)
    async with app(tmp_path, scripts=folder) as api:
        assert await statuses(api) == [(3, "published"), (2, "archived"), (1, "archived")]
        await change(api, "publish", {"version": 2})
    async with app(tmp_path, scripts=folder) as api:
        assert await statuses(api) == [(3, "draft"), (2, "published"), (1, "archived")]
    file.write_text(HELLO + "# changed\n")
    for _ in range(2):
        async with app(tmp_path, scripts=folder) as api:
            assert (await statuses(api))[0] == (4, "published")
    file.write_text(THIRD)  # a text of before that nobody archived is published again
    async with app(tmp_path, scripts=folder) as api:
        assert (await statuses(api))[0] == (5, "published")


async def test_a_builtin_script_can_be_archived(api: ApiClient) -> None:
    await api.create_session("chat")
    await change(api, "archive", script="chat")
    answer = await api.post("/api/sessions", json={"userId": "ana"})
    assert await refusal(answer) == (409, "SCRIPT_NOT_PUBLISHED")


async def test_many_imports_at_once_are_versions_of_their_own(api: ApiClient) -> None:
    texts = [HELLO + f"# {number}\n" for number in range(8)]
    scripts = await asyncio.gather(*(publish(api, text) for text in texts))
    assert sorted(row["version"] for row in scripts) == list(range(1, 9))
    again = await asyncio.gather(*(publish(api, HELLO) for _ in texts))
    assert {row["version"] for row in again} == {9}
    await asyncio.gather(change(api, "archive"), change(api, "publish", {"version": 3}), publish(api, SECOND))
    assert len(await statuses(api)) == 10


async def test_a_session_begins_with_what_was_published_before(api: ApiClient) -> None:
    """Sessions begin all the time; one that is requested after the answer to a publication runs that version."""

    async def begin() -> int:
        begun = await api.create_session("hello")
        session = await api.read(f"/api/sessions/{begun['sessionId']}")
        version: int = session["scriptVersion"]
        return version

    await publish(api, HELLO)
    for version in range(2, 12):
        before = [asyncio.create_task(begin()) for _ in range(3)]
        await asyncio.sleep(0.001 * (version % 4))  # so that they meet the publication at different points
        await publish(api, HELLO.replace("A greeting", f"Greeting {version}"))
        assert await begin() == version
        assert set(await asyncio.gather(*before)) <= {version - 1, version}
        assert await begin() == version


async def test_what_was_read_before_a_publication_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    catalog = Catalog(store, utc_now)
    await catalog.save("clinic", NewScript(yaml_content=HELLO), "strict")
    read, is_read, is_published = store.scripts.latest_published, asyncio.Event(), asyncio.Event()

    async def read_early(tenant: str, script: str) -> ScriptRow | None:
        row = await read(tenant, script)
        is_read.set()
        await is_published.wait()
        return row

    with monkeypatch.context() as patch:
        patch.setattr(store.scripts, "latest_published", read_early)
        early = asyncio.create_task(catalog.find("clinic", "hello"))
        await is_read.wait()
        await catalog.save("clinic", NewScript(yaml_content=SECOND), "strict")
        is_published.set()
        assert (await early).version == 1
    assert (await catalog.find("clinic", "hello")).version == 2
    await store.close()


async def test_a_version_is_read_as_it_was(api: ApiClient) -> None:
    await publish(api, HELLO)
    await publish(api, SECOND)
    first = await api.read("/api/scripts/hello/versions/1")
    assert (first["yamlContent"], first["version"], first["form"]) == (HELLO, 1, "native")
    assert first["parsed"]["session"]["session_id"] == "hello"
    for path in ("/api/scripts/hello/versions/3", "/api/scripts/none/versions", "/api/scripts/none/versions/1"):
        assert await refusal(await api.get(path)) == (404, "SCRIPT_NOT_FOUND")
    for verb in ("publish", "archive"):
        answer = await api.post(f"/api/scripts/hello/{verb}", json={"version": 9})
        assert await refusal(answer) == (404, "SCRIPT_NOT_FOUND")
        answer = await api.post(f"/api/scripts/hello/{verb}", json={"version": 0})
        assert await refusal(answer) == (400, "REQUEST_INVALID")


async def test_what_is_said_of_a_script_can_be_changed(api: ApiClient) -> None:
    await publish(api, HELLO, tags=["one"], author="Ana")
    await publish(api, SECOND)
    answer = await api.patch(
        "/api/scripts/hello", json={"scriptName": "Greetings", "tags": [], "description": "Greets."}
    )
    assert answer.status_code == 200, answer.text
    assert (answer.json()["scriptName"], answer.json()["author"]) == ("Greetings", "Ana")
    for row in (await api.read("/api/scripts/hello/versions"))["data"]:
        assert (row["scriptName"], row["tags"], row["description"]) == ("Greetings", [], "Greets.")
    third = await publish(api, THIRD)
    assert (third["scriptName"], third["description"], third["version"]) == ("Greetings", "Greets.", 3)
    assert await refusal(await api.patch("/api/scripts/none", json={})) == (404, "SCRIPT_NOT_FOUND")


async def test_versions_are_compared_line_by_line_and_part_by_part(api: ApiClient) -> None:
    for text in (HELLO, SECOND, THIRD):
        await publish(api, text)
    found = await api.read("/api/scripts/hello/diff", **{"from": 1, "to": 2})
    assert (found["from"]["version"], found["to"]["version"], found["touching"]) == (1, 2, [])
    assert found["text"].splitlines()[:2] == ["--- version 1", "+++ version 2"]
    changed = [line for line in found["text"].splitlines()[2:] if line[0] in "+-"]
    assert [line.split('"')[1] for line in changed] == ["Hello, {{ name }}!", "Good evening, {{ name }}!"]
    assert found["differences"] == [{"what": "action", "how": "changed", "path": "main/greeting/greet", "was": ""}]
    latest = await api.read("/api/scripts/hello/diff")
    assert (latest["from"]["version"], latest["to"]["version"]) == (2, 3)
    (touching,) = latest["touching"]
    assert (touching["kind"], touching["path"]) == ("removed", "main/greeting/greet")
    assert {(each["how"], each["path"]) for each in latest["differences"]} == {
        ("removed", "main/greeting/greet"), ("added", "main/greeting/welcome"), ("changed", "main/greeting"),
    }  # fmt: skip
    same = await api.read("/api/scripts/hello/diff", **{"from": 1, "to": 1})
    assert (same["text"], same["touching"], same["differences"]) == ("", [], [])
    assert await refusal(await api.get("/api/scripts/hello/diff?from=9")) == (404, "SCRIPT_NOT_FOUND")


@pytest.mark.gate
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"search": "GREET"}, ["other", "hello"]), ({"search": "ana"}, ["hello"]),
        ({"search": "What is your name"}, []),
        ({"search": "What is YOUR name", "in": "text"}, ["hello"]), ({"tag": "short"}, ["hello", "visit"]),
        ({"author": "Ana"}, ["hello"]), ({"form": "session"}, []), ({"status": "draft"}, ["other"]),
        ({"status": "archived"}, []), ({"form": "native", "limit": 1}, ["other"]),
    ],
)  # fmt: skip
async def test_filters_of_the_list(api: ApiClient, query: dict[str, Any], found: list[str]) -> None:
    await publish(api, HELLO, tags=["short"], author="Ana")
    await publish(api, HELLO.replace("script: hello", "script: other").replace("What is", "Say"), publish=False)
    rows = (await api.read("/api/scripts", **query))["data"]
    assert [row["scriptKey"] for row in rows] == found


async def test_pages_of_filtered_scripts(api: ApiClient) -> None:
    for number in range(5):
        await publish(api, HELLO.replace("script: hello", f"script: s{number}"), tags=["many"])
    found: list[str] = []
    asked: dict[str, Any] = {"tag": "many", "search": "your name", "in": "text", "limit": 2}
    while True:
        page = await api.read("/api/scripts", **asked)
        found += [row["scriptKey"] for row in page["data"]]
        if page["nextCursor"] is None:
            break
        asked["cursor"] = page["nextCursor"]
    assert found == ["s4", "s3", "s2", "s1", "s0"]


ACCEPTED_ONCE = """\
sessions:
  - session: visit
    stages:
      - stage: only
        steps:
          - goal: talk
            actions:
              - say: Welcome.
              - ai_ask: How are you?
                id: how
              - aks: Are you safe?
              - say: Goodbye.
"""


async def test_sessions_go_on_with_a_script_that_has_errors_now(app: OpenApp, tmp_path: Path) -> None:
    """What an earlier version accepted with a warning is an error now: what runs stays, nothing new begins with it."""
    async with app(tmp_path) as api:
        sound = ACCEPTED_ONCE.replace("              - aks: Are you safe?\n", "")
        await api.publish_script(sound, strict=False)
        session = await api.create_session("visit")
        entry = (await api.post("/api/participants/tokens", json={"userId": "bo", "scriptId": "visit"})).json()
    assert change_rows(tmp_path, f"UPDATE script_texts SET text = '{ACCEPTED_ONCE}'")
    async with app(tmp_path) as api:
        said = await api.send_texts(session, "Fine, thank you.")
        assert [each["content"] for each in said["messages"]][-1] == "Goodbye."
        refused = await api.post("/api/sessions", json={"userId": "ana", "scriptId": "visit"})
        assert refused.status_code == 422
        assert "aks" in refused.text
        headers = {"Authorization": f"Bearer {entry['token']}"}
        answer = await api.post("/api/participants/session", headers=headers)
        assert (answer.status_code, "aks" in answer.text) == (422, False)


async def test_no_translation_hides_that_a_script_has_errors_now(
    app: OpenApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.catalog.catalog.PROGRAMS_MAX", 1)
    library = LIBRARY / "check_in"
    text = (library / "check_in.yaml").read_text("utf-8")
    async with app(tmp_path) as api:
        await api.publish_script(text, files={"check_in.zh.yaml": (library / "check_in.zh.yaml").read_text("utf-8")})
        session = await api.create_session("check_in", locale="zh")
    assert change_rows(tmp_path, "UPDATE script_texts SET text = text || 'nobody_knows_this: 1\n'")
    async with app(tmp_path) as api:
        await api.send_texts(session, "跑五公里")
        refused = await api.post("/api/sessions", json={"userId": "ana", "scriptId": "check_in"})
        assert refused.status_code == 422
        assert "nobody_knows_this" in refused.text
