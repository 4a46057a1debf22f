"""Experiments over HTTP and on the command line: arms are stored, shown, replayed, copied and forced."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp, RunCommand, WriteFile

HELLO = """\
script: hello
experiments:
  - {experiment: greeting, arms: [plain, warm]}
  - {experiment: pace, arms: [slow, fast], by: session}
phases:
  - phase: start
    topics:
      - topic: welcome
        actions:
          - {ask: Your name?, id: ask_name, output: [{get: name}]}
          - experiment: greeting
            id: greet
            arms:
              plain: [{say: Hello., id: plain_hello}]
              warm: [{say: "Hello, {{ name }}!", id: warm_hello}]
          - {experiment: pace, id: draw_pace, arms: {slow: [{ask: Ready?, id: ready}], fast: []}}
          - {ask: What is it about?, id: ask_topic, output: [{get: matter}]}
          - {say: "{{ greeting }}, {{ pace }}", id: tell}
"""


async def exposures(api: ApiClient, session: Any) -> list[tuple[str, str]]:
    """Return the experiments of a session with their arms, as the database has them."""
    events = await api.read(f"/api/sessions/{session['sessionId']}/events", limit=200)
    met = [each["data"] for each in events["data"] if each["kind"] == "exposed"]
    assert all(each["actionId"] and each["by"] for each in met)
    return [(each["experiment"], each["arm"]) for each in met]


async def test_a_user_has_one_arm_in_all_sessions_and_versions(app: OpenApp, tmp_path: Path) -> None:
    arms = set()
    async with app(tmp_path) as api:
        await api.publish_script(HELLO)
        for user in ("ana", "ben", "cai", "dan"):
            one, two = [await api.create_session("hello", user=user) for _ in range(2)]
            await asyncio.gather(api.send_texts(one, "A"), api.send_texts(two, "B"))
            met = [dict(await exposures(api, each))["greeting"] for each in (one, two)]
            assert met[0] == met[1]
            shown = await api.read(f"/api/users/{user}/variables")
            assert shown["variables"]["greeting"]["value"] == met[0]
            other = {"plain": "warm", "warm": "plain"}[met[0]]
            weighted = HELLO.replace("[plain, warm]", f"[{met[0]}, {{arm: {other}, weight: 1000}}]")
            await api.publish_script(weighted.replace("script: hello", f"script: {user}"))
            later = await api.create_session(user, user=user)
            await api.send_texts(later, "C")
            assert dict(await exposures(api, later))["greeting"] == met[0]
            arms |= {*met}
    assert arms == {"plain", "warm"}


async def test_a_fork_a_rewind_and_an_imported_session_stay_in_the_arm(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "here") as api, app(tmp_path / "there") as other:
        await api.publish_script(HELLO)
        session = await api.create_session("hello", seed=3)
        await api.send_texts(session, "Ana")
        met = dict(await exposures(api, session))
        path = f"/api/sessions/{session['sessionId']}"
        fork = (await api.post(f"{path}/fork", json={"turn": 0})).json()
        await api.send_texts(fork, "Ana")
        assert dict(await exposures(api, fork)) == met

        assert (await api.post(f"{path}/rewind", json={"turn": 0})).status_code == 200
        await api.send_texts(session, "Ana")
        assert len(await exposures(api, session)) == 2

        exported = (await api.get(f"{path}/export")).content
        answer = await other.post(
            "/api/sessions/import", content=exported, headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 201, answer.text
        assert dict(await exposures(other, session)) == met
        for each in (api, other):
            while (await each.read(path))["executionStatus"] == "waiting_input":
                await each.send_texts(session, "yes")
        assert await other.transcript(session) == await api.transcript(session)


async def test_masked_document_has_arms_without_the_texts_around_them(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        await api.publish_script(HELLO.replace("phases:", "declare: [{var: name, pii: true}]\nphases:", 1))
        session = await api.create_session("hello", initialVariables={"greeting": "warm", "pace": "slow"})
        await api.send_texts(session, "Warm")
        exported = await api.read(f"/api/sessions/{session['sessionId']}/export", masked="true")
        events = [each for turn in exported["turns"] for each in turn["events"]]
        met = [(each["data"]["experiment"], each["data"]["arm"]) for each in events if each["kind"] == "exposed"]
        assert met == [("greeting", "warm"), ("pace", "slow")]


async def test_imported_state_cannot_have_unknown_experiments(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        await api.publish_script(HELLO)
        session = await api.create_session("hello")
        await api.send_texts(session, "Ana")
        document = (await api.get(f"/api/sessions/{session['sessionId']}/export")).json()
        document["turns"][-1]["state"]["exposed"]["other"] = "warm"
        forged = await api.post("/api/sessions/import", json=document, params={"replace": True})
        assert forged.status_code == 422, forged.text
        assert "an experiment that the script does not have: 'other'" in forged.json()["error"]["message"]


@pytest.fixture
def talked(app: OpenApp, tmp_path: Path) -> Callable[[], None]:
    async def talk() -> None:
        async with app(tmp_path / "data") as api:
            await api.publish_script(HELLO)
            for number, user in enumerate(("ana", "ben", "ana")):
                session = await api.create_session("hello", user=user, seed=number)
                await api.send_texts(session, "A", "yes")

    return lambda: asyncio.run(talk())


def test_a_replay_gives_the_same_arms(cuebook: RunCommand, talked: Callable[[], None]) -> None:
    talked()
    result = cuebook("replay", "--all", "--data", "data", "--json")
    assert (result.exit_code, json.loads(result.stdout)["parted"]) == (0, 0)


CASES = """\
script: hello.yaml
cases:
  - name: plain
    variables: {greeting: plain, pace: fast}
    turns:
      - {expect: [Your name?]}
      - {say: Ana, expect: [Hello., What is it about?]}
      - {say: Tea, expect: ["plain, fast"]}
  - name: warm
    variables: {greeting: warm, pace: slow}
    turns:
      - {}
      - {say: Ana, expect: ["Hello, Ana!", "Ready?"]}
      - {say: "yes", expect: [What is it about?]}
      - {say: Tea, expect: ["warm, slow"], variables: {greeting: warm}}
"""


def test_cases_and_players_choose_their_arms(cuebook: RunCommand, write: WriteFile) -> None:
    write("hello.yaml", HELLO)
    write("hello.case.yaml", CASES)
    assert missed(cuebook("test", "hello.case.yaml", "--coverage", "json")) == set()
    write("inputs.txt", "Ana\nTea\nTea\n")
    for arm, said in {"plain": "Hello.", "warm": "Hello, Ana!"}.items():
        played = cuebook("play", "hello.yaml", "--inputs", "inputs.txt", "--var", f"greeting={arm}")
        assert said in played.stdout
        assert f"experiment greeting: {arm}" in played.stderr
    refused = cuebook("play", "hello.yaml", "--var", "greeting=cold")
    assert (refused.exit_code, "expected one of plain, warm" in refused.output) == (2, True)


def missed(result: Any) -> set[tuple[str, str]]:
    """Return the branches that a run of `cuebook test` reached no conversation through."""
    assert result.exit_code == 0, result.output
    (coverage,) = json.loads(result.stdout)
    return {(each["name"], each["arm"]) for each in coverage["missing"] if each["kind"] == "branch"}


def test_an_arm_is_a_branch_of_which_each_case_covers_one(cuebook: RunCommand, write: WriteFile) -> None:
    write("hello.yaml", HELLO)
    write("one.case.yaml", CASES.split("  - name: warm")[0])
    result = cuebook("test", "one.case.yaml", "--coverage", "json")
    assert missed(result) == {("start/welcome/greet", "warm"), ("start/welcome/draw_pace", "slow")}


def test_random_walks_come_through_all_arms(cuebook: RunCommand, write: WriteFile) -> None:
    write("hello.yaml", HELLO)
    result = cuebook("test", "hello.yaml", "--walk", 12, "--coverage", "json")
    assert missed(result) == set()
