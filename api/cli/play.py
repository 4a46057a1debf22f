"""``cuebook play``: a conversation in the terminal, or one that runs by itself from a file of replies."""

import asyncio
import contextlib
import importlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec
from rich.markup import escape

from api.app import ModelUnknown, make_model, new_id, utc_now
from api.cli.options import settings_of, with_settings
from api.cli.output import console, errors, fail, print_json
from api.playing import Player
from runtime.engine import Chosen, Input, InputRefused, Reply, Turn, TurnFailed
from runtime.events import Emitted, Warned
from runtime.models.cassette import ScriptedFileInvalid
from runtime.program import Program
from runtime.state import State, Wait
from scripts.folder import read_path
from scripts.parse import Reading
from scripts.values import Value, ValueRefused, bounded

INPUT_LINES_MAX = 10_000


@click.command(
    epilog="Examples:\n\n  cuebook play intake.yaml\n\n  cuebook play intake.yaml --inputs replies.txt --json",
)
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--inputs",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help='Replies, one a line; an empty line is an empty reply, {"choice": "A"} takes a choice; `-`: standard input.',
)
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="An initial variable; may be repeated.")
@click.option("--seed", type=click.IntRange(0, 2**53), default=0, help="Decides every random choice [0].")
@click.option("--locale", metavar="TAG", help="Language of the session, such as `de` or `pt-BR` [the script's].")
@click.option("--json", "as_json", is_flag=True, help="Print everything that happened as one JSON document.")
@with_settings("model")
def play(
    script: Path,
    inputs: Path | None,
    variables: Sequence[str],
    seed: int,
    locale: str | None,
    as_json: bool,
    config: Path | None,
    model: str | None,
) -> None:
    """Plays a script here and now: no server, nothing recorded.

    Exits with 1 when the script fails while it runs, with 2 when it cannot be run at all.
    """
    settings = settings_of(config, model=model, locale=locale)
    reading = _read(script)
    if reading.script is None:
        sys.exit(2)
    program = Program(reading.script)
    spoken = settings.locale or program.locale
    program = program.in_locale(spoken)
    state = State(seed, spoken, "player", start_variables=_variables(variables))
    try:
        player = Player(program, state, make_model(settings.model), utc_now, new_id, settings.limits)
    except (ModelUnknown, ScriptedFileInvalid) as error:
        fail(str(error))
    talk = _Unattended(_lines(inputs), quiet=as_json) if inputs is not None else _Terminal(quiet=as_json)
    _converse(player, talk)
    if as_json:
        print_json(player.report(reading.problems))
    sys.exit(1 if player.failure is not None else 0)


def _read(script: Path) -> Reading:
    reading = read_path(script)
    for problem in reading.problems:
        if problem.severity == "error":
            errors.print(f"[red]error[/] {escape(str(problem))}\n    {escape(problem.fix)}")
    return reading


def _variables(given: Sequence[str]) -> dict[str, Value]:
    """``name=value`` pairs; a value that is JSON counts as such, everything else as a text."""
    variables: dict[str, Value] = {}
    for pair in given:
        name, sign, text = pair.partition("=")
        if not sign or not name:
            fail(f"--var takes NAME=VALUE, not {pair!r}")
        try:
            variables[name] = bounded(msgspec.json.decode(text))
        except (msgspec.DecodeError, ValueRefused):
            variables[name] = text
    return variables


def _lines(path: Path) -> list[str]:
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text("utf-8-sig")
    except OSError as error:
        fail(f"{path}: {error.strerror}")
    except UnicodeDecodeError as error:
        fail(f"{path}: byte {error.start} is not UTF-8 text")
    lines = text.split("\n")
    lines = lines[:-1] if lines and lines[-1] == "" else lines
    if len(lines) > INPUT_LINES_MAX:
        fail(f"{path}: more than {INPUT_LINES_MAX:,} lines")
    return [line.removesuffix("\r") for line in lines]


def _given(line: str) -> tuple[Input, Value]:
    """A line of input as the machine takes it, and as the report shows it. Raises InputRefused."""
    if line.startswith("{"):
        try:
            sent = msgspec.json.decode(line)
        except msgspec.DecodeError:
            sent = None  # a text that happens to begin with a brace
        if isinstance(sent, dict) and sent.keys() == {"choice"}:
            return Chosen(str(sent["choice"])), sent
    return Reply(line), line


def _converse(player: Player, talk: "_Unattended | _Terminal") -> None:
    """Turn by turn; between two turns no event loop runs, so that Ctrl-C at the prompt is the prompt's own."""
    try:
        talk.show(asyncio.run(player.begin()))
        while player.state.wait is not None:
            line = talk.next(player.state.wait)
            if line is None:
                talk.stop(f"stopped: the script still waits for {player.state.wait.kind}")
                return
            given, shown = _given(line)
            try:
                talk.show(asyncio.run(player.take(given, shown)))
            except InputRefused as refused:
                talk.refuse(str(refused))
    except TurnFailed as failed:
        place = "/".join(part for part in failed.place if part)
        errors.print(f"[red]error[/]{' at ' + escape(place) if place else ''}: {escape(str(failed))}")
        return
    talk.stop(f"completed{': ' + player.state.end_reason if player.state.end_reason else ''}")


class _Unattended:
    """Replies from a file; what is said is printed unless a report follows."""

    def __init__(self, lines: list[str], *, quiet: bool) -> None:
        self._lines: Iterator[str] = iter(lines)
        self._quiet = quiet

    def next(self, wait: Wait) -> str | None:
        line = next(self._lines, None)
        if line is not None and not self._quiet:
            console.print(f"> {escape(line)}", style="dim")
        return line

    def show(self, turn: Turn) -> None:
        if not self._quiet:
            _print_turn(turn)

    def refuse(self, reason: str) -> None:
        fail(f"an input is not possible here: {reason}")

    def stop(self, how: str) -> None:
        left = sum(1 for _ in self._lines)
        if left:
            how += f"; {left} more inputs were not used"
        errors.print(escape(how), style="dim")


class _Terminal:
    """Replies from a person."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        with contextlib.suppress(ImportError):  # not on every platform
            importlib.import_module("readline")  # makes the arrow keys edit the line
        errors.print("Ctrl-D leaves.", style="dim")

    def next(self, wait: Wait) -> str | None:
        for number, choice in enumerate(wait.choices, 1):
            errors.print(f"  [cyan]{number}[/] {escape(choice.text)}")
        hint = {"acknowledge": "[Enter] ", "suggestion": f"[{wait.suggestion}] "}.get(wait.kind, "")
        try:
            return input(f"{hint}> ") or wait.suggestion
        except (EOFError, KeyboardInterrupt):
            return None

    def show(self, turn: Turn) -> None:
        if not self._quiet:
            _print_turn(turn)

    def refuse(self, reason: str) -> None:
        errors.print(f"[yellow]{escape(reason)}[/]")

    def stop(self, how: str) -> None:
        errors.print(escape(how), style="dim")


def _print_turn(turn: Turn) -> None:
    for event in turn.events:
        if isinstance(event.body, Warned):
            errors.print(f"[yellow]{event.body.code}[/] {escape(event.body.message)}", style="dim")
        if isinstance(event.body, Emitted):
            errors.print(f"[cyan]emit[/] {escape(event.body.event)} {escape(str(event.body.data))}", style="dim")
    for message in turn.messages:
        if message.role == "assistant":
            console.print(escape(message.content))
            media = message.metadata.get("media")
            if isinstance(media, dict):
                console.print(f"[cyan]{escape(str(media.get('image') or media.get('url')))}[/]")
