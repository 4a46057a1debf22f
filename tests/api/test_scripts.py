"""Scripts over HTTP: keep, import, list, read, validate; and the sessions that run on them."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

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
PROBLEM = {"code", "severity", "message", "fix", "file", "line", "column", "path"}


async def test_a_kept_script_answers_with_its_text_and_structure(api: Any) -> None:
    answer = await api.post("/api/scripts", json={"yamlContent": HELLO, "author": "Ana", "description": "Greets."})
    assert answer.status_code == 201
    kept = answer.json()
    assert set(kept) == LISTED | {"form", "yamlContent", "files", "parsed", "diagnostics", "success"}
    assert answer.headers["location"] == f"/api/scripts/{kept['scriptId']}"
    assert (kept["scriptKey"], kept["scriptName"], kept["version"], kept["versionLabel"]) == (
        "hello",
        "A greeting",
        1,
        "3.1",
    )
    assert (kept["status"], kept["tags"], kept["author"], kept["form"]) == ("published", ["short"], "Ana", "native")
    assert (kept["yamlContent"], kept["diagnostics"]) == (HELLO, [])
    actions = kept["parsed"]["session"]["phases"][0]["topics"][0]["actions"]
    assert [action["action_id"] for action in actions] == ["ask_name", "greet"]
    for name in (kept["scriptId"], "hello"):
        assert await api.read(f"/api/scripts/{name}") == kept


async def test_the_same_text_again_is_the_same_version(api: Any) -> None:
    first = await api.post("/api/scripts", json={"yamlContent": HELLO})
    again = await api.post("/api/scripts", json={"yamlContent": HELLO})
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    changed = await api.keep(HELLO + "\n# changed\n")
    assert (changed["version"], changed["scriptId"]) == (2, first.json()["scriptId"])


async def test_import_translates_older_keys_with_located_warnings(api: Any) -> None:
    kept = await api.keep(OLDER, strict=False, scriptName="Renamed")
    assert (kept["form"], kept["scriptName"]) == ("session", "Renamed")
    (warning,) = kept["diagnostics"]
    assert set(warning) == PROBLEM
    assert (warning["code"], warning["severity"], warning["line"]) == ("DEPRECATED_KEY", "warning", 11)
    assert "content" in warning["message"] + warning["fix"]
    assert (await api.begin("older"))["aiMessage"] == "Hello"


@pytest.mark.parametrize("path", ["/api/scripts", "/api/scripts/import?strict=true"])
async def test_strictly_older_keys_are_errors(api: Any, path: str) -> None:
    answer = await api.post(path, json={"yamlContent": OLDER})
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert error["code"] == "SCRIPT_VALIDATION_ERROR"
    assert [(detail["code"], detail["line"]) for detail in error["details"]] == [("DEPRECATED_KEY", 11)]
    assert (await api.get("/api/scripts/older")).status_code == 404


async def test_side_files_come_with_the_script(api: Any) -> None:
    files = {"shared.yaml": "globals:\n  - {var: visits, type: number, value: 3}\n"}
    kept = await api.keep(WITH_SIDE_FILE, files=files)
    assert kept["files"] == files
    assert (await api.begin("counted"))["aiMessage"] == "Seen 3."
    answer = await api.post("/api/scripts", json={"yamlContent": WITH_SIDE_FILE})
    assert answer.status_code == 422
    assert "USE_NOT_FOUND" in {detail["code"] for detail in answer.json()["error"]["details"]}
    changed = {"shared.yaml": "globals:\n  - {var: visits, type: number, value: 4}\n"}
    assert (await api.keep(WITH_SIDE_FILE, files=changed))["version"] == 2
    assert (await api.begin("counted"))["aiMessage"] == "Seen 4."


async def test_text_that_is_no_yaml_is_a_parse_error(api: Any) -> None:
    answer = await api.post("/api/scripts/import", json={"yamlContent": 'script: x\nphases: "unclosed\n'})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["code"], error["type"]) == ("SCRIPT_PARSE_ERROR", "syntax")
    (detail,) = error["details"]
    assert set(detail) == PROBLEM
    assert (detail["code"], detail["line"]) == ("SYNTAX_ERROR", 2)
    assert detail["fix"]


async def test_a_script_that_makes_no_sense_is_a_validation_error_with_every_place(api: Any) -> None:
    text = HELLO.replace("ask: What", "aks: What").replace('"Hello, {{ name }}!"', '"Hello, {{ name !"')
    answer = await api.post("/api/scripts", json={"yamlContent": text})
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert (error["code"], error["type"]) == ("SCRIPT_VALIDATION_ERROR", "configuration")
    lines = {detail["line"] for detail in error["details"]}
    assert {10, 13} <= lines
    assert all(detail["column"] >= 1 and detail["message"] and detail["fix"] for detail in error["details"])


async def test_validation_keeps_nothing(api: Any) -> None:
    fine = await api.post("/api/scripts/validate", json={"yamlContent": HELLO})
    assert fine.status_code == 200
    assert fine.json() == {"success": True, "valid": True, "diagnostics": []}
    broken = (await api.post("/api/scripts/validate", json={"yamlContent": "nothing"})).json()
    assert (broken["success"], broken["valid"]) == (True, False)
    assert set(broken["diagnostics"][0]) == PROBLEM
    for strict, valid in ((False, True), (True, False)):
        body = (await api.post("/api/scripts/validate", params={"strict": strict}, json={"yamlContent": OLDER})).json()
        assert body["valid"] is valid
        assert body["diagnostics"][0]["line"] == 11
    assert (await api.get("/api/scripts/hello")).status_code == 404


async def test_a_kept_script_is_validated_again(api: Any) -> None:
    kept = await api.keep(OLDER, strict=False)
    for name in (kept["scriptId"], "older"):
        again = (await api.post(f"/api/scripts/{name}/validate")).json()
        assert again == {"success": True, "valid": True, "diagnostics": kept["diagnostics"]}
    assert (await api.post(f"/api/scripts/{uuid4()}/validate")).status_code == 404


async def test_scripts_are_listed_searched_and_paged(api: Any) -> None:
    for number in range(5):
        text = HELLO.replace("script: hello", f"script: hello{number}").replace("A greeting", f"Greeting 第{number}")
        await api.keep(text, tags=["even" if number % 2 == 0 else "odd"])

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


async def test_a_new_version_leaves_running_sessions_on_the_old_text(app: Any, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        await api.keep(HELLO)
        sessions = [await api.begin("hello") for _ in range(2)]
        kept = await api.keep(HELLO.replace("Hello,", "Goodbye,").replace("What is", "Tell me"))
        assert (await api.say(sessions[0], "Ana"))["aiMessage"] == "Hello, Ana!"
    async with app(tmp_path) as api:
        assert (await api.say(sessions[1], "Ben"))["aiMessage"] == "Hello, Ben!"
        newer = await api.begin(kept["scriptId"])
        assert (await api.say(newer, "Cleo"))["aiMessage"] == "Goodbye, Cleo!"


async def test_the_scripts_folder_is_published_at_start_and_once(app: Any, tmp_path: Path) -> None:
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
