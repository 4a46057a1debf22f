"""Scripts over HTTP: keep, import, list, read, validate; and the sessions that run on them."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp

HELLO = """\
script: hello
title: A greeting
version: "3.1"
tags: [short]
phases:
  - phase: main
    topics:
      - topic: greeting
        actions:
          - ask: What is your name?
            id: ask_name
            output: [{get: name}]
          - say: "Hello, {{ name }}!"
            id: greet
"""
OLDER = """\
session:
  session_id: older
  session_name: An older one
  phases:
    - phase_id: p
      topics:
        - topic_id: t
          actions:
            - action_type: ai_say
              action_id: greet
              config: {content_template: Hello, require_acknowledgment: false}
"""
WITH_SIDE_FILE = """\
script: counted
use: [shared.yaml]
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - say: "Seen {{ visits }}."
            id: tell
"""
LISTED = {
    "scriptId",
    "scriptKey",
    "scriptName",
    "version",
    "versionLabel",
    "status",
    "digest",
    "tags",
    "author",
    "description",
    "createdAt",
    "updatedAt",
}
PROBLEM = {"code", "severity", "message", "fix", "file", "line", "column", "path", "patch"}


async def test_a_script_cannot_have_the_uuid_of_another_as_id(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        uuid = (await api.publish_script(HELLO))["scriptId"]
        text = HELLO.replace("script: hello", f"script: {uuid}")
        for path, publish in [("/api/scripts", True), ("/api/scripts", False), ("/api/scripts/import", True)]:
            refused = await api.post(path, json={"yamlContent": text, "publish": publish})
            assert (refused.status_code, refused.json()["error"]["details"][0]["code"]) == (422, "ID_INVALID")
            assert "the uuid of the script hello" in refused.json()["error"]["message"]
        assert (await api.read(f"/api/scripts/{uuid}"))["version"] == 1
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "other.yaml").write_text(text, "utf-8")
    async with app(tmp_path, scripts=folder) as api:
        assert (await api.read(f"/api/scripts/{uuid}"))["scriptKey"] == "hello"


async def test_a_published_script_answers_with_its_text_and_structure(api: ApiClient) -> None:
    answer = await api.post("/api/scripts", json={"yamlContent": HELLO, "author": "Ana", "description": "Greets."})
    assert answer.status_code == 201
    body = answer.json()
    assert set(body) == LISTED | {"form", "yamlContent", "files", "parsed", "diagnostics"}
    assert answer.headers["location"] == f"/api/scripts/{body['scriptId']}"
    assert (body["scriptKey"], body["scriptName"], body["version"], body["versionLabel"]) == (
        "hello",
        "A greeting",
        1,
        "3.1",
    )
    assert (body["status"], body["tags"], body["author"], body["form"]) == ("published", ["short"], "Ana", "native")
    assert (body["yamlContent"], body["diagnostics"]) == (HELLO, [])
    actions = body["parsed"]["session"]["phases"][0]["topics"][0]["actions"]
    assert [action["action_id"] for action in actions] == ["ask_name", "greet"]
    for name in (body["scriptId"], "hello"):
        assert await api.read(f"/api/scripts/{name}") == body


async def test_the_same_text_again_is_the_same_version(api: ApiClient) -> None:
    first = await api.post("/api/scripts", json={"yamlContent": HELLO})
    again = await api.post("/api/scripts", json={"yamlContent": HELLO})
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    changed = await api.publish_script(HELLO + "\n# changed\n")
    assert (changed["version"], changed["scriptId"]) == (2, first.json()["scriptId"])


async def test_import_translates_older_keys_with_located_warnings(api: ApiClient) -> None:
    script = await api.publish_script(OLDER, strict=False, scriptName="Renamed")
    assert (script["form"], script["scriptName"]) == ("session", "Renamed")
    (warning,) = script["diagnostics"]
    assert set(warning) == PROBLEM
    assert (warning["code"], warning["severity"], warning["line"]) == ("DEPRECATED_KEY", "warning", 11)
    assert "content" in warning["message"] + warning["fix"]
    assert (await api.create_session("older"))["aiMessage"] == "Hello"


@pytest.mark.parametrize("path", ["/api/scripts", "/api/scripts/import?strict=true"])
async def test_strictly_older_keys_are_errors(api: ApiClient, path: str) -> None:
    answer = await api.post(path, json={"yamlContent": OLDER})
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert error["code"] == "SCRIPT_VALIDATION_ERROR"
    assert [(detail["code"], detail["line"]) for detail in error["details"]] == [("DEPRECATED_KEY", 11)]
    assert (await api.get("/api/scripts/older")).status_code == 404


async def test_side_files_come_with_the_script(api: ApiClient) -> None:
    files = {"shared.yaml": "globals:\n  - {var: visits, type: number, value: 3}\n"}
    script = await api.publish_script(WITH_SIDE_FILE, files=files)
    assert script["files"] == files
    assert (await api.create_session("counted"))["aiMessage"] == "Seen 3."
    answer = await api.post("/api/scripts", json={"yamlContent": WITH_SIDE_FILE})
    assert answer.status_code == 422
    assert "USE_NOT_FOUND" in {detail["code"] for detail in answer.json()["error"]["details"]}
    changed = {"shared.yaml": "globals:\n  - {var: visits, type: number, value: 4}\n"}
    assert (await api.publish_script(WITH_SIDE_FILE, files=changed))["version"] == 2
    assert (await api.create_session("counted"))["aiMessage"] == "Seen 4."


async def test_text_that_is_no_yaml_is_a_parse_error(api: ApiClient) -> None:
    answer = await api.post("/api/scripts/import", json={"yamlContent": 'script: x\nphases: "unclosed\n'})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["code"], error["type"]) == ("SCRIPT_PARSE_ERROR", "syntax")
    (detail,) = error["details"]
    assert set(detail) == PROBLEM - {"path", "patch"} | {"field"}
    assert (detail["code"], detail["line"]) == ("SYNTAX_ERROR", 2)
    assert detail["fix"]


async def test_invalid_script_is_a_validation_error_with_every_place(api: ApiClient) -> None:
    text = HELLO.replace("ask: What", "aks: What").replace('"Hello, {{ name }}!"', '"Hello, {{ name !"')
    answer = await api.post("/api/scripts", json={"yamlContent": text})
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert (error["code"], error["type"]) == ("SCRIPT_VALIDATION_ERROR", "configuration")
    lines = {detail["line"] for detail in error["details"]}
    assert {10, 13} <= lines
    assert all(detail["column"] >= 1 and detail["message"] and detail["fix"] for detail in error["details"])


async def test_validation_keeps_nothing(api: ApiClient) -> None:
    fine = await api.post("/api/scripts/validate", json={"yamlContent": HELLO})
    assert fine.status_code == 200
    assert fine.json() == {"valid": True, "diagnostics": []}
    broken = (await api.post("/api/scripts/validate", json={"yamlContent": "nothing"})).json()
    assert broken["valid"] is False
    assert set(broken["diagnostics"][0]) == PROBLEM
    for strict, valid in ((False, True), (True, False)):
        body = (await api.post("/api/scripts/validate", params={"strict": strict}, json={"yamlContent": OLDER})).json()
        assert body["valid"] is valid
        assert body["diagnostics"][0]["line"] == 11
        patch = {"line": 11, "column": 24, "written": "content_template", "text": "content"}
        assert body["diagnostics"][0]["patch"] == patch
    assert (await api.get("/api/scripts/hello")).status_code == 404


async def test_a_published_script_is_validated_again(api: ApiClient) -> None:
    script = await api.publish_script(OLDER, strict=False)
    for name in (script["scriptId"], "older"):
        again = (await api.post(f"/api/scripts/{name}/validate")).json()
        assert again == {"valid": True, "diagnostics": script["diagnostics"]}
    assert (await api.post(f"/api/scripts/{uuid4()}/validate")).status_code == 404


async def test_scripts_are_listed_searched_and_paged(api: ApiClient) -> None:
    for number in range(5):
        text = HELLO.replace("script: hello", f"script: hello{number}").replace("A greeting", f"Greeting 第{number}")
        await api.publish_script(text, tags=["even" if number % 2 == 0 else "odd"])

    async def keys(**filters: Any) -> list[str]:
        page = await api.read("/api/scripts", **filters)
        assert all(set(row) == LISTED for row in page["data"])
        return [row["scriptKey"] for row in page["data"]]

    assert await keys() == ["hello4", "hello3", "hello2", "hello1", "hello0", "visit", "diary"]
    assert await keys(search="第3") == ["hello3"]
    assert await keys(search="GREETING") == ["hello4", "hello3", "hello2", "hello1", "hello0"]
    assert await keys(search="100%") == []
    assert await keys(tag="even") == ["hello4", "hello2", "hello0"]
    assert await keys(tag="adults") == ["visit"]
    assert await keys(status="published", tag="odd") == ["hello3", "hello1"]
    assert await keys(status="archived") == []
    found: list[str] = []
    cursor = None
    while cursor or not found:
        page = await api.read("/api/scripts", limit=3, **({"cursor": cursor} if cursor else {}))
        found += [row["scriptKey"] for row in page["data"]]
        cursor = page["nextCursor"]
    assert found == await keys()


async def test_a_new_version_leaves_running_sessions_on_the_old_text(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        await api.publish_script(HELLO)
        sessions = [await api.create_session("hello") for _ in range(2)]
        script = await api.publish_script(HELLO.replace("Hello,", "Goodbye,").replace("What is", "Tell me"))
        assert (await api.send_texts(sessions[0], "Ana"))["aiMessage"] == "Hello, Ana!"
    async with app(tmp_path) as api:
        assert (await api.send_texts(sessions[1], "Ben"))["aiMessage"] == "Hello, Ben!"
        newer = await api.create_session(script["scriptId"])
        assert (await api.send_texts(newer, "Cleo"))["aiMessage"] == "Goodbye, Cleo!"


async def test_the_scripts_folder_is_published_at_start_and_once(app: OpenApp, tmp_path: Path) -> None:
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "hello.yaml").write_text(HELLO)
    (folder / "broken.yaml").write_text("script: broken\nphases: 3\n")
    for _ in range(2):
        async with app(tmp_path, scripts=folder) as api:
            (row,) = (await api.read("/api/scripts"))["data"]
            assert (row["scriptKey"], row["version"]) == ("hello", 1)
    (folder / "hello.yaml").write_text(HELLO + "# changed\n")
    async with app(tmp_path, scripts=folder) as api:
        assert (await api.read("/api/scripts/hello"))["version"] == 2
