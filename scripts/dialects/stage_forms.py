"""The forms of the stage form. Code in them is never run: such a field is one that the user fills in."""

import msgspec

from scripts.dialects.stage_keys import Item, Notation
from scripts.dialects.stage_values import choices_of
from scripts.dialects.stage_widgets import FIELD_KEYS, FIELD_TYPES, Table, inside_of, is_widget, table_of
from scripts.meaning import text_of
from scripts.model import FieldType, FormField, FormSheet
from scripts.native_yaml import without_places
from scripts.nodes import Expression, Template
from scripts.source import Mapping, Sequence, Tree
from scripts.values import DeclaredType, Value, ValueRefused, coerce

_CODE = ("python", "py", "code", "script", "javascript", "js", "lambda")
_BODIES = ("fields", "items", "field", "questions", "declare", "inputs", "controls", "elements", "widgets", "content")
_CHOICES = ("options", "option", "enum", "items", "list", "values")
_DECLARED: dict[FieldType, DeclaredType] = {
    "number": "number",
    "boolean": "boolean",
    "date": "date",
    "choice": "choice",
}


def sheet(notation: Notation, tree: Mapping) -> FormSheet:
    """A form."""
    item = Item(notation, tree)
    written = item.word("form", "name", "id", "goal")
    _refuse_code(notation, item)
    title = item.template("title", "label")
    text = item.template("text", "say", "desc", "description", "define")
    inside = inside_of(notation, _body(item))
    if inside.notes:
        lines = [*([text.source] if text is not None else []), *(note.source for note in inside.notes)]
        text = Template("\n".join(lines), (text or inside.notes[0]).at)
    found = FormSheet(
        id=notation.id(written) or "form",
        title=title,
        text=text,
        fields=_each_once(notation, [_field(notation, each) for each in inside.fields]),
        at=tree.at,
        marks=item.marks,
    )
    item.finish()
    return found


def _body(item: Item) -> Tree | None:
    """What the fields stand in: a key that is known for it, else the one list of widgets."""
    if any(key in item for key in _BODIES):
        return item.take("fields", *_BODIES)
    listed = [key for key, value in item.tree.pairs if key.text in item and _holds_widgets(value)]
    return item.take(listed[0].text) if len(listed) == 1 else None


def _holds_widgets(tree: Tree) -> bool:
    return isinstance(tree, Sequence) and any(isinstance(each, Mapping) and is_widget(each) for each in tree.items)


def _refuse_code(notation: Notation, item: Item) -> None:
    for key in _CODE:
        tree = item.take(key) if key in item else None
        if tree is not None:
            message = f"the code in `{key}` is not run; what it would work out is for the user to fill in"
            notation.slip("PYTHON_REFUSED", message, tree.at)


def _each_once(notation: Notation, fields: list[FormField]) -> tuple[FormField, ...]:
    """The fields of a form. Two of one name would fill one variable, and one answer would be lost."""
    found: dict[str, FormField] = {}
    for each in fields:
        if each.name in found and without_places(each) != without_places(found[each.name]):
            message = f"the field in line {found[each.name].at.line} fills `{each.name}` already"
            fix = "Give each of the two a variable of its own: `var: NAME` beside what it is called."
            notation.refuse("DUPLICATE_DECLARATION", message, each.at, fix)
        found.setdefault(each.name, each)
    return tuple(found.values())


def _field(notation: Notation, tree: Mapping) -> FormField:
    item = Item(notation, tree)
    name = item.take(*FIELD_KEYS)
    choices = choices_of(notation, item.take("choices", *_CHOICES))
    kind = _kind(notation, item, choices)
    define = item.word("define", "desc", "description")
    label = item.template("label", "title", "text")
    _refuse_code(notation, item)
    least, most = notation.value(item.take("min")), notation.value(item.take("max"))
    table = table_of(notation, item) if kind == "table" else Table()
    columns = _each_once(notation, [_field(notation, each) for each in table.columns])
    found = FormField(
        name=notation.variable(name) if name is not None else "field",
        label=label,
        define=define,
        type="text" if kind == "table" and not columns else kind,
        choices=choices,
        required=bool(notation.truth(item.take("required", "must"))),
        placeholder=item.template("placeholder", "hint", "tip"),
        pattern=item.word("pattern", "regex") or None,
        min=_limit(least) if table.least is None else table.least,
        max=_limit(most) if table.most is None else table.most,
        invalid=item.template("invalid", "error"),
        computed=_computed(notation, item.take("computed", "expression", "formula", "compute", "calc")),
        columns=columns,
        at=tree.at,
        marks=item.marks,
    )
    default = _default(notation, found, item.take("default", "value"))
    item.finish()
    return msgspec.structs.replace(found, default=default or table.rows(columns) or None)


def _kind(notation: Notation, item: Item, choices: tuple[str, ...]) -> FieldType:
    tree = item.take("type", "kind")
    word = notation.word(tree).lower()
    kind = FIELD_TYPES.get(word, "choice" if choices else "text")
    if tree is not None and word not in FIELD_TYPES:
        notation.slip("ENUM_VALUE_INVALID", f"`{word}` is no type of a field; it is a {kind}", tree.at)
    if choices and kind == "text":
        return "choice"
    if kind in {"choice", "multichoice"} and not choices:
        if word == "checkbox":
            return "boolean"
        notation.slip("CHOICES_INVALID", "a choice needs `choices`; without them it is a text", item.at)
        return "text"
    return kind


def _default(notation: Notation, field: FormField, tree: Tree | None) -> Value:
    value = notation.value(tree)
    kind = _DECLARED.get(field.type)
    if field.type in {"text", "file"} and not isinstance(value, list | dict | None):
        return text_of(value)
    if tree is None or value is None or kind is None:
        return value
    try:
        coerce(value, kind, field.choices)
    except ValueRefused as refused:
        if value != "":
            notation.slip("DEFAULT_MISMATCH", f"{refused}; the field begins empty", tree.at)
        return None
    return value


def _limit(value: Value) -> int | float | str | None:
    return None if isinstance(value, bool | list | dict) else value


def _computed(notation: Notation, tree: Tree | None) -> Expression | None:
    return None if tree is None else notation.given(tree)
