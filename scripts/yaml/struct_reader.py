"""Read a YAML tree into Structs and report every problem with its location.

The types are the grammar: a Struct's fields are the keys, their annotations the allowed values. Unlike
`msgspec.convert`, the reader continues after the first problem and records the location of every node.
"""

import itertools
import re
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from collections.abc import Mapping as MappingType
from contextlib import contextmanager, suppress
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar, Union, cast, get_args, get_origin

from msgspec import Meta, Struct
from msgspec.structs import replace

from scripts.expressions.suggestions import snake_case, stands_for, suggest
from scripts.expressions.values import ValueRefused, literal, number_in, shorten, to_value
from scripts.model import actions, languages
from scripts.model.actions import Exit
from scripts.model.base import ASSIGNED, WHOLE, Expression, Location, Node, Template
from scripts.model.diagnostics import Problems, Severity
from scripts.model.languages import Language
from scripts.model.own_actions import ActionTypeInvalid, installed_actions
from scripts.model.script import LABELLED, FormDefinition, FormField, Phase, Script, Topic
from scripts.model.variables import OutputItem, Validation
from scripts.yaml.branches import nest
from scripts.yaml.choice_labels import labels_of, values_of
from scripts.yaml.given_values import GivenInvalid, plain_literals, read_assigned, read_given
from scripts.yaml.grammar import ALIASES, SHORTHANDS, Field, by_first_key, fields_of, first_key, metas_of, shorthand_of
from scripts.yaml.key_fixes import (
    COMMA,
    FileFormat,
    action_fix,
    dash_fix,
    is_without_colon,
    keys_fix,
    mapping_fix,
    pair_fix,
    unknown_key_fix,
)
from scripts.yaml.parser import Mapping, Scalar, Tree, inner_trees, is_empty, is_null, pairs_of, plain_value, with_value
from scripts.yaml.parser import Sequence as SequenceTree
from scripts.yaml.unknown_keys import is_ignorable

S = TypeVar("S", bound=Struct)

_PROGRAMS = frozenset({"python", "code"})  # keys that hold programs in other systems
TRUTHS = {"true": True, "yes": True, "on": True, "是": True, "false": False, "no": False, "off": False, "否": False}
_NEEDS = TRUTHS | {"必填": True, "必须": True, "需要": True, "选填": False, "可选": False, "不需要": False}
_BESIDE_IF = {
    (True, False): "Write actions below `then:`, each with its own dash.",
    (False, True): "Write a condition of one action as `when`, or begin a new item with `- if:`.",
}
"""Fixes for an item with a second action, by whether the first and the second are `if`."""
_LISTED = {
    item
    for kind in (Script, Phase)
    for each in fields_of(kind).values()
    for item in get_args(each.annotation)[:1]
    if isinstance(item, type) and issubclass(item, Node)
}
"""The types of the items in lists of a script or phase."""
_HEADINGS = {
    each.removesuffix("s"): each
    for each in ("phases", "topics", "skills", "roles", "forms", "experiments", "interrupts", "detectors", "tools")
}
"""The lists by the keys with which their items begin."""
_INCREASES = re.compile(r"(?P<sign>[+-])=\s*(?P<value>\w+)")


class Invalid(Exception):
    """A part is invalid; its problem is recorded."""


class StructReader:
    """Reads the trees of one file. `lenient` reports unknown and obsolete keys as warnings instead of errors."""

    special: ClassVar[MappingType[Any, Callable[[Any, Tree], Any]]] = {}
    """For types that are not written as their annotations say: the functions that read them."""

    def __init__(
        self,
        problems: Problems,
        *,
        lenient: bool,
        respell: MappingType[Any, Callable[[Mapping], Mapping]] | None = None,
        language: Language = "older",
    ) -> None:
        self.problems = problems
        self.lenient = lenient
        self._language: Language = language
        self._respell = respell or {}  # functions that convert other spellings of a type to its own keys
        self._path: list[str] = []

    @property
    def path(self) -> str:
        """The path of the current node: ``phases[0].topics[1]``."""
        return "".join(self._path).lstrip("./")

    @contextmanager
    def inside(self, part: str) -> Iterator[None]:
        """Append a part to the current path."""
        self._path.append(part)
        yield
        self._path.pop()

    def add(self, code: str, message: str, at: Location, fix: str = "", **more: Any) -> None:
        """Record a problem at the current path."""
        self.problems.add(code, message, at, path=self.path, fix=fix, **more)

    def slip(self, code: str, message: str, at: Location, fix: str = "") -> None:
        """Record a problem whose intention is clear: if `lenient` only as a warning."""
        self.add(code, message, at, fix, severity="warning" if self.lenient else None)

    def refuse(self, code: str, message: str, at: Location, fix: str = "") -> None:
        """Record an error, because the conversation would differ without this part."""
        self.add(code, message, at, fix, severity="error")

    def missing(self, key: str, at: Location, fix: str = "") -> None:
        """Record that a required key is missing."""
        self.add("REQUIRED_FIELD_MISSING", f"`{key}` is missing", at, fix or f"Add `{key}:`.")

    def mismatch(self, tree: Tree, expected: str, fix: str = "") -> Invalid:
        """Record that another kind of value is expected, and return the exception for a part that is invalid."""
        found = {Mapping: "a mapping", SequenceTree: "a list"}.get(type(tree), "")
        if isinstance(tree, Scalar):
            found = "nothing" if tree.value is None else shorten(tree.text)
        if found == "nothing" and self._path and self._path[-1].startswith("["):
            fix = "Remove the dash, or write what belongs to it."
        if isinstance(tree, SequenceTree) and expected.startswith("a mapping"):
            fix = fix or "Write the keys without dashes."
        return self._invalid("TYPE_MISMATCH", f"expected {expected}, found {found}", tree.at, fix)

    def _invalid(self, code: str, message: str, at: Location, fix: str = "") -> Invalid:
        self.add(code, message, at, fix)
        return Invalid(message)

    def read(self, tree: Tree, kind: type[S]) -> S | None:
        """Read a tree into a Struct; return None if it is invalid. Problems are recorded."""
        try:
            return cast(S, self._struct(tree, kind))
        except Invalid:
            return None

    # -- annotations --------------------------------------------------------------------------------------------

    def _any(self, tree: Tree, annotation: Any) -> Any:
        return _way(annotation, self._language)(self, tree)

    def _whole(self, tree: Tree, annotation: Any) -> Any:
        """Read the variable of all results, or the variables with the names of their results."""
        return {self._any(tree, str): ""} if isinstance(tree, Scalar) else self._any(tree, annotation)

    def _plain(self, tree: Tree, kind: Any) -> Any:
        if (special := self.special.get(kind)) is not None:
            return special(self, tree)
        if issubclass(kind, Struct):
            return self._struct(tree, kind)
        return self._scalar(tree, kind)

    def _scalar(self, tree: Tree, kind: type) -> Any:
        if not isinstance(tree, Scalar):
            raise self.mismatch(tree, _KIND_NAMES[kind])
        value = tree.value
        if kind is str and value is not None:
            return tree.text
        if type(value) is kind or (kind is float and type(value) is int):
            return value
        if self.lenient and isinstance(value, str) and (converted := _convert_text(value, kind)) is not None:
            fix = f"Write {literal(converted)}, without quotes."
            self.add("TYPE_MISMATCH", f"expected {_KIND_NAMES[kind]}, found a text", tree.at, fix, severity="warning")
            return converted
        raise self.mismatch(tree, _KIND_NAMES[kind], _KIND_FIXES.get(kind, ""))

    def _one_of(self, tree: Tree, members: tuple[type, ...]) -> Any:
        value = plain_value(tree)
        if isinstance(tree, Scalar) and type(value) in members:
            return value
        raise self.mismatch(tree, " or ".join(_KIND_NAMES[member] for member in members))

    def _read_tagged(self, tree: Tree, members: tuple[type[Struct], ...]) -> Any:
        by_key = by_first_key(members, self._language)
        is_word = isinstance(tree, Scalar) and (tree.plain or (self._language == "1" and isinstance(tree.value, str)))
        if is_word and (kind := shorthand_of(members)) is not None:
            return self._struct(tree, kind)
        if not isinstance(tree, Mapping):
            fix = pair_fix(tree.text, by_key) if isinstance(tree, Scalar) else ""
            wanted = "an action such as `say: …`" if "say" in by_key else f"a mapping with one of {_names(by_key)}"
            raise self.mismatch(tree, wanted, fix)
        found = [key.text for key, _ in tree.pairs if key.text in by_key]
        known = self._fields(by_key[found[0]]) if found else {}
        has_unknown = any(key.text not in known and key.text not in ALIASES for key, _ in tree.pairs)
        if actions.OwnAction in members and has_unknown:
            by_key = by_key | self._installed_types(tree)  # looked up only where a key is unknown
            own = [key.text for key, _ in tree.pairs if key.text in by_key and key.text not in actions.ACTION_TYPES]
            if own:
                return self._struct(tree, by_key[own[0]])
        if not found:
            raise self._without_action(tree, by_key)
        first = found[0]
        extra = [other for other in found[1:] if other not in self._fields(by_key[first])]
        if extra:
            fix = _BESIDE_IF.get((first == "if", extra[0] == "if"), "")
            message = f"`{first}` and `{extra[0]}` in one item"
            raise self._invalid("ACTION_AMBIGUOUS", message, _key(tree, extra[0]).at, fix)
        if self._language == "1" and by_key[first] is actions.UserSay:
            cure = "Write `acknowledge: TEXT` at the message before it."
            self.add("DEPRECATED_KEY", "`user_say` is an older spelling", tree.at, cure, severity="note")
        return self._struct(tree, by_key[first])

    def _installed_types(self, tree: Mapping) -> dict[str, type[Struct]]:
        """Return the types of actions of installed packages by their keys."""
        try:
            return {name: each.fields for name, each in installed_actions().items()}
        except ActionTypeInvalid as invalid:
            self.add("ACTION_TYPE_UNKNOWN", str(invalid), tree.at, "Correct or uninstall the package.")
            return {}

    def _without_action(self, tree: Mapping, by_key: dict[str, type[Struct]]) -> Invalid:
        common = set.intersection(*(set(self._fields(kind)) for kind in by_key.values())) | set(ALIASES)
        unknown = [key for key, _ in tree.pairs if key.text not in common]
        older = {first_key(kind, "older"): key for key, kind in by_key.items()}
        if unknown and unknown[0].text in older:
            return self._deprecation(unknown[0], older[unknown[0].text])
        at = unknown[0].at if unknown else tree.at
        word = f"`{unknown[0].text}` is not an action" if unknown else "the item has no action"
        written = unknown[0].text if unknown else ""
        return self._invalid("ACTION_TYPE_UNKNOWN", word, at, action_fix(written, tree, list(by_key)))

    def _literal(self, tree: Tree, allowed: tuple[str, ...]) -> Any:
        if isinstance(tree, Scalar) and tree.text in allowed:
            return tree.text
        if not isinstance(tree, Scalar):
            raise self.mismatch(tree, f"one of {_names(allowed)}")
        message, fix = f"{shorten(tree.text)} is not allowed here", suggest(tree.text, list(allowed))
        raise self._invalid("ENUM_VALUE_INVALID", message, tree.at, fix)

    def _tuple(self, tree: Tree, item: Any) -> Any:
        is_text = isinstance(tree, Scalar) and item in {str, Template, Validation, Exit} and tree.value is not None
        if is_text or (item in {Template, Exit} and isinstance(tree, Mapping)):
            return (self._any(tree, item),)  # a single one needs no dash
        if is_null(tree):
            return ()
        if self._language == "1" and item is OutputItem and not isinstance(tree, SequenceTree):
            tree = SequenceTree((tree,), tree.at)  # one result needs no list
        if not isinstance(tree, SequenceTree):
            raise self.mismatch(tree, "a list", dash_fix(tree, self._name_key(tree, item)))
        parts = []
        for index, each in enumerate(tree.items):
            if self._respell and is_null(each):
                continue  # as a key without a value
            if item in _LISTED and self._is_of_another_list(each, item):
                break  # and so are those after it
            with self.inside(f"[{index}]"), suppress(Invalid):
                parts.append(self._any(each, item))
        return tuple(parts)

    def _is_of_another_list(self, tree: Tree, item: type[Struct]) -> bool:
        """Return whether the heading of another list is missing above an item, and report it."""
        key = tree.pairs[0][0] if isinstance(tree, Mapping) and tree.pairs else None
        if key is None or key.text not in _HEADINGS or key.text in self._fields(item):
            return False
        heading = _HEADINGS[key.text]
        fix = f"Write `{heading}:` above it, or correct its place."
        self.add("UNKNOWN_KEY", f"`{key.text}` begins an item of `{heading}`", key.at, fix)
        return True

    def _name_key(self, tree: Tree, item: Any) -> str:
        """Return the key of the name of a list's items, if the list is written as a mapping of names to items."""
        if not (isinstance(item, type) and issubclass(item, Struct) and isinstance(tree, Mapping) and tree.pairs):
            return ""
        fields = self._fields(item)
        required = [field for field in fields.values() if field.required]
        is_named = bool(required) and required[0].annotation is str and tree.pairs[0][0].text not in fields
        return required[0].key if is_named else ""

    def _mapping(self, tree: Tree, item: Any) -> Any:
        if not isinstance(tree, Mapping):
            fix = mapping_fix(tree.text, self._language) if isinstance(tree, Scalar) else ""
            raise self.mismatch(tree, "a mapping of names to values", fix)
        if self._language == "1" and (cut := _cut_expression(tree)) is not None:
            fix = "A comma ends a value in { }: put it in quotes, or write the mapping over several lines."
            raise self.mismatch(cut, "a whole expression", fix)
        self._cut_texts(tree)
        parts = {}
        for key, value in tree.pairs:
            with self.inside(f".{key.text}"), suppress(Invalid):
                parts[key.text] = self._any(value, item)
        return parts

    def _limits(self, tree: Tree, value: Any, metas: Sequence[Meta]) -> Any:
        for meta in metas:
            low, high = meta.ge, meta.le
            if meta.pattern is not None and isinstance(value, str) and not re.search(meta.pattern, value):
                about = meta.extra or {}
                message = f"{shorten(value)} is not {about['kind']}"
                raise self._invalid(about["code"], message, tree.at, about.get("fix", ""))
            if value is not None and ((low is not None and value < low) or (high is not None and value > high)):
                raise self._invalid("CONSTRAINT_VIOLATION", f"{value} is not in the range {low}–{high}", tree.at)
        return value

    # -- structs --------------------------------------------------------------------------------------------

    def _struct(self, tree: Tree, kind: type[Struct]) -> Any:
        fields = self._fields(kind)
        short = SHORTHANDS.get(kind.__name__)
        if isinstance(tree, Scalar) and short is not None and tree.value is not None:
            shown = fields_of(kind)[short]
            place = {"at": tree.at} if issubclass(kind, Node) else {}
            return kind(**{shown.name: self._any(tree, shown.annotation)}, **place)
        if not isinstance(tree, Mapping):
            required = [field.key for field in fields.values() if field.required]
            fix = keys_fix(kind, fields, tree.text) if isinstance(tree, Scalar) and tree.text and not short else ""
            wanted = _names(required) if required else f"keys such as `{next(iter(fields))}`"
            raise self.mismatch(tree, f"a mapping with {wanted}", fix)
        if self._respell:
            tree = self.in_snake_case(tree, fields)
        if kind in self._respell:
            tree = self._respell[kind](tree)
        if kind is actions.If:
            tree = nest(tree, self.mismatch)
        if kind is actions.Set and self._language == "1":
            self._signs(tree.get("set"))
        labels = labels_of(tree.get("choices")) if kind in LABELLED else {}
        values, marks = self._members(with_value(tree, "choices", values_of) if labels else tree, fields)
        values |= {"labels": labels} if labels else {}
        self._require(tree, kind, [field for field in fields.values() if field.name not in values], marks)
        located = {"at": tree.at, "marks": marks} if issubclass(kind, Node) else {}
        if self._language == "older" and kind in languages.OLDER_KEYS:
            older = languages.OLDER_KEYS[kind]
            values |= older(**{name: values.pop(name) for name in fields_of(older) if name in values}).fields
        if self._language == "1" and kind is Exit and not marks.keys() - {"min_rounds"}:
            self.missing("said", tree.at, "Add `said`, `when`, `understanding` or `no_questions`.")
            raise Invalid
        return kind(**values, **located)

    def _require(
        self, tree: Mapping, kind: type[Struct], absent: Sequence[Field], marks: MappingType[str, Location]
    ) -> None:
        """Report required fields that are absent. Raises Invalid if there are any, or if a key is a misspelt field:
        without what it says, the part would mean something else. The parts of outer types are checked nevertheless.
        """
        unknown = [key.text for key, _ in tree.pairs if self._is_refused(key, kind)]
        meant = {field.key for field in absent if any(_means(key, field.key) for key in unknown)}
        for field in absent:
            if field.required and field.older not in marks and field.key not in meant:
                with self.inside(f".{field.key}"):
                    self.missing(field.key, tree.at)
        is_strict = self._language == "1" and kind not in (Script, Phase, Topic)
        if any(field.required for field in absent) or (is_strict and meant):
            raise Invalid

    def _is_refused(self, key: Scalar, kind: type[Struct]) -> bool:
        """Return whether a key is reported as unknown by an error."""
        return key.text not in self._fields(kind) and self.problems.has_at(key.at, "UNKNOWN_KEY", only_errors=True)

    def in_snake_case(self, tree: Mapping, names: Collection[str]) -> Mapping:
        """Return a mapping with its keys in the casing of these names: `maxRounds` as `max_rounds`."""
        pairs = []
        for key, value in tree.pairs:
            name = snake_case(key.text)
            if name in names and name != key.text and tree.get(name) is None:
                self.slip("DEPRECATED_KEY", f"`{key.text}` is read as `{name}`", key.at, f"Write `{name}`.")
                key = replace(key, text=name)
            pairs.append((key, value))
        return Mapping(tuple(pairs), tree.at)

    def _signs(self, assignments: Tree | None) -> None:
        """Report numbers with a plus sign, which were probably to be added to their variables."""
        for key, value in pairs_of(assignments):
            if isinstance(value, Scalar) and value.text.startswith("+") and isinstance(value.value, int | float):
                number = value.text.removeprefix("+")
                message = f"`{value.text}` is the number {number}, and adds nothing to `{key.text}`"
                self.add("SIGN_IGNORED", message, value.at, f"To add, write `={key.text} + {number}`.")
            elif isinstance(value, Scalar) and (found := _INCREASES.fullmatch(value.text)) is not None:
                fix = f"Write `={key.text} {found['sign']} {found['value']}`."
                self.add("SIGN_IGNORED", f"`{value.text}` is a text, and changes nothing", value.at, fix)

    def _fields(self, kind: type[Struct]) -> dict[str, Field]:
        return fields_of(kind, self._language)

    def _members(self, tree: Mapping, fields: dict[str, Field]) -> tuple[dict[str, Any], dict[str, Location]]:
        values: dict[str, Any] = {}
        marks: dict[str, Location] = {}
        for key, value in tree.pairs:
            name = key.text if key.text in fields else ALIASES.get(key.text, key.text)
            field = fields.get(name)
            if field is None:
                self._unknown(key, value, fields, tree)
                continue
            if field.older in marks:
                self.add("KEY_CONFLICT", f"`{name}` occurs twice, under two names", key.at, f"Use only `{name}`.")
                continue
            if self._respell and not field.required and is_null(value):
                continue  # in the other older formats, an empty value is a missing one
            if field.instead:
                message = f"`{key.written or key.text}` is obsolete"
                self.slip("DEPRECATED_KEY", message, key.at, f"Write {field.instead} instead.")
            marks[field.older] = value.at
            with self.inside(f".{key.text}"), suppress(Invalid):
                values[field.name] = self._any(self._plain_value(value, field), field.annotation)
                # for `value`, nothing is a value
                if self._language == "1" and not field.required and is_empty(value) and key.text != "value":
                    fix = "Write a value after it, or remove it."
                    self.add("KEY_IGNORED", f"`{key.text}` has no value", key.at, fix)
        return values, marks

    def _unknown(self, key: Scalar, value: Tree, fields: dict[str, Field], tree: Mapping) -> None:
        if key.text in _PROGRAMS and fields in (self._fields(FormField), self._fields(FormDefinition)):
            self.slip("PYTHON_REFUSED", f"`{key.text}` in a form is never run", key.at)
            return
        allowed = [field.key for field in fields.values() if not field.instead]
        replaced = {field.older: field.key for field in fields.values()}
        if self._language == "1":
            replaced |= languages.REPLACED
        if key.text in replaced:
            self._deprecation(key, replaced[key.text])
            return
        present = {each.text for each, _ in tree.pairs}
        fix = unknown_key_fix(key, value, fields, present, self.path, FileFormat(self._language, bool(self._respell)))
        is_note = self.lenient and is_ignorable(key.text, value, allowed)
        severity: Severity | None = "warning" if is_note else None
        self.add("UNKNOWN_KEY", f"unknown key `{key.text}`", key.at, fix, severity=severity)

    def _deprecation(self, key: Scalar, new: str) -> Invalid:
        message = f"`{key.text}` is not a key of `cuebook: 1`"
        return self._invalid("DEPRECATED_KEY", message, key.at, f"Write `{new}` instead.")

    # -- values -------------------------------------------------------------------------------------------------

    def _value(self, tree: Tree) -> Any:
        self._cut_texts_below(tree)
        try:
            return to_value(plain_value(tree))
        except ValueRefused as refused:
            raise self._invalid("CONSTRAINT_VIOLATION", str(refused), tree.at) from None

    def _cut_texts_below(self, tree: Tree) -> None:
        if isinstance(tree, Mapping):
            self._cut_texts(tree)
        for part in inner_trees(tree):
            self._cut_texts_below(part)

    def _cut_texts(self, tree: Mapping) -> None:
        """Report keys in { } without a colon after a text without quotes: they are probably the rest of the text."""
        for (_, before), (key, value) in itertools.pairwise(tree.pairs) if self._language == "1" else ():
            is_text = isinstance(before, Scalar) and before.plain and isinstance(before.value, str)
            if is_text and key.plain and is_without_colon(key, value):
                self.add("UNKNOWN_KEY", f"`{key.text}` has no value", key.at, COMMA, severity="warning")

    def _plain_value(self, tree: Tree, field: Field) -> Tree:
        """Return a value without marks: `==` at the beginning of a text is one `=`, and `=` may be a mistake."""
        if field.plain is None:
            return tree
        try:
            return field.plain(tree)
        except GivenInvalid as invalid:
            self.mismatch(invalid.tree, invalid.expected, invalid.fix)
            return tree

    def _computable(self, tree: Tree, members: tuple[Any, ...]) -> Any:
        """Read a literal of these types, or an expression if a part of it is marked by `=`."""
        read = _way_of_union(members, self._language)
        if self._language == "older":
            return read(self, tree)
        try:
            return read(self, plain_literals(tree))
        except GivenInvalid:
            return self._read_given(tree, read_assigned)

    def _read_given(self, tree: Tree, read: Callable[[Tree], Any] = read_given) -> Any:
        """Read a value in which `=` marks expressions, at any depth."""
        self._value(tree)  # reports one that is too large
        try:
            return read(tree)
        except GivenInvalid as invalid:
            raise self.mismatch(invalid.tree, invalid.expected, invalid.fix) from None


_Way: TypeAlias = Callable[[StructReader, Tree], Any]


@cache
def _way(annotation: Any, language: Language) -> _Way:
    """Return the function that reads the values of a type in a language."""
    origin, given = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        metas = metas_of(annotation)
        if language == "1" and ASSIGNED in metas:
            return lambda reader, tree: reader._read_given(tree, read_assigned)
        if language == "1" and WHOLE in metas:
            return lambda reader, tree: reader._whole(tree, given[0])
        return lambda reader, tree: reader._limits(tree, reader._any(tree, given[0]), metas)
    if origin in {Union, types.UnionType}:
        return _way_of_union(given, language)
    if origin is Literal:
        return lambda reader, tree: reader._literal(tree, given)
    if origin is tuple:
        return lambda reader, tree: reader._tuple(tree, given[0])
    if origin is not None and issubclass(origin, MappingType):
        return lambda reader, tree: reader._mapping(tree, given[1])
    return lambda reader, tree: reader._plain(tree, annotation)


@cache
def _way_of_union(members: tuple[Any, ...], language: Language) -> _Way:
    if languages.computable(members):
        literals = tuple(member for member in members if member is not Expression)
        return lambda reader, tree: reader._computable(tree, literals)
    if {*members} >= {list[Any], dict[str, Any]}:
        return StructReader._value
    if {*members} == {actions.ChoiceItem, actions.ListedChoices}:
        return _way(actions.ChoiceItem, language)
    if {*members} >= {Template, Expression}:
        return StructReader._read_given
    if types.NoneType in members:
        read = _way_of_union(tuple(member for member in members if member is not types.NoneType), language)
        return lambda reader, tree: None if is_null(tree) else read(reader, tree)
    if len(members) == 1:
        return _way(members[0], language)
    if all(isinstance(member, type) and issubclass(member, Struct) for member in members):
        return lambda reader, tree: reader._read_tagged(tree, members)
    return lambda reader, tree: reader._one_of(tree, members)


_KIND_NAMES: dict[type, str] = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
_KIND_FIXES: dict[type, str] = {
    int: "Write a whole number in digits, such as 3, without quotes.",
    float: "Write a number in digits, such as 0.5, without quotes.",
    bool: "Write true or false.",
}


def _convert_text(written: str, kind: type) -> int | float | bool | None:
    """Parse a number or boolean that is written as text: `"3"`, `"false"`, `yes`."""
    if kind is bool:
        return _NEEDS.get(written.strip().lower())
    number = number_in(written)
    return number if kind is float or isinstance(number, int) else None


def _cut_expression(tree: Mapping) -> Tree | None:
    """Return the value, an expression without quotes, that a comma ended: the key after it has no value."""
    for (_, value), (_, following) in itertools.pairwise(tree.pairs):
        if isinstance(value, Scalar) and value.plain and value.text.startswith("=") and is_empty(following):
            return value
    return None


def _key(tree: Mapping, name: str) -> Scalar:
    return next(key for key, _ in tree.pairs if key.text == name)


def _means(key: str, missing: str) -> bool:
    """Return whether an unknown key is probably the missing one, or contains what belongs there."""
    return stands_for(key, missing) or (key, missing) == ("actions", "topics")


def _names(names: Sequence[str] | dict[str, Any]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "keys"
