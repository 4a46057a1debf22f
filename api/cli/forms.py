"""A form filled in at a terminal: field by field, each asked again until it can be read, and looked over at the end."""

from collections.abc import Callable, Iterator
from datetime import date

from rich.markup import escape

from api.cli.output import errors
from runtime.answers import Choice, match_choice, parse_answer, parse_list
from runtime.sheets import DrawnColumn, DrawnField, DrawnForm
from scripts.meaning import text_of
from scripts.model import Locale
from scripts.values import LIST_ITEMS_MAX, Value, is_given

Ask = Callable[[str], str]
"""Asks for a line with a prompt. Raises EOFError where nobody answers any more."""

CLEARED = "-"  # what empties a field that something stands in


class FormDialogue:
    """The questions for one form; `today` and `locale` are what dates and words are read by."""

    def __init__(self, form: DrawnForm, ask: Ask, today: date, locale: Locale) -> None:
        self._form = form
        self._ask = ask
        self._today = today
        self._locale = locale
        self._fields = [field for field in form.fields if not field.computed]

    def values(self) -> dict[str, Value]:
        """What was filled in, once it is confirmed; after errors only what was wrong is asked. Raises EOFError."""
        values: dict[str, Value] = {}
        if self._form.title and not self._form.errors:
            errors.print(f"[bold]{escape(self._form.title)}[/]")
        wrong = [field for field in self._fields if field.name in self._form.errors]
        for field in wrong or self._fields:
            self._fill(field, values)
        while (change := self._reviewed(values)) is not None:
            self._fill(change, values)
        return values

    def _fill(self, field: DrawnField, values: dict[str, Value]) -> None:
        if field.name in self._form.errors:
            errors.print(f"[yellow]{escape(self._form.errors[field.name])}[/]")
        held = values.get(field.name, field.value)
        value = self._rows(field, held) if field.columns else self._value(field, field.label, held)
        if value is not None:
            values[field.name] = value

    def _value(self, field: DrawnColumn, label: str, held: Value) -> Value:
        """A value that can be read as the field's type; null where what is held stays, "" where it is emptied."""
        self._list_choices(field)
        hint = f" ({field.placeholder})" if field.placeholder else ""
        default = f" [{text_of(held)}]" if is_given(held) else ""
        mark = "*" if field.required else ""
        for _ in range(LIST_ITEMS_MAX):
            text = self._ask(f"{label}{mark}{hint}{default}: ").strip()
            if not text:
                if field.required and not is_given(held):
                    errors.print("[yellow]This is needed.[/]")
                    continue
                return None
            if text == CLEARED and is_given(held):
                return ""
            value = self._read(field, text)
            if value is not None:
                return value
            errors.print(f"[yellow]{_wanted(field)}[/]")
        raise EOFError

    def _list_choices(self, field: DrawnColumn) -> None:
        for number, choice in enumerate(field.choices, 1):
            errors.print(f"  [cyan]{number}[/] {escape(field.labels.get(choice, choice))}")

    def _read(self, field: DrawnColumn, text: str) -> Value:
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

    def _rows(self, field: DrawnField, held: Value) -> Value:
        """Row by row until the first cell stays empty; null where there is none, so that what is held stays."""
        errors.print(f"{escape(field.label)}: row by row; an empty first cell ends it.")
        if held:
            errors.print(f"  so far: {escape(text_of(held))}")
        rows: list[Value] = []
        for number in range(1, LIST_ITEMS_MAX + 1):
            row = dict(self._cells(field, number))
            if not row:
                break
            rows.append(row)
        return rows or None

    def _cells(self, field: DrawnField, number: int) -> Iterator[tuple[str, Value]]:
        for index, column in enumerate(field.columns):
            may_end = index == 0
            drawn = column
            if may_end:  # even a required one may stay empty where the table ends
                drawn = DrawnColumn(column.name, column.label, column.type, column.choices, column.labels)
            value = self._value(drawn, f"  {number}. {column.label}", None if may_end else column.value)
            if value is None and may_end:
                return
            if value is not None:
                yield column.name, value

    def _reviewed(self, values: dict[str, Value]) -> DrawnField | None:
        """The field to be changed, or None where all is well."""
        for field in self._fields:
            shown = values.get(field.name, field.value)
            errors.print(f"  [dim]{escape(field.label)}:[/] {escape(text_of(shown))}")
        by_name = {name.casefold(): field for field in self._fields for name in (field.name, field.label)}
        while True:
            answer = self._ask("Enter sends it; a field's name changes it: ").strip().casefold()
            if not answer:
                return None
            if answer in by_name:
                return by_name[answer]
            errors.print(f"[yellow]there is no field {escape(answer)}[/]")


def _options(field: DrawnColumn) -> tuple[Choice, ...]:
    return tuple(Choice(value, field.labels.get(value, value)) for value in field.choices)


def _wanted(field: DrawnColumn) -> str:
    """What to say of a line that cannot be read."""
    match field.type:
        case "number":
            return "A number, please."
        case "boolean":
            return "Yes or no, please."
        case "date":
            return "A date, please, such as 2026-01-31."
        case "multichoice":
            return f"Any of these, with commas, please: {escape(', '.join(field.choices))}"
        case _:
            return f"One of these, please: {escape(', '.join(field.choices))}"
