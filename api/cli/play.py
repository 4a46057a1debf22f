"""``cuebook play``: play a script in the terminal, or with replies from a file."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from rich.markup import escape

from api.cli.models import check_recording, model_of, write_recording
from api.cli.options import EXISTING_FILE, OUTPUT_FILE, SEED, with_settings
from api.cli.output import end, errors, fail, failing, print_json
from api.cli.script_arguments import check_locale, script_of, variables_of
from api.cli.terminal import PASSING, ScriptedInput, Terminal
from api.ids import new_id
from api.models import close_model
from api.settings import SCRIPTED, Settings
from api.testing.cases.expectations import position_of
from api.testing.player import Player
from api.timestamps import utc_now
from runtime.engine.engine import TurnFailed
from runtime.models.recorded_models import RecordingModel
from runtime.state.inputs import Chosen, Filled, Input, InputRefused, Reply
from runtime.state.program import Program
from runtime.state.state import State
from runtime.state.tool_ports import Tools
from runtime.tools.examples import EXAMPLES, RecordingTools, ScriptedTools
from runtime.tools.replies_file import ToolFileInvalid, read_tool_file
from scripts.expressions.values import Value
from scripts.model.moments import parse_duration
from scripts.parse.folder import read_path

INPUT_LINES_MAX = 10_000
_NOT_STORED = "Nothing was stored; use `--inputs FILE` to play the same replies again."


@click.command(
    epilog="Examples:\n\n  cuebook play intake.yaml\n\n  cuebook play intake.yaml --inputs replies.txt --json",
)
@click.argument("script", type=EXISTING_FILE)
@click.option(
    "--inputs",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help='Read replies from a file, one per line. An empty line is an empty reply, {"choice": "A"} selects a choice, '
    '{"form": {…}} fills in a form, `/pass 3 days` lets time pass. `-` is standard input.',
)
@click.option(
    "--var", "variables", multiple=True, metavar="NAME=VALUE", help="Set an initial variable; may be repeated."
)
@click.option("--seed", type=SEED, default=0, help="Seed of all random choices [0].")
@click.option("--locale", metavar="TAG", help="Language of the session, such as `de` or `pt-BR` [the script's].")
@click.option(
    "--tools",
    type=EXISTING_FILE,
    help="Read the replies of tools from a file; without it they are those of scripted:FILE, else the examples.",
)
@click.option(
    "--record", type=OUTPUT_FILE, help="Write the replies of the model and of tools to a file for scripted:FILE."
)
@click.option("--json", "as_json", is_flag=True, help="Print the whole conversation as one JSON document.")
@with_settings("model")
def play(
    settings: Settings,
    script: Path,
    inputs: Path | None,
    variables: Sequence[str],
    seed: int,
    locale: str | None,
    tools: Path | None,
    record: Path | None,
    as_json: bool,
) -> None:
    """Play a script in the terminal; nothing is recorded.

    Use it to try a script while you write it. No server is needed. With --inputs the replies come from a file. Exits
    with 1 if the script fails while it runs, with 2 if it cannot start.
    """
    check_locale(locale)
    reading = read_path(script)
    program = Program(script_of(reading))
    language = locale or settings.locale or program.locale
    program = program.in_locale(language)
    state = State(seed, language, "player", start_variables=variables_of(variables, program.script))
    chosen = model_of(settings)
    check_recording(record)
    recording = RecordingModel(chosen)
    answering = RecordingTools(_tools(tools, settings.model))
    player = Player(
        program,
        state,
        recording if record else chosen,
        utc_now,
        new_id,
        settings.limits,
        settings.contexts,
        tools=answering,
    )
    talk = ScriptedInput(_lines(inputs), quiet=as_json) if inputs is not None else Terminal(quiet=as_json)
    with asyncio.Runner() as runner:
        _converse(player, talk, runner)
        runner.run(close_model(chosen))
    if record is not None:
        write_recording(record, recording, "dim", answering.replies)
    if as_json:
        print_json(player.report(reading.problems))
    end(1 if player.failure is not None else 0)


def _tools(file: Path | None, model: str) -> Tools:
    """Return the tools of a file, or of the model's file of replies; no command calls a service."""
    if file is None and model.startswith(SCRIPTED):
        file = Path(model.removeprefix(SCRIPTED))
    if file is None:
        return EXAMPLES
    with failing(ToolFileInvalid):
        return ScriptedTools(read_tool_file(file))


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


def _parse_input(line: str) -> tuple[Input, Value]:
    """Return a line as the input of the engine, and as the report shows it."""
    if line.startswith("{"):
        try:
            document = msgspec.json.decode(line)
        except msgspec.DecodeError:
            document = None  # a text that happens to begin with a brace
        if isinstance(document, dict) and document.keys() == {"choice"}:
            return Chosen(str(document["choice"])), document
        if isinstance(document, dict) and document.keys() == {"form"} and isinstance(document["form"], dict):
            return Filled(document["form"]), document
    return Reply(line), line


async def _pass_time(player: Player, talk: ScriptedInput | Terminal, line: str) -> None:
    """Let time pass. Raises InputRefused if the line has no duration, TurnFailed."""
    duration = parse_duration(line.removeprefix(PASSING))
    if duration is None:
        raise InputRefused("write a duration after /pass, such as `/pass 3 days`")
    async for turn in player.pass_time(duration, line):
        talk.show(turn)


def _converse(player: Player, talk: ScriptedInput | Terminal, runner: asyncio.Runner) -> None:
    """Play turn by turn; no event loop runs between turns, so that Ctrl-C at the prompt interrupts only the prompt."""
    try:
        talk.show(runner.run(player.begin()))
        while player.state.wait is not None:
            line = talk.next(player, player.state.wait)
            if line is None:
                place = position_of(player.state)
                talk.stop(f"stopped at {place}: the script still waits for {player.state.wait.kind}. {_NOT_STORED}")
                return
            try:
                if line.startswith(PASSING) and player.program.has_time:
                    runner.run(_pass_time(player, talk, line))
                    continue
                reply, shown = _parse_input(line)
                talk.show(runner.run(player.take(reply, shown)))
            except InputRefused as refused:
                talk.refuse(str(refused))
    except TurnFailed as failed:
        place = "/".join(part for part in failed.place if part)
        errors.print(f"[red]error[/]{' at ' + escape(place) if place else ''}: {escape(str(failed))}")
        return
    except KeyboardInterrupt:  # while waiting for the model
        talk.stop(f"stopped during a turn, which does not count. {_NOT_STORED}")
        return
    talk.stop(f"completed{': ' + player.state.end_reason if player.state.end_reason else ''}")
