"""`declare` and `output` of the stage format, in all their spellings."""

from collections.abc import Iterable
from collections.abc import Mapping as MappingType
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from scripts.expressions.suggestions import suggest
from scripts.expressions.values import DeclaredType, Value, refusal, shorten
from scripts.formats import text_lists
from scripts.formats.stage.stage_reader import Item, StageReader, entries, parts_of
from scripts.formats.words import VARIABLE_TYPES
from scripts.model.base import Location, without_places
from scripts.model.variables import Assignment, Declaration, Output, OutputItem, Records
from scripts.yaml.choice_labels import labels_of, values_of
from scripts.yaml.parser import Mapping, Scalar, Sequence, Tree, pairs_of

_DEFINES = ("define", "desc", "description", "prompt", "meaning", "note")
_VALUES = ("value", "default", "init", "initial")
_VARS = ("var", "name", "get", "variable", "key", "id")
DECLARATION_KEYS = {*Declaration.__struct_fields__, *_VARS, *_VALUES, *_DEFINES, "dict"}
_OUTPUT_KEYS = {"get", "var", "name", "set", "tolist", "define", "desc", "description", "type", "choices", "when"}
_PART_KEYS = {*Output.__struct_fields__, *_OUTPUT_KEYS, *_DEFINES, *_VALUES, "to", "as", "if", "condition", "kind"}
_PART_KEYS |= {"must", "fields", "items", "output", "outputs", "options", "enum", "regex", "to_list"}


# -- declare ----------------------------------------------------------------------------------------------------------


def declarations(notation: StageReader, tree: Tree | None, *, are_values: bool = False) -> tuple[Declaration, ...]:
    """Return the variables that a list declares; two declarations of one name are merged.

    The texts of ``{name: text}`` are meanings, or values if `are_values` is set.
    """
    found: dict[str, Declaration] = {}
    for each in _read_declarations(notation, tree, are_values=are_values):
        if each.var in found:
            found[each.var] = _together(notation, found[each.var], each, f"{each.var} is declared")
        found.setdefault(each.var, each)
    return tuple(found.values())


_S = TypeVar("_S", Declaration, Output)


def _together(notation: StageReader, first: _S, second: _S, what: str) -> _S:
    """Merge two nodes of the same name; differing values are an error."""
    changed = {}
    for field in msgspec.structs.fields(type(first)):
        one, other = getattr(first, field.name), getattr(second, field.name)
        is_said = other != field.default and field.name not in {"at", "marks", "labels"}
        if is_said and one == field.default:
            changed[field.name] = other
        elif is_said and without_places(other) != without_places(one):
            message = f"{what} in line {first.at.line} already, with another `{field.encode_name}`"
            notation.refuse("DUPLICATE_DECLARATION", message, second.at, "Rename one of the two, or merge them.")
            return first
    notation.slip("DUPLICATE_DECLARATION", f"{what} in line {first.at.line} already", second.at, "Merge the two.")
    return replace(first, **changed)


def _read_declarations(notation: StageReader, tree: Tree | None, *, are_values: bool) -> list[Declaration]:
    is_one = isinstance(tree, Mapping) and bool({*_VARS, "dict"} & set(tree.keys()))
    if isinstance(tree, Mapping) and (not is_one or text_lists.has_variable_name(tree, DECLARATION_KEYS)):
        return [_of_pair(notation, key, value, is_value=are_values) for key, value in tree.pairs]
    if isinstance(tree, Scalar):
        return [Declaration(var=name, at=tree.at) for name in notation.variables(tree)]
    found: list[Declaration] = []
    for each in entries(tree):
        if isinstance(each, Mapping):
            found += _of_mapping(notation, each, are_values=are_values)
        elif isinstance(each, Scalar) and each.value is not None:
            found.append(Declaration(var=notation.variable(each), at=each.at))
    return found


def _of_mapping(notation: StageReader, tree: Mapping, *, are_values: bool = False) -> list[Declaration]:
    item = Item(notation, tree)
    name = item.take(*_VARS)
    if name is None:
        listed = item.take("dict")  # a heading of the variables beside or below it
        pairs = (*pairs_of(listed), *item.the_rest())
        return [_of_pair(notation, key, value, is_value=are_values) for key, value in pairs]
    value_tree = item.take(*_VALUES)
    choices, labels = choices_of(notation, item.take("choices", "options", "enum"))
    declared = Declaration(
        var=notation.variable(name),
        define=item.text(*_DEFINES),
        value=None if value_tree is None else notation.value(value_tree),
        type=kind_of(notation, item.take("type", "kind")),
        choices=choices,
        labels=labels,
        pii=bool(notation.truth(item.take("pii"))),
        auto=bool(notation.truth(item.take("auto"))),
        at=tree.at,
        marks=item.marks,
    )
    item.finish()
    return [_fitting(notation, declared)]


def _of_pair(notation: StageReader, key: Scalar, value: Tree, *, is_value: bool) -> Declaration:
    """Read ``name: meaning``, ``name: 0`` or ``name: []``."""
    var = notation.variable(key)
    if isinstance(value, Mapping) and not text_lists.is_record(value, DECLARATION_KEYS - set(_VARS)):
        return _of_mapping(notation, text_lists.with_name("var", key, value, "define"))[0]
    if isinstance(value, Scalar) and text_lists.is_meaning(value) and not is_value:
        if notation.names.valued and var not in notation.names.valued:
            text_lists.report_meaning(notation.reader, key, value)
        return Declaration(var=var, define=value.text, at=key.at, marks={"var": key.at})
    return _fitting(notation, Declaration(var=var, value=notation.value(value), at=key.at, marks={"var": key.at}))


def _fitting(notation: StageReader, declared: Declaration) -> Declaration:
    """Make the type and the value of a declaration consistent; a value that looks calculated is reported."""
    if isinstance(declared.value, str) and declared.value.startswith("="):
        fix = f"Write `set: {declared.var}` with `value: {declared.value[1:].strip()}` in the first goal."
        message = f"{shorten(declared.value)} is a text: a declared value is not calculated"
        notation.slip("TYPE_MISMATCH", message, declared.mark("value"), fix)
    if isinstance(declared.value, list) and declared.type is None:
        return replace(declared, type="list")
    if declared.type == "list" and declared.value in (None, ""):
        return replace(declared, value=[])
    kind = _with_choices(notation, declared.type, declared.choices, declared.mark("type"))
    value = _of_kind(notation, declared.value, kind, declared.choices, declared.mark("value"))
    return replace(declared, type=kind, value=value)


def _with_choices(
    notation: StageReader, kind: DeclaredType | None, choices: tuple[str, ...], at: Location
) -> DeclaredType | None:
    if kind != "choice" or choices:
        return kind
    notation.slip("CHOICES_INVALID", "a choice needs `choices`; without `choices` it is a text", at)
    return None


def _of_kind(
    notation: StageReader, value: Value, kind: DeclaredType | None, choices: tuple[str, ...], at: Location
) -> Value:
    wanted = "choice" if choices and kind is None else kind
    if wanted is None or value is None:
        return value
    if value == "" and wanted != "text":
        return None
    if reason := refusal(value, wanted, choices):
        notation.refuse("DEFAULT_MISMATCH", reason, at)
        return None
    return value


def kind_of(notation: StageReader, tree: Tree | None) -> DeclaredType | None:
    """Return a type by any of its names."""
    if tree is None:
        return None
    word = notation.word(tree).lower()
    if word and word not in VARIABLE_TYPES:
        fix = suggest(word, list(VARIABLE_TYPES))
        notation.slip("ENUM_VALUE_INVALID", f"unknown type `{word}`; any value is allowed", tree.at, fix)
    return VARIABLE_TYPES.get(word)


def choices_of(notation: StageReader, tree: Tree | None) -> tuple[tuple[str, ...], MappingType[str, str]]:
    """Read the allowed values in any spelling, and the labels of those that have one."""
    text_lists.report_letters(notation.reader, tree)
    if tree is None:
        return (), {}
    choices = text_lists.choice_texts(tree)
    labels = labels_of(choices)
    texts = map(notation.word, values_of(choices).items)
    return tuple(dict.fromkeys(text for text in texts if text)), labels


# -- output -----------------------------------------------------------------------------------------------------------


def outputs(notation: StageReader, tree: Tree | None, tolist: Tree | None = None) -> tuple[OutputItem, ...]:
    """Read the outputs of an action. `tolist` is the list beside `output`; items that name a list become its record."""
    gathering = _OutputCollector(notation)
    gathering.every(tree)
    if tolist is not None:
        gathering.gather(tolist)
    return gathering.outputs()


class _OutputCollector:
    """Collects the items of an output; items of the same list become one record."""

    def __init__(self, notation: StageReader) -> None:
        self.notation = notation
        self.for_all = ""  # the list of a separate `tolist`, for all items without a list
        self._items: list[tuple[str, Output | Assignment]] = []
        self._at: dict[str, Location] = {}

    def gather(self, tolist: Tree) -> None:
        """Use this list for all items without a list."""
        self.for_all = self.notation.variable(tolist)
        self._at.setdefault(self.for_all, tolist.at)

    def every(self, tree: Tree | None, tolist: str = "") -> None:
        match tree:
            case Scalar():
                for name in self.notation.variables(tree) if tree.value is not None else ():
                    self.keep(Output(get=name, at=tree.at), tolist)
            case Sequence():
                for each in tree.items:
                    item = self.notation.reader.in_snake_case(each, {"get"}) if isinstance(each, Mapping) else each
                    self.every(item, tolist)
            case Mapping() if _OUTPUT_KEYS & set(tree.keys()) and not text_lists.has_variable_name(tree, _PART_KEYS):
                self.one(tree, tolist)
            case Mapping():
                for key, value in tree.pairs:  # name: meaning, or name: {type: …}
                    self.one(text_lists.with_name("get", key, value, "define"), tolist)

    def one(self, tree: Mapping, tolist: str) -> None:
        item = Item(self.notation, tree)
        listed = item.take("tolist", "to_list", "toList")
        if listed is not None:
            tolist = self.notation.variable(listed)
            self._at.setdefault(tolist, tree.at)
        inner = item.take("fields", "items", "output", "outputs")
        get = item.take("get", "var", "name")
        if isinstance(get, Scalar) and len(names := parts_of(get)) > 1:
            get = Sequence(tuple(names), get.at)
        if isinstance(get, Sequence | Mapping):
            if inner is not None:
                self.notation.refuse("KEY_CONFLICT", "two keys list the outputs", inner.at, "Write one list.")
            inner, get = get, None
        assigned = item.take("set") if get is None else None
        if inner is not None:
            self.every(inner, tolist)
        if get is not None:
            self.get(item, get, tolist)
        elif assigned is not None:
            self.set(item, assigned)
        elif inner is None and listed is not None:
            self.for_all = tolist
        item.finish()

    def get(self, item: Item, name: Tree, tolist: str) -> None:
        notation = self.notation
        computed = item.take("set") if "set" in item else None
        choices, labels = choices_of(notation, item.take("choices", "options", "enum"))
        kind = kind_of(notation, item.take("type", "kind"))
        default = notation.value(item.take("default", "value"))
        output = Output(
            get=notation.variable(name),
            define=item.word(*_DEFINES),
            type=_with_choices(notation, kind, choices, item.at),
            choice_list=choices,
            labels=labels,
            pattern=item.word("pattern", "regex") or None,
            min=limit(notation.value(item.take("min"))),
            max=limit(notation.value(item.take("max"))),
            required=notation.truth(item.take("required", "must")),
            fallback="raw" if item.word("fallback") == "raw" else None,
            invalid=item.template("invalid"),
            at=item.at,
            marks=item.marks,
        )
        fitting = _of_kind(notation, default, output.type, choices, output.mark("default"))
        self.keep(replace(output, default=fitting), tolist)
        if computed is not None:
            self.keep(Assignment(set=output.get, value=notation.value_expression(computed), at=item.at), "")

    def set(self, item: Item, name: Tree) -> None:
        notation = self.notation
        when = notation.condition(item.take("when", "if", "condition"))
        value = item.take("value", "to", "as", "default")
        if isinstance(name, Mapping):
            for key, written in name.pairs:
                value_of = notation.value_expression(written)
                self.keep(Assignment(set=notation.variable(key), value=value_of, when=when, at=item.at), "")
            return
        if value is None:
            notation.lacks("`value` is missing; the variable would not be set", item.at, "Add `value:`.")
            return
        variable, expression = notation.variable(name), notation.value_expression(value)
        self.keep(Assignment(set=variable, value=expression, when=when, at=item.at, marks=item.marks), "")

    def keep(self, item: Output | Assignment, tolist: str) -> None:
        self._items.append((tolist, item))

    def _once(self) -> Iterable[tuple[str, Output | Assignment]]:
        """Merge items of the same variable and list."""
        found: dict[object, tuple[str, Output | Assignment]] = {}
        for number, (tolist, item) in enumerate(self._items):
            name = tolist or self.for_all
            place = (name, item.get) if isinstance(item, Output) else number
            _, first = found.get(place, ("", None))
            if isinstance(first, Output) and isinstance(item, Output):
                item = _together(self.notation, first, item, f"{item.get} is an output")
            found[place] = (name, item)
        return found.values()

    def outputs(self) -> tuple[OutputItem, ...]:
        single: list[OutputItem] = []
        computed: list[OutputItem] = []
        fields: dict[str, list[Output]] = {}
        for tolist, item in self._once():
            if isinstance(item, Assignment):
                computed.append(item)
            elif tolist:
                fields.setdefault(tolist, []).append(item)
            else:
                single.append(item)
        if self.for_all and self.for_all not in fields:
            message = f"the records of {self.for_all} have no fields"
            self.notation.lacks(message, self._at[self.for_all], "Add `output:` with `get`.")
        held = ((name, tuple(some), self._at.get(name, some[0].at)) for name, some in fields.items())
        records = (Records(tolist=name, fields=some, at=at) for name, some, at in held)
        return (*single, *records, *computed)


def limit(value: Value) -> int | float | str | None:
    """Return the value of `min` or `max`, if it is one."""
    return None if isinstance(value, bool | list | dict) else value
