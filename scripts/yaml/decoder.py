"""Read a YAML tree into the types of a format and report every problem with its location.

The types are the grammar: a Struct's fields are the keys, their annotations the allowed values. Unlike
`msgspec.convert`, the reader continues after the first problem and records the location of every node.
"""

import itertools
import re
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from collections.abc import Mapping as MappingType
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Union, cast, get_args, get_origin

from msgspec import Meta, Struct
from msgspec.structs import replace

from scripts.expressions.suggestions import SURE, likeness, snake_case, suggest
from scripts.expressions.values import ValueRefused, bounded, literal, number_in, shorten
from scripts.model import actions, languages
from scripts.model.actions import Exit
from scripts.model.base import ASSIGNED, WHOLE, Expression, Location, Node, Reference, Template, Variable
from scripts.model.diagnostics import Problems, Severity
from scripts.model.json_schemas import JSON_TYPES
from scripts.model.languages import Language
from scripts.model.moments import Clock, DateValue, Duration, Moment, parse_clock, parse_duration, parse_until
from scripts.model.own_actions import ActionTypeInvalid, installed_actions
from scripts.model.script import After, FormDefinition, FormField, Trigger
from scripts.model.variables import Output, OutputItem, Validation
from scripts.yaml.branches import nested
from scripts.yaml.given_values import GivenInvalid, plain_literals, read_assigned, read_given, with_placeholders
from scripts.yaml.parser import Mapping, Scalar, Tree, inner_trees, pairs_of, plain_value, replaced, word
from scripts.yaml.parser import Sequence as SequenceTree
from scripts.yaml.syntax_hints import hidden_character, space_missing
from scripts.yaml.unknown_keys import SWITCH_FIX, is_ignorable, is_switched_off

S = TypeVar("S", bound=Struct)

_HOLDERS = (
    ("emit", actions.Signal, "event"),
    ("end", actions.Ending, "reason"),
    ("on", Trigger, "keywords"),
)
"""Keys whose values may be mappings, with their structures and first keys."""

ALIASES = {"condition": "when"}
SHORTHANDS = {
    "Declaration": "var",
    "Output": "get",
    "Media": "image",
    "Until": "until",
    "Signal": "event",
    "Repair": "repair",
    "FormField": "field",
    "Arm": "arm",
    "Translation": "text",
    "Line": "content",
    "ModelTool": "tool",
    "Context": "strategy",
    "MemoryPlan": "strategy",
    "CaseMemory": "text",
    "Moment": "after",
    "Validation": "unless",
    "Exit": "said",
    "Ending": "reason",
    "TechniqueInput": "name",
}
"""For these types, a text stands for a mapping with only this key."""

_PROGRAMS = frozenset({"python", "code"})  # keys that hold programs in other systems
_TRUTHS = {"true": True, "yes": True, "on": True, "是": True, "false": False, "no": False, "off": False, "否": False}
_NEEDS = _TRUTHS | {"必填": True, "必须": True, "需要": True, "选填": False, "可选": False, "不需要": False}
_PII = "Declare the variable in its scope: `declare: [{var: NAME, pii: true}]`."
_FULL_WIDTH = "Replace the full-width ： with a plain colon and a space."
_QUOTES = "'\""
_BRANCHES = {
    **dict.fromkeys(("elif", "elseif", "else if"), "Write `elif: [{if: …, then: […]}]` directly below the `then`."),
    "else": "Write `else` directly below the `then` of its `if`, without a dash.",
    "then": "Write `then` directly below its `if`, without a dash.",
}
_BESIDE_IF = {
    (True, False): "Write actions below `then:`, each with its own dash.",
    (False, True): "Write a condition of one action as `when`, or begin a new item with `- if:`.",
}
"""Fixes for an item with a second action, by whether the first and the second are `if`."""
_INSIDE = {
    "actions": "Write actions in a topic, topics in a phase: phases: [{phase: a, topics: [{topic: b, actions: […]}]}].",
    "topics": "Write topics in a phase: phases: [{phase: a, topics: […]}].",
}
_COMMA = "A comma inside { } ends a value; put quotes around a text with a comma."
_SHOWN_CHARS_MAX = 60  # of an example in a fix
_ASSIGNMENT = re.compile(r"\s*(?P<name>[^\W\d]\w*)\s*=\s*(?P<value>[^=\s].*)")
_INCREASES = re.compile(r"(?P<sign>[+-])=\s*(?P<value>\w+)")
_LITERAL = re.compile(r"-?\d+(\.\d+)?|true|false|\"[^\"]*\"|'[^']*'")
_LOOP = re.compile(r"(?P<items>.+?)\s+as\s+(?P<name>\S+)", re.DOTALL)


class _Field(Struct, frozen=True):
    name: str
    key: str
    annotation: Any
    required: bool
    instead: str  # the key that replaces this obsolete key
    older: str  # the key in the older native language
    newer: str  # the key in a file with `cuebook: 1`
    plain: Callable[[Tree], Tree] | None  # reads marks in a plain value


@cache
def _fields(kind: type[Struct], language: Language = "older") -> dict[str, _Field]:
    """Return the fields of a Struct by their keys."""
    found = {}
    for each in languages.fields_in(language, kind):
        if each.name in {"at", "marks", "labels"}:
            continue
        instead = ""
        for meta in _metas(each.type):
            instead = (meta.extra or {}).get("instead", instead)
        key = languages.key_in(language, kind, each)
        older, newer = languages.older_key(kind, each), languages.key_in("1", kind, each)
        plain: Callable[[Tree], Tree] | None = None
        if language == "1" and languages.takes_literals(each):
            plain = plain_literals
        elif language == "1" and languages.takes_placeholders(kind, each):
            plain = with_placeholders
        found[key] = _Field(each.name, key, each.type, each.required, instead, older, newer, plain)
    return found


def _metas(annotation: Any) -> Sequence[Meta]:
    if get_origin(annotation) is Annotated:
        return [meta for meta in get_args(annotation)[1:] if isinstance(meta, Meta)]
    if get_origin(annotation) in {Union, types.UnionType}:
        return [meta for part in get_args(annotation) for meta in _metas(part)]
    return []


@cache
def _verb(kind: type[Struct], language: Language) -> str:
    """Return the key that identifies this type within a union: its first required key.

    `choose` identifies its action in both languages, also where it is not the key of the variable.
    """
    fields = _fields(kind, language)
    first = next(field for field in fields.values() if field.required)
    return first.older if first.older in fields else first.key


Continuation: TypeAlias = actions.AfterRounds | After | actions.Onward | actions.FailureExit
POLICIES: MappingType[type[Struct], type[Continuation]] = {
    actions.Policy: actions.Onward,
    actions.OnFail: actions.AfterRounds,
    actions.OnToolFailure: actions.FailureExit,
}
"""The type of `then` in each policy, by which a policy without a text or actions is written."""


def policy_words(kind: type[Continuation]) -> tuple[str, ...]:
    """Return the words for the policies of a type, except `goto`, which needs a target."""
    return tuple(word for word in get_args(_fields(kind)["policy"].annotation) if word != "goto")


@cache
def _by_verb(members: tuple[type[Struct], ...], language: Language) -> dict[str, type[Struct]]:
    return {_verb(member, language): member for member in members if member is not actions.OwnAction}


class _Invalid(Exception):
    """A part is invalid; its problem is recorded."""


class Reader:
    """Reads the trees of one file. `lenient` reports unknown and obsolete keys as warnings instead of errors."""

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

    def mismatch(self, tree: Tree, expected: str, fix: str = "") -> _Invalid:
        """Record that another kind of value is expected, and return the exception for a part that is invalid."""
        found = {Mapping: "a mapping", SequenceTree: "a list"}.get(type(tree), "")
        if isinstance(tree, Scalar):
            found = "nothing" if tree.value is None else shorten(tree.text)
        if isinstance(tree, SequenceTree) and expected.startswith("a mapping"):
            fix = fix or "Write the keys without dashes."
        return self._invalid("TYPE_MISMATCH", f"expected {expected}, found {found}", tree.at, fix)

    def _invalid(self, code: str, message: str, at: Location, fix: str = "") -> _Invalid:
        self.add(code, message, at, fix)
        return _Invalid(message)

    def read(self, tree: Tree, kind: type[S]) -> S | None:
        """Read a tree into a Struct; return None if it is invalid. Problems are recorded."""
        try:
            return cast(S, self._struct(tree, kind))
        except _Invalid:
            return None

    # -- annotations --------------------------------------------------------------------------------------------

    def _any(self, tree: Tree, annotation: Any) -> Any:
        origin = get_origin(annotation)
        if origin is Annotated:
            if self._language == "1" and ASSIGNED in _metas(annotation):
                return self._given(tree, read_assigned)
            if self._language == "1" and WHOLE in _metas(annotation) and isinstance(tree, Scalar):
                return {self._any(tree, str): ""}
            return self._limits(tree, self._any(tree, get_args(annotation)[0]), _metas(annotation))
        if origin in {Union, types.UnionType}:
            return self._union(tree, get_args(annotation))
        if origin is Literal:
            return self._literal(tree, get_args(annotation))
        if origin is tuple:
            return self._tuple(tree, get_args(annotation)[0])
        if origin is not None and issubclass(origin, MappingType):
            return self._mapping(tree, get_args(annotation)[1])
        return self._plain(tree, annotation)

    def _plain(self, tree: Tree, kind: Any) -> Any:
        if (special := _SPECIAL.get(kind)) is not None:
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

    def _union(self, tree: Tree, members: tuple[Any, ...]) -> Any:
        if languages.computable(members):
            return self._computable(tree, tuple(member for member in members if member is not Expression))
        if set(members) >= {list[Any], dict[str, Any]}:
            return self._value(tree)
        if set(members) == {actions.ChoiceItem, actions.ListedChoices}:
            return self._choice(tree)
        if set(members) >= {Template, Expression}:
            return self._given(tree)
        if types.NoneType in members and isinstance(tree, Scalar) and tree.value is None:
            return None
        members = tuple(member for member in members if member is not types.NoneType)
        if len(members) == 1:
            return self._any(tree, members[0])
        if all(isinstance(member, type) and issubclass(member, Struct) for member in members):
            return self._tagged(tree, members)
        value = plain_value(tree)
        if isinstance(tree, Scalar) and type(value) in members:
            return value
        raise self.mismatch(tree, " or ".join(_KIND_NAMES[member] for member in members))

    def _tagged(self, tree: Tree, members: tuple[type[Struct], ...]) -> Any:
        by_verb = _by_verb(members, self._language)
        is_word = isinstance(tree, Scalar) and (tree.plain or (self._language == "1" and isinstance(tree.value, str)))
        if is_word and (kind := _shorthand(members)) is not None:
            return self._struct(tree, kind)
        if not isinstance(tree, Mapping):
            fix = _colon_fix(tree.text, by_verb) if isinstance(tree, Scalar) else ""
            wanted = "an action such as `say: …`" if "say" in by_verb else f"a mapping with one of {_names(by_verb)}"
            raise self.mismatch(tree, wanted, fix)
        verbs = [key.text for key, _ in tree.pairs if key.text in by_verb]
        known = self._fields(by_verb[verbs[0]]) if verbs else {}
        if actions.OwnAction in members and any(
            key.text not in known and key.text not in ALIASES for key, _ in tree.pairs
        ):
            by_verb = by_verb | self._installed(tree)  # looked up only where a key is unknown
            own = [key.text for key, _ in tree.pairs if key.text in by_verb and key.text not in actions.ACTION_TYPES]
            if own:
                return self._struct(tree, by_verb[own[0]])
        if not verbs:
            raise self._no_verb(tree, by_verb)
        verb = verbs[0]
        extra = [other for other in verbs[1:] if other not in self._fields(by_verb[verb])]
        if extra:
            fix = _BESIDE_IF.get((verb == "if", extra[0] == "if"), "")
            message = f"`{verb}` and `{extra[0]}` in one item"
            raise self._invalid("ACTION_AMBIGUOUS", message, _key(tree, extra[0]).at, fix)
        if self._language == "1" and by_verb[verb] is actions.UserSay:
            cure = "Write `acknowledge: TEXT` at the message before it."
            self.add("DEPRECATED_KEY", "`user_say` is an older spelling", tree.at, cure, severity="note")
        return self._struct(tree, by_verb[verb])

    def _installed(self, tree: Mapping) -> dict[str, type[Struct]]:
        """Return the types of actions of installed packages by their keys."""
        try:
            return {name: each.fields for name, each in installed_actions().items()}
        except ActionTypeInvalid as invalid:
            self.add("ACTION_TYPE_UNKNOWN", str(invalid), tree.at, "Correct or uninstall the package.")
            return {}

    def _no_verb(self, tree: Mapping, by_verb: dict[str, type[Struct]]) -> _Invalid:
        common = set.intersection(*(set(self._fields(kind)) for kind in by_verb.values())) | set(ALIASES)
        unknown = [key for key, _ in tree.pairs if key.text not in common]
        older = {_verb(kind, "older"): verb for verb, kind in by_verb.items()}
        if unknown and unknown[0].text in older:
            return self._replaced(unknown[0], older[unknown[0].text])
        at = unknown[0].at if unknown else tree.at
        word = f"`{unknown[0].text}` is not an action" if unknown else "the item has no action"
        written = unknown[0].text if unknown else ""
        fix = _character_fix(written) or _BRANCHES.get(written, "") or suggest(written, list(by_verb), "")
        if not unknown and tree.pairs:
            fix = f"Write the action beside `{tree.pairs[0][0].text}`, or no dash if that belongs to the action above."
        if written in languages.action_keys() and not fix:
            fix = f"`{written}` is a key of an action: write it without a dash, below the key of its action."
        fix = fix or suggest(written, list(by_verb))
        verb, _, rest = written.partition(" ")
        if verb in by_verb and rest:
            fix = f"Write the colon after `{verb}`: `{verb}: {rest}`."
        return self._invalid("ACTION_TYPE_UNKNOWN", word, at, fix)

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
        if isinstance(tree, Scalar) and tree.value is None:
            return ()
        if self._language == "1" and item is OutputItem and not isinstance(tree, SequenceTree):
            tree = SequenceTree((tree,), tree.at)  # one result needs no list
        if not isinstance(tree, SequenceTree):
            raise self.mismatch(tree, "a list", _dash_fix(tree, self._name_key(tree, item)))
        parts = []
        for index, each in enumerate(tree.items):
            with self.inside(f"[{index}]"), suppress(_Invalid):
                parts.append(self._any(each, item))
        return tuple(parts)

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
            fix = self._mapping_fix(tree.text) if isinstance(tree, Scalar) else ""
            raise self.mismatch(tree, "a mapping of names to values", fix)
        if self._language == "1" and (cut := _cut_expression(tree)) is not None:
            fix = "A comma ends a value in { }: put it in quotes, or write the mapping over several lines."
            raise self.mismatch(cut, "a whole expression", fix)
        self._cut_texts(tree)
        parts = {}
        for key, value in tree.pairs:
            with self.inside(f".{key.text}"), suppress(_Invalid):
                parts[key.text] = self._any(value, item)
        return parts

    def _mapping_fix(self, text: str) -> str:
        """Return the fix for a text that must be a mapping of names to values, or an empty text."""
        if text in JSON_TYPES:
            return f"Write `{{type: {text}}}`."
        found = _ASSIGNMENT.fullmatch(text)
        if found is None:
            return ""
        mark = "" if self._language == "older" or _LITERAL.fullmatch(found["value"]) else "="
        return f"Write `{{{found['name']}: {mark}{found['value']}}}`."

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
            shown = _fields(kind)[short]
            place = {"at": tree.at} if issubclass(kind, Node) else {}
            return kind(**{shown.name: self._any(tree, shown.annotation)}, **place)
        if not isinstance(tree, Mapping):
            required = [field.key for field in fields.values() if field.required]
            fix = ""
            if isinstance(tree, Scalar) and tree.text and not short:
                is_wide = tree.text.partition("：")[0].strip() in fields
                fix = _FULL_WIDTH if is_wide else hidden_character(tree.text) or _keys_fix(kind, required, tree.text)
            raise self.mismatch(tree, f"a mapping with {_names(required)}", fix)
        if self._respell:
            tree = self.in_snake_case(tree, fields)
        if kind in self._respell:
            tree = self._respell[kind](tree)
        if kind is actions.If:
            tree = nested(tree, self.mismatch)
        if kind is actions.Set and self._language == "1":
            self._signs(tree.get("set"))
        values, marks = self._members(tree, fields)
        lacking = [field for field in fields.values() if field.required and field.name not in values]
        for field in lacking:
            is_elsewhere = any(self._stands_for(key, field.key) for key, _ in tree.pairs if key.text not in fields)
            if field.older not in marks and not is_elsewhere:
                with self.inside(f".{field.key}"):
                    self.missing(field.key, tree.at)
        if lacking:
            raise _Invalid
        located = {"at": tree.at, "marks": marks} if issubclass(kind, Node) else {}
        if self._language == "older" and kind in languages.OLDER_KEYS:
            older = languages.OLDER_KEYS[kind]
            values |= older(**{name: values.pop(name) for name in _fields(older) if name in values}).fields
        if self._language == "1" and kind is Exit and not marks.keys() - {"min_rounds"}:
            self.missing("said", tree.at, "Add `said`, `when`, `understanding` or `no_questions`.")
            raise _Invalid
        return kind(**values, **located)

    def _stands_for(self, key: Scalar, missing: str) -> bool:
        """Return whether a key that is reported as unknown is probably the missing one, or has what belongs there."""
        is_meant = bool(suggest(key.text, [missing], "")) or (key.text, missing) == ("actions", "topics")
        return is_meant and self.problems.has_at(key.at, "UNKNOWN_KEY")

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

    def _fields(self, kind: type[Struct]) -> dict[str, _Field]:
        return _fields(kind, self._language)

    def _members(self, tree: Mapping, fields: dict[str, _Field]) -> tuple[dict[str, Any], dict[str, Location]]:
        values: dict[str, Any] = {}
        marks: dict[str, Location] = {}
        for key, value in tree.pairs:
            name = key.text if key.text in fields else ALIASES.get(key.text, key.text)
            field = fields.get(name)
            if field is None:
                self._unknown(key, value, fields)
                continue
            if field.older in marks:
                self.add("KEY_CONFLICT", f"`{name}` occurs twice, under two names", key.at, f"Use only `{name}`.")
                continue
            if self._respell and not field.required and isinstance(value, Scalar) and value.value is None:
                continue  # in the other older formats, an empty value is a missing one
            if field.instead:
                self.slip("DEPRECATED_KEY", f"`{key.text}` is obsolete", key.at, f"Write {field.instead} instead.")
            marks[field.older] = value.at
            with self.inside(f".{key.text}"), suppress(_Invalid):
                values[field.name] = self._any(self._plain_value(value, field), field.annotation)
        return values, marks

    def _unknown(self, key: Scalar, value: Tree, fields: dict[str, _Field]) -> None:
        if key.text in _PROGRAMS and fields in (self._fields(FormField), self._fields(FormDefinition)):
            message = f"`{key.text}` in a form is never run"
            self.slip("PYTHON_REFUSED", message, key.at)
            return
        allowed = [field.key for field in fields.values() if not field.instead]
        replaced = {field.older: field.key for field in fields.values()}
        if self._language == "1":
            replaced |= languages.REPLACED
        if key.text in replaced:
            self._replaced(key, replaced[key.text])
            return
        empty = isinstance(value, Scalar) and value.plain and not value.text
        fix = SWITCH_FIX if is_switched_off(key.text, value) else ""
        fix = fix or _character_fix(key.text) or self._elsewhere(key.text, fields)
        if empty and not fix and max(map(partial(likeness, key.text), allowed), default=0) < SURE:
            fix = _COMMA
        if " " in key.text.strip() and not fix:
            fix = "If this line continues the text above, put the whole text in quotes; else correct or remove the key."
        fix = fix or suggest(key.text, allowed)
        is_note = self.lenient and is_ignorable(key.text, value, allowed)
        severity: Severity | None = "warning" if is_note else None
        self.add("UNKNOWN_KEY", f"unknown key `{key.text}`", key.at, fix, severity=severity)

    def _elsewhere(self, key: str, fields: dict[str, _Field]) -> str:
        """Return the fix for a key that belongs elsewhere, or an empty text."""
        if key in _BRANCHES and "then" in fields:
            return _BRANCHES[key]
        if key in _INSIDE and "phases" in fields:
            return self._with_ids(_INSIDE[key])
        if self.path.endswith(".wait") and key in self._fields(actions.Sleep):
            return f"Write `{key}` beside `wait`, not in it."
        for holder, kind, first in _HOLDERS:
            if holder in fields and key in self._fields(kind):
                return f"Write `{holder}: {{{first}: …, {key}: …}}`."
        if key == "actions" and "topics" in fields:
            return self._with_ids("Write actions in a topic: topics: [{topic: b, actions: […]}].")
        if key != "get" and key in _fields(Output) and "outputs" in {field.name for field in fields.values()}:
            value = f"into: {{var: NAME, {key}: …}}" if self._language == "1" else f"output: [{{get: NAME, {key}: …}}]"
            return f"It is a key of the value: `{value}`."
        older = next((field.key for field in fields.values() if key == field.newer != field.key), "")
        if older and not self._respell:
            return f"Write `{older}`, or begin the file with `cuebook: 1`: `cuebook convert` rewrites it."
        return _PII if key == "pii" else ""

    def _with_ids(self, fix: str) -> str:
        """Return a fix with the keys of ids in the format that is read."""
        return fix.replace("{phase:", "{phase_id:").replace("{topic:", "{topic_id:") if self._respell else fix

    def _replaced(self, key: Scalar, new: str) -> _Invalid:
        message = f"`{key.text}` is not a key of `cuebook: 1`"
        return self._invalid("DEPRECATED_KEY", message, key.at, f"Write `{new}` instead.")

    # -- particular types ---------------------------------------------------------------------------------------

    def _value(self, tree: Tree) -> Any:
        self._cut_texts_below(tree)
        try:
            return bounded(plain_value(tree))
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
            if is_text and key.plain and _is_empty(value) and value.at == _end(key):
                self.add("UNKNOWN_KEY", f"`{key.text}` has no value", key.at, _COMMA, severity="warning")

    def _template(self, tree: Tree) -> Any:
        if isinstance(tree, Scalar) and tree.value is not None:
            return Template(tree.text, tree.content_at)
        if isinstance(tree, Scalar):
            return Template("", tree.at)
        fix = ""
        if isinstance(tree, Mapping):
            fix = 'Put quotes around a text that starts with {…}: "{{ name }} …".'
            if tree.pairs and not _is_empty(tree.pairs[0][1]):
                fix = "Write the text itself, and other keys beside this one, not in it."
        raise self.mismatch(tree, "a text", fix)

    def _expression(self, tree: Tree) -> Any:
        if isinstance(tree, Scalar) and isinstance(tree.value, str):
            if self._language == "1" and tree.text.startswith("="):
                raise self.mismatch(tree, "an expression without `=`", "Remove the `=`.")
            return Expression(tree.text, tree.content_at)
        if isinstance(tree, Mapping) and tree.pairs and all(_is_empty(value) for _, value in tree.pairs):
            raise self.mismatch(tree, "an expression", "Write it without { }.")
        value = self._value(tree)
        if isinstance(value, dict) and {"variable", "operator", "value"} == value.keys():
            fix = f"Write `{value['variable']} {value['operator']} {literal(value['value'])}`."
            raise self.mismatch(tree, "an expression", fix)
        return Expression(literal(value), tree.at)

    def _name(self, tree: Tree, kind: type[Reference | Variable]) -> Any:
        return kind(self._any(tree, str), tree.at)

    def _policy_or_goto(self, tree: Tree, kind: type[Continuation]) -> Any:
        """Read a policy: one of the words, ``goto phase/topic`` or ``{goto: phase/topic}``."""
        if isinstance(tree, Mapping) and list(tree.keys()) == ["goto"]:
            ((_, target),) = tree.pairs
            return kind(policy="goto", target=self._any(target, str), at=target.at)
        if isinstance(tree, Scalar) and tree.text.startswith("goto "):
            return kind(policy="goto", target=tree.text.removeprefix("goto ").strip(), at=tree.at)
        return kind(policy=self._literal(tree, (*policy_words(kind), "goto phase/topic")), at=tree.at)

    def _plain_value(self, tree: Tree, field: _Field) -> Tree:
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
        if self._language == "older":
            return self._union(tree, members)
        try:
            return self._union(plain_literals(tree), members)
        except GivenInvalid:
            return self._given(tree, read_assigned)

    def _given(self, tree: Tree, read: Callable[[Tree], Any] = read_given) -> Any:
        """Read a value in which `=` marks expressions, at any depth."""
        self._value(tree)  # reports one that is too large
        try:
            return read(tree)
        except GivenInvalid as invalid:
            raise self.mismatch(invalid.tree, invalid.expected, invalid.fix) from None

    def _into(self, tree: Tree) -> Any:
        """Read the variable that stores a whole result, or the field for each variable."""
        if isinstance(tree, Mapping):
            variables = self._mapping(tree, str)
            return actions.Into(variables=variables, at=tree.at, marks={key.text: key.at for key, _ in tree.pairs})
        return actions.Into(variables={self._any(tree, str): ""}, at=tree.at)

    def _acknowledgement(self, tree: Tree) -> Any:
        """Read whether the session waits after a message, or the reply that it suggests then."""
        if isinstance(tree, Scalar) and isinstance(tree.value, bool):
            return actions.Acknowledgement(at=tree.at) if tree.value else None
        if isinstance(tree, Scalar) and tree.plain and tree.text in _TRUTHS:  # `no` is a text in YAML 1.2
            fix = (
                f'Write `acknowledge: {literal(_TRUTHS[tree.text])}`, or `acknowledge: "{tree.text}"` for this button.'
            )
            self.add("VALUE_AMBIGUOUS", f"`acknowledge: {tree.text}` is a button with this text", tree.at, fix)
        return actions.Acknowledgement(text=self._template(tree), at=tree.at)

    def _if_known(self, tree: Tree) -> Any:
        """Read a word, or a mapping with the text that confirms what is known."""
        if isinstance(tree, Mapping) and list(tree.keys()) == ["confirm"]:
            return actions.IfKnown(confirm=self._template(tree.pairs[0][1]), policy="confirm", at=tree.at)
        return actions.IfKnown(policy=self._literal(tree, ("ask", "skip", "{confirm: TEXT}")), at=tree.at)

    def _policy(self, tree: Tree, kind: type[Struct]) -> Any:
        """Read a policy: only where to continue, or a mapping with a text or actions as well."""
        if isinstance(tree, Mapping) and list(tree.keys()) != ["goto"]:
            return self._struct(tree, kind)
        return kind(then=self._policy_or_goto(tree, POLICIES[kind]), at=tree.at)

    def _trigger(self, tree: Tree) -> Trigger:
        if isinstance(tree, Scalar) and tree.value is not None:
            return Trigger(intent=tree.text, at=tree.at)
        trigger: Trigger
        if isinstance(tree, SequenceTree):
            trigger = Trigger(keywords=self._tuple(tree, str), at=tree.at)
        else:
            trigger = self._struct(tree, Trigger)
        is_older = self._language == "older" and "match" not in trigger.marks
        return replace(trigger, match="anywhere") if is_older else trigger

    def _loop(self, tree: Tree) -> Any:
        text = tree.text.strip() if isinstance(tree, Scalar) else ""
        match = _LOOP.fullmatch(text)
        if match is None or (self._language == "1" and match["items"].startswith("=")):
            raise self.mismatch(tree, "`LIST as NAME`, without `=`", "Write e.g. `foreach: symptoms as symptom`.")
        return actions.Loop(items=Expression(match["items"], tree.at), name=match["name"], at=tree.at)

    def _choice(self, tree: Tree) -> Any:
        """Read a key, ``{key: text}``, a choice with its keys, or the choices of a list."""
        if isinstance(tree, Scalar) and tree.value is not None:
            return actions.ChoiceItem(key=tree.text, text=Template(tree.text, tree.at), at=tree.at)
        if not isinstance(tree, Mapping):
            return self._struct(tree, actions.ChoiceItem)
        keys = list(tree.keys())
        if "each" in keys:
            return self._struct(replaced(tree, "each", _without_mark), actions.ListedChoices)
        is_short = len(keys) == 1 if self._language == "1" else bool(keys) and not {"key", "text"} & set(keys)
        if self._language == "1" and keys:
            self._refuse_odd(tree)
        if not is_short:
            return self._struct(tree, actions.ChoiceItem)
        key, text = tree.pairs[0]  # beside it, `value` and `actions` are allowed
        label = Scalar(key.text, False, key.at)
        spelled = ((word("key", key), label), (word("text", key), text), *tree.pairs[1:])
        return self._struct(Mapping(spelled, tree.at), actions.ChoiceItem)

    def _refuse_odd(self, tree: Mapping) -> None:
        """Refuse a pair `key: text` with keys beside it, or a key of a choice with a dash."""
        fields = self._fields(actions.ChoiceItem)
        (first, text), *others = tree.pairs
        if not others and first.text in fields and not isinstance(text, Scalar):
            fix = f"Write `{first.text}` without a dash, below the `key` and `text` of its choice."
            raise self._invalid("UNKNOWN_KEY", f"`{first.text}` is a key of a choice, not a choice", first.at, fix)
        if not others or first.text in fields or not isinstance(text, Scalar):
            return
        beside, other = others[0]
        fix = f"Write `key: {first.text}` and `text: {shorten(text.text).strip(_QUOTES)}` beside `{beside.text}`."
        if beside.text not in fields and isinstance(other, Scalar):
            fix = f"Start each choice with its own dash: `- {beside.text}: {shorten(other.text).strip(_QUOTES)}`."
        raise self._invalid("UNKNOWN_KEY", f"a choice `key: text` has no `{beside.text}` beside it", beside.at, fix)

    def _moment_part(self, tree: Tree, kind: type) -> Any:
        """Read a duration, a time of day or a date."""
        code, parse, expected = _MOMENTS[kind]
        text = tree.text.strip() if isinstance(tree, Scalar) else ""
        if (part := parse(text)) is not None:
            return part
        found = shorten(text) if isinstance(tree, Scalar) else "a mapping or list"
        raise self._invalid(code, f"expected {expected}, found {found}", tree.at)


_KIND_NAMES: dict[type, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}
_KIND_FIXES: dict[type, str] = {
    int: "Write a whole number in digits, such as 3, without quotes.",
    float: "Write a number in digits, such as 0.5, without quotes.",
    bool: "Write true or false.",
}
_MOMENTS: dict[type, tuple[str, Callable[[str], Any], str]] = {
    Duration: ("DURATION_INVALID", parse_duration, "a duration such as 3 days"),
    Clock: ("CLOCK_INVALID", parse_clock, "a time such as 9:00"),
    DateValue: ("DATE_INVALID", parse_until, "a date such as 2026-01-31, or `=NAME`"),
}
"""For these types: the code of a problem, the function that parses a text, and what is expected."""
_SPECIAL: dict[Any, Callable[[Reader, Tree], Any]] = {
    Template: Reader._template,
    Expression: Reader._expression,
    actions.Into: Reader._into,
    actions.Acknowledgement: Reader._acknowledgement,
    actions.IfKnown: Reader._if_known,
    actions.Loop: Reader._loop,
    actions.ChoiceItem: Reader._choice,
    Trigger: Reader._trigger,
    **{kind: partial(Reader._policy_or_goto, kind=kind) for kind in (After, *POLICIES.values())},
    **{kind: partial(Reader._policy, kind=kind) for kind in POLICIES},
    **{kind: partial(Reader._name, kind=kind) for kind in (Reference, Variable)},
    **{kind: partial(Reader._moment_part, kind=kind) for kind in _MOMENTS},
}


def _without_mark(tree: Tree) -> Tree:
    """Return the list of listed choices without the `=` that may be written before it."""
    return replace(tree, text=tree.text.removeprefix("=")) if isinstance(tree, Scalar) else tree


def _convert_text(written: str, kind: type) -> int | float | bool | None:
    """Parse a number or boolean that is written as text: `"3"`, `"false"`, `yes`."""
    if kind is bool:
        return _NEEDS.get(written.strip().lower())
    number = number_in(written)
    return number if kind is float or isinstance(number, int) else None


def _cut_expression(tree: Mapping) -> Tree | None:
    """Return the value, an expression without quotes, that a comma ended: the key after it has no value."""
    for (_, value), (_, following) in itertools.pairwise(tree.pairs):
        if isinstance(value, Scalar) and value.plain and value.text.startswith("=") and _is_empty(following):
            return value
    return None


def _end(word: Scalar) -> Location:
    return replace(word.at, column=word.at.column + len(word.text))


def _is_empty(tree: Tree) -> bool:
    return isinstance(tree, Scalar) and tree.plain and not tree.text


def _character_fix(word: str) -> str:
    """Return the fix for a word with a full-width colon or an invisible character, or an empty text."""
    return _FULL_WIDTH if "：" in word else hidden_character(word)


def _keys_fix(kind: type[Struct], required: Sequence[str], text: str) -> str:
    """Return the fix for a text that must be a mapping, or an empty text."""
    if issubclass(kind, Moment) and not required:
        return f"Write e.g. `{{after: {text if parse_duration(text) else '3 days'}}}`."
    parts = re.split(r"\s*[-–,]\s*", text)
    if len(required) > 1:
        parts = parts if len(parts) == len(required) else ["…"] * len(required)
        shown = ", ".join(f"{key}: {part}" for key, part in zip(required, parts, strict=True))
        return f"Write `{{{shown}}}`."
    return f"Write `{{{required[0]}: {shorten(text)}}}`." if required else ""


def _colon_fix(text: str, verbs: Collection[str]) -> str:
    """Return the fix for a text that must be one of these keys and a value, or an empty text."""
    verb, _, rest = text.partition(" ")
    if verb in verbs:
        return f"Write a colon after it: `{verb}: {rest}`." if rest else f"Write a colon after it: `{verb}:`."
    return _FULL_WIDTH if text.partition("：")[0] in verbs else space_missing(text)


def _dash_fix(tree: Tree, name_key: str) -> str:
    """Return the fix for a value that must be a list; `name_key` is an item's key for its name, if it has names."""
    if isinstance(tree, Mapping) and tree.pairs:
        key, value = tree.pairs[0]
        if key.text.startswith("-"):
            return f"Write a space after the dash: `- {key.text[1:]}:`."
        if name_key:
            return _named_item_fix(name_key, key.text, value)
        shown = f" {shorten(value.text, 40).strip(_QUOTES)}" if isinstance(value, Scalar) and value.text else ""
        return f"Start each item with a dash: `- {key.text}:{shown}`."
    if isinstance(tree, Scalar) and tree.text[:1] in "【［":
        return "Write plain brackets [ and ]."
    return "Start each item with a dash."


def _named_item_fix(name_key: str, name: str, value: Tree) -> str:
    """Return the fix for a mapping of names instead of a list of items with the name as a key."""
    pairs = pairs_of(value)
    keys = [f"{key.text}: {each.text}" for key, each in pairs if isinstance(each, Scalar) and each.plain]
    shown = ", ".join([f"{name_key}: {name}", *keys])
    if keys and len(keys) == len(pairs) and len(shown) <= _SHOWN_CHARS_MAX:
        return f"Write a list: `- {{{shown}}}`."
    return f"Write a list: `- {name_key}: {name}`, and its other keys below `{name_key}`."


def _key(tree: Mapping, name: str) -> Scalar:
    return next(key for key, _ in tree.pairs if key.text == name)


def _shorthand(members: Sequence[type[Struct]]) -> type[Struct] | None:
    return next((kind for kind in members if kind.__name__ in SHORTHANDS), None)


def _names(names: Sequence[str] | dict[str, Any]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "keys"
