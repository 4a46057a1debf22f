"""What scripts remember and recall over HTTP: from one session of a user to the next, in events, and in replays."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.fixture_types import OpenApp, RunCommand
from tests.support.paths import LIBRARY

FOLDER = LIBRARY / "check_in"
FILES = {"check_in.zh.yaml": (FOLDER / "check_in.zh.yaml").read_text("utf-8")}
CHECK_IN = (FOLDER / "check_in.yaml").read_text("utf-8")

FREE = """\
script: free
memory: {k: 2}
phases:
  - phase: only
    topics:
      - topic: talk
        actions:
          - {say: "{{ recall('my dog Rex') }}", id: known}
          - {ask: What is new?, id: ask_new}
          - {ask: And what else?, id: ask_else}
"""


@pytest.fixture
def opened(app: OpenApp, tmp_path: Path) -> Callable[[], Any]:
    """Return the application on the data of this test, whose memory finds by words."""
    return lambda: app(tmp_path / "data", None, embedder="none", scripts=tmp_path)


async def test_the_next_session_knows_the_notes_of_the_last_one(opened) -> None:
    async with opened() as api:
        await api.publish_script(CHECK_IN, files=FILES)
        first = await api.create_session("check_in")
        assert first["messages"][0]["content"].startswith("Welcome. ")
        await api.send_texts(first, "run five kilometres", "it rained all week")
    async with opened() as api:
        second = await api.create_session("check_in")
        assert [each["content"] for each in second["messages"]] == [
            "Welcome back. Last time you wanted this: run five kilometres.",
            "What got in the way so far: it rained all week.",
            "Is that still what you want?",
        ]
        other = await api.create_session("check_in", user="ben")
        assert other["messages"][0]["content"].startswith("Welcome. ")
        chinese = await api.create_session("check_in", locale="zh")
        assert chinese["messages"][0]["content"] == "欢迎回来。上次你想做到的是：run five kilometres。"


async def test_messages_are_remembered_unless_the_script_forbids_it(opened) -> None:
    async with opened() as api:
        await api.publish_script(FREE)
        await api.publish_script(FREE.replace("script: free", "script: silent").replace("k: 2", "remember: nothing"))
        silent = await api.create_session("silent")
        await api.send_texts(silent, "My dog Rex has learned to swim.")
        assert (await api.create_session("free"))["messages"][0]["content"] == "What is new?"
        free = await api.create_session("free")
        await api.send_texts(free, "My dog Rex has learned to dance.")
        known = await api.create_session("free")
        assert "My dog Rex has learned to dance." in known["messages"][0]["content"]
        assert "swim" not in known["messages"][0]["content"]


async def test_events_have_what_was_remembered_and_recalled_and_why(opened) -> None:
    async with opened() as api:
        await api.publish_script(CHECK_IN, files=FILES)
        first = await api.create_session("check_in")
        await api.send_texts(first, "run", "rain")
        second = await api.create_session("check_in")
        reported = [(await api.read(f"/api/sessions/{each['sessionId']}/events"))["data"] for each in (first, second)]
    notes = [event["data"] for event in reported[0] if event["kind"] == "remembered"]
    assert [(note["actionId"], note["text"]) for note in notes] == [
        ("note_goal", "What the visitor works towards: run"),
        ("note_hurdle", "What got in the way of run: rain"),
    ]
    recalled = [event["data"] for event in reported[1] if event["kind"] == "recalled"]
    assert [each["actionId"] for each in recalled] == ["recall_goal", "recall_hurdles"]
    (unit,) = recalled[0]["units"]
    assert (unit["unitId"], unit["text"], unit["source"]) == (notes[0]["unitId"], notes[0]["text"], "script")
    assert unit["metadata"] == {"words": "run", "about": "goal"}
    assert unit["score"] > 0
    assert unit["signals"]


def test_replay_is_the_same_if_recalled_units_are_forgotten(opened, cuebook: RunCommand) -> None:
    async def talk() -> str:
        async with opened() as api:
            await api.publish_script(CHECK_IN, files=FILES)
            await api.send_texts(await api.create_session("check_in"), "run", "rain")
            second = await api.create_session("check_in")
            await api.send_message(second, {"choice": "yes"})
            units = (await api.read("/api/memory/units", userId="ana"))["data"]
            assert len(units) == 2
            for unit in units:
                answer = await api.delete(f"/api/memory/units/{unit['unitId']}", params={"userId": "ana"})
                assert answer.status_code in {200, 204}, answer.text
            third = await api.create_session("check_in")
            assert third["messages"][0]["content"].startswith("Welcome. ")
            return str(second["sessionId"])

    session = asyncio.run(talk())
    result = cuebook("replay", session, "--data", "data", "--json")
    assert result.exit_code == 0, result.output
    ((replayed),) = json.loads(result.stdout)["sessions"]
    assert [turn["outcome"] for turn in replayed["turns"]] == ["same", "same"]


async def test_an_invalid_filter_is_reported_as_not_worth_a_retry(opened) -> None:
    async with opened() as api:
        await api.publish_script(CHECK_IN.replace("{metadata.about: goal}", "{abouts: goal}"), files=FILES)
        answer = await api.post("/api/sessions", json={"userId": "ana", "scriptId": "check_in"})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (503, "MEMORY_FAILED")
        assert "no field 'abouts'" in error["message"]
        assert error["recovery"]["canRetry"] is False
