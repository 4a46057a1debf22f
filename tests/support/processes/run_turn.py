"""Plays conversations of cases, each turn in a process that does nothing else and knows only what the last one saved.

A command is a line: the name of a case, the number of a turn (or ``all``, for the whole conversation in one process)
and a folder, apart from each other by tabs. For every command a child is forked, so that the cases are read once; it
ends without a goodbye, as a killed process does. What it leaves in the folder is `state` and `history`.
"""

import asyncio
import itertools
import os
import sys
import traceback
from pathlib import Path

import msgspec

from api.testing.cases.case_model import FoundCase
from api.testing.cases.case_reader import read_cases
from api.testing.cases.case_run import input_of, player_of
from runtime.engine.engine import Turn, run_turn
from runtime.state.events import HISTORY_MAX, Event, Message
from runtime.state.inputs import Start
from runtime.state.limits import Limits
from runtime.state.state import State, decode, encode
from runtime.turn.context import TurnEnvironment


class History(msgspec.Struct):
    """What there is of a session beside its state: everything that was said and that happened."""

    said: list[Message] = []
    happened: list[Event] = []


async def run_one(found: FoundCase, number: int, state: State | None, history: History) -> State:
    """Run the turn with this number and add its messages and events to the history."""
    fresh = player_of(found, found.model)
    ids = (f"m{each}" for each in itertools.count(len(history.said) + 1))
    turn: Turn = await run_turn(
        fresh.program,
        state or fresh.state,
        input_of(found.case.turns[number]) if number else Start(),
        TurnEnvironment(
            model=found.model,
            now=found.now,
            ids=lambda: next(ids),
            limits=Limits(),
            history=tuple(history.said[-HISTORY_MAX:]),
        ),
    )
    history.said += turn.messages
    history.happened += turn.events
    return turn.state


async def take_all(found: FoundCase) -> tuple[State, History]:
    """Return the whole conversation, nothing of which is saved before its end."""
    state, history = None, History()
    for number in range(len(found.case.turns)):
        state = await run_one(found, number, state, history)
    assert state is not None
    return state, history


async def take_one(found: FoundCase, number: int, folder: Path) -> tuple[State, History]:
    """Return one turn, from what the turn before it saved."""
    state, history = None, History()
    if number:
        state = decode((folder / "state").read_bytes())
        history = msgspec.json.decode((folder / "history").read_bytes(), type=History)
    return await run_one(found, number, state, history), history


def child(found: FoundCase, which: str, folder: Path) -> None:
    """What a forked process does."""
    state, history = asyncio.run(take_all(found) if which == "all" else take_one(found, int(which), folder))
    (folder / "state").write_bytes(encode(state))
    (folder / "history").write_bytes(msgspec.json.encode(history))


def serve(cases: Path) -> None:
    """Answer every command with the exit code of its process."""
    known = {str(found): found for found in read_cases(cases, {}).cases}
    print(*known, sep="\t", flush=True)
    for line in sys.stdin:
        name, which, folder = line.rstrip("\n").split("\t")
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                child(known[name], which, Path(folder))
                status = 0
            except BaseException:
                traceback.print_exc()
                raise
            finally:
                os._exit(status)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
