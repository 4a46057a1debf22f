"""Check forms: everything that the checks of output values do not cover."""

from collections.abc import Iterator

from scripts.model.base import Expression
from scripts.model.diagnostics import Fault
from scripts.model.script import FormDefinition, FormField, kind_of
from scripts.model.variable_names import read_names

FIELDS_MAX = 100  # fields of a form, and columns of a table

_CHOOSES = {"choice", "multichoice"}
_OFFERED = {*_CHOOSES, "number"}  # a number may have choices, the others need them
_BOUNDED = {"text", "number", "date", "time", "datetime", "multichoice", "table", "file"}
_NEVER_WITH_COMPUTED = (
    "required", "default", "placeholder", "pattern", "min", "max", "validate", "invalid", "columns",
)  # fmt: skip


def faults(sheet: FormDefinition) -> Iterator[Fault]:
    """Check a form and its fields, except for texts, expressions, names and types."""
    if not sheet.fields:
        yield Fault("FIELDS_INVALID", f"the form {sheet.id} has no fields", sheet.mark("fields"))
    yield from _each_once(sheet.fields, "field")
    for each in sheet.fields:
        yield from _faults(each)
    yield from _check_computed_order(sheet)


def _each_once(fields: tuple[FormField, ...], what: str) -> Iterator[Fault]:
    if len(fields) > FIELDS_MAX:
        yield Fault("FIELDS_INVALID", f"more than {FIELDS_MAX} {what}s", fields[FIELDS_MAX].at)
    seen: set[str] = set()
    for each in fields:
        if each.name in seen:
            yield Fault("DUPLICATE_DECLARATION", f"duplicate {what} {each.name}", each.mark("field"))
        seen.add(each.name)


def _faults(field: FormField) -> Iterator[Fault]:
    kind = kind_of(field)
    is_doubled = kind == "multichoice" and len(set(field.choices)) < len(field.choices)
    if kind in _CHOOSES and (not field.choice_list or is_doubled):
        fix = "" if is_doubled else "Add `choices: [a, b]`."
        yield Fault("CHOICES_INVALID", f"`type: {kind}` needs `choices` without duplicates", field.mark("choices"), fix)
    for key, kinds in (("choice_list", _OFFERED), ("pattern", {"text", "file"}), ("min", _BOUNDED), ("max", _BOUNDED)):
        if getattr(field, key) not in (None, (), "") and kind not in kinds:
            word = "choices" if key == "choice_list" else key
            yield Fault("FIELD_KEY_CONFLICT", f"`{word}` is not allowed with `type: {kind}`", field.mark(word))
    if field.computed is not None:
        for key in _NEVER_WITH_COMPUTED:
            if key in field.marks:
                yield Fault("FIELD_KEY_CONFLICT", f"`{key}` has no effect on a computed field", field.mark(key))
    yield from _default_faults(field)
    yield from _column_faults(field)


def _default_faults(field: FormField) -> Iterator[Fault]:
    """Check a default that is a list; the type check covers all others."""
    kind, default = kind_of(field), field.default
    if isinstance(default, Expression):
        return
    if kind == "multichoice" and isinstance(default, list) and field.choices:
        for each in default:
            if each not in field.choices:
                yield Fault("DEFAULT_MISMATCH", f"{each!r} is not one of the choices", field.mark("default"))
    if kind == "table" and default is not None:
        rows = default if isinstance(default, list) else [default]
        names = {column.name for column in field.columns}
        if not all(isinstance(row, dict) and row.keys() <= names for row in rows):
            yield Fault("DEFAULT_MISMATCH", "each row must be a mapping of columns", field.mark("default"))


def _column_faults(field: FormField) -> Iterator[Fault]:
    if field.type != "table":
        if "columns" in field.marks:
            yield Fault("COLUMNS_INVALID", f"`type: {field.type}` cannot have columns", field.mark("columns"))
        return
    if not field.columns:
        yield Fault("COLUMNS_INVALID", f"the table {field.name} has no columns", field.mark("columns"))
    yield from _each_once(field.columns, "column")
    for each in field.columns:
        if each.type == "table" or each.computed is not None:
            what = "a table" if each.type == "table" else "computed"
            message = f"the column {each.name} is {what}, which is not allowed for a column"
            yield Fault("COLUMNS_INVALID", message, each.at)
        else:
            yield from _faults(each)


def _check_computed_order(sheet: FormDefinition) -> Iterator[Fault]:
    """Check the order of computed fields: they are computed from first to last, so none can use one below it."""
    later = {each.name for each in sheet.fields if each.computed is not None}
    for each in sheet.fields:
        if each.computed is not None:
            for name in sorted(later.intersection(read_names(each.computed))):
                message = f"`{each.name}` is computed before `{name}`" if name != each.name else f"`{name}` uses itself"
                yield Fault("COMPUTED_TOO_EARLY", message, each.mark("computed"))
            later.discard(each.name)
