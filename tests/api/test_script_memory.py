"""What scripts remember and recall over HTTP: from one session of a user to the next, in events, and in replays."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LIBRARY = Path(__file__).parents[2] / "scripts" / "library" / "check_in"
FILES = {"check_in.zh.yaml": (LIBRARY / "check_in.zh.yaml").read_text("utf-8")}
CHECK_IN = (LIBRARY / "check_in.yaml").read_text("utf-8")

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
def opened(app: Any, tmp_path: Path) -> Callable[[], Any]:
    """The application on the data of this test, whose memory finds by words."""
    return lambda: app(tmp_path / "data", None, embedder="none", scripts=tmp_path)


async def test_the_next_session_opens_with_what_the_last_one_noted_also_after_a_restart(opened):
    async with opened() as api:
        await api.keep(CHECK_IN, files=FILES)
        first = await api.begin("check_in")
        assert first["messages"][0]["content"].startswith("Welcome. ")
        await api.say(first, "run five kilometres", "it rained all week")
    async with opened() as api:
        second = await api.begin("check_in")
        assert [each["content"] for each in second["messages"]] == [
            "Welcome back. Last time you wanted this: run five kilometres.",
            "What got in the way so far: it rained all week.",
            "Is that still what you want?",
        ]
        other = await api.begin("check_in", user="ben")
        assert other["messages"][0]["content"].startswith("Welcome. ")
        chinese = await api.begin("check_in", locale="zh")
        assert chinese["messages"][0]["content"] == "欢迎回来。上次你想做到的是：run five kilometres。"


async def test_what_was_said_is_remembered_unless_the_script_says_otherwise(opened):
    async with opened() as api:
        await api.keep(FREE)
        await api.keep(FREE.replace("script: free", "script: silent").replace("k: 2", "remember: nothing"))
        silent = await api.begin("silent")
        await api.say(silent, "My dog Rex has learned to swim.")
        assert (await api.begin("free"))["messages"][0]["content"] == "What is new?"
        free = await api.begin("free")
        await api.say(free, "My dog Rex has learned to dance.")
        known = await api.begin("free")
        assert "My dog Rex has learned to dance." in known["messages"][0]["content"]
        assert "swim" not in known["messages"][0]["content"]


async def test_events_tell_what_was_remembered_and_what_was_recalled_and_why(opened):
    async with opened() as api:
        await api.keep(CHECK_IN, files=FILES)
        first = await api.begin("check_in")
        await api.say(first, "run", "rain")
        second = await api.begin("check_in")
        told = [(await api.read(f"/api/sessions/{each['sessionId']}/events"))["data"] for each in (first, second)]
    notes = [event["data"] for event in told[0] if event["kind"] == "remembered"]
    assert [(note["actionId"], note["text"]) for note in notes] == [
        ("note_goal", "What the visitor works towards: run"),
        ("note_hurdle", "What got in the way of run: rain"),
    ]
    recalled = [event["data"] for event in told[1] if event["kind"] == "recalled"]
    assert [each["actionId"] for each in recalled] == ["recall_goal", "recall_hurdles"]
    (unit,) = recalled[0]["units"]
    assert (unit["unitId"], unit["text"], unit["source"]) == (notes[0]["unitId"], notes[0]["text"], "script")
    assert unit["metadata"] == {"words": "run", "about": "goal"}
    assert unit["score"] > 0
    assert unit["signals"]


def test_a_session_is_replayed_as_it_was_though_what_it_recalled_is_forgotten(opened, cuebook):
    async def talk() -> str:
        async with opened() as api:
            await api.keep(CHECK_IN, files=FILES)
            await api.say(await api.begin("check_in"), "run", "rain")
            second = await api.begin("check_in")
            await api.message(second, {"choice": "yes"})
            units = (await api.read("/api/memory/units", userId="ana"))["data"]
            assert len(units) == 2
            for unit in units:
                answer = await api.delete(f"/api/memory/units/{unit['unitId']}", params={"userId": "ana"})
                assert answer.status_code in {200, 204}, answer.text
            third = await api.begin("check_in")
            assert third["messages"][0]["content"].startswith("Welcome. ")
            return str(second["sessionId"])

    session = asyncio.run(talk())
    result = cuebook("replay", session, "--data", "data", "--json")
    assert result.exit_code == 0, result.output
    ((replayed),) = json.loads(result.stdout)["sessions"]
    assert [turn["outcome"] for turn in replayed["turns"]] == ["same", "same"]


async def test_a_filter_that_is_none_is_told_and_not_to_be_tried_again(opened):
    async with opened() as api:
        await api.keep(CHECK_IN.replace("{metadata.about: goal}", "{abouts: goal}"), files=FILES)
        answer = await api.post("/api/sessions", json={"userId": "ana", "scriptId": "check_in"})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (503, "MEMORY_FAILED")
        assert "no field 'abouts'" in error["message"]
        assert error["recovery"]["canRetry"] is False
