"""A form as a client renders it: its fields with their rendered texts, current values and errors."""

from collections.abc import Mapping

from msgspec import Struct

from scripts.expressions.suggestions import suggest
from scripts.expressions.values import TEXT_CHARS_MAX, Value, ValueRefused, text_of, to_value
from scripts.model.script import FieldType


class RenderedColumn(Struct, frozen=True, omit_defaults=True):
    """One column of a table, or the properties that a column shares with a field. `value` is the initial value."""

    name: str
    label: str
    type: FieldType = "text"
    choices: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}  # the text shown for a choice, if it differs from the choice
    required: bool = False
    placeholder: str = ""
    value: Value = None
    pattern: str | None = None
    min: int | float | str | None = None
    max: int | float | str | None = None


class RenderedField(RenderedColumn, frozen=True, omit_defaults=True):
    """One field; a `computed` one is shown and cannot be filled in."""

    computed: bool = False
    columns: tuple[RenderedColumn, ...] = ()


class RenderedForm(Struct, frozen=True, omit_defaults=True):
    """A form to be filled in. `errors` are the errors of the last submission, by field."""

    id: str
    title: str = ""
    fields: tuple[RenderedField, ...] = ()
    errors: Mapping[str, str] = {}


class NotOfThisForm(ValueError):
    """The submitted values do not match the form; the message names the field, if it is about one."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


def text_sent(form: RenderedForm, values: Mapping[str, Value]) -> str:
    """Return the submitted values as text for people, one line for each field. Raises NotOfThisForm.

    A field that the form does not have is an error of the client, not of the user: the submission is refused as a whole
    and does not count as a round.
    """
    fields = {field.name: field for field in form.fields}
    for name, value in values.items():
        field = fields.get(name)
        if field is None:
            hint = suggest(name, list(fields))
            raise NotOfThisForm(f"the form {form.id} has no field {name!r}. {hint}".strip(), name)
        if field.computed:
            raise NotOfThisForm(f"the field {name} is computed by the script and cannot be filled in", name)
        try:
            to_value(value)
        except ValueRefused as refused:
            raise NotOfThisForm(f"the field {name}: {refused}", name) from refused
        _check_columns(field, value)
    text = "\n".join(f"{each.label}: {text_of(values[name])}" for name, each in fields.items() if name in values)
    if len(text) > TEXT_CHARS_MAX:
        raise NotOfThisForm(f"a filled form may have at most {TEXT_CHARS_MAX:,} characters, this one has {len(text):,}")
    return text


def _check_columns(field: RenderedField, value: Value) -> None:
    names = [column.name for column in field.columns]
    for row in value if names and isinstance(value, list) else ():
        for name in row if isinstance(row, dict) else ():
            if name not in names:
                hint = suggest(name, names)
                raise NotOfThisForm(f"the table {field.name} has no column {name!r}. {hint}".strip(), field.name)
