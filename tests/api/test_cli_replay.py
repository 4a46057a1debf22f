"""``cuebook replay``: recorded sessions come out again as they were, and where they do not, it is told."""

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

TALK = """\
script: talk
use: [globals.yaml]
declare: [{var: seen, type: number, value: 0}]
detectors:
  - {detector: sad, rules: [{words: [sad], label: low}], do: [{set: {mood: detected.label}, id: keep}]}
interrupts:
  - {interrupt: price, on: [price], do: [{ask: "Do you ask for yourself?", id: own, output: [{get: own, type: boolean}]}]}
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
def talked(app: Any, tmp_path: Path) -> Talk:
    """Takes sessions of Ana's, one message to each in turn, so that each changes her variables under the other."""

    async def talk(conversations: Sequence[list[Any]], text: str, model: Any) -> list[str]:
        (tmp_path / "talk.yaml").write_text(text)
        (tmp_path / "globals.yaml").write_text(GLOBALS)
        async with app(tmp_path / "data", model, hot_sessions_max=1) as api:
            await api.keep(text, files={"globals.yaml": GLOBALS})
            sessions = [await api.begin("talk", initialVariables={"seen": "3"}) for _ in conversations]
            for at in range(max(map(len, conversations))):
                for session, said in zip(sessions, conversations, strict=True):
                    if at < len(said):
                        message = {"content": said[at]} if isinstance(said[at], str) else said[at]
                        answer = await api.message(session, message)
                        assert answer.status_code in {200, 400, 503}, answer.text
        return [session["sessionId"] for session in sessions]

    return lambda *conversations, text=TALK, model=None: asyncio.run(talk(conversations, text, model))


ANA = ["Ana", {"form": {"age": 30, "city": "Ulm"}}, "what is the price?", "yes", {"choice": "blue"}, "I am sad"]
BEN = ["Ben", {"form": {"age": "x"}}, {"form": {"age": 4}}, "so sad", "red", "no"]


def change(data: Path, sql: str) -> None:
    """Changes the record behind the back of the program."""
    with duckdb.connect(str(next(data.glob("*.duckdb")))) as connection:
        connection.execute(sql)


def test_sessions_come_out_again_as_they_were(cuebook: Callable[..., Any], talked: Talk) -> None:
    talked(ANA, BEN)
    result = cuebook("replay", "--all", "--data", "data", "--json")
    assert result.exit_code == 0, result.stdout
    shown = json.loads(result.stdout)
    assert shown["parted"] == 0
    assert [[turn["outcome"] for turn in each["turns"]] for each in shown["sessions"]] == [["same"] * 7, ["same"] * 7]


def test_a_session_is_replayed_from_a_turn_on(cuebook: Callable[..., Any], talked: Talk) -> None:
    [session, _] = talked(ANA, BEN)
    result = cuebook("replay", session, "--from", 4, "--data", "data")
    assert result.exit_code == 0, result.stdout
    assert result.stdout.splitlines()[1:] == [f"turn {turn}: same" for turn in (4, 5, 6)]
    assert "3 turns come out as they were recorded" in result.stderr
    assert cuebook("replay", session, "--from", 7, "--data", "data").exit_code == 2


@pytest.mark.parametrize(
    ("column", "old", "new", "turn", "told"),
    [
        ("messages", "Which colour, Ana?", "Which colour?", 4, ["turn 4: differs at pick", "Which colour, Ana?"]),
        ("variables", '"new":"Ana"', '"new":"Eva"', 1, ["turn 1: differs at ask_name", "name = 'Eva'", "name = 'Ana'"]),
        ("state", '"value":"Ulm"', '"value":"Rom"', 2, ["turn 2: differs", "city = 'Rom'", "city = 'Ulm'"]),
        ("events", '"kind":"interrupted"', '"kind":"repaired","was":"x"', 3, ["turn 3: differs"]),
    ],
)
def test_a_turn_that_was_changed_in_the_record_is_told(
    cuebook: Callable[..., Any], talked: Talk, tmp_path: Path, column: str, old: str, new: str, turn: Any, told: Any
) -> None:
    [session, _] = talked(ANA, BEN)
    change(tmp_path / "data", f"UPDATE turns SET {column} = replace({column}, '{old}', '{new}') WHERE turn = {turn}")
    result = cuebook("replay", session, "--data", "data")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[1 : turn + 1] == [f"turn {each}: same" for each in range(turn)]
    assert all(each in result.stdout for each in told), result.stdout
    assert f"they part in turn {turn}" in result.stderr
