"""``cuebook replay``: run recorded sessions again, on their own or on a new version of their script."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace
from rich.markup import escape

from api.catalog.catalog import Catalog
from api.cli.backend import open_for_reading, run
from api.cli.models import model_of
from api.cli.options import EXISTING_FILE, EXISTING_PATH, in_json, with_settings
from api.cli.output import console, end, errors, fail, failing, print_json
from api.cli.progress import ProgressBar, progress_bar
from api.cli.prompt_trial import PromptTrial, TrialResult, print_trial, run_trial
from api.cli.script_arguments import runnable
from api.errors import ApiError
from api.models.server_model import close_model
from api.replay.differences import TurnDifference
from api.replay.recorded_session import RecordedSession, ReplaySource, SessionUnknown, find_session
from api.replay.replay_session import TurnReplay, replay, replay_on_new_version
from api.schemas.ids import TENANT
from api.schemas.timestamps import utc_now
from api.settings import Settings
from runtime.state.ports import Model
from runtime.state.program import Program
from runtime.state.state import StateUnreadable, decode
from scripts.expressions.values import count_text
from store.interface.pages import all_pages
from store.store import Store

PAGE = 200
TEXT_MAX = 300  # characters of a value in a line


class _ReplayOptions(Struct, frozen=True):
    """The script (None: that of each session), the first turn, and a model for calls not recorded."""

    program: Program | None
    first: int
    further: Model | None


class _ReplayedSession(Struct, frozen=True):
    """A session and the results of its turns."""

    session: RecordedSession
    turns: tuple[TurnReplay, ...]

    @property
    def parted(self) -> TurnReplay | None:
        """Return the first turn whose result differs from the recording."""
        return next((each for each in self.turns if each.outcome in {"differs", "stopped"}), None)


@click.command(
    "replay",
    epilog="Examples:\n\n  cuebook replay 7109d623-8314-4cc4-b6a2-11c8d5b88e58\n\n"
    "  cuebook replay --all --script intake.yaml",
)
@click.argument("sessions", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Replay every session; with --script, every one of that script.")
@click.option("--script", type=EXISTING_PATH, help="Replay on this version of the script.")
@click.option("--from", "first", type=click.IntRange(0), default=0, help="The first turn to replay [0].")
@click.option("--turn", type=click.IntRange(0), help="With --prompt: the turn of the call.")
@click.option("--prompt", type=EXISTING_FILE, help="Run a call of --turn again with this edited template (ask.jinja).")
@click.option("--call", type=click.IntRange(1), help="With --prompt: number of the call [the one with that template].")
@click.option(
    "--model",
    help="With --script: model for calls without a recording [none: the replay stops there]. "
    "With --prompt: the model to call [that of the settings].",
)
@in_json
@with_settings("data")
def replay_sessions(
    settings: Settings,
    sessions: Sequence[str],
    every: bool,
    script: Path | None,
    first: int,
    turn: int | None,
    prompt: Path | None,
    call: int | None,
    model: str | None,
    as_json: bool,
) -> None:
    """Replay recorded sessions and report where the results differ from the recording.

    Use it to check a new version of Cuebook or of a script against real sessions. Each turn gets the recorded user
    message, time, model replies and user variables; nothing is written and no model is called. With --script, the
    recorded messages run on another version of the script.

    With --turn and --prompt, one recorded call runs again on a model, with an edited prompt template, and both replies
    are shown side by side. The session does not change.

    A running server locks the database; stop it first, or replay a copy. Exits with 1 if a session differs.
    """
    if (turn is None) != (prompt is None) or (call is not None and prompt is None):
        fail("--turn N and --prompt FILE require each other; --call requires both")
    if model is not None:
        settings = replace(settings, model=model)
    if turn is not None and prompt is not None:
        if len(sessions) != 1 or every or script is not None or first:
            fail("--prompt runs a call of one session again: name its id, without --all, --script and --from")
        with failing(SessionUnknown, StateUnreadable, ApiError):
            result = run(_try_prompt(settings, sessions[0], PromptTrial(turn, call, prompt)))
        print_trial(result, as_json=as_json)
        return
    if bool(sessions) == every:
        fail("name sessions by their ids, or all of them with --all")
    if model is not None and script is None:
        fail("--model requires --script: without it a replay uses the recorded replies only")
    further = model_of(settings) if model is not None else None
    program = Program(runnable(script)[0]) if script is not None else None
    with failing(SessionUnknown, StateUnreadable, ApiError):
        replayed = run(_replay_all(settings, sessions, _ReplayOptions(program, first, further)))
    parted = sum(each.parted is not None for each in replayed)
    if as_json:
        print_json({"sessions": [_document(each) for each in replayed], "parted": parted})
    else:
        for each in replayed:
            _print(each)
    end(1 if parted else 0)


# -- replaying --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _source(settings: Settings) -> AsyncIterator[ReplaySource]:
    """Open the database for reading."""
    async with open_for_reading(settings) as store:
        if store is None:
            fail(f"the database in {settings.data} is in use; stop that process, or replay a copy of the folder")
        yield ReplaySource(store, Catalog(store, utc_now), settings.limits, settings.contexts, settings.timezone)


async def _try_prompt(settings: Settings, session_id: str, trial: PromptTrial) -> TrialResult:
    async with _source(settings) as source:
        return await run_trial(await find_session(source, TENANT, session_id), trial, settings)


async def _replay_all(
    settings: Settings, session_ids: Sequence[str], options: _ReplayOptions
) -> list[_ReplayedSession]:
    try:
        async with _source(settings) as source:
            ids = session_ids or await _all_ids(source.store, options)
            sessions = [await find_session(source, TENANT, each) for each in ids]
            with progress_bar("turns", total=sum(each.head.turn + 1 for each in sessions)) as bar:
                return [await _replay(each, options, bar) for each in sessions]
    finally:
        if options.further is not None:
            await close_model(options.further)


async def _all_ids(store: Store, options: _ReplayOptions) -> list[str]:
    """Return the ids of all sessions of the script that have the first turn and are not redacted, oldest first."""
    found = [
        row.session_id
        async for rows in all_pages(partial(store.sessions.page, TENANT), PAGE)
        for row in rows
        if row.redacted_at is None and row.turn >= options.first
        if options.program is None or row.script_id == options.program.script.id
    ]
    return found[::-1]


async def _replay(session: RecordedSession, options: _ReplayOptions, bar: ProgressBar) -> _ReplayedSession:
    first = options.first
    if first > session.head.turn:
        raise SessionUnknown(f"session {session.head.session_id} has no turn {first}")
    turns = replay(session, first)
    if options.program is not None:
        program = options.program.in_locale(decode(bytes(session.head.state)).locale)
        turns = replay_on_new_version(session, program, options.further, first)
    done: list[TurnReplay] = []
    try:
        async for turn in turns:
            done.append(turn)
            bar.advance()
    except (StateUnreadable, ApiError) as error:  # stored by another version of Cuebook; the other sessions continue
        done.append(TurnReplay(first + len(done), "stopped", why=str(error)))
    return _ReplayedSession(session, tuple(done))


# -- printing ---------------------------------------------------------------------------------------------------------


def _document(replayed: _ReplayedSession) -> dict[str, Any]:
    head, parted = replayed.session.head, replayed.parted
    return {
        "sessionId": head.session_id,
        "scriptId": head.script_id,
        "version": head.script_version,
        "parted": parted.turn if parted is not None else None,
        "turns": replayed.turns,
    }


def _print(replayed: _ReplayedSession) -> None:
    head, parted = replayed.session.head, replayed.parted
    console.print(f"[bold]{head.session_id}[/]  {escape(head.script_id)}, version {head.script_version}")
    for turn in replayed.turns:
        at = turn.action or next((each.action for each in turn.differences if each.action), "")
        line = f"turn {turn.turn}: {turn.outcome}{f' at {at}' if at else ''}{f': {turn.why}' if turn.why else ''}"
        console.print(escape(line), style="red" if turn.outcome in {"differs", "stopped"} else "")
        for each in turn.differences if turn is parted else turn.differences[:1]:
            _print_difference(each)
    count = sum(turn.outcome == "same" for turn in replayed.turns)
    same = f"{count_text(count, 'turn')} {'matches' if count == 1 else 'match'} the recording"
    errors.print(escape(f"first difference in turn {parted.turn}" if parted is not None else same))


def _print_difference(difference: TurnDifference) -> None:
    console.print(escape(f"  {difference.what}"))
    console.print(escape(f"    recorded  {_format_value(difference.recorded)}"))
    console.print(escape(f"    now       {_format_value(difference.now)}"))


def _format_value(value: Any) -> str:
    """Return a value in one line, shortened to TEXT_MAX characters."""
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
