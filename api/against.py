"""A script against the version before it: what changed for sessions, and how many that run it touches."""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from api.caller import TENANT
from api.catalogue import Catalogue
from runtime.ports import Clock
from runtime.state import State, StateUnreadable, decode
from scripts.changes import Change, changes, report
from scripts.diagnostics import Problems
from scripts.folder import read_path
from scripts.model import Script
from scripts.parse import Reading
from scripts.renames import Path as Ids
from store.record import Record

PAGE = 1_000


class NothingToCompare(Exception):
    """No earlier version that can be read; the message says why."""


class Compared(Struct, frozen=True):
    """The reading with what changed among its problems; `running` sessions were looked at, none without a record."""

    reading: Reading
    running: int | None = None


def against_file(reading: Reading, earlier: Path) -> Compared:
    """A reading with what changed since the version in a file. Raises NothingToCompare."""
    old = read_path(earlier)
    if old.script is None:
        raise NothingToCompare(f"{earlier} cannot be run: {old.errors[0]}")
    return Compared(_with(reading, old.script, None))


async def against_record(reading: Reading, data: Path, clock: Clock) -> Compared:
    """A reading with what changed since the latest published version, and how many sessions stand there.

    Raises NothingToCompare, StoreError, ApiError.
    """
    script = reading.script
    if script is None:
        return Compared(reading)
    record = Record.open(data, read_only=True)
    try:
        row = await record.latest_published(TENANT, script.id)
        if row is None:
            raise NothingToCompare(f"the record in {data} has no script {script.id}")
        old = (await Catalogue(record, clock).reading(row)).script
        if old is None:
            raise NothingToCompare(f"the version of {script.id} in {data} can no longer be read")
        states = await _running(record, row.script_uuid)
    finally:
        await record.close()
    return Compared(_with(reading, old, states), len(states))


def _with(reading: Reading, old: Script, states: list[State] | None) -> Reading:
    if reading.script is None:
        return reading
    problems = Problems(reading.source.file)
    found = changes(old, reading.script)
    counts = None if states is None else {each: sum(map(_touching(each), states)) for each in found}
    report(found, problems, counts)
    merged = sorted((*reading.problems, *problems.sorted()), key=lambda each: (each.line, each.column))
    return Reading(reading.source, reading.script, tuple(merged))


async def _running(record: Record, script_uuid: str) -> list[State]:
    """The states of the sessions of a script that can go on; one that cannot be read is passed over."""
    states: list[State] = []
    cursor: str | None = None
    while True:
        page = await record.list_sessions(TENANT, limit=PAGE, cursor=cursor)
        for row in page.rows:
            if row.script_uuid != script_uuid or row.status == "completed" or row.text_dropped_at is not None:
                continue
            head = await record.session_head(TENANT, row.session_id)
            try:
                states += [decode(bytes(head.state))] if head is not None else []
            except StateUnreadable:
                continue
        cursor = page.next
        if cursor is None:
            return states


def _touching(change: Change) -> Callable[[State], bool]:
    """Whether a session stands at what changed, or holds the variable that did."""
    return lambda state: _holds(change, state) if change.kind == "variable" else _stands(change, state)


def _stands(change: Change, state: State) -> bool:
    home: Ids = (state.phase, state.topic)
    if change.kind == "choice":
        offered = {choice.key for choice in state.wait.choices} if state.wait is not None else set()
        at = (*state.home(), state.frames[-1].action) if state.frames else ()
        return at == change.path and change.name in offered
    places = {home[:1], home}
    for frame in state.frames:
        if frame.skill:
            home = ("", frame.skill)
            places.add(home)
        places.add((*home, frame.action))
    return change.path in places


def _holds(change: Change, state: State) -> bool:
    if len(change.path) == 3:  # what a question takes otherwise: only a session that stands at it
        return _stands(change, state)
    if not change.path:
        return change.name in state.session_cells
    if len(change.path) == 1:
        return state.phase == change.path[0] and change.name in state.phase_cells
    if change.path[0]:
        return (state.phase, state.topic) == change.path and change.name in state.topic_cells
    return any(frame.skill == change.path[1] and change.name in frame.cells for frame in state.frames)
