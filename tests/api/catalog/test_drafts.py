"""Drafts over HTTP: unpublished texts, which two authors do not overwrite by accident; and outlines of scripts."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from store.sql import script_texts
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp

DRAFT = "/api/drafts/talk"
TALK = "cuebook: 1\nscript: talk\nactions:\n  - ask: Name?\n    into: name\n  - say: Bye.\n    when: name\n"


@pytest.fixture
async def api(app: OpenApp, tmp_path: Path) -> Any:
    async with app(tmp_path) as client:
        yield client


async def save(api: ApiClient, text: str, expected: int | None = None, **more: Any) -> Any:
    headers = {} if expected is None else {"If-Match": f'"{expected}"'}
    return await api.put(DRAFT, json={"yamlContent": text, **more}, headers=headers)


async def test_draft_keeps_any_text_and_changes_no_version(api: ApiClient):
    await api.publish_script(TALK)
    broken = "script: talk\nactions: [\n"
    saved = await save(api, broken, 0, files={"more.yaml": "cuebook: 1"}, baseVersion=1)
    assert saved.status_code == 200
    draft = await api.read(DRAFT)
    assert (draft["yamlContent"], draft["files"], draft["baseVersion"]) == (broken, {"more.yaml": "cuebook: 1"}, 1)
    assert saved.headers["etag"] == f'"{draft["revision"]}"'
    assert (await api.read("/api/scripts/talk"))["yamlContent"] == TALK
    assert [each["scriptId"] for each in (await api.read("/api/drafts"))["data"]] == ["talk"]


async def test_save_that_began_from_another_revision_is_refused(api: ApiClient):
    first = (await save(api, "one", 0)).json()["revision"]
    again = await save(api, "two", 0)
    assert (again.status_code, again.json()["error"]["code"]) == (412, "DRAFT_CONFLICT")
    assert again.json()["error"]["context"]["revision"] == first
    second = (await save(api, "three", first)).json()["revision"]
    assert second > first
    assert (await save(api, "four", first)).status_code == 412
    assert (await api.read(DRAFT))["yamlContent"] == "three"
    assert (await save(api, "five")).status_code == 200  # without a condition


async def test_revision_grows_over_deletions(api: ApiClient):
    first = (await save(api, "one")).json()["revision"]
    assert (await api.delete(DRAFT, headers={"If-Match": '"1"'})).status_code == 412
    assert (await api.delete(DRAFT, headers={"If-Match": f'"{first}"'})).status_code == 204
    assert (await api.get(DRAFT)).json()["error"]["code"] == "DRAFT_NOT_FOUND"
    assert (await api.delete(DRAFT)).status_code == 404
    assert (await save(api, "two", 0)).json()["revision"] > first


async def test_first_save_remains_the_creation(api: ApiClient):
    created = (await save(api, "one")).json()
    changed = (await save(api, "two")).json()
    assert changed["createdAt"] == created["createdAt"] < changed["updatedAt"]


async def test_drafts_are_listed_by_pages_the_last_saved_first(api: ApiClient):
    for name in ("a", "b", "c"):
        await api.put(f"/api/drafts/{name}", json={"yamlContent": ""})
    first = await api.read("/api/drafts", limit=2)
    rest = await api.read("/api/drafts", limit=2, cursor=first["nextCursor"])
    assert [each["scriptId"] for page in (first, rest) for each in page["data"]] == ["c", "b", "a"]
    assert rest["nextCursor"] is None


@pytest.mark.parametrize(
    ("path", "headers", "words"),
    [
        ("/api/drafts/%20", {}, "cannot be the id of a script"),
        (f"/api/drafts/{'x' * 201}", {}, "cannot be the id of a script"),
        (DRAFT, {"If-Match": '"x"'}, "If-Match: it takes the ETag of the answer that was changed"),
    ],
)
async def test_invalid_request_is_refused(api: ApiClient, path: str, headers: dict[str, str], words: str):
    answer = await api.put(path, json={"yamlContent": ""}, headers=headers)
    assert (answer.status_code, words in answer.json()["error"]["message"]) == (400, True)


async def test_number_of_drafts_is_bounded(api: ApiClient, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(script_texts.DRAFTS, "rows_max", 1)
    await save(api, "one")
    refused = await api.put("/api/drafts/other", json={"yamlContent": ""})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "DRAFTS_FULL")
    assert (await save(api, "two")).status_code == 200


async def test_session_begins_with_a_version_that_is_not_published(api: ApiClient):
    await api.publish_script(TALK)
    await api.publish_script(TALK.replace("Name?", "Who?"), publish=False)
    published = await api.create_session("talk")
    tried = await api.create_session("talk", scriptVersion=2)
    assert [each["messages"][0]["content"] for each in (published, tried)] == ["Name?", "Who?"]
    unknown = await api.post("/api/sessions", json={"userId": "ana", "scriptId": "talk", "scriptVersion": 3})
    assert unknown.json()["error"]["code"] == "SCRIPT_NOT_FOUND"


async def test_outline_has_the_lines_of_every_part(api: ApiClient):
    text = (
        "cuebook: 1\nscript: talk\nuse: [bye.yaml]\nphases:\n  - phase: one\n    topics:\n      - topic: names\n"
        "        title: Names\n        actions:\n"
        "          - if: true\n            then:\n              - {say: Hi., id: hi}\n"
        "          - {call: bye, id: leave}\n"
    )
    files = {"bye.yaml": "cuebook: 1\nskills:\n  - skill: bye\n    actions:\n      - {say: Bye., id: bye}\n"}
    answer = await api.post("/api/scripts/outline", json={"yamlContent": text, "files": files})
    assert answer.status_code == 200, answer.text
    found = [
        (each["kind"], each["id"], each["type"], each["text"], each["depth"], each["file"], each["line"])
        for each in answer.json()["data"]
    ]
    assert found == [
        ("phase", "one", "", "", 0, "", 5),
        ("topic", "names", "", "Names", 1, "", 7),
        ("action", "if_1", "if", "true", 2, "", 10),
        ("action", "hi", "say", "Hi.", 3, "", 12),
        ("action", "leave", "call", "bye", 2, "", 13),
        ("phase", "skills", "", "", 0, "", 0),
        ("topic", "bye", "", "", 1, "bye.yaml", 3),
        ("action", "bye", "say", "Bye.", 2, "bye.yaml", 5),
    ]
    assert answer.json()["svg"].startswith("<svg")
    _, names, *actions = [each["area"] for each in answer.json()["data"][:5]]
    for above, area in pairwise([names, *actions]):
        assert names["x"] <= area["x"] and area["x"] + area["width"] <= names["x"] + names["width"]
        assert above["y"] < area["y"] and area["y"] + area["height"] <= names["y"] + names["height"]


async def test_script_with_errors_has_no_outline(api: ApiClient):
    answer = await api.post(
        "/api/scripts/outline", json={"yamlContent": "cuebook: 1\nscript: x\nactions:\n  - sy: x\n"}
    )
    assert answer.json()["error"]["code"] == "SCRIPT_VALIDATION_ERROR"
