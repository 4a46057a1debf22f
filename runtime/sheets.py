"""A form as a client draws it: its fields with their texts rendered, what stands in them, and what is wrong so far."""

from collections.abc import Mapping

from msgspec import Struct

from scripts.meaning import text_of
from scripts.model import FieldType
from scripts.suggest import suggest
from scripts.values import TEXT_CHARS_MAX, Value, ValueRefused, bounded


class DrawnColumn(Struct, frozen=True, omit_defaults=True):
    """One column of a table, or what it has in common with a field. `value` is what stands there at first."""

    name: str
    label: str
    type: FieldType = "text"
    choices: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}  # what is read for a choice, where that is something else
    required: bool = False
    placeholder: str = ""
    value: Value = None
    pattern: str | None = None
    min: int | float | str | None = None
    max: int | float | str | None = None


class DrawnField(DrawnColumn, frozen=True, omit_defaults=True):
    """One field; a `computed` one is shown and cannot be filled in."""

    computed: bool = False
    columns: tuple[DrawnColumn, ...] = ()


class DrawnForm(Struct, frozen=True, omit_defaults=True):
    """A form to be filled in. `errors` say what is wrong with what was sent, by field."""

    id: str
    title: str = ""
    fields: tuple[DrawnField, ...] = ()
    errors: Mapping[str, str] = {}


class NotOfThisForm(ValueError):
    """What was sent is no filled form of this kind; the message names the field."""


def text_sent(form: DrawnForm, values: Mapping[str, Value]) -> str:
    """What was sent as people read it: a line for each field. Raises NotOfThisForm.

    A field that the form does not have is a mistake of the client's, not of who fills it in: it is refused as a
    whole, and costs no round.
    """
    fields = {field.name: field for field in form.fields}
    for name, value in values.items():
        field = fields.get(name)
        if field is None:
            hint = suggest(name, list(fields))
            raise NotOfThisForm(f"the form {form.id} has no field {name!r}. {hint}".strip())
        if field.computed:
            raise NotOfThisForm(f"the field {name} is worked out by the script and cannot be filled in")
        try:
            bounded(value)
        except ValueRefused as refused:
            raise NotOfThisForm(f"the field {name}: {refused}") from refused
        _check_columns(field, value)
    text = "\n".join(f"{each.label}: {text_of(values[name])}" for name, each in fields.items() if name in values)
    if len(text) > TEXT_CHARS_MAX:
        raise NotOfThisForm(f"a filled form may have at most {TEXT_CHARS_MAX:,} characters, this one has {len(text):,}")
    return text


def _check_columns(field: DrawnField, value: Value) -> None:
    names = [column.name for column in field.columns]
    for row in value if names and isinstance(value, list) else ():
        for name in row if isinstance(row, dict) else ():
            if name not in names:
                hint = suggest(name, names)
                raise NotOfThisForm(f"the table {field.name} has no column {name!r}. {hint}".strip())
