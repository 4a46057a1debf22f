"""Validation of form fields, and extraction of field values from plain text."""

import re
from collections.abc import Mapping, Sequence
from datetime import date

import msgspec
from msgspec import Struct

from runtime.answers.choices import match_choice
from runtime.answers.lists import parse_list
from runtime.answers.numbers import has_decimal_comma
from runtime.answers.reply_values import (
    CERTAIN_TYPES,
    AnswerRefused,
    before_comma,
    check_value,
    choices_of,
    parse_answer,
    read_outputs,
    split_labelled,
    texts_for,
)
from runtime.turn.context import TurnContext
from scripts.expressions.values import Value, ValueRefused, coerce, is_given, refusal
from scripts.model.script import FormField, Locale, as_output, kind_of
from scripts.model.variables import Output, constant
from scripts.translations.localisation import Phrase

_ROWS = re.compile(r"[\n;；]")
_CELLS = re.compile(r"[,，、|\t]")
_CELLS_AROUND_COMMAS = re.compile(r"(?<![0-9]),|,(?![0-9])|[，、|\t]")


class FieldFault(Struct, frozen=True):
    """The reason why a field does not accept a value, as shown to the user."""

    message: str


def is_filled(value: Value) -> bool:
    """Return whether a value counts as an answer to a required field; an empty list does not."""
    return is_given(value) and value != []


def accept(run: TurnContext, field: FormField, value: Value, others: Mapping[str, Value]) -> Value | FieldFault:
    """Return the value as the field stores it, None if it is empty, or the fault.

    `others` are the values of the whole form, which a `validate` may compare with.
    """
    value = value.strip() if isinstance(value, str) else value
    if not is_given(value):
        return None
    if kind_of(field) == "table":
        rows = _rows(run, field, value, others)
        if isinstance(rows, FieldFault):
            return rows
        value = rows
    if kind_of(field) == "multichoice":
        try:
            value = _several(field, value)
        except ValueRefused:
            return FieldFault(words_for(run, field, "multichoice"))
    outcome = check_value(as_output(field), value, others, run.holds)
    if not isinstance(outcome, AnswerRefused):
        return outcome
    if outcome.say is None:
        return FieldFault(words_for(run, field, outcome.phrase))
    return FieldFault(run.text(outcome.say, {**others, field.name: outcome.value}))


def unfit(run: TurnContext, name: str, value: Value) -> str:
    """Return why the variable of a field cannot hold a value, if the script declares it with a type of its own."""
    declared = run.scopes.declaration(run.scopes.target(name), name)
    if declared is None or declared.kind is None:
        return ""
    return refusal(value, declared.kind, declared.choices)


def fitting(run: TurnContext, field: FormField, value: Value) -> Value | AnswerRefused:
    """Return the value as the field stores it, or the refusal; `validate` is checked for the form as a whole."""
    return check_value(msgspec.structs.replace(as_output(field), validate=()), value, {}, run.holds)


def as_named_output(run: TurnContext, field: FormField) -> Output | None:
    """Return the field as an output that a text can name by its label; None for lists."""
    if kind_of(field) in {"table", "multichoice"}:
        return None
    return msgspec.structs.replace(as_output(field), define=label_of(run, field))


def words_for(run: TurnContext, field: FormField, phrase: Phrase) -> str:
    """Return the text for an invalid value: the field's own, or the runtime's."""
    if field.invalid is not None:
        return run.text(field.invalid)
    kind = kind_of(field)
    if phrase in {"list", "record"} and (kind == "table" or kind == "multichoice"):
        phrase = kind
    return run.phrase(phrase, texts_for(phrase, field))


def _several(field: FormField, value: Value) -> list[Value]:
    """Return the selected choices without duplicates. Raises ValueRefused."""
    values = value if isinstance(value, list) else [value]
    return list(dict.fromkeys(coerce(each, "choice", field.choices) for each in values if is_given(each)))


def _rows(run: TurnContext, field: FormField, value: Value, others: Mapping[str, Value]) -> list[Value] | FieldFault:
    """Return the rows with at least one value, each cell as its column stores it."""
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        return FieldFault(words_for(run, field, "table"))
    taken_values: list[Value] = []
    for number, row in enumerate(value, 1):
        if not any(is_given(cell) for cell in row.values()):
            continue
        cells: dict[str, Value] = {}
        for column in field.columns:
            cell = accept(run, column, row.get(column.name), {**others, **cells})
            cell = constant(column.default) if cell is None else cell
            if column.required and not isinstance(cell, FieldFault) and not is_filled(cell):
                cell = FieldFault(run.phrase("required"))
            if isinstance(cell, FieldFault):
                return FieldFault(f"{number}. {label_of(run, column)}: {cell.message}")
            if cell is not None:
                cells[column.name] = cell
        taken_values.append(cells)
    return taken_values


def label_of(run: TurnContext, field: FormField) -> str:
    """Return the field's name for users: its label, else its meaning, else its name."""
    return (run.text(field.label).strip() if field.label is not None else "") or field.define or field.name


# -- plain texts ------------------------------------------------------------------------------------------------------


def read_fields(
    run: TurnContext, fields: Sequence[FormField], reply: str, wanted: Sequence[FormField]
) -> dict[str, Value]:
    """Return the field values in a plain text: from parts that name a field by label, name or meaning; from the rest,
    or all of a text that names none, for the wanted fields, as for a question with these outputs.
    """
    today, locale = run.today(), run.state.locale
    labels = {field.name: (label_of(run, field), field.name, field.define) for field in fields}
    texts = {label for field in fields if kind_of(field) not in CERTAIN_TYPES for label in labels[field.name]}
    parts, rest = split_labelled(reply, [label for each in labels.values() for label in each], locale, texts)
    if not parts and len(wanted) == 1:
        found = {wanted[0].name: _read(wanted[0], (reply,), today, locale)}
    else:
        kinds = CERTAIN_TYPES - {"boolean"} if parts else CERTAIN_TYPES | {"text", "file"}  # "no, my name: Ana"
        outputs = tuple(as_output(field) for field in wanted if kind_of(field) in kinds)
        found = dict(read_outputs(outputs, rest, today, locale).values)
    named = {field.name: parts[label] for field in fields for label in reversed(labels[field.name]) if label in parts}
    has_unnamed = not found.keys() <= named.keys()
    for field in fields:
        if field.name in named:
            part = named[field.name]
            found[field.name] = _read(field, (part, before_comma(part)) if has_unnamed else (part,), today, locale)
    return {name: value for name, value in found.items() if is_given(value)}


def _read(field: FormField, texts: tuple[str, ...], today: date, locale: Locale) -> Value:
    """Return the value for a field in the first text that has one; without one, the first text, which the field refuses
    with its own text.
    """
    text = texts[0]
    match kind_of(field):
        case "table":
            return _read_rows(field, text, today, locale)
        case "multichoice":
            items = parse_list(text, locale)
            return text if items is None else [match_choice(item, choices_of(field), locale) or item for item in items]
        case _:
            unlabelled = msgspec.structs.replace(as_output(field), define="")
            found = [read_outputs((unlabelled,), each, today, locale).values.get(unlabelled.get) for each in texts]
            return next(filter(is_given, found), text.strip())


def _read_rows(field: FormField, text: str, today: date, locale: Locale) -> Value:
    """Return the rows of a text, separated by lines or semicolons, with cells separated by commas in column order."""
    rows: list[Value] = []
    between = _CELLS_AROUND_COMMAS if has_decimal_comma(locale) else _CELLS
    for line in _ROWS.split(text):
        cells = [cell.strip() for cell in between.split(line)]
        if len(cells) > len(field.columns):
            return text
        row: dict[str, Value] = {}
        for column, cell in zip(field.columns, cells, strict=False):
            if cell:
                found = parse_answer(
                    cell, as_output(column).type, choices=choices_of(column), today=today, locale=locale
                )
                row[column.name] = found if is_given(found) else cell
        if row:
            rows.append(row)
    return rows
