"""Input and output of ``cuebook play``: a person at a terminal, or a file of replies."""

import contextlib
import importlib
import sys
from collections.abc import Iterator

import msgspec
from rich.markup import escape

from api.cli.output import console, errors, fail
from api.testing.cases.expectations import position_of
from api.testing.player import Player
from runtime.engine.engine import Turn
from runtime.state.events import Detected, Emitted, Exposed, Recollected, Remembered, Warned
from runtime.state.scopes import Scopes
from runtime.state.state import Wait
from scripts.expressions.values import is_given, text_of

COMMANDS = {
    "/vars": "the variables, by scope",
    "/where": "the position in the script, and the input it waits for",
    "/timers": "what the session will do by itself, and when",
    "/pass 3 days": "let time pass; what is due then happens at once",
    "/quit": "stop (also Ctrl-D)",
    "/help": "this list",
}
PASSING = "/pass "


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


class ScriptedInput(_Dialogue):
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


class Terminal(_Dialogue):
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
    """Return the lines for the choices that a client would show as buttons."""
    for choice in wait.choices:
        yield f"  {choice.key}) {choice.text}" if choice.text != choice.key else f"  {choice.key})"
    if wait.suggestion:
        yield f"  [{wait.suggestion}]"
    elif wait.kind == "acknowledge":
        yield "  [OK]"


def _form_lines(wait: Wait) -> Iterator[str]:
    """Return the lines for the fields of a form, and how to fill it in."""
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
            errors.print(f"  {name:8}{meaning}", style="dim")


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
