"""``cuebook replay``: recorded sessions run again, as they were or on a new version of their script."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from msgspec import Struct, to_builtins
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from api.app import utc_now
from api.caller import TENANT
from api.catalogue import Catalogue
from api.cli.options import settings_of, with_settings
from api.cli.output import console, errors, fail, print_json
from api.errors import ApiError
from api.models import ModelUnknown, close_model, make_model
from api.replaying.compare import Difference
from api.replaying.recorded import Session, SessionUnknown, find_session
from api.replaying.run import Source, TurnReplay, replay, shadow
from api.settings import Settings
from runtime.models.cassette import ScriptedFileInvalid
from runtime.ports import Model
from runtime.program import Program
from runtime.state import StateUnreadable, decode
from scripts.folder import read_path
from store.errors import DatabaseLocked, StoreError
from store.record import Record

PAGE = 200
TEXT_MAX = 300  # characters of a value in a line


class _Wanted(Struct, frozen=True):
    """What to replay: on which script, none for their own; from which turn; with which model beside the recording."""

    sessions: tuple[str, ...]
    program: Program | None
    first: int
    further: Model | None


class _Replayed(Struct, frozen=True):
    """A session and what came of its turns."""

    session: Session
    turns: tuple[TurnReplay, ...]

    @property
    def parted(self) -> TurnReplay | None:
        """The first turn that comes out otherwise."""
        return next((each for each in self.turns if each.outcome in {"differs", "stopped"}), None)


@click.command(
    "replay",
    epilog="Examples:\n\n  cuebook replay 7109d623-8314-4cc4-b6a2-11c8d5b88e58\n\n"
    "  cuebook replay --all --script intake.yaml",
)
@click.argument("sessions", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every session of the record; with --script, of that script.")
@click.option("--script", type=click.Path(exists=True, path_type=Path), help="Run it on this version of the script.")
@click.option("--from", "first", type=click.IntRange(0), default=0, help="The first turn to run again [0].")
@click.option("--model", help="With --script: asked where nothing is recorded [nobody: the replay stops there].")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_settings("data")
def replay_sessions(
    sessions: Sequence[str],
    every: bool,
    script: Path | None,
    first: int,
    model: str | None,
    as_json: bool,
    config: Path | None,
    **flags: Any,
) -> None:
    """Runs recorded sessions again, and tells where what comes out parts from what was recorded.

    Each turn is given what the user said then, at the time it was then, with what the model answered and with the
    user's variables as they were; nothing is written and no model is asked. With --script, what the user said is tried
    on another version of the script.

    A running server holds the record; stop it first, or replay a copy. Exits with 1 where a session comes out
    otherwise.
    """
    if bool(sessions) == every:
        fail("name sessions by their ids, or all of them with --all")
    if model is not None and script is None:
        fail("--model goes with --script: a session that is run again as it was is told what it was told")
    settings = settings_of(config, model=model, **flags)
    further = _model(settings) if model is not None else None
    wanted = _Wanted(tuple(sessions), _program(script), first, further)
    replayed = _run(_replay_all(settings, wanted))
    if as_json:
        print_json({"sessions": [_document(each) for each in replayed], "parted": sum(map(_has_parted, replayed))})
    else:
        for each in replayed:
            _print(each)
    sys.exit(1 if any(map(_has_parted, replayed)) else 0)


def _program(script: Path | None) -> Program | None:
    if script is None:
        return None
    reading = read_path(script)
    if reading.script is None:
        fail(f"{script} cannot be run: {reading.errors[0]}. See `cuebook check {script}`")
    return Program(reading.script)


def _model(settings: Settings) -> Model:
    try:
        return make_model(settings)
    except (ModelUnknown, ScriptedFileInvalid) as error:
        fail(str(error))


def _run(work: Coroutine[Any, Any, list[_Replayed]]) -> list[_Replayed]:
    try:
        return asyncio.run(work)
    except DatabaseLocked as error:
        fail(f"{error} To replay while it runs, replay a copy of the folder.")
    except (StoreError, SessionUnknown, StateUnreadable, ApiError) as error:
        fail(str(error))


# -- replaying --------------------------------------------------------------------------------------------------------


async def _replay_all(settings: Settings, wanted: _Wanted) -> list[_Replayed]:
    if not settings.data.exists():
        fail(f"there is no record in {settings.data}; name its folder with --data")
    record = Record.open(settings.data, read_only=True)
    try:
        source = Source(record, Catalogue(record, utc_now), settings.limits, settings.contexts)
        sessions = await _sessions(record, wanted)
        with _bar(sum(each.head.turn + 1 for each in sessions)) as tick:
            return [await _replayed(source, each, wanted, tick) for each in sessions]
    finally:
        await record.close()
        if wanted.further is not None:
            await close_model(wanted.further)


async def _sessions(record: Record, wanted: _Wanted) -> list[Session]:
    """The sessions that were named, or all that have the first turn and their text, in the order they began."""
    if wanted.sessions:
        return [await find_session(record, TENANT, each) for each in wanted.sessions]
    found: list[Session] = []
    cursor: str | None = None
    while True:
        page = await record.list_sessions(TENANT, limit=PAGE, cursor=cursor)
        for row in page.rows:
            if row.text_dropped_at is not None:
                continue
            if wanted.program is None or row.script_id == wanted.program.script.id:
                found += [await find_session(record, TENANT, row.session_id)] if row.turn >= wanted.first else []
        cursor = page.next
        if cursor is None:
            return found[::-1]


async def _replayed(source: Source, session: Session, wanted: _Wanted, tick: Callable[[], None]) -> _Replayed:
    if wanted.first > session.head.turn:
        raise SessionUnknown(f"session {session.head.session_id} has no turn {wanted.first}")
    turns: AsyncIterator[TurnReplay] = replay(source, session, wanted.first)
    if wanted.program is not None:
        program = wanted.program.in_locale(decode(bytes(session.head.state)).locale)
        turns = shadow(source, session, program, wanted.further, wanted.first)
    done: list[TurnReplay] = []
    try:
        async for turn in turns:
            done.append(turn)
            tick()
    except (StateUnreadable, ApiError) as error:  # kept by another version of Cuebook; the other sessions go on
        done.append(TurnReplay(wanted.first + len(done), "stopped", why=str(error)))
    return _Replayed(session, tuple(done))


@contextmanager
def _bar(total: int) -> Iterator[Callable[[], None]]:
    """A bar on standard error, where a person looks; gives what moves it on by one."""
    columns = [TextColumn("turns"), BarColumn(), MofNCompleteColumn()]
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("turns", total=total)
        yield lambda: bar.advance(task)


# -- printing ---------------------------------------------------------------------------------------------------------


def _has_parted(replayed: _Replayed) -> bool:
    return replayed.parted is not None


def _document(replayed: _Replayed) -> dict[str, Any]:
    head, parted = replayed.session.head, replayed.parted
    return {
        "sessionId": head.session_id,
        "scriptId": head.script_id,
        "version": head.script_version,
        "parted": parted.turn if parted is not None else None,
        "turns": [to_builtins(turn) for turn in replayed.turns],
    }


def _print(replayed: _Replayed) -> None:
    head, parted = replayed.session.head, replayed.parted
    console.print(f"[bold]{head.session_id}[/]  {escape(head.script_id)}, version {head.script_version}")
    for turn in replayed.turns:
        at = turn.action or next((each.action for each in turn.differences if each.action), "")
        line = f"turn {turn.turn}: {turn.outcome}{f' at {at}' if at else ''}{f': {turn.why}' if turn.why else ''}"
        console.print(escape(line), style="red" if turn.outcome in {"differs", "stopped"} else "")
        for each in turn.differences if turn is parted else turn.differences[:1]:
            _print_difference(each)
    count = sum(turn.outcome == "same" for turn in replayed.turns)
    end = f"they part in turn {parted.turn}" if parted is not None else f"{count} turns come out as they were recorded"
    errors.print(escape(end))


def _print_difference(difference: Difference) -> None:
    console.print(escape(f"  {difference.what}"))
    console.print(escape(f"    recorded  {_shown(difference.recorded)}"))
    console.print(escape(f"    now       {_shown(difference.now)}"))


def _shown(value: Any) -> str:
    """A value in one line."""
    match value:
        case None:
            text = "nothing"
        case {"role": role, "content": content, "metadata": metadata}:
            text = f"{role}: {content}{f' {metadata}' if metadata else ''}"
        case {"name": name, "scope": scope, "value": inner}:
            text = f"{name} = {inner!r} ({scope})"
        case _:
            text = str(value)
    text = " ".join(text.split())
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"
