"""Compares a script with an earlier version: breaking changes, and how many running sessions they affect."""

from contextlib import suppress
from functools import partial
from pathlib import Path

from api.catalog.catalog import Catalog
from api.schemas.ids import TENANT
from runtime.state.ports import Clock
from runtime.state.state import State, StateUnreadable, decode
from scripts.model.diagnostics import Problems
from scripts.model.script import Path as Ids
from scripts.model.script import Script
from scripts.parse.folder import read_path
from scripts.parse.read_script import Reading
from scripts.versions.breaking_changes import BreakingChange, changes, report
from store.interface.pages import all_pages
from store.open_store import open_store
from store.store import Store

PAGE = 1_000


class NothingToCompare(Exception):
    """No earlier version can be parsed; the message says why."""


def compare_with_file(reading: Reading, earlier: Path) -> Reading:
    """Return a reading whose problems include the changes since the version in a file. Raises NothingToCompare."""
    old = read_path(earlier)
    if old.script is None:
        raise NothingToCompare(f"{earlier} cannot be run: {old.errors[0]}")
    return _with_changes(reading, old.script, None)


async def compare_with_database(reading: Reading, data: Path, clock: Clock) -> tuple[Reading, int | None]:
    """Return a reading whose problems include the changes since the latest published version and the number of sessions
    that each affects, and the number of sessions that were checked.

    Raises NothingToCompare, StoreError, ApiError.
    """
    script = reading.script
    if script is None:
        return reading, None
    store = open_store(data, read_only=True)
    try:
        row = await store.scripts.latest_published(TENANT, script.id)
        if row is None:
            raise NothingToCompare(f"the database in {data} has no script {script.id}")
        old = (await Catalog(store, clock).reading(row)).script
        if old is None:
            raise NothingToCompare(f"the version of {script.id} in {data} can no longer be parsed")
        states = await _running(store, row.script_uuid)
    finally:
        await store.close()
    return _with_changes(reading, old, states), len(states)


def _with_changes(reading: Reading, old: Script, states: list[State] | None) -> Reading:
    if reading.script is None:
        return reading
    problems = Problems(reading.source.file)
    breaking = changes(old, reading.script)
    counts = None
    if states is not None:
        counts = {each: sum(_touches(each, state) for state in states) for each in breaking}
    report(breaking, problems, counts)
    merged = sorted((*reading.problems, *problems.sorted()), key=lambda each: (each.line, each.column))
    return Reading(reading.source, reading.script, tuple(merged))


async def _running(store: Store, script_uuid: str) -> list[State]:
    """Return the states of the running sessions of a script; skip one that cannot be read."""
    states: list[State] = []
    async for rows in all_pages(partial(store.sessions.page, TENANT), PAGE):
        for row in rows:
            if row.script_uuid != script_uuid or row.status == "completed" or row.redacted_at is not None:
                continue
            head = await store.sessions.head(TENANT, row.session_id)
            with suppress(StateUnreadable):
                states += [decode(bytes(head.state))] if head is not None else []
    return states


def _touches(change: BreakingChange, state: State) -> bool:
    """Return whether a session is at the changed position or has the changed variable."""
    return _has_variable(change, state) if change.kind == "variable" else _is_at(change, state)


def _is_at(change: BreakingChange, state: State) -> bool:
    home: Ids = (state.phase, state.topic)
    if change.kind == "choice":
        keys = {choice.key for choice in state.wait.choices} if state.wait is not None else set()
        at = (*state.home(), state.frames[-1].action) if state.frames else ()
        return at == change.path and change.name in keys
    places = {home[:1], home}
    for frame in state.frames:
        if frame.skill:
            home = ("", frame.skill)
            places.add(home)
        places.add((*home, frame.action))
    return change.path in places


def _has_variable(change: BreakingChange, state: State) -> bool:
    if len(change.path) == 3:  # a changed output of a question affects only sessions at it
        return _is_at(change, state)
    if not change.path:
        return change.name in state.session_cells
    if len(change.path) == 1:
        return state.phase == change.path[0] and change.name in state.phase_cells
    if change.path[0]:
        return (state.phase, state.topic) == change.path and change.name in state.topic_cells
    return any(frame.skill == change.path[1] and change.name in frame.cells for frame in state.frames)
