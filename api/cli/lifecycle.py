"""``cuebook sessions pause|resume|end|set|rewind|clear|fork``: what one does to a session besides talking to it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from api.cli.options import settings_of, with_settings
from api.cli.output import console, fail, print_json
from api.cli.reach import reach, run
from api.cli.variables import value_of
from api.paths import in_path

_EXAMPLE = "7109d623-8314-4cc4-b6a2-11c8d5b88e58"
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_SESSION = click.argument("session_id", metavar="SESSION")


@click.command(epilog=f"Example: cuebook sessions pause {_EXAMPLE}")
@_SESSION
@_JSON
@with_settings("data", "host", "port")
def pause(session_id: str, as_json: bool, config: Path | None, **flags: Any) -> None:
    """Lets a session take no message until it is resumed."""
    _change(session_id, "pause", {}, as_json, config, flags)


@click.command(epilog=f"Example: cuebook sessions resume {_EXAMPLE}")
@_SESSION
@_JSON
@with_settings("data", "host", "port")
def resume(session_id: str, as_json: bool, config: Path | None, **flags: Any) -> None:
    """Lets a paused session go on where it was."""
    _change(session_id, "resume", {}, as_json, config, flags)


@click.command(epilog=f"Example: cuebook sessions end {_EXAMPLE} --reason 'nobody came back'")
@_SESSION
@click.option("--reason", default="", help="Why, for the record.")
@_JSON
@with_settings("data", "host", "port")
def end(session_id: str, reason: str, as_json: bool, config: Path | None, **flags: Any) -> None:
    """Ends a conversation where it is."""
    _change(session_id, "end", {"reason": reason}, as_json, config, flags)


@click.command(epilog=f"Example: cuebook sessions set {_EXAMPLE} age=41 nickname=null")
@_SESSION
@click.argument("pairs", metavar="NAME=VALUE...", nargs=-1, required=True)
@click.option("--scope", type=click.Choice(["global", "session", "phase", "topic"]), help="Where [as declared].")
@_JSON
@with_settings("data", "host", "port")
def set_variables(
    session_id: str, pairs: Sequence[str], scope: str | None, as_json: bool, config: Path | None, **flags: Any
) -> None:
    """Sets variables of a session, all or none; a value that is JSON counts as such, and null unsets one."""
    body = {"variables": dict(value_of(pair, "set") for pair in pairs), "scope": scope}
    _change(session_id, "variables", body, as_json, config, flags, method="PATCH")


@click.command(epilog=f"Example: cuebook sessions rewind {_EXAMPLE} --turn 2")
@_SESSION
@click.option("--turn", type=click.IntRange(0), help="To how this turn left it.")
@click.option("--before", type=click.IntRange(0), help="To before this message of the user's, counted from 0.")
@_JSON
@with_settings("data", "host", "port")
def rewind(
    session_id: str, turn: int | None, before: int | None, as_json: bool, config: Path | None, **flags: Any
) -> None:
    """Takes a session back to an earlier turn; what was said since is taken out of the conversation, not the record."""
    if (turn is None) == (before is None):
        fail("name the place to go back to: either --turn or --before")
    _change(session_id, "rewind", _place(turn, before), as_json, config, flags)


@click.command(epilog=f"Example: cuebook sessions clear {_EXAMPLE}")
@_SESSION
@_JSON
@with_settings("data", "host", "port")
def clear(session_id: str, as_json: bool, config: Path | None, **flags: Any) -> None:
    """Takes all that was said out of the conversation, not out of the record; the session stays where it is."""
    _change(session_id, "clear", {}, as_json, config, flags)


@click.command(epilog=f"Example: cuebook sessions fork {_EXAMPLE} --before 1 --key second-try")
@_SESSION
@click.option("--turn", type=click.IntRange(0), help="As this turn left it [the last].")
@click.option("--before", type=click.IntRange(0), help="As it was before this message of the user's, counted from 0.")
@click.option("--key", help="A name for the copy, unique.")
@_JSON
@with_settings("data", "host", "port")
def fork(
    session_id: str,
    turn: int | None,
    before: int | None,
    key: str | None,
    as_json: bool,
    config: Path | None,
    **flags: Any,
) -> None:
    """Copies a session up to a turn, to go on another way; prints the id of the copy first."""
    _change(session_id, "fork", _place(turn, before) | ({} if key is None else {"key": key}), as_json, config, flags)


set_variables.name = "set"
COMMANDS = (pause, resume, end, set_variables, rewind, clear, fork)


def _place(turn: int | None, before: int | None) -> dict[str, object]:
    named = {"turn": turn, "beforeUserMessage": before}
    return {name: number for name, number in named.items() if number is not None}


def _change(
    session_id: str,
    what: str,
    body: Mapping[str, object],
    as_json: bool,
    config: Path | None,
    flags: Mapping[str, Any],
    method: str = "POST",
) -> None:
    """Asks for it, through the server where one holds the record, and prints where the session then stands."""
    settings = settings_of(config, **flags)

    async def work() -> Any:
        async with reach(settings, writing=True) as api:
            return await api.send(method, f"/api/sessions/{in_path(session_id)}/{what}", body)

    found = run(work())
    if as_json:
        print_json(found)
        return
    place = "/".join(found["position"][part] for part in ("phaseId", "topicId", "actionId")).strip("/")
    console.print(
        f"[bold]{found['sessionId']}[/]  {found['status']}, turn {found['turn']}{' at ' * bool(place)}{escape(place)}"
    )
