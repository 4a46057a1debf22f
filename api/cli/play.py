"""``cuebook play``: a conversation in the terminal, or one that runs by itself from a file of replies."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from rich.markup import escape

from api.app import utc_now
from api.cases.compare import position_of
from api.cassettes import check_place, write_cassette
from api.cli.options import settings_of, with_settings
from api.cli.output import errors, fail, print_json
from api.cli.talking import Terminal, Unattended
from api.cli.variables import variables_of
from api.models import ModelUnknown, close_model, make_model
from api.playing import Player
from api.random_ids import new_id
from runtime.engine import TurnFailed
from runtime.inputs import Chosen, Filled, Input, InputRefused, Reply
from runtime.models.cassette import CassetteUnwritable, ScriptedFileInvalid
from runtime.models.recording import RecordingModel
from runtime.program import Program
from runtime.state import State
from scripts.folder import read_path
from scripts.parse import Reading
from scripts.values import Value

INPUT_LINES_MAX = 10_000
_GO_ON = "Nothing of it is kept; `--inputs FILE` plays the same replies again."


@click.command(
    epilog="Examples:\n\n  cuebook play intake.yaml\n\n  cuebook play intake.yaml --inputs replies.txt --json",
)
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--inputs",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help='Replies, one a line; an empty line is an empty reply, {"choice": "A"} takes a choice, {"form": {…}} '
    "fills in a form; `-`: standard input.",
)
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="An initial variable; may be repeated.")
@click.option("--seed", type=click.IntRange(0, 2**53), default=0, help="Decides every random choice [0].")
@click.option("--locale", metavar="TAG", help="Language of the session, such as `de` or `pt-BR` [the script's].")
@click.option(
    "--record", type=click.Path(dir_okay=False, path_type=Path), help="Write what the model says, for scripted:FILE."
)
@click.option("--json", "as_json", is_flag=True, help="Print everything that happened as one JSON document.")
@with_settings("model")
def play(
    script: Path,
    inputs: Path | None,
    variables: Sequence[str],
    seed: int,
    locale: str | None,
    record: Path | None,
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
    given = variables_of(variables, program.script)
    state = State(seed, spoken, "player", start_variables=given)
    try:
        chosen = make_model(settings)
        if record is not None:
            check_place(record)
    except (ModelUnknown, ScriptedFileInvalid, CassetteUnwritable) as error:
        fail(str(error))
    recording = RecordingModel(chosen)
    player = Player(
        program, state, recording if record else chosen, utc_now, new_id, settings.limits, settings.contexts
    )
    talk = Unattended(_lines(inputs), quiet=as_json) if inputs is not None else Terminal(spoken, quiet=as_json)
    with asyncio.Runner() as runner:
        _converse(player, talk, runner)
        runner.run(close_model(chosen))
    if record is not None:
        _write(record, recording)
    if as_json:
        print_json(player.report(reading.problems))
    sys.exit(1 if player.failure is not None else 0)


def _read(script: Path) -> Reading:
    reading = read_path(script)
    for problem in reading.problems:
        if problem.severity == "error":
            errors.print(f"[red]error[/] {escape(str(problem))}\n    {escape(problem.fix)}")
    return reading


def _write(record: Path, recording: RecordingModel) -> None:
    try:
        errors.print(escape(write_cassette(record, recording)), style="dim")
    except CassetteUnwritable as error:
        fail(str(error))


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
        if isinstance(sent, dict) and sent.keys() == {"form"} and isinstance(sent["form"], dict):
            return Filled(sent["form"]), sent
    return Reply(line), line


def _converse(player: Player, talk: Unattended | Terminal, runner: asyncio.Runner) -> None:
    """Turn by turn; between two turns the event loop rests, so that Ctrl-C at the prompt is the prompt's own."""
    try:
        talk.show(runner.run(player.begin()))
        while player.state.wait is not None:
            line = talk.next(player, player.state.wait)
            if line is None:
                place = position_of(player.state)
                talk.stop(f"stopped at {place}: the script still waits for {player.state.wait.kind}. {_GO_ON}")
                return
            given, shown = _given(line)
            try:
                talk.show(runner.run(player.take(given, shown)))
            except InputRefused as refused:
                talk.refuse(str(refused))
    except TurnFailed as failed:
        place = "/".join(part for part in failed.place if part)
        errors.print(f"[red]error[/]{' at ' + escape(place) if place else ''}: {escape(str(failed))}")
        return
    except KeyboardInterrupt:  # while the model was thinking
        talk.stop(f"stopped in the middle of a turn, which is not taken. {_GO_ON}")
        return
    talk.stop(f"completed{': ' + player.state.end_reason if player.state.end_reason else ''}")
