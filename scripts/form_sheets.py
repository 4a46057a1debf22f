"""What is wrong with a form, beyond what is wrong with any value that is taken; and its fields as such values."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from scripts.expressions import compile_expression
from scripts.model import FieldType, FormField, FormSheet
from scripts.nodes import NOWHERE, Location
from scripts.sandbox import ExpressionInvalid
from scripts.values import DeclaredType
from scripts.variables import Output

FIELDS_MAX = 100  # of a form, and columns of a table
REFERENCE_CHARS_MAX = 2_000  # of what names a file: an address, a path, an id

_TYPES: Mapping[FieldType, DeclaredType] = {
    "text": "text",
    "number": "number",
    "boolean": "boolean",
    "date": "date",
    "choice": "choice",
    "multichoice": "list",
    "table": "list",
    "file": "text",
}
_CHOOSES = {"choice", "multichoice"}
_BOUNDED = {"text", "number", "date", "multichoice", "table", "file"}
_PATTERNED = {"text", "file"}
_NEVER_WITH_COMPUTED = (
    "required", "default", "placeholder", "pattern", "min", "max", "validate", "invalid", "columns",
)  # fmt: skip


class Found(Struct, frozen=True):
    """Something wrong with a form: a code, what it is, and where."""

    code: str
    message: str
    at: Location


def kind_of(field: FormField) -> FieldType:
    """Its type; choices alone make it a choice."""
    return "choice" if field.choices and field.type == "text" else field.type


def as_output(field: FormField) -> Output:
    """The field as a value that is taken from a conversation; of several choices and of rows, the list of them.

    A computed field of no particular type is whatever comes of its expression.
    """
    kind = kind_of(field)
    limit = REFERENCE_CHARS_MAX if kind == "file" and field.max is None else field.max
    return Output(
        get=field.name,
        define=field.define,
        type=None if field.computed is not None and kind == "text" else _TYPES[kind],
        choices=field.choices if kind == "choice" else (),
        pattern=field.pattern,
        min=field.min,
        max=limit,
        required=field.required,
        default=field.default,
        validate=field.validate,
        invalid=field.invalid,
        labels=field.labels,
        at=field.at,
        marks={**field.marks, "get": field.mark("field")},
    )


def faults(sheet: FormSheet) -> Iterator[Found]:
    """What is wrong with a form and each of its fields, apart from texts, expressions, names and types."""
    if not sheet.fields:
        yield Found("FIELDS_INVALID", f"the form {sheet.id} has no fields", sheet.mark("fields"))
    yield from _each_once(sheet.fields, "field")
    for each in sheet.fields:
        yield from _faults(each)
    yield from _computed_too_early(sheet)


def _each_once(fields: tuple[FormField, ...], what: str) -> Iterator[Found]:
    if len(fields) > FIELDS_MAX:
        yield Found("FIELDS_INVALID", f"more than {FIELDS_MAX} {what}s", fields[FIELDS_MAX].at)
    seen: set[str] = set()
    for each in fields:
        if each.name in seen:
            yield Found("DUPLICATE_DECLARATION", f"{what} {each.name} stands twice here", each.mark("field"))
        seen.add(each.name)


def _faults(field: FormField) -> Iterator[Found]:
    kind = kind_of(field)
    is_doubled = kind == "multichoice" and len(set(field.choices)) < len(field.choices)
    if kind in _CHOOSES and (not field.choices or is_doubled):
        yield Found("CHOICES_INVALID", f"`type: {kind}` lists each of its `choices` once", field.mark("choices"))
    for key, fits in (("choices", kind in _CHOOSES), ("pattern", kind in _PATTERNED)):
        if getattr(field, key) and not fits:
            yield Found("FIELD_KEY_CONFLICT", f"`{key}` and `type: {kind}` do not go together", field.mark(key))
    for key in ("min", "max"):
        if getattr(field, key) is not None and kind not in _BOUNDED:
            yield Found("FIELD_KEY_CONFLICT", f"`{key}` and `type: {kind}` do not go together", field.mark(key))
    if field.computed is not None:
        for key in _NEVER_WITH_COMPUTED:
            if key in field.marks:
                yield Found("FIELD_KEY_CONFLICT", f"`{key}` says nothing of a computed field", field.mark(key))
    yield from _default_faults(field)
    yield from _column_faults(field)


def _default_faults(field: FormField) -> Iterator[Found]:
    """A default that is a list; what is wrong with any other one, its type tells."""
    kind, default = kind_of(field), field.default
    if kind == "multichoice" and isinstance(default, list):
        for each in default:
            if each not in field.choices:
                yield Found("DEFAULT_MISMATCH", f"{each!r} is none of the choices", field.mark("default"))
    if kind == "table" and default is not None:
        rows = default if isinstance(default, list) else [default]
        names = {column.name for column in field.columns}
        if not all(isinstance(row, dict) and row.keys() <= names for row in rows):
            yield Found("DEFAULT_MISMATCH", "each row is a record of columns", field.mark("default"))


def _column_faults(field: FormField) -> Iterator[Found]:
    if field.type != "table":
        if "columns" in field.marks:
            yield Found("COLUMNS_INVALID", f"`type: {field.type}` has no columns", field.mark("columns"))
        return
    if not field.columns:
        yield Found("COLUMNS_INVALID", f"the table {field.name} has no columns", field.mark("columns"))
    yield from _each_once(field.columns, "column")
    for each in field.columns:
        if each.type == "table" or each.computed is not None:
            what = "a table" if each.type == "table" else "computed"
            yield Found("COLUMNS_INVALID", f"the column {each.name} is {what}, which no column is", each.at)
        else:
            yield from _faults(each)


def _computed_too_early(sheet: FormSheet) -> Iterator[Found]:
    """Computed fields are worked out from the first to the last, so none can use one below it."""
    later = {each.name for each in sheet.fields if each.computed is not None}
    for each in sheet.fields:
        if each.computed is None:
            continue
        try:
            reads = compile_expression(each.computed.source).reads
        except ExpressionInvalid:  # told where expressions are checked
            reads = frozenset()
        for name in sorted(reads & later):
            message = f"`{each.name}` is worked out before `{name}`" if name != each.name else f"`{name}` uses itself"
            yield Found("COMPUTED_TOO_EARLY", message, each.mark("computed"))
        later.discard(each.name)


def unused(sheets: tuple[FormSheet, ...], shown: set[str], file: str) -> Iterator[Found]:
    """The forms of the script itself that no action shows; a side file may serve other scripts."""
    for sheet in sheets:
        if sheet.id not in shown and sheet.at.file == file and sheet.at != NOWHERE:
            yield Found("FORM_UNUSED", f"no action shows the form {sheet.id}", sheet.mark("form"))
