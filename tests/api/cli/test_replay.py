"""``cuebook replay``: recorded sessions have the same result again, or the difference is reported."""

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from api.settings import Budgets
from runtime.models.cassette_file import ScriptedReply
from runtime.models.recorded_models import ScriptedModel
from runtime.state.ports import Usage
from tests.support.data_folders import change_rows
from tests.support.fixture_types import OpenApp, RunCommand, Serve, WriteFile

TALK = """\
script: talk
use: [globals.yaml]
declare: [{var: seen, type: number, value: 0}]
detectors:
  - {detector: sad, rules: [{words: [sad], label: low}], do: [{set: {mood: detected.label}, id: keep}]}
interrupts:
  - {interrupt: price, on: [price], do: [{ask: For yourself?, id: own, output: [{get: own, type: boolean}]}]}
forms:
  - {form: about, title: About you, fields: [{field: age, type: number}, {field: city}]}
phases:
  - phase: main
    topics:
      - topic: who
        actions:
          - {say: ["Welcome.", "Hello.", "Good day.", "Hi."], id: welcome}
          - {say: "It is {{ now }}. Last time: {{ last or 'never' }}, {{ visits }}.", id: when}
          - {ask: Your name?, id: ask_name, output: [{get: name}]}
          - {set: {last: name, visits: visits + 1}, id: keep_name}
          - {form: about, id: fill}
          - {choose: colour, id: pick, question: "Which colour, {{ name }}?", choices: [{red: Red}, {blue: Blue}]}
          - {say: "{{ colour }} at {{ age }} in {{ city }}, {{ mood }}, {{ last }}.", id: told}
          - {ask: Anything else?, id: more}
"""
GLOBALS = "globals: [{var: last}, {var: visits, type: number, value: 0}]\n"
Talk = Callable[..., list[str]]


@pytest.fixture
def talked(app: OpenApp, tmp_path: Path) -> Talk:
    """Take sessions of Ana's, one message to each in turn, so that each changes her variables under the other."""

    async def talk(conversations: Sequence[list[Any]], text: str, model: Any) -> list[str]:
        (tmp_path / "talk.yaml").write_text(text)
        (tmp_path / "globals.yaml").write_text(GLOBALS)
        async with app(tmp_path / "data", model, session_cache_max=1) as api:
            await api.publish_script(text, files={"globals.yaml": GLOBALS})
            sessions = [await api.create_session("talk", initialVariables={"seen": "3"}) for _ in conversations]
            for at in range(max(map(len, conversations))):
                for session, said in zip(sessions, conversations, strict=True):
                    if at < len(said):
                        message = {"content": said[at]} if isinstance(said[at], str) else said[at]
                        answer = await api.send_message(session, message)
                        assert answer.status_code in {200, 400, 503}, answer.text
        return [session["sessionId"] for session in sessions]

    return lambda *conversations, text=TALK, model=None: asyncio.run(talk(conversations, text, model))


ANA = ["Ana", {"form": {"age": 30, "city": "Ulm"}}, "what is the price?", "yes", {"choice": "blue"}, "I am sad"]
BEN = ["Ben", {"form": {"age": "x"}}, {"form": {"age": 4}}, "so sad", "red", "no"]


def change(data: Path, sql: str) -> None:
    """Change the database behind the back of the program."""
    assert change_rows(data, sql)


def test_sessions_come_out_again_as_they_were(cuebook: RunCommand, talked: Talk) -> None:
    talked(ANA, BEN)
    result = cuebook("replay", "--all", "--data", "data", "--json")
    assert result.exit_code == 0, result.stdout
    shown = json.loads(result.stdout)
    assert shown["parted"] == 0
    assert [[turn["outcome"] for turn in each["turns"]] for each in shown["sessions"]] == [["same"] * 7, ["same"] * 7]


def test_a_session_is_replayed_from_a_turn_on(cuebook: RunCommand, talked: Talk) -> None:
    [session, _] = talked(ANA, BEN)
    result = cuebook("replay", session, "--from", 4, "--data", "data")
    assert result.exit_code == 0, result.stdout
    assert result.stdout.splitlines()[1:] == [f"turn {turn}: same" for turn in (4, 5, 6)]
    assert "3 turns match the recording" in result.stderr
    assert cuebook("replay", session, "--from", 7, "--data", "data").exit_code == 2


@pytest.mark.gate
@pytest.mark.parametrize(
    ("column", "old", "new", "turn", "expected"),
    [
        ("messages", "Which colour, Ana?", "Which colour?", 4, ["turn 4: differs at pick", "Which colour, Ana?"]),
        ("variables", '"new":"Ana"', '"new":"Eva"', 1, ["turn 1: differs at ask_name", "name = 'Eva'", "name = 'Ana'"]),
        ("state", '"value":"Ulm"', '"value":"Rom"', 2, ["turn 2: differs", "city = 'Rom'", "city = 'Ulm'"]),
        ("events", '"kind":"interrupted"', '"kind":"repaired","was":"x"', 3, ["turn 3: differs"]),
    ],
)
def test_a_turn_that_was_changed_in_the_database_is_reported(
    cuebook: RunCommand, talked: Talk, tmp_path: Path, column: str, old: str, new: str, turn: Any, expected: Any
) -> None:
    [session, _] = talked(ANA, BEN)
    change(
        tmp_path / "data",
        f"UPDATE turns SET {column} = replace({column}::TEXT, '{old}', '{new}')::JSON WHERE turn = {turn}",
    )
    result = cuebook("replay", session, "--data", "data")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[1 : turn + 1] == [f"turn {each}: same" for each in range(turn)]
    assert all(each in result.stdout for each in expected), result.stdout
    assert f"first difference in turn {turn}" in result.stderr


LED = """\
script: led
declare: [{var: mood, define: how it is, auto: true}]
detectors: [{detector: tired, define: signs of being tired, threshold: 0.5, do: [{emit: tired, id: tell}]}]
phases:
  - phase: main
    topics:
      - topic: talk
        actions:
          - {ai_say: Greet them., id: greet}
          - foreach: "['rent', 'exams'] as worry"
            id: each
            do: [{ai_ask: "How heavy is {{ worry }}?", id: weigh, output: [{get: weight, type: number}]}]
          - {ai_think: Sum it up., id: sum, output: [{get: summary}]}
          - {say: "{{ summary }}, {{ mood }}.", id: told}
          - {ask: Anything else?, id: more}
"""
REPLIES = {
    "greet": [ScriptedReply(text="Good to see you.", usage=Usage(model="tea-1", input_tokens=40, output_tokens=5))],
    "weigh": [
        ["Is the rent heavy?", "A little or a lot?", ScriptedReply(exit=True, values={"weight": 2})],
        ["And the exams?", ScriptedReply(exit=True, values={"weight": 9})],
    ],
    "weigh.extract": [[ScriptedReply(values={"mood": "low"}), ScriptedReply(fail="overloaded")], [ScriptedReply()]],
    "sum": [ScriptedReply(values={"summary": "It is a lot"})],
    "tired.detect": [ScriptedReply(), ScriptedReply(score=0.9, label="worn out"), ScriptedReply(fail="too slow")],
}
SAID = ["hm", "a little", "a lot", "no"]


@pytest.fixture
def led(app: OpenApp, tmp_path: Path) -> str:
    """Return a session that a model led."""

    async def talk() -> str:
        (tmp_path / "led.yaml").write_text(LED)
        async with app(tmp_path / "data", ScriptedModel(REPLIES)) as api:
            await api.publish_script(LED)
            session = await api.create_session("led")
            await api.send_texts(session, *SAID)
            said = [content for role, content in await api.transcript(session) if role == "assistant"]
        assert said[:4] == ["Good to see you.", "Is the rent heavy?", "A little or a lot?", "And the exams?"]
        assert said[4:] == ["It is a lot, low.", "Anything else?"]
        return str(session["sessionId"])

    return asyncio.run(talk())


def test_a_recorded_reply_of_a_model_is_replayed(cuebook: RunCommand, led: str) -> None:
    result = cuebook("replay", led, "--data", "data")
    assert (result.exit_code, result.stdout.splitlines()[1:]) == (0, [f"turn {turn}: same" for turn in range(5)])


@pytest.mark.slow
@pytest.mark.parametrize("budget", ["turn_calls", "session_calls", "user_day_calls"])
@pytest.mark.parametrize("calls", [1, 2, 4, 7])
def test_a_budget_is_used_up_where_it_was(
    cuebook: RunCommand, app: OpenApp, tmp_path: Path, budget: str, calls: int
) -> None:
    async def talk() -> Any:
        budgets = msgspec.convert({budget: calls}, Budgets)
        async with app(tmp_path / "data", ScriptedModel(REPLIES), budgets=budgets) as api:
            await api.publish_script(LED)
            session = await api.create_session("led")
            answers = [await api.send_message(session, {"content": said}) for said in SAID]
            assert {answer.status_code for answer in answers} == {200}

    asyncio.run(talk())
    result = cuebook("replay", "--all", "--data", "data")
    assert (result.exit_code, result.stdout.splitlines()[1:]) == (0, [f"turn {turn}: same" for turn in range(5)])


def test_a_request_other_than_the_recorded_one_is_reported(cuebook: RunCommand, led: str, tmp_path: Path) -> None:
    change(tmp_path / "data", "UPDATE turns SET messages = replace(messages::TEXT, 'hm', 'Hm?')::JSON WHERE turn = 1")
    result = cuebook("replay", led, "--data", "data")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[2].startswith("turn 1: stopped at weigh: the request differs from the")


GATED = """\
script: gated
detectors: [{detector: dose, "on": assistant, rules: [{words: [milligrams]}], replace: Ask a doctor.}]
phases:
  - {phase: p, topics: [{topic: t, actions: [{ai_ask: How is it?, id: lead, output: [{get: so}]}, {ask: And?, id: a}]}]}
"""


def test_withheld_reply_is_not_stored_and_its_replay_is_skipped(
    cuebook: RunCommand, app: OpenApp, tmp_path: Path
) -> None:
    replies = {"lead": ["How is it?", ScriptedReply(text="Take 50 milligrams."), ScriptedReply(exit=True)]}

    async def talk() -> None:
        async with app(tmp_path / "data", ScriptedModel(replies)) as api:
            await api.publish_script(GATED)
            assert "Ask a doctor." in str(await api.send_texts(await api.create_session("gated"), "bad"))
            await api.send_texts((await api.read("/api/sessions"))["data"][0], "better", "bye")

    asyncio.run(talk())
    result = cuebook("replay", "--all", "--data", "data")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1:] == [
        "turn 0: same",
        "turn 1: passed over at lead: the reply of the model was withheld and is not stored (ask, round 1)",
        "turn 2: same",
        "turn 3: same",
    ]


@pytest.mark.gate
@pytest.mark.parametrize("first", [0, 2])
def test_replies_are_reused_when_another_version_is_tried(
    cuebook: RunCommand, led: str, write: WriteFile, first: int
) -> None:
    write("new.yaml", LED.replace("{{ summary }}, {{ mood }}.", "So: {{ summary }}."))
    result = cuebook("replay", led, "--script", "new.yaml", "--from", first, "--data", "data", "--json")
    assert result.exit_code == 1
    [shown] = json.loads(result.stdout)["sessions"]
    assert shown["parted"] == 3
    outcomes = ["same", "same", "same", "differs", "same"]
    assert [turn["outcome"] for turn in shown["turns"]] == outcomes[first:]
    assert shown["turns"][3 - first]["differences"] == [
        {
            "what": "message",
            "action": "told",
            "recorded": {"role": "assistant", "content": "It is a lot, low.", "metadata": {}},
            "now": {"role": "assistant", "content": "So: It is a lot.", "metadata": {}},
        }
    ]


def test_unrecorded_request_ends_the_replay_or_goes_to_a_model(cuebook: RunCommand, led: str, write: WriteFile) -> None:
    write("new.yaml", LED.replace("- {ai_think: Sum", "- {ai_say: Thank them., id: thank}\n          - {ai_think: Sum"))
    result = cuebook("replay", led, "--script", "new.yaml", "--data", "data")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[4] == (
        "turn 3: stopped at thank: there is no recorded reply for thank (say, round 0)"
    )
    result = cuebook("replay", led, "--script", "new.yaml", "--data", "data", "--model", "offline")
    assert "    now       assistant: Thank them." in result.stdout
    assert result.stdout.splitlines()[-1] == "turn 4: same"


@pytest.mark.gate
def test_a_new_version_is_tried_with_what_the_users_said(cuebook: RunCommand, talked: Talk, write: WriteFile) -> None:
    [ana, ben] = talked(ANA, BEN)
    same = cuebook("replay", "--all", "--script", "talk.yaml", "--data", "data")
    assert same.exit_code == 0, same.stdout
    write("new.yaml", TALK.replace("Which colour, {{ name }}?", "What colour?").replace("id: pick", "id: hue"))
    result = cuebook("replay", "--all", "--script", "new.yaml", "--data", "data", "--json")
    assert result.exit_code == 1
    shown = json.loads(result.stdout)
    assert [each["sessionId"] for each in shown["sessions"]] == [ana, ben]
    assert [each["parted"] for each in shown["sessions"]] == [2, 3]
    first = shown["sessions"][0]["turns"][2]["differences"][0]
    assert (first["recorded"]["content"], first["now"]["content"]) == ("Which colour, Ana?", "What colour?")


def test_replay_stops_where_a_new_version_refuses_the_input(
    cuebook: RunCommand, talked: Talk, write: WriteFile
) -> None:
    [session] = talked(ANA)
    write("new.yaml", TALK.replace("{blue: Blue}", "{green: Green}"))
    result = cuebook("replay", session, "--script", "new.yaml", "--data", "data")
    assert result.exit_code == 1
    assert "turn 4: differs at pick" in result.stdout
    last = "turn 5: stopped: the recorded input is refused here: there is no choice 'blue'; there are red, green"
    assert result.stdout.splitlines()[-1] == last


@pytest.mark.gate
def test_migrated_session_is_replayed_on_the_versions_it_ran_on(
    cuebook: RunCommand, talked: Talk, app: OpenApp, tmp_path: Path, write: WriteFile
) -> None:
    [session, _] = talked(ANA[:4], BEN)
    write("new.yaml", TALK.replace("Which colour, {{ name }}?", "What colour?").replace("id: pick", "id: hue"))
    moved = cuebook("migrate", "new.yaml", "--session", session, "--data", "data", "--yes")
    assert "restart_topic" in moved.stdout, moved.stderr

    async def go_on() -> None:
        async with app(tmp_path / "data") as api:
            await api.send_texts({"sessionId": session}, "Anna", "age: 4")

    asyncio.run(go_on())
    result = cuebook("replay", "--all", "--data", "data")
    assert result.exit_code == 0, result.stdout
    result = cuebook("replay", session, "--script", "new.yaml", "--data", "data")
    assert "turn 5: passed over: the session moved to another version here" in result.stdout
    assert cuebook("migrate", "--undo", session, "--data", "data").exit_code == 2


def test_session_that_began_only_later_is_replayed(cuebook: RunCommand, app: OpenApp, tmp_path: Path) -> None:
    text = (
        "script: late\nphases: [{phase: p, topics: [{topic: t, actions: [{ai_say: Hi., id: a}, {ask: So?, id: b}]}]}]"
    )

    async def talk() -> None:
        async with app(tmp_path / "data", ScriptedModel({})) as api:
            await api.publish_script(text)
            await api.post("/api/sessions", json={"userId": "ana", "scriptId": "late", "initialVariables": {"x": 1}})
            session = (await api.read("/api/sessions"))["data"][0]
        async with app(tmp_path / "data", ScriptedModel({"a": ["Hello."]})) as api:
            await api.send_texts(session, "go", "well")

    asyncio.run(talk())
    result = cuebook("replay", "--all", "--data", "data")
    assert result.stdout.splitlines()[1:] == ["turn 0: passed over: the session could not start"] + [
        f"turn {turn}: same" for turn in (1, 2)
    ]


def test_sessions_that_cannot_be_read_any_more_are_reported(cuebook: RunCommand, talked: Talk, tmp_path: Path) -> None:
    talked(ANA, BEN[:2])
    change(
        tmp_path / "data",
        "UPDATE turns SET state = replace(state::TEXT, '\"version\":1', '\"version\":99')::JSON WHERE turn = 1",
    )
    result = cuebook("replay", "--all", "--data", "data")
    assert result.exit_code == 1
    assert result.stdout.count("turn 1: stopped: the saved state has version 99; this program reads 1 to 1") == 2
    assert cuebook("replay", "--all", "--from", 3, "--data", "data").stdout.count("  talk, version 1") == 1


@pytest.mark.gate
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["replay"], "name sessions by their ids, or all of them with --all"),
        (["replay", "--all", "x"], "name sessions by their ids, or all of them with --all"),
        (["replay", "x"], "there is no session x"),
        (["replay", "x", "--model", "offline"], "--model requires --script"),
        (["replay", "x", "--script", "bad.yaml"], "bad.yaml cannot be run"),
        (["replay", "x", "--data", "nowhere"], "there is no database in nowhere"),
    ],
)
def test_what_cannot_be_replayed_is_reported(
    cuebook: RunCommand, talked: Talk, write: WriteFile, arguments: list[str], expected: str
) -> None:
    talked(["Ana"])
    write("bad.yaml", "script: bad\nphases: 3\n")
    result = cuebook(*arguments, *([] if "--data" in arguments else ["--data", "data"]))
    assert result.exit_code == 2
    assert expected in result.stderr


@pytest.mark.database_file
def test_a_server_that_has_the_database_open_must_be_stopped(cuebook: RunCommand, serve: Serve, tmp_path: Path) -> None:
    server = serve()
    asyncio.run(server.ready())
    result = cuebook("replay", "--all", "--data", tmp_path / "data")
    assert result.exit_code == 2
    assert "stop that process" in result.stderr
    assert "replay a copy of the folder" in result.stderr


INTERVENTIONS: list[tuple[str, str, Any]] = [
    ("POST", "/pause", None),
    ("PATCH", "/variables", {"variables": {"seen": 5, "note": [1], "visits": 9, "mood": None}}),
    ("POST", "/messages/append", {"messages": [{"role": "user", "content": "hi"}, {"role": "tool", "content": "x"}]}),
    ("POST", "/resume", None),
    ("POST", "/rewind", {"turn": 1}),
    ("POST", "/clear", None),
    ("POST", "/messages", {"form": {"age": 31, "city": "Bonn"}}),
    ("POST", "/messages", {"choice": "red"}),
    ("POST", "/rewind", {"beforeUserMessage": 0}),
    ("POST", "/messages", {"form": {"age": 32}}),
    ("POST", "/end", {"reason": "enough"}),
    ("POST", "/rewind", {"turn": 8}),
]


@pytest.mark.gate
@pytest.mark.parametrize("with_model", [False, True])
def test_what_an_application_did_comes_out_again(
    cuebook: RunCommand, app: OpenApp, tmp_path: Path, with_model: bool
) -> None:
    text = TALK + "          - {ai_say: Say goodbye., id: bye, max_rounds: 5}\n"
    reply = ScriptedReply(text="Bye.", usage=Usage(model="m", input_tokens=3, output_tokens=2))
    model = ScriptedModel({"bye": [reply] * 20}) if with_model else None

    async def talk() -> None:
        async with app(tmp_path / "data", model, session_cache_max=1) as api:
            await api.publish_script(text, files={"globals.yaml": GLOBALS})
            other, session = await api.create_session("talk"), await api.create_session("talk")
            await api.send_texts(session, "Ana")
            await api.send_texts(other, "Ben")
            for method, path, body in INTERVENTIONS:
                answer = await api.request(method, f"/api/sessions/{session['sessionId']}{path}", json=body)
                assert answer.status_code == 200, (path, body, answer.text)
            for said in ({"choice": "blue"}, {"content": "no"}, {"content": "a"}, {"content": "b"}):
                assert (await api.send_message(session, said)).status_code == 200
            copied = await api.post(f"/api/sessions/{session['sessionId']}/fork", json={})
            assert copied.status_code == 201
            again = await api.post(f"/api/sessions/{copied.json()['sessionId']}/fork", json={})
            assert (await api.send_message(again.json(), {"content": "c"})).status_code == 200

    asyncio.run(talk())
    result = cuebook("replay", "--all", "--data", "data", "--json")
    assert result.exit_code == 0, result.stdout
    document = json.loads(result.stdout)
    assert (len(document["sessions"]), document["parted"]) == (4, 0)
    assert {turn["outcome"] for session in document["sessions"] for turn in session["turns"]} == {"same"}
