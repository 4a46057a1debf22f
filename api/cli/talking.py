"""How `cuebook play` talks: with a person at a terminal, or with a file of replies."""

import contextlib
import importlib
import sys
from collections.abc import Iterator

import msgspec
from rich.markup import escape

from api.app import utc_now
from api.cases.compare import position_of
from api.cli.forms import FormDialogue
from api.cli.output import console, errors, fail
from api.playing import Player
from runtime.engine import Turn
from runtime.events import Detected, Emitted, Exposed, Recollected, Remembered, Warned
from runtime.scopes import Scopes
from runtime.sheets import DrawnForm
from runtime.state import Wait
from scripts.model import Locale

COMMANDS = {
    "/vars": "the variables, by scope",
    "/where": "the place in the script, and what it waits for",
    "/quit": "leave (also Ctrl-D)",
    "/help": "this list",
}


class Unattended:
    """Replies from a file; what is said is printed unless a report follows."""

    def __init__(self, lines: list[str], *, quiet: bool) -> None:
        self._lines: Iterator[str] = iter(lines)
        self._quiet = quiet

    def next(self, player: Player, wait: Wait) -> str | None:
        """The next reply; None where there is none left."""
        line = next(self._lines, None)
        if not self._quiet:
            for offered in _offered(wait):
                console.print(escape(offered), style="cyan")
        if line is not None and not self._quiet:
            console.print(f"> {escape(line)}", style="dim")
        return line

    def show(self, turn: Turn) -> None:
        """Prints a turn."""
        if not self._quiet:
            _print_turn(turn)

    def refuse(self, reason: str) -> None:
        """Ends the command: the file does not fit the script."""
        fail(f"an input is not possible here: {reason}")

    def stop(self, how: str) -> None:
        """Says how it came to its end."""
        left = sum(1 for _ in self._lines)
        if left:
            how += f"; {left} more inputs were not used"
        errors.print(escape(how), style="dim")


class Terminal:
    """Replies from a person, who may also ask where the conversation is."""

    def __init__(self, locale: Locale, *, quiet: bool) -> None:
        self._locale = locale
        self._quiet = quiet
        self._commands = sys.stdin.isatty()  # what is piped in is all said to the script
        with contextlib.suppress(ImportError):  # not on every platform
            importlib.import_module("readline")  # makes the arrow keys edit the line
        errors.print(f"Ctrl-D leaves{'; /help shows what else you can ask' * self._commands}.", style="dim")

    def next(self, player: Player, wait: Wait) -> str | None:
        """What the person says; None where they leave."""
        if wait.form is not None:
            return self._filled(player, wait, wait.form)
        for offered in _offered(wait):
            errors.print(escape(offered), style="cyan")
        hint = {"acknowledge": "[Enter] ", "suggestion": f"[{wait.suggestion}] "}.get(wait.kind, "")
        while True:
            try:
                line = input(f"{hint}> ")
            except (EOFError, KeyboardInterrupt):
                errors.print()  # the prompt stands on a line of its own
                return None
            if not self._commands or line.strip() not in COMMANDS:
                return line or wait.suggestion
            if line.strip() == "/quit":
                return None
            _answer(line.strip(), player, wait)

    def _filled(self, player: Player, wait: Wait, form: DrawnForm) -> str | None:
        def ask(prompt: str) -> str:
            while (line := input(prompt)).strip() in COMMANDS and self._commands:
                if line.strip() == "/quit":
                    raise EOFError
                _answer(line.strip(), player, wait)
            return line

        try:
            values = FormDialogue(form, ask, utc_now().date(), self._locale).values()
        except (EOFError, KeyboardInterrupt):
            errors.print()
            return None
        return msgspec.json.encode({"form": values}).decode()

    def show(self, turn: Turn) -> None:
        """Prints a turn."""
        if not self._quiet:
            _print_turn(turn)

    def refuse(self, reason: str) -> None:
        """Says why a reply was not taken."""
        errors.print(f"[yellow]{escape(reason)}[/]")

    def stop(self, how: str) -> None:
        """Says how it came to its end."""
        errors.print(escape(how), style="dim")


def _offered(wait: Wait) -> Iterator[str]:
    """What a client would show as buttons."""
    for choice in wait.choices:
        yield f"  {choice.key}) {choice.text}" if choice.text != choice.key else f"  {choice.key})"
    if wait.suggestion:
        yield f"  [{wait.suggestion}]"
    elif wait.kind == "acknowledge":
        yield "  [OK]"


def _answer(command: str, player: Player, wait: Wait) -> None:
    """What a person asked about the conversation."""
    if command == "/where":
        place = position_of(player.state)
        errors.print(f"turn {player.state.turn} at {escape(place)}, which waits for: {wait.kind}", style="dim")
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
