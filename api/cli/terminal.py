"""Input and output of ``cuebook play``: a person at a terminal, who also fills in forms, or a file of replies."""

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from datetime import date

import msgspec
from rich.markup import escape

from api.cli.output import console, errors, fail
from api.testing.cases.expectations import position_of
from api.testing.player import Player
from api.timestamps import utc_now
from runtime.answers.choices import match_choice
from runtime.answers.lists import parse_list
from runtime.answers.reply_values import parse_answer
from runtime.engine.engine import Turn
from runtime.state.events import Detected, Emitted, Exposed, Recollected, Remembered, Warned
from runtime.state.form_view import RenderedColumn, RenderedField, RenderedForm
from runtime.state.scopes import Scopes
from runtime.state.state import Choice, Wait
from scripts.expressions.values import EXAMPLES, LIST_ITEMS_MAX, NOUNS, Value, is_given, text_of
from scripts.model.script import Locale

COMMANDS = {
    "/vars": "the variables, by scope",
    "/where": "the position in the script, and the input it waits for",
    "/timers": "what the session will do by itself, and when",
    "/pass 3 days": "let time pass; what is due then happens at once",
    "/quit": "stop (also Ctrl-D)",
    "/help": "this list",
}
PASSING = "/pass "
Ask = Callable[[str], str]
"""Asks for a line with a prompt. Raises EOFError at the end of the input."""
CLEARED = "-"  # the input that empties a field


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

    def __init__(self, locale: Locale, *, quiet: bool) -> None:
        super().__init__(quiet=quiet)
        self._locale = locale
        self._commands = sys.stdin.isatty()  # piped input is passed to the script unchanged
        with contextlib.suppress(ImportError):  # not available on every platform
            importlib.import_module("readline")  # lets the arrow keys edit the line
        errors.print(f"Press Ctrl-D to stop{'; /help lists other commands' * self._commands}.", style="dim")

    def next(self, player: Player, wait: Wait) -> str | None:
        """Return the reply of the person, or None if they stop."""
        if wait.form is not None:
            return self._fill_form(player, wait, wait.form)
        for line_of_choice in _choice_lines(wait):
            errors.print(escape(line_of_choice), style="cyan")
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

    def _fill_form(self, player: Player, wait: Wait, form: RenderedForm) -> str | None:
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


# -- forms: each field until its value is valid, then all values for review -------------------------------------------


class FormDialogue:
    """The questions for one form; `today` and `locale` decide how dates and words are parsed."""

    def __init__(self, form: RenderedForm, ask: Ask, today: date, locale: Locale) -> None:
        self._form = form
        self._ask = ask
        self._today = today
        self._locale = locale
        self._fields = [field for field in form.fields if not field.computed]

    def values(self) -> dict[str, Value]:
        """Ask for the fields and return the confirmed values; after errors ask only for the wrong fields.

        Raises EOFError.
        """
        values: dict[str, Value] = {}
        if self._form.title and not self._form.errors:
            errors.print(f"[bold]{escape(self._form.title)}[/]")
        wrong = [field for field in self._fields if field.name in self._form.errors]
        for field in wrong or self._fields:
            self._fill(field, values)
        while (change := self._review(values)) is not None:
            self._fill(change, values)
        return values

    def _fill(self, field: RenderedField, values: dict[str, Value]) -> None:
        if field.name in self._form.errors:
            errors.print(f"[yellow]{escape(self._form.errors[field.name])}[/]")
        current = values.get(field.name, field.value)
        value = self._rows(field, current) if field.columns else self._value(field, field.label, current)
        if value is not None:
            values[field.name] = value

    def _value(self, field: RenderedColumn, label: str, current: Value) -> Value:
        """Ask for a value of the field's type; return null to leave the current value, "" to empty the field."""
        self._list_choices(field)
        hint = f" ({field.placeholder})" if field.placeholder else ""
        default = f" [{text_of(current)}]" if is_given(current) else ""
        mark = "*" if field.required else ""
        for _ in range(LIST_ITEMS_MAX):
            text = self._ask(f"{label}{mark}{hint}{default}: ").strip()
            if not text:
                if field.required and not is_given(current):
                    errors.print("[yellow]This field is required.[/]")
                    continue
                return None
            if text == CLEARED and is_given(current):
                return ""
            value = self._read(field, text)
            if value is not None:
                return value
            errors.print(f"[yellow]{_hint(field)}[/]")
        raise EOFError

    def _list_choices(self, field: RenderedColumn) -> None:
        for number, choice in enumerate(field.choices, 1):
            errors.print(f"  [cyan]{number}[/] {escape(field.labels.get(choice, choice))}")

    def _read(self, field: RenderedColumn, text: str) -> Value:
        match field.type:
            case "multichoice":
                items = parse_list(text, self._locale) or []
                picked = [match_choice(item, _options(field), self._locale) for item in items]
                found: list[Value] = [item for item in picked if item is not None]
                return found if found and len(found) == len(picked) else None
            case "text" | "file" | "table":
                return text
            case _:
                return parse_answer(text, field.type, choices=_options(field), today=self._today, locale=self._locale)

    def _rows(self, field: RenderedField, current: Value) -> Value:
        """Ask for rows until a first cell is empty; return null if there is no row, to leave the current value."""
        errors.print(f"{escape(field.label)}: row by row; an empty first cell ends the table.")
        if current:
            errors.print(f"  current value: {escape(text_of(current))}")
        rows: list[Value] = []
        for number in range(1, LIST_ITEMS_MAX + 1):
            row = dict(self._cells(field, number))
            if not row:
                break
            rows.append(row)
        return rows or None

    def _cells(self, field: RenderedField, number: int) -> Iterator[tuple[str, Value]]:
        for index, column in enumerate(field.columns):
            may_end = index == 0
            shown = column
            if may_end:  # even a required cell may be empty here, to end the table
                shown = RenderedColumn(column.name, column.label, column.type, column.choices, column.labels)
            value = self._value(shown, f"  {number}. {column.label}", None if may_end else column.value)
            if value is None and may_end:
                return
            if value is not None:
                yield column.name, value

    def _review(self, values: dict[str, Value]) -> RenderedField | None:
        """Show all values; return the field to change, or None if the person confirms."""
        for field in self._fields:
            shown = values.get(field.name, field.value)
            errors.print(f"  [dim]{escape(field.label)}:[/] {escape(text_of(shown))}")
        by_name = {name.casefold(): field for field in self._fields for name in (field.name, field.label)}
        while True:
            answer = self._ask("Press Enter to send, or type the name of a field to change it: ").strip().casefold()
            if not answer:
                return None
            if answer in by_name:
                return by_name[answer]
            errors.print(f"[yellow]there is no field {escape(answer)}[/]")


def _options(field: RenderedColumn) -> tuple[Choice, ...]:
    return tuple(Choice(value, field.labels.get(value, value)) for value in field.choices)


def _hint(field: RenderedColumn) -> str:
    """Return the message for an input that is no value of the field's type."""
    match field.type:
        case "number":
            return "Enter a number."
        case "boolean":
            return "Enter yes or no."
        case "date" | "time" | "datetime" | "timezone":
            return f"Enter {NOUNS[field.type]}, such as {EXAMPLES[field.type]}."
        case "multichoice":
            return f"Enter some of these, separated by commas: {escape(', '.join(field.choices))}"
        case _:
            return f"Enter one of these: {escape(', '.join(field.choices))}"
