"""Options that commands share, and the start of a command with its settings."""

import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click
import msgspec

from api.cli.output import fail, failing, print_json

if TYPE_CHECKING:
    from scripts.expressions.values import Value

Command: TypeAlias = Callable[..., Any]
EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
EXISTING_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
EXISTING_PATH = click.Path(exists=True, path_type=Path)
OUTPUT_FILE = click.Path(dir_okay=False, path_type=Path)
ANY_PATH = click.Path(path_type=Path)
SEED = click.IntRange(0, 2**53)

in_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
skip_confirmation = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
to_file = click.option("-o", "--output", type=OUTPUT_FILE, help="Output file [standard output].")


def page_options(what: str, limit: int = 50) -> Callable[[Command], Command]:
    """Add ``--limit`` and ``--cursor`` to a command that prints a page of a list."""

    def decorate(function: Command) -> Command:
        function = click.option("--cursor", help="`nextCursor` of the previous page.")(function)
        help_ = f"Maximum number of {what} [{limit}]."
        return click.option("--limit", type=click.IntRange(1, 200), default=limit, help=help_)(function)

    return decorate


def json_option(show: Callable[[Any], None]) -> Callable[[Command], Command]:
    """Add ``--json``: the command prints the result of its function as JSON, else by `show`."""

    def decorate(function: Command) -> Command:
        @wraps(function)
        def command(as_json: bool, **arguments: Any) -> None:
            found = function(**arguments)
            (print_json if as_json else show)(found)

        return in_json(command)

    return decorate


def with_settings(*names: str) -> Callable[[Command], Command]:
    """Add ``--config`` and an option for each named setting; call the command with the settings as first argument.

    A command that is a coroutine runs in an event loop. Invalid settings end the command.
    """

    def decorate(function: Command) -> Command:
        @wraps(function)
        def command(config: Path | None, **arguments: Any) -> Any:
            from api.local_files.settings_file import load_settings  # not needed for `--help`
            from api.settings import SettingsInvalid  # not needed for `--help`

            with failing(SettingsInvalid):
                settings = load_settings(config, {name: arguments.pop(name) for name in names})
            result = function(settings, **arguments)
            if not inspect.iscoroutine(result):
                return result
            from api.cli.backend import run

            return run(result)

        for name in reversed(names):
            kind = _TYPES.get(name, str)
            option = click.option(
                _OPTIONS.get(name, f"--{name}"), name, type=kind, is_flag=kind is bool, default=None, help=_HELP[name]
            )
            command = option(command)
        return click.option("--config", type=ANY_PATH, help="Settings file [cuebook.toml].")(command)

    return decorate


def value_of(pair: str, option: str) -> "tuple[str, Value]":
    """Parse ``NAME=VALUE``: a value that is valid JSON is read as such, any other as a text.

    Ends the command if it is no such pair.
    """
    from scripts.expressions.values import ValueRefused, to_value  # not needed for `--help`

    name, sign, text = pair.partition("=")
    if not sign or not name:
        fail(f"{option} takes NAME=VALUE, not {pair!r}")
    try:
        return name, to_value(msgspec.json.decode(text))
    except (msgspec.DecodeError, ValueRefused):
        return name, text


def moment_of(text: str, option: str) -> datetime:
    """Parse a date or time, in UTC if it has no zone; end the command if it is invalid."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        fail(f"{option} takes a date or a time, such as 2026-01-31T09:30, not {text!r}")
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


_OPTIONS = {"hold_late_timers": "--hold-late-timers", "log_format": "--log"}
"""By the name of a setting, its option if it has another name."""
_TYPES: dict[str, Any] = {
    "port": int,
    "data": ANY_PATH,
    "scripts": ANY_PATH,
    "prompts": ANY_PATH,
    "hold_late_timers": bool,
    "log_format": click.Choice(["json", "text"]),
}
_HELP = {
    "host": "Address of the server [127.0.0.1]; without API keys only this machine can connect.",
    "port": "Port of the server [8000].",
    "data": "Folder of the database [cuebook-data].",
    "database": "`postgresql://…`: a PostgreSQL database, which several servers may use [a file in the data folder].",
    "scripts": "Folder of scripts, published when the server starts [the examples].",
    "prompts": "Folder of custom prompts [`prompts` in the folder of scripts].",
    "embedder": "`wordllama` [default], `sentence-transformers:NAME`, `openai:NAME`, or `none`.",
    "hold_late_timers": "Hold timers that are already due: after restoring a backup.",
    "log_format": "Format of the log [`text` on a terminal, else `json`].",
    "model": "`offline` [default], `scripted:FILE`, `openai:NAME`, or a name of `[models.NAME]`.",
}
