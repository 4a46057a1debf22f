"""The whole state of a session as one value: saved and read back it is the same, and old ones are read for ever."""

import msgspec
import pytest

from runtime.models.offline_model import OfflineModel
from runtime.state.limits import Limits
from runtime.state.state import STATE_VERSION, Choice, Progress, State, StateUnreadable, Wait, decode, encode
from tests.support.paths import DATA
from tests.support.runtime_session import NewSession, StartSession

SAVED = DATA / "saved_states"

WAITS = """
script: waits
declare:
- {var: name}
- {var: mood, type: choice, choices: [low, good]}
- {var: seen, type: list, value: [1, 2.5, {a: no}]}
phases:
- phase: only
  declare: [{var: since, type: date, value: '2026-01-31'}]
  topics:
  - topic: talk
    actions:
    - {ai_say: Hello., id: hello, max_rounds: 2}
    - {user_say: Fine., id: fine}
    - {ask: Mood?, id: mood, output: [{get: mood, choices: [low, good]}]}
    - {ai_ask: Name., id: name, output: [{get: name}, {get: age, type: number, required: true}], max_rounds: 5}
    - foreach: "['a', {'b': [1, none]}] as item"
      id: each
      do:
      - repeat: {max: 2}
        id: twice
        do:
        - choose: picked
          id: pick
          choices: [{x: "X {{ item }}", actions: [{ask: Why?, id: why, output: [{get: why, type: list}]}]}, {y: Y}]
    - {say: [one, two, three], id: last}
"""
REPLIES = ["hi", "fine", "ok?", "good", "name: Ana", "", "28", "x", "a, b", "y", "1", "c", "y"]


async def test_the_state_is_the_same_after_saving_at_every_wait(drive: StartSession) -> None:
    session = await drive(WAITS)
    waits = []
    for reply in REPLIES:
        assert decode(encode(session.state)) == session.state
        assert session.state.execution_status == "waiting_input"
        waits.append(session.state.wait.kind)
        await session.reply(reply)
    assert set(waits) == {"acknowledge", "suggestion", "choice", "text"}
    assert decode(encode(session.state)) == session.state
    assert session.state.execution_status == "completed"


async def test_continuing_from_a_saved_state_equals_never_stopping(drive: StartSession) -> None:
    straight = await (await drive(WAITS)).reply(*REPLIES)
    stopped = await (await drive(WAITS, saved=True)).reply(*REPLIES)
    assert stopped.turns == straight.turns
    assert stopped.state == straight.state


def test_saved_state_has_its_version_and_leaves_out_defaults() -> None:
    assert msgspec.json.decode(encode(State(seed=7, locale="zh"))) == {
        "seed": 7,
        "locale": "zh",
        "version": STATE_VERSION,
    }


@pytest.mark.parametrize(
    "saved",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        "\ud800",
        b"{}",
        b'{"seed": 1, "locale": "en"}',
        b'{"seed": 1, "locale": "x/y", "version": 1}',
        b'{"seed": "one", "locale": "en", "version": 1}',
        b'{"seed": 1, "locale": "en", "version": 1, "wait": {"kind": "sleep"}}',
        b'{"seed": 1, "locale": "en", "version": 1, "session_cells": {"a": {"value": ' + b"[" * 100_000,
        encode(State(seed=1, locale="en"))[:-1],
    ],
)
def test_what_is_no_saved_state_is_unreadable(saved) -> None:
    with pytest.raises(StateUnreadable, match="cannot be read"):
        decode(saved)


@pytest.mark.parametrize("version", [0, STATE_VERSION + 1, 99])
def test_a_state_of_another_time_says_so_whatever_else_it_holds(version) -> None:
    saved = msgspec.json.encode({"version": version, "seed": "?", "wait": {"kind": "not yet known"}})
    with pytest.raises(StateUnreadable, match=f"has version {version}; this program reads 1 to {STATE_VERSION}"):
        decode(saved)


async def test_a_state_saved_by_version_1_is_read_and_goes_on(prepare: NewSession) -> None:
    """The file is never written again: it stands for every session that was ever saved."""
    state = decode((SAVED / "state_v1.json").read_bytes())
    session = prepare(WAITS)
    session.state = state
    assert state.wait == Wait("choice", (Choice("x", "X a"), Choice("y", "Y")))
    assert state.progress == Progress()
    assert session.values == {
        "name": "Ana",
        "mood": "good",
        "seen": [1, 2.5, {"a": "no"}],
        "since": "2026-01-31",
        "age": 28,
        "picked": "x",
        "why": ["a", "b"],
    }
    await session.reply("y", "1", "c", "y")
    assert session.said == ["two"]
    assert (session.state.status, session.state.turn, session.state.message_seq) == ("completed", 13, 23)


async def test_a_turn_changes_nothing_of_the_state_it_began_with(prepare: NewSession) -> None:
    session = prepare(WAITS, limits=Limits())
    assert isinstance(session.model, OfflineModel)
    states = []
    await session.start()
    for reply in REPLIES:
        states.append((session.state, encode(session.state)))
        await session.reply(reply)
    assert all(encode(state) == saved for state, saved in states)
