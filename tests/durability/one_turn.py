"""Plays conversations of cases, each turn in a process that does nothing else and knows only what the last one saved.

A command is a line: the name of a case, the number of a turn (or ``all``, for the whole conversation in one process)
and a folder, apart from each other by tabs. For every command a child is forked, so that the cases are read once; it
ends without a goodbye, as a killed process does. What it leaves in the folder is `state` and `kept`.
"""

import asyncio
import itertools
import os
import sys
import traceback
from pathlib import Path

import msgspec

from api.cases.model import FoundCase
from api.cases.reading import read_cases
from api.cases.run import given_by, player_of
from runtime.engine import Turn, run_turn
from runtime.events import HISTORY_MAX, Event, Message
from runtime.inputs import Start
from runtime.run import Limits
from runtime.state import State, decode, encode


class Kept(msgspec.Struct):
    """What there is of a session beside its state: everything that was said and that happened."""

    said: list[Message] = []
    happened: list[Event] = []


async def take(found: FoundCase, number: int, state: State | None, kept: Kept) -> State:
    """The turn of a number; what came of it joins what is kept."""
    fresh = player_of(found, found.model)
    ids = (f"m{each}" for each in itertools.count(len(kept.said) + 1))
    turn: Turn = await run_turn(
        fresh.program,
        state or fresh.state,
        given_by(found.case.turns[number]) if number else Start(),
        model=found.model,
        clock=lambda: found.now,
        ids=lambda: next(ids),
        limits=Limits(),
        history=tuple(kept.said[-HISTORY_MAX:]),
    )
    kept.said += turn.messages
    kept.happened += turn.events
    return turn.state


async def take_all(found: FoundCase) -> tuple[State, Kept]:
    """The whole conversation, nothing of which is saved before its end."""
    state, kept = None, Kept()
    for number in range(len(found.case.turns)):
        state = await take(found, number, state, kept)
    assert state is not None
    return state, kept


async def take_one(found: FoundCase, number: int, folder: Path) -> tuple[State, Kept]:
    """One turn, from what the turn before it saved."""
    state, kept = None, Kept()
    if number:
        state = decode((folder / "state").read_bytes())
        kept = msgspec.json.decode((folder / "kept").read_bytes(), type=Kept)
    return await take(found, number, state, kept), kept


def child(found: FoundCase, which: str, folder: Path) -> None:
    """What a forked process does."""
    state, kept = asyncio.run(take_all(found) if which == "all" else take_one(found, int(which), folder))
    (folder / "state").write_bytes(encode(state))
    (folder / "kept").write_bytes(msgspec.json.encode(kept))


def serve(cases: Path) -> None:
    """Answers every command with the exit code of its process."""
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
