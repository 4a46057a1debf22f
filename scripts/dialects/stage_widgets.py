"""What a form of the stage form holds: widgets such as ``- combobox: What it asks``, and tables with their format."""

import re
from collections.abc import Iterator
from collections.abc import Mapping as MappingType

from msgspec import Struct

from scripts.dialects.stage_keys import Item, Notation, mappings
from scripts.model import FieldType, FormField
from scripts.nodes import Template
from scripts.source import Mapping, Scalar, Sequence, Tree
from scripts.values import Value

FIELD_KEYS = ("field", "var", "variable", "name", "get", "output", "key", "id")
FIELD_TYPES: MappingType[str, FieldType] = {
    **dict.fromkeys(("text", "string", "str", "textarea", "textbox", "textfield", "input", "edit", "memo"), "text"),
    **dict.fromkeys(("email", "phone", "tel", "password", "url", "文本", "多行文本"), "text"),
    **dict.fromkeys(("number", "int", "integer", "float", "double", "slider", "rate", "rating", "spinner"), "number"),
    **dict.fromkeys(("num", "数字", "整数"), "number"),
    "time": "text",
    **dict.fromkeys(("boolean", "bool", "switch", "toggle"), "boolean"),
    **dict.fromkeys(("date", "datetime", "datepicker", "日期"), "date"),
    **dict.fromkeys(("choice", "select", "radio", "enum", "option", "dropdown", "combobox", "combo"), "choice"),
    **dict.fromkeys(("listbox", "radiobox", "radiobutton", "单选", "下拉"), "choice"),
    **dict.fromkeys(("multichoice", "multi", "multiselect", "multi_select", "multi-choice"), "multichoice"),
    **dict.fromkeys(("checkbox", "checkboxes", "checklist", "多选"), "multichoice"),
    **dict.fromkeys(("file", "upload", "image", "picture", "attachment", "文件"), "file"),
    **dict.fromkeys(("table", "list", "array", "rows", "grid", "表格"), "table"),
}
_SAID = frozenset({"label", "note", "tip", "tips", "hint", "header", "heading", "title", "paragraph", "html"})
_NOTHING = frozenset({"button", "submit", "separator", "divider", "line", "br", "hr", "space", "spacer"})
_WIDGETS = frozenset({*FIELD_TYPES, *_SAID, *_NOTHING}) - {"option", "enum", "str"}
_FORMATS = ("columns", "format", "cols", "column", "header", "headers", "fields", "items")
_RANGE = re.compile(r"\s*(?P<least>\d+)\s*[-~–—至到]\s*(?P<most>\d+)\D*")


class Inside(Struct):
    """What a form holds: its fields, each with `field` and `type`, and what is only said."""

    fields: list[Mapping]
    notes: list[Template]


def is_widget(tree: Mapping) -> bool:
    """Whether a mapping begins with the kind of a field, which names the field: ``text: What it asks``."""
    return bool(tree.pairs) and tree.pairs[0][0].text.lower() in _WIDGETS


def inside_of(notation: Notation, tree: Tree | None) -> Inside:
    """What a form holds, whatever way it is written."""
    inside = Inside([], [])
    for each in _mappings_of(tree):
        kind = each.pairs[0][0].text.lower() if is_widget(each) else ""
        if kind in _NOTHING:
            continue  # a form is always sent as a whole, and laid out by the client
        if kind in _SAID:
            inside.notes.append(notation.template(each.pairs[0][1]))
        else:
            inside.fields.append(_named(each) if kind else each)
    return inside


def _named(tree: Mapping) -> Mapping:
    """A widget as a field: it is called what it asks, unless a variable is named beside it."""
    (kind, asked), rest = tree.pairs[0], tree.pairs[1:]
    if isinstance(asked, Mapping):
        rest, asked = (*asked.pairs, *rest), Scalar("", True, kind.at, 0)
    keys = {key.text for key, _ in rest}
    pairs = [*rest]
    is_asked = isinstance(asked, Scalar) and asked.value is not None
    if is_asked and not keys & set(FIELD_KEYS):
        pairs.insert(0, (_word("field", kind), asked))
    if is_asked and not keys & {"label", "title"}:
        pairs.insert(0, (_word("label", kind), asked))
    if "type" not in keys:
        pairs.append((_word("type", kind), Scalar(kind.text, False, kind.at, kind.at.line)))
    return Mapping(tuple(pairs), tree.at, len(pairs))


def _mappings_of(tree: Tree | None) -> Iterator[Mapping]:
    """Each field as a mapping of its own."""
    if isinstance(tree, Mapping) and not set(FIELD_KEYS) & set(tree.keys()):
        for key, value in tree.pairs:  # name: label, or name: {type: …}
            inner = value.pairs if isinstance(value, Mapping) else ((_word("label", key), value),)
            yield Mapping(((_word("field", key), key), *inner), key.at, len(inner) + 1)
        return
    for each in mappings(tree):
        if isinstance(each, Mapping) and not is_widget(each) and not set(FIELD_KEYS) & set(each.keys()):
            yield from _mappings_of(each) if len(each.pairs) == 1 else (each,)
        elif isinstance(each, Mapping):
            yield each
        elif isinstance(each, Sequence):
            yield from _mappings_of(each)
        elif each.value is not None:
            yield Mapping(((_word("field", each), each),), each.at, 1)


def _word(text: str, near: Tree) -> Scalar:
    return Scalar(text, True, near.at, near.at.line)


# -- tables -----------------------------------------------------------------------------------------------------------


class Table(Struct, frozen=True):
    """The columns of a table, how many rows it takes, and what its rows begin with."""

    columns: tuple[Mapping, ...] = ()
    least: int | None = None
    most: int | None = None
    given: tuple[Value, ...] = ()

    def rows(self, columns: tuple[FormField, ...]) -> list[Value]:
        """The rows that the table begins with; a name alone stands in the first column."""
        names = [each.name for each in columns]
        rows: list[Value] = []
        for row in self.given:
            cells = row if isinstance(row, list) else [row]
            rows.append(row if isinstance(row, dict) else dict(zip(names, cells, strict=False)))
        return rows if names else []


def table_of(notation: Notation, item: Item) -> Table:
    """What `format` and `rows` say of a table."""
    columns = tuple(_columns(notation, item.take(*_FORMATS)))
    tree = item.take("rows", "row", "lines")
    if tree is None or (isinstance(tree, Scalar) and tree.value is None):
        return Table(columns)
    if isinstance(tree, Sequence | Mapping):
        given = tuple(notation.value(each) for each in mappings(tree))
        return Table(columns, most=len(given), given=given)
    between = _RANGE.fullmatch(tree.text)
    if between is not None:
        return Table(columns, int(between["least"]), int(between["most"]))
    return Table(columns, most=notation.number(tree, 1, 1_000))


def _columns(notation: Notation, tree: Tree | None) -> list[Mapping]:
    """The columns: a list as of a form's fields, ``name: kind`` for each, or one text with signs between."""
    if isinstance(tree, Scalar):
        parts = [part.strip() for part in re.split(r"[,，、;；|｜/]", tree.text) if part.strip()]
        listed = tuple(Scalar(part, False, tree.at, tree.at.line) for part in parts)
        return inside_of(notation, Sequence(listed, tree.at, len(listed))).fields
    return [_with_type(each) for each in inside_of(notation, tree).fields]


def _with_type(tree: Mapping) -> Mapping:
    """A column ``name: number`` as one of that type, rather than one that is called so."""
    label = tree.get("label")
    if not isinstance(label, Scalar) or label.text.lower() not in FIELD_TYPES or tree.get("type") is not None:
        return tree
    pairs = tuple((_word("type", key), value) if key.text == "label" else (key, value) for key, value in tree.pairs)
    return Mapping(pairs, tree.at, tree.size)
