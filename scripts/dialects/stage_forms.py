"""The forms of the stage form. Code in them is never run: such a field is simply not worked out."""

from collections.abc import Iterator

import msgspec

from scripts.dialects.stage_keys import Item, Notation, mappings
from scripts.dialects.stage_values import choices_of
from scripts.meaning import text_of
from scripts.model import FieldType, FormField, FormSheet
from scripts.nodes import Expression
from scripts.source import Mapping, Scalar, Tree
from scripts.values import DeclaredType, Value, ValueRefused, coerce

_CODE = ("python", "py", "code", "script", "javascript", "js", "lambda")
_FIELD_KEYS = ("field", "var", "name", "get", "key", "id")
FIELD_TYPES: dict[str, FieldType] = {
    **dict.fromkeys(("text", "string", "str", "textarea", "input", "email", "phone", "tel"), "text"),
    **dict.fromkeys(("number", "int", "integer", "float", "double", "slider", "rate"), "number"),
    **dict.fromkeys(("boolean", "bool", "switch"), "boolean"),
    **dict.fromkeys(("date", "datetime", "time"), "date"),
    **dict.fromkeys(("choice", "select", "radio", "enum", "option", "dropdown"), "choice"),
    **dict.fromkeys(("multichoice", "multi", "multiselect", "multi_select", "multi-choice", "checkbox"), "multichoice"),
    **dict.fromkeys(("file", "upload", "image"), "file"),
    **dict.fromkeys(("table", "list", "array", "rows"), "table"),
}
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
    found = FormSheet(
        id=notation.id(written) or "form",
        title=item.template("title", "label"),
        text=item.template("text", "say", "desc", "description", "define"),
        fields=tuple(_fields(notation, item.take("fields", "items", "field", "questions", "declare"))),
        at=tree.at,
        marks=item.marks,
    )
    item.finish()
    return found


def _refuse_code(notation: Notation, item: Item) -> None:
    for key in _CODE:
        tree = item.take(key) if key in item else None
        if tree is not None:
            notation.slip("PYTHON_REFUSED", f"the code in `{key}` is not run", tree.at)


def _fields(notation: Notation, tree: Tree | None) -> Iterator[FormField]:
    """The fields of a form, each variable once."""
    taken: set[str] = set()
    for each in _as_mappings(tree):
        found = _field(notation, each)
        if found.name in taken:
            notation.slip("DUPLICATE_DECLARATION", f"{found.name} stands in this form already", each.at)
        else:
            taken.add(found.name)
            yield found


def _as_mappings(tree: Tree | None) -> Iterator[Mapping]:
    if isinstance(tree, Mapping) and not set(_FIELD_KEYS) & set(tree.keys()):
        for key, value in tree.pairs:  # name: label, or name: {type: …}
            inner = value.pairs if isinstance(value, Mapping) else ((Scalar("label", True, key.at, 0), value),)
            yield Mapping(((Scalar("field", True, key.at, key.at.line), key), *inner), key.at, len(inner) + 1)
        return
    for each in mappings(tree):
        if isinstance(each, Mapping) and not set(_FIELD_KEYS) & set(each.keys()) and len(each.pairs) == 1:
            yield from _as_mappings(each)
        elif isinstance(each, Mapping):
            yield each
        elif isinstance(each, Scalar) and each.value is not None:
            yield Mapping(((Scalar("field", True, each.at, each.at.line), each),), each.at, 1)


def _field(notation: Notation, tree: Mapping) -> FormField:
    item = Item(notation, tree)
    name = item.take(*_FIELD_KEYS)
    choices = choices_of(notation, item.take("choices", "options", "enum"))
    kind = _kind(notation, item, choices)
    define = item.word("define", "desc", "description")
    label = item.template("label", "title", "text")
    _refuse_code(notation, item)
    columns = tuple(_fields(notation, item.take("columns", "fields", "items")))
    found = FormField(
        name=notation.variable(name) if name is not None else "field",
        label=label,
        define=define,
        type="text" if kind == "table" and not columns else kind,
        choices=choices,
        required=bool(notation.truth(item.take("required", "must"))),
        placeholder=item.template("placeholder", "hint", "tip"),
        pattern=item.word("pattern", "regex") or None,
        min=_limit(notation.value(item.take("min"))),
        max=_limit(notation.value(item.take("max"))),
        invalid=item.template("invalid", "error"),
        computed=_computed(notation, item.take("computed", "expression", "formula", "compute", "calc")),
        columns=columns,
        at=tree.at,
        marks=item.marks,
    )
    default = _default(notation, found, item.take("default", "value"))
    item.finish()
    return msgspec.structs.replace(found, default=default)


def _kind(notation: Notation, item: Item, choices: tuple[str, ...]) -> FieldType:
    tree = item.take("type", "kind")
    word = notation.word(tree).lower()
    kind = FIELD_TYPES.get(word, "choice" if choices else "text")
    if tree is not None and word not in FIELD_TYPES:
        notation.slip("ENUM_VALUE_INVALID", f"`{word}` is no type of a field; it is a {kind}", tree.at)
    if kind in {"choice", "multichoice"} and not choices:
        notation.slip("CHOICES_INVALID", "a choice needs `choices`; without them it is a text", item.at)
        return "boolean" if word == "checkbox" else "text"
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
