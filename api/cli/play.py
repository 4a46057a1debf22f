"""``cuebook play``: play a script in the terminal, or with replies from a file."""

import asyncio
import contextlib
import importlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec
from rich.markup import escape

from api.cli.models import check_recording, model_of, write_recording
from api.cli.options import EXISTING_FILE, OUTPUT_FILE, SEED, with_settings
from api.cli.output import console, end, errors, fail, failing, print_json
from api.cli.script_arguments import check_locale, script_of, variables_of
from api.models.server_model import close_model
from api.schemas.ids import new_id
from api.schemas.timestamps import utc_now
from api.settings import SCRIPTED, Settings
from api.testing.cases.case_run import position_of
from api.testing.player import Player
from runtime.engine.engine import Turn, TurnFailed
from runtime.models.recorded_models import RecordingModel
from runtime.state.events import Detected, Emitted, Exposed, Recollected, Remembered, Warned
from runtime.state.inputs import ChoiceInput, FormInput, Input, InputRefused, Reply
from runtime.state.program import Program
from runtime.state.scopes import Scopes
from runtime.state.state import State, Wait
from runtime.state.tool_ports import Tools
from runtime.tools.examples import EXAMPLES, RecordingTools, ScriptedTools
from runtime.tools.replies_file import ToolFileInvalid, read_tool_file
from scripts.expressions.values import Value, is_given, text_of
from scripts.model.moments import parse_duration
from scripts.parse.folder import read_path

COMMANDS = {
    "/vars": "the variables, by scope",
    "/where": "the position in the script, and the input it waits for",
    "/timers": "what the session will do by itself, and when",
    "/pass 3 days": "let time pass; what is due then happens at once",
    "/quit": "stop (also Ctrl-D)",
    "/help": "this list",
}
PASSING = "/pass "
INPUT_LINES_MAX = 10_000
_NOT_STORED = "Nothing was stored; use `--inputs FILE` to play the same replies again."


@click.command(
    epilog="Examples:\n\n  cuebook play intake.yaml\n\n  cuebook play intake.yaml --inputs replies.txt --json"
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
    model = recording if record else chosen
    player = Player(program, state, model, utc_now, new_id, settings.limits, settings.contexts, answering)
    talk = _ScriptedInput(_lines(inputs), quiet=as_json) if inputs is not None else _Terminal(quiet=as_json)
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
            return ChoiceInput(str(document["choice"])), document
        if isinstance(document, dict) and document.keys() == {"form"} and isinstance(document["form"], dict):
            return FormInput(document["form"]), document
    return Reply(line), line


# -- a file of replies, or a person at a terminal ---------------------------------------------------------------------


class _Dialogue:
    """Prints the messages of turns unless `quiet`."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def show(self, turn: Turn) -> None:
        """Print the messages of a turn."""
        if not self._quiet:
            _print_turn(turn)

    def stop(self, how: str) -> None:
        """Print how the conversation ended."""
        errors.print(escape(how), style="dim")


class _ScriptedInput(_Dialogue):
    """Takes replies from a file; prints the messages unless `quiet`."""

    def __init__(self, lines: list[str], *, quiet: bool) -> None:
        super().__init__(quiet=quiet)
        self._lines: Iterator[str] = iter(lines)

    def next(self, player: Player, wait: Wait) -> str | None:
        """Return the next reply, or None at the end of the file."""
        line = next(self._lines, None)
        if not self._quiet:
            for line_of_choice in _choice_lines(wait):
                console.print(escape(line_of_choice), style="cyan")
        if line is not None and not self._quiet:
            console.print(f"> {escape(line)}", style="dim")
        return line

    def refuse(self, reason: str) -> None:
        """End the command: the file does not fit the script."""
        fail(f"the script does not accept this input: {reason}")

    def stop(self, how: str) -> None:
        """Print how the conversation ended."""
        left = sum(1 for _ in self._lines)
        if left:
            how += f"; {left} {'input was' if left == 1 else 'inputs were'} not used"
        super().stop(how)


class _Terminal(_Dialogue):
    """Takes replies from a person at the terminal, who may also use COMMANDS."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__(quiet=quiet)
        self._commands = sys.stdin.isatty()  # piped input is passed to the script unchanged
        with contextlib.suppress(ImportError):  # not available on every platform
            importlib.import_module("readline")  # lets the arrow keys edit the line
        errors.print(f"Press Ctrl-D to stop{'; /help lists other commands' * self._commands}.", style="dim")

    def next(self, player: Player, wait: Wait) -> str | None:
        """Return the reply of the person, or None if they stop."""
        for line_of_wait in (*_choice_lines(wait), *_form_lines(wait)):
            errors.print(escape(line_of_wait), style="cyan")
        hint = {"acknowledge": "[Enter] ", "suggestion": f"[{wait.suggestion}] "}.get(wait.kind, "")
        while True:
            try:
                line = input(f"{hint}> ")
            except (EOFError, KeyboardInterrupt):
                errors.print()  # end the line of the prompt
                return None
            is_passing = line.startswith(PASSING) and player.program.has_time
            if not self._commands or is_passing or line.strip() not in COMMANDS:
                return line or wait.suggestion
            if line.strip() == "/quit":
                return None
            _answer(line.strip(), player, wait)

    def refuse(self, reason: str) -> None:
        """Print why a reply was refused."""
        errors.print(f"[yellow]{escape(reason)}[/]")


def _choice_lines(wait: Wait) -> Iterator[str]:
    """Yield the lines for the choices that a client would show as buttons."""
    for choice in wait.choices:
        yield f"  {choice.key}) {choice.text}" if choice.text != choice.key else f"  {choice.key})"
    if wait.suggestion:
        yield f"  [{wait.suggestion}]"
    elif wait.kind == "acknowledge":
        yield "  [OK]"


def _form_lines(wait: Wait) -> Iterator[str]:
    """Yield the lines for the fields of a form, and how to fill it in."""
    fields = [] if wait.form is None else [field for field in wait.form.fields if not field.computed]
    for field in fields:
        label = field.label if field.label == field.name else f"{field.label} ({field.name})"
        choices = [field.labels.get(choice, choice) for choice in field.choices]
        hints = [*choices, *(f"{column.name} of each row" for column in field.columns), field.placeholder]
        hint = ", ".join(each for each in hints if each)
        now = f" [{text_of(field.value)}]" if is_given(field.value) and field.value != [] else ""
        yield f"  {label}{'*' * field.required}{': ' * bool(hint)}{hint}{now}"
    if fields:
        yield f'  Fill in `{fields[0].label}: …, …`, or {{"form": {{"{fields[0].name}": …, …}}}}; * is required.'


def _answer(command: str, player: Player, wait: Wait) -> None:
    """Carry out one of COMMANDS."""
    if command == "/where":
        place = position_of(player.state)
        errors.print(f"turn {player.state.turn} at {escape(place)}, waiting for: {wait.kind}", style="dim")
    elif command == "/timers":
        for timer in player.timers:
            errors.print(f"  {timer.due.isoformat()}  {timer.kind} of {escape(timer.action)}", style="dim")
    elif command == "/vars":
        scopes = Scopes(player.program, player.state)
        for scope in ("global", "session", "phase", "topic"):
            for name, cell in scopes.cells(scope).items():
                value = msgspec.json.encode(cell.value).decode()
                errors.print(f"  {scope:8}{escape(name)} = {escape(value)}", style="dim")
    else:
        for name, meaning in COMMANDS.items():
            errors.print(f"  {name:14}{meaning}", style="dim")


def _print_turn(turn: Turn) -> None:
    for event in turn.events:
        if isinstance(event.body, Warned):
            errors.print(f"[yellow]{event.body.code}[/] {escape(event.body.message)}", style="dim")
        if isinstance(event.body, Detected):
            seen = f"{event.body.detector}: {event.body.label}, by {event.body.by} {', '.join(event.body.words)}"
            errors.print(f"[cyan]detected[/] {escape(seen.strip())}", style="dim")
        if isinstance(event.body, Exposed):
            errors.print(f"[cyan]experiment[/] {escape(event.body.experiment)}: {escape(event.body.arm)}", style="dim")
        if isinstance(event.body, Remembered):
            errors.print(f"[cyan]remember[/] {escape(event.body.text)}", style="dim")
        if isinstance(event.body, Recollected):
            found = "; ".join(unit.text for unit in event.body.units) or event.body.failed or "nothing"
            errors.print(f"[cyan]recall[/] {escape(event.body.query)}: {escape(found)}", style="dim")
        if isinstance(event.body, Emitted):
            errors.print(f"[cyan]emit[/] {escape(event.body.event)} {escape(str(event.body.data))}", style="dim")
    for message in turn.messages:
        if message.role == "assistant":
            console.print(escape(message.content))
            media = message.metadata.get("media")
            if isinstance(media, dict):
                console.print(f"[cyan]{escape(str(media.get('image') or media.get('url')))}[/]")


# -- the conversation -------------------------------------------------------------------------------------------------


async def _pass_time(player: Player, talk: _ScriptedInput | _Terminal, line: str) -> None:
    """Let time pass. Raises InputRefused if the line has no duration, TurnFailed."""
    duration = parse_duration(line.removeprefix(PASSING))
    if duration is None:
        raise InputRefused("write a duration after /pass, such as `/pass 3 days`")
    async for turn in player.pass_time(duration, line):
        talk.show(turn)


def _converse(player: Player, talk: _ScriptedInput | _Terminal, runner: asyncio.Runner) -> None:
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
