"""The forms of the stage format. Code in them is never run: the user fills in such a field."""

import re
from collections.abc import Iterator
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from scripts.expressions.suggestions import suggest
from scripts.expressions.values import DeclaredType, Value, refusal, text_of
from scripts.formats.stage.names import node_id
from scripts.formats.stage.outputs import choices_of, limit
from scripts.formats.stage.stage_reader import Item, StageReader, entries, parts_of
from scripts.formats.text_lists import choices_in, with_name
from scripts.formats.words import FIELD_TYPES
from scripts.model.base import Template, without_places
from scripts.model.script import FieldType, FormDefinition, FormField
from scripts.yaml.parser import Mapping, Scalar, Sequence, Tree, is_null, word

_LANGUAGES = ("python", "py", "javascript", "js", "lambda")
_CODE = (*_LANGUAGES, "code", "script")
_BODIES = ("fields", "items", "field", "questions", "declare", "inputs", "controls", "elements", "widgets", "content")
_CHOICES = ("options", "option", "enum", "items", "list", "values")


def sheet(notation: StageReader, tree: Mapping) -> FormDefinition:
    """Read a form."""
    item = Item(notation, tree)
    written = item.word("form", "name", "id", "goal")
    _refuse_code(notation, item.take_pairs(_CODE))
    title = item.template("title", "label")
    text = item.template("text", "say", "desc", "description", "define")
    inside = inside_of(notation, _body(item))
    if inside.notes:
        lines = [*([text.source] if text is not None else []), *(note.source for note in inside.notes)]
        text = Template("\n".join(lines), (text or inside.notes[0]).at)
    name, fields = node_id(written) or "form", _each_once(notation, [_field(notation, each) for each in inside.fields])
    found = FormDefinition(id=name, title=title, text=text, fields=fields, at=tree.at, marks=item.marks)
    item.finish()
    return found


def _body(item: Item) -> Tree | None:
    """Return the part with the fields: a known key, else the only list of widgets, else the fields beside the name."""
    if any(key in item for key in _BODIES):
        return item.take("fields", *_BODIES)
    rest = [(key, value) for key, value in item.tree.pairs if key.text in item]
    listed = [key.text for key, value in rest if _holds_widgets(value)]
    if len(listed) == 1:
        return item.take(listed[0])
    return item.take_pairs([key.text for key, value in rest if _is_typed(value)])


def _is_typed(tree: Tree) -> bool:
    """Return whether a value is the type of a field, or a mapping with it."""
    if isinstance(tree, Mapping):
        return not {"type", "kind", "label", *_CHOICES}.isdisjoint(tree.keys())
    return isinstance(tree, Scalar) and tree.text.strip().lower() in FIELD_TYPES


def _holds_widgets(tree: Tree) -> bool:
    return isinstance(tree, Sequence) and any(isinstance(each, Mapping) and is_widget(each) for each in tree.items)


def _refuse_code(notation: StageReader, pairs: Mapping | None) -> None:
    for key, tree in pairs.pairs if pairs is not None else ():
        message = f"the code in `{key.text}` is not run; the user fills in the field instead"
        notation.slip("PYTHON_REFUSED", message, tree.at)


def _each_once(notation: StageReader, fields: list[FormField]) -> tuple[FormField, ...]:
    """Return the fields of a form, each once. Two different ones of one name are an error: one answer would be lost."""
    found: dict[str, FormField] = {}
    for each in fields:
        if each.name in found and without_places(each) != without_places(found[each.name]):
            message = f"the field in line {found[each.name].at.line} already sets `{each.name}`"
            fix = "Give each of the two a separate variable: `var: NAME` beside its label."
            notation.refuse("DUPLICATE_DECLARATION", message, each.at, fix)
        found.setdefault(each.name, each)
    return tuple(found.values())


def _field(notation: StageReader, tree: Mapping) -> FormField:
    item = Item(notation, tree)
    name = item.take(*FIELD_KEYS)
    choices, labels = choices_of(notation, item.take("choices", *_CHOICES))
    kind = _kind(notation, item, choices)
    define = item.word("define", "desc", "description")
    label = item.template("label", "title", "text")
    _refuse_code(notation, item.take_pairs(_CODE))
    least, most = notation.value(item.take("min")), notation.value(item.take("max"))
    table = table_of(notation, item) if kind == "table" else Table()
    formula = item.take("computed", "expression", "formula", "compute", "calc")
    columns = _each_once(notation, [_field(notation, each) for each in table.columns])
    found = FormField(
        name=notation.variable(name) if name is not None else "field",
        label=label,
        define=define,
        type="text" if kind == "table" and not columns else kind,
        choice_list=choices,
        labels=labels,
        required=bool(notation.truth(item.take("required", "must"))),
        placeholder=item.template("placeholder", "hint", "tip"),
        pattern=item.word("pattern", "regex") or None,
        min=limit(least) if table.least is None else table.least,
        max=limit(most) if table.most is None else table.most,
        invalid=item.template("invalid", "error"),
        computed=None if formula is None else notation.value_expression(formula),
        columns=columns,
        at=tree.at,
        marks=item.marks,
    )
    default = _default(notation, found, item.take("default", "value"))
    item.finish()
    return replace(found, default=default or table.rows(columns) or None)


def _kind(notation: StageReader, item: Item, choices: tuple[str, ...]) -> FieldType:
    tree = item.take("type", "kind")
    word = notation.word(tree).lower()
    kind = FIELD_TYPES.get(word, "choice" if choices else "text")
    if tree is not None and word not in FIELD_TYPES:
        fix = suggest(word, list(FIELD_TYPES))
        notation.slip("ENUM_VALUE_INVALID", f"unknown field type `{word}`; {kind} is used", tree.at, fix)
    if choices and kind == "text":
        return "choice"
    if kind in {"choice", "multichoice"} and not choices:
        if word == "checkbox":
            return "boolean"
        notation.slip("CHOICES_INVALID", "a choice needs `choices`; without `choices` it is a text", item.at)
        return "text"
    return kind


def _default(notation: StageReader, field: FormField, tree: Tree | None) -> Value:
    value = notation.value(tree)
    if field.type in {"text", "file"} and not isinstance(value, list | dict | None):
        return text_of(value)
    if tree is None or value is None or field.type not in {"number", "boolean", "date", "choice"}:
        return value
    reason = refusal(value, cast(DeclaredType, field.type), field.choices)
    if reason and value != "":
        notation.slip("DEFAULT_MISMATCH", f"{reason}; the field is empty at first", tree.at)
    return None if reason else value


# -- widgets and tables ----------------------------------------------------------------------------------------------


FIELD_KEYS = ("field", "var", "variable", "name", "get", "output", "key", "id")
_SURE_KEYS = frozenset(FIELD_KEYS) - {"name", "key", "id"}
_TEXT_WIDGETS = frozenset({"label", "note", "tip", "tips", "hint", "header", "heading", "title", "paragraph", "html"})
_NOTHING = frozenset({"button", "submit", "separator", "divider", "line", "br", "hr", "space", "spacer"})
_WIDGETS = frozenset({*FIELD_TYPES, *_TEXT_WIDGETS, *_NOTHING}) - {"option", "enum", "str"}
_FORMATS = ("columns", "format", "cols", "column", "header", "headers", "fields", "items")
_RANGE = re.compile(r"\s*(?P<least>\d+)\s*[-~–—至到]\s*(?P<most>\d+)\D*")


class Inside(Struct):
    """The content of a form: its fields, each with `field` and `type`, and texts."""

    fields: list[Mapping]
    notes: list[Template]


def is_widget(tree: Mapping) -> bool:
    """Return whether a mapping starts with the type of a field as the key: ``text: Question``."""
    return bool(tree.pairs) and tree.pairs[0][0].text.lower() in _WIDGETS


def inside_of(notation: StageReader, tree: Tree | None) -> Inside:
    """Read the content of a form in any spelling."""
    inside = Inside([], [])
    for each in _mappings_of(notation, tree):
        kind = each.pairs[0][0].text.lower() if is_widget(each) else ""
        if kind in _NOTHING:
            continue  # a form is always submitted as a whole, and the client determines the layout
        if kind in _TEXT_WIDGETS:
            inside.notes.append(notation.template(each.pairs[0][1]))
        else:
            inside.fields.append(_field_of(each) if kind else each)
    return inside


def _field_of(tree: Mapping) -> Mapping:
    """Convert a widget to a field: its name is its question, unless a variable is named beside it."""
    (kind, question), rest = tree.pairs[0], tree.pairs[1:]
    if isinstance(question, Mapping):
        rest, question = (*question.pairs, *rest), Scalar("", True, kind.at)
    keys = {key.text for key, _ in rest}
    pairs = [*rest]
    has_question = isinstance(question, Scalar) and question.value is not None
    if has_question and not keys & set(FIELD_KEYS):
        pairs.insert(0, (word("field", kind), question))
    if has_question and not keys & {"label", "title"}:
        pairs.insert(0, (word("label", kind), question))
    if "type" not in keys:
        pairs.append((word("type", kind), Scalar(kind.text, False, kind.at)))
    return Mapping(tuple(pairs), tree.at)


def _mappings_of(notation: StageReader, tree: Tree | None) -> Iterator[Mapping]:
    """Yield each field as a separate mapping."""
    if isinstance(tree, Mapping) and _is_by_name(tree):
        _refuse_code(notation, Item(notation, tree).take_pairs(_LANGUAGES))
        for key, value in tree.pairs:  # name: label, or name: {type: …}
            if key.text not in _LANGUAGES:
                yield _with_type(with_name("field", key, value, "label"))
        return
    for each in entries(tree):
        if isinstance(each, Mapping):
            is_named = not is_widget(each) and (len(each.pairs) == 1 or _has_types(each)) and _is_by_name(each)
            yield from _mappings_of(notation, each) if is_named else (each,)
        elif isinstance(each, Sequence):
            yield from _mappings_of(notation, each)
        elif each.value is not None:
            yield from (Mapping(((word("field", part), part),), part.at) for part in parts_of(each))


def _is_by_name(tree: Mapping) -> bool:
    """Return whether the keys of a mapping are names of fields, also one called `name`: ``{name: text}``."""
    return not set(FIELD_KEYS) & set(tree.keys()) or _has_types(tree)


def _has_types(tree: Mapping) -> bool:
    """Return whether each value of a mapping is the type of a field that its key names."""
    is_typed = all(_is_typed(value) for _, value in tree.pairs)
    return is_typed and tree.get("type") is None and not _SURE_KEYS & set(tree.keys())


# -- tables -----------------------------------------------------------------------------------------------------------


class Table(Struct, frozen=True):
    """The columns of a table, its number of rows, and its initial rows."""

    columns: tuple[Mapping, ...] = ()
    least: int | None = None
    most: int | None = None
    initial_rows: tuple[Value, ...] = ()

    def rows(self, columns: tuple[FormField, ...]) -> list[Value]:
        """Return the initial rows of a table; a name alone is the value of the first column."""
        names = [each.name for each in columns]
        rows: list[Value] = []
        for row in self.initial_rows:
            cells = row if isinstance(row, list) else [row]
            rows.append(row if isinstance(row, dict) else dict(zip(names, cells, strict=False)))
        return rows if names else []


def table_of(notation: StageReader, item: Item) -> Table:
    """Read `format` and `rows` of a table."""
    columns = tuple(_columns(notation, item.take(*_FORMATS)))
    tree = item.take("rows", "row", "lines")
    if tree is None or is_null(tree):
        return Table(columns)
    if isinstance(tree, Sequence | Mapping):
        rows = tuple(notation.value(each) for each in entries(tree))
        return Table(columns, most=len(rows), initial_rows=rows)
    if (between := _RANGE.fullmatch(tree.text)) is not None:
        return Table(columns, int(between["least"]), int(between["most"]))
    return Table(columns, most=notation.number(tree, 1, 1_000))


def _columns(notation: StageReader, tree: Tree | None) -> list[Mapping]:
    """Read the columns: a list like a form's fields, ``name: type`` for each, or one text with separators."""
    if isinstance(tree, Scalar):
        return inside_of(notation, choices_in(tree)).fields
    return [_with_type(each) for each in inside_of(notation, tree).fields]


def _with_type(tree: Mapping) -> Mapping:
    """Read ``name: number`` as a column of that type, not as a column with that label."""
    label = tree.get("label")
    if not isinstance(label, Scalar) or label.text.lower() not in FIELD_TYPES or tree.get("type") is not None:
        return tree
    pairs = tuple((word("type", key), value) if key.text == "label" else (key, value) for key, value in tree.pairs)
    return Mapping(pairs, tree.at)
