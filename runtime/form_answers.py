"""What a field of a form accepts, and what a plain text says of the fields."""

import re
from collections.abc import Mapping, Sequence
from datetime import date

import msgspec
from msgspec import Struct

from runtime.answers import Choice, labelled_parts, match_choice, parse_answer, parse_list
from runtime.answers.separators import has_decimal_comma
from runtime.models.parsing import read_outputs
from runtime.phrases import phrase
from runtime.run import Run
from runtime.validation import Refused, checked
from scripts.form_sheets import as_output, kind_of
from scripts.model import FormField, Locale
from scripts.strings import Phrase
from scripts.values import Value, ValueRefused, coerce, is_given
from scripts.variables import Output

_ROWS = re.compile(r"[\n;；]")
_CELLS = re.compile(r"[,，、|\t]")
_CELLS_AROUND_COMMAS = re.compile(r"(?<![0-9]),|,(?![0-9])|[，、|\t]")


class Fault(Struct, frozen=True):
    """Why a field does not accept a value, as the user is told."""

    message: str


def is_filled(value: Value) -> bool:
    """Whether a value counts as an answer to a required field; a list of nothing does not."""
    return is_given(value) and value != []


def accepted(run: Run, field: FormField, value: Value, others: Mapping[str, Value]) -> Value | Fault:
    """The value as the field keeps it, null where there is none, or what is wrong with it.

    `others` are the values of the whole form, which a `validate` may compare with.
    """
    value = value.strip() if isinstance(value, str) else value
    if not is_given(value):
        return None
    if kind_of(field) == "table":
        rows = _rows(run, field, value, others)
        if isinstance(rows, Fault):
            return rows
        value = rows
    if kind_of(field) == "multichoice":
        try:
            value = _several(field, value)
        except ValueRefused:
            return Fault(words_for(run, field, "multichoice"))
    outcome = checked(run, as_output(field), value, others)
    return Fault(words_for(run, field, outcome.phrase)) if isinstance(outcome, Refused) else outcome


def unfit(run: Run, name: str, value: Value) -> str:
    """Why the variable of a field cannot take a value, where the script declares it with a type of its own."""
    declared = run.scopes.declaration(run.scopes.target(name), name)
    if declared is not None and declared.kind is not None:
        try:
            coerce(value, declared.kind, declared.choices)
        except ValueRefused as refused:
            return str(refused)
    return ""


def fitting(run: Run, field: FormField, value: Value) -> Value | Refused:
    """The value as the field keeps it, or why it does not fit; a `validate` is left to the form as a whole."""
    return checked(run, msgspec.structs.replace(as_output(field), validate=None), value)


def as_named_output(run: Run, field: FormField) -> Output | None:
    """The field as a single value that a text can name by its label; None for what is a list."""
    if kind_of(field) in {"table", "multichoice"}:
        return None
    return msgspec.structs.replace(as_output(field), define=label_of(run, field))


def words_for(run: Run, field: FormField, name: str) -> str:
    """What to say of a value that does not do: the field's own words, or the runtime's."""
    if field.invalid is not None:
        return run.text(field.invalid)
    kind = kind_of(field)
    if name in {"list", "record"} and kind in {"table", "multichoice"}:
        name = kind
    texts = tuple(choice.text for choice in _options(field))
    return said(run, name, texts)  # type: ignore[arg-type]  # types are names of phrases


def _several(field: FormField, value: Value) -> list[Value]:
    """The choices taken, each once. Raises ValueRefused."""
    given = value if isinstance(value, list) else [value]
    return list(dict.fromkeys(coerce(each, "choice", field.choices) for each in given if is_given(each)))


def _rows(run: Run, field: FormField, value: Value, others: Mapping[str, Value]) -> list[Value] | Fault:
    """The rows that hold anything, each cell as its column keeps it."""
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        return Fault(words_for(run, field, "table"))
    kept: list[Value] = []
    for number, row in enumerate(value, 1):
        if not any(is_given(cell) for cell in row.values()):
            continue
        cells: dict[str, Value] = {}
        for column in field.columns:
            cell = accepted(run, column, row.get(column.name), {**others, **cells})
            cell = column.default if cell is None else cell
            if column.required and not isinstance(cell, Fault) and not is_filled(cell):
                cell = Fault(said(run, "required"))
            if isinstance(cell, Fault):
                return Fault(f"{number}. {label_of(run, column)}: {cell.message}")
            if cell is not None:
                cells[column.name] = cell
        kept.append(cells)
    return kept


def _options(field: FormField) -> tuple[Choice, ...]:
    """Its choices, with what the user reads for each."""
    return tuple(Choice(value, field.labels.get(value, value)) for value in field.choices)


def said(run: Run, name: Phrase, given: tuple[str, ...] = ()) -> str:
    """One of the runtime's sentences, as the script has it."""
    return phrase(run.state.locale, name, given, own=run.program.script.phrases)


def label_of(run: Run, field: FormField) -> str:
    """What the field is called before people: its label, else what it means where that is short, else its name."""
    return (run.text(field.label).strip() if field.label is not None else "") or field.define or field.name


# -- plain texts ------------------------------------------------------------------------------------------------------


def read_fields(run: Run, fields: Sequence[FormField], reply: str, wanted: Sequence[FormField]) -> dict[str, Value]:
    """What a plain text says of the fields: the parts that name one, by label, name or meaning; where it names none,
    what it says of those wanted, as a question with these outputs would take it.
    """
    today, locale = run.now().date(), run.state.locale
    labels = {field.name: (label_of(run, field), field.name, field.define) for field in fields}
    parts = labelled_parts(reply, [label for each in labels.values() for label in each], locale)
    found: dict[str, Value] = {}
    for field in fields:
        part = next((parts[label] for label in labels[field.name] if label in parts), None)
        if part is not None:
            found[field.name] = _read(field, part, today, locale)
    if not parts and len(wanted) == 1:
        found[wanted[0].name] = _read(wanted[0], reply, today, locale)
    elif not parts:
        outputs = tuple(as_output(field) for field in wanted if kind_of(field) not in {"table", "multichoice"})
        found |= read_outputs(outputs, reply, today, locale).values
    return {name: value for name, value in found.items() if is_given(value)}


def _read(field: FormField, text: str, today: date, locale: Locale) -> Value:
    """What a text gives for a field; a text that gives nothing stays as it is, to be refused with the field's words."""
    match kind_of(field):
        case "table":
            return _read_rows(field, text, today, locale)
        case "multichoice":
            items = parse_list(text, locale)
            return text if items is None else [match_choice(item, _options(field), locale) or item for item in items]
        case _:
            output = as_output(field)
            found = read_outputs((_unlabelled(output),), text, today, locale).values.get(output.get)
            return found if is_given(found) else text.strip()


def _unlabelled(output: Output) -> Output:
    return msgspec.structs.replace(output, define="")


def _read_rows(field: FormField, text: str, today: date, locale: Locale) -> Value:
    """Rows set apart by lines or semicolons, their cells by commas, in the order of the columns."""
    rows: list[Value] = []
    between = _CELLS_AROUND_COMMAS if has_decimal_comma(locale) else _CELLS
    for line in _ROWS.split(text):
        cells = [cell.strip() for cell in between.split(line)]
        if len(cells) > len(field.columns):
            return text
        row: dict[str, Value] = {}
        for column, cell in zip(field.columns, cells, strict=False):
            if cell:
                found = parse_answer(cell, as_output(column).type, choices=_options(column), today=today, locale=locale)
                row[column.name] = found if is_given(found) else cell
        if row:
            rows.append(row)
    return rows
