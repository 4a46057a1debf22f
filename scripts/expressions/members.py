"""The built-in names of every text and expression, the members of each, and uses that they do not support.

`scripts.expressions.sandbox` resolves members with these tables.
"""

import difflib
from collections.abc import Mapping
from typing import TypeAlias

from jinja2 import nodes
from msgspec import Struct

from scripts.expressions.condition_algebra import EXISTENCE_TESTS, GUARDING_FILTERS, all_names, children
from scripts.expressions.suggestions import suggest

BUILTINS = frozenset({"now", "today", "round", "user", "role", "history", "recall", "vars", "range"})
"""The built-in names of every template and expression; no variable may have such a name."""

TEXT_METHODS = frozenset(
    {"upper", "lower", "strip", "title", "capitalize", "startswith", "endswith", "split", "count", "find", "isdigit"}
)
DATE_PARTS = frozenset({"year", "month", "day", "hour", "minute", "weekday", "isoformat", "date"})
METHODS = TEXT_METHODS | {"weekday", "isoformat", "date"}
"""The methods of texts, dates and times; other values have none."""
LOOP_PARTS = frozenset({"index", "index0", "revindex", "revindex0", "first", "last", "length"})
SPEAKER_PARTS = frozenset({"id", "name", "type", "tone", "define", "desc", "pic", "attributes"})


class Speaker(str):
    """`role`: the id of the role that speaks, as a text, with the properties of the role as members."""

    _parts: Mapping[str, object]

    def __new__(cls, role: str, parts: Mapping[str, object]) -> "Speaker":
        """`parts` has each of `SPEAKER_PARTS`."""
        speaker = super().__new__(cls, role)
        speaker._parts = parts
        return speaker

    def part(self, name: str) -> object:
        """One of `SPEAKER_PARTS`."""
        return self._parts[name]


class Kind(Struct, frozen=True):
    """The kind of values of a name or member. A member of None may have any kind, as may those of an open record."""

    members: Mapping[str, "Kind | None"] = {}
    is_record: bool = False  # unknown members have no value
    is_open: bool = False
    is_sayable: bool = True  # can be used in a text and stored in a variable
    item: "Kind | None" = None
    example: str = ""  # result of a call; only for functions
    returns: "Kind | None" = None


def _functions(names: frozenset[str]) -> dict[str, Kind]:
    return {name: Kind(example=f"{name}()") for name in names}


_NUMBER = Kind()
_TEXT = Kind(_functions(TEXT_METHODS), item=Kind(_functions(TEXT_METHODS)))
_RECORD = Kind(is_record=True, is_open=True)
_DAY = Kind(dict.fromkeys(("year", "month", "day"), _NUMBER) | _functions(frozenset({"weekday", "isoformat"})))
_MOMENT = Kind({**_DAY.members, "hour": _NUMBER, "minute": _NUMBER, "date": Kind(example="date()", returns=_DAY)})
_MESSAGE = Kind({"role": _TEXT, "content": _TEXT}, is_record=True)
_MEMORY = Kind(
    {"text": _TEXT, "source": _TEXT, "time": _TEXT, "score": _NUMBER, "metadata": _RECORD, "around": Kind(item=_TEXT)},
    is_record=True,
)
LOOP = Kind(dict.fromkeys(LOOP_PARTS - {"first", "last"}, _NUMBER) | {"first": None, "last": None}, is_sayable=False)
DETECTED = "detected"
FAILURE = "failure"
"""The name of a tool's failure in what its `on_fail` says and does."""
KINDS: Mapping[str, Kind] = {
    "now": _MOMENT,
    "today": _DAY,
    "round": _NUMBER,
    "user": Kind({"id": _TEXT}, is_record=True),
    "role": Kind({**_TEXT.members, **dict.fromkeys(SPEAKER_PARTS, _TEXT), "attributes": _RECORD}, item=_TEXT),
    "history": Kind(example="history(5)", returns=Kind(item=_MESSAGE)),
    "recall": Kind(example="recall('sleep')", returns=Kind(item=_MEMORY)),
    "range": Kind(example="range(3)", returns=Kind(item=_NUMBER)),
    "vars": Kind(is_record=True, is_open=True, is_sayable=False),
    DETECTED: Kind(
        {"detector": _TEXT, "label": _TEXT, "by": _TEXT, "note": _TEXT, "message": _TEXT, "score": _NUMBER}
        | {"severity": _NUMBER, "words": Kind(item=_TEXT), "now": _RECORD, "before": _RECORD}
        | {"measured": Kind(item=_RECORD)},
        is_record=True,
    ),
    FAILURE: Kind({"kind": _TEXT, "message": _TEXT}, is_record=True),
}
"""The built-in names, `detected`, which only the actions of a detector can read, and `failure` of a failed tool."""


# -- invalid uses ----------------------------------------------------------------------------------------------------


class MemberFault(Struct, frozen=True):
    """A member that a built-in name does not have, or a function that is not called.

    `is_fatal`: evaluation fails; otherwise it has no value, like a name that is not set.
    """

    root: str  # the built-in name
    message: str
    fix: str
    line: int
    is_fatal: bool = True


class _PartValue(Struct, frozen=True):
    """The value of a part of a source: its kind, its built-in name, and its spelling."""

    kind: Kind
    root: str
    spelled: str


_Known: TypeAlias = _PartValue | None
"""The value of a part, None if it is unknown."""
_Local: TypeAlias = Mapping[str, _Known]
"""The names of enclosing loops."""


def member_faults(body: list[nodes.Node], names: frozenset[str], *, has_loop: bool) -> tuple[MemberFault, ...]:
    """Return the invalid uses of built-in names in a parsed source; `names` are all names that it reads."""
    if not names & KINDS.keys() and not has_loop:
        return ()
    walker = _Walker()
    walker.body(body, {})
    return tuple(dict.fromkeys(walker.faults))


class _Walker:
    """Walks through a source; `local` are the names of enclosing loops."""

    def __init__(self) -> None:
        self.faults: list[MemberFault] = []

    def body(self, body: list[nodes.Node], local: _Local) -> None:
        for node in body:
            match node:
                case nodes.Output():
                    for said in node.nodes:
                        self._check_text(self.value(said, local), said)
                case nodes.Assign():
                    self._check_text(self.value(node.node, local), node.node)
                case nodes.If():
                    self.value(node.test, local)
                    self.body(node.body, local)
                    self.body([*node.elif_], local)
                    self.body(node.else_, local)
                case nodes.For():  # the sandbox rejects all others
                    self._loop(node, local)

    def _loop(self, node: nodes.For, local: _Local) -> None:
        walked = self.value(node.iter, local)
        inner: dict[str, _Known] = dict.fromkeys(all_names(node.target))
        if isinstance(node.target, nodes.Name):
            name = node.target.name
            item = walked.kind.item if walked is not None else None
            inner = {name: _PartValue(item, walked.root, name) if walked is not None and item is not None else None}
        inner = {**local, **inner, "loop": _PartValue(LOOP, "loop", "loop")}
        if node.test is not None:
            self.value(node.test, inner)
        self.body(node.body, inner)
        self.body(node.else_, local)

    def value(self, node: nodes.Node, local: _Local, *, is_guarded: bool = False, is_called: bool = False) -> _Known:
        """Return the value of a part of a source, if it is known; record its problems."""
        match node:
            case nodes.Name(name=name) if name in local:
                found = local[name]
            case nodes.Name(name=name):
                found = _PartValue(KINDS[name], name, name) if name in KINDS else None
            case nodes.Getattr() | nodes.Getitem():
                found = self._member(node, local, is_guarded=is_guarded, is_called=is_called)
            case nodes.Call():
                return self._call(node, local)
            case nodes.Filter():
                return self._filter(node, local)
            case nodes.Test():
                is_guard = node.name in EXISTENCE_TESTS
                for part in children(node):
                    self.value(part, local, is_guarded=is_guard)
                return None
            case _:
                for part in children(node):
                    self.value(part, local)
                return None
        return found if is_guarded or is_called else self._check_call(found, node)

    def _call(self, node: nodes.Call, local: _Local) -> _Known:
        function = self.value(node.node, local, is_called=True)
        self._arguments(node, local)
        if function is None:
            return None
        if not function.kind.example:
            fix = f"Write `{function.spelled}`, without parentheses."
            self._add(function.root, f"`{function.spelled}` is not a function", fix, node)
            return None
        returns = function.kind.returns
        return None if returns is None else _PartValue(returns, function.root, f"{function.spelled}(…)")

    def _member(
        self, node: nodes.Getattr | nodes.Getitem, local: _Local, *, is_guarded: bool, is_called: bool
    ) -> _Known:
        holder = self.value(node.node, local)
        if isinstance(node, nodes.Getitem):
            self.value(node.arg, local)
        name = node.attr if isinstance(node, nodes.Getattr) else getattr(node.arg, "value", None)
        if holder is None or name is None:
            return None
        if isinstance(name, int) and not holder.kind.is_record:
            item = holder.kind.item
            return None if item is None else _PartValue(item, holder.root, f"{holder.spelled}[{name}]")
        return self._find_member(holder, str(name), node, is_guarded=is_guarded, is_called=is_called)

    def _find_member(
        self, holder: _PartValue, name: str, node: nodes.Node, *, is_guarded: bool, is_called: bool
    ) -> _Known:
        """Return a member by its name; a missing member of a record has no value and cannot be called."""
        kind = holder.kind
        if name in kind.members:
            member = kind.members[name]
            return None if member is None else _PartValue(member, holder.root, f"{holder.spelled}.{name}")
        if not is_called and (kind.is_open or (kind.is_record and is_guarded)):
            return None
        message = f"`{holder.spelled}` has no member `{name}`"
        known = {key: f"{holder.spelled}.{(each and each.example) or key}" for key, each in kind.members.items()}
        close = difflib.get_close_matches(name, known, 1, 0.6)
        fix = f"Did you mean `{known[close[0]]}`?" if close else suggest("", list(known.values()))
        fix = fix or f"Write `{holder.spelled}` alone."
        self._add(holder.root, message, fix, node, is_fatal=is_called or not kind.is_record)
        return None

    def _filter(self, node: nodes.Filter, local: _Local) -> _Known:
        is_guard = node.name in GUARDING_FILTERS
        source = self.value(node.node, local, is_guarded=is_guard) if node.node is not None else None
        self._arguments(node, local)
        return source if is_guard else None

    def _arguments(self, node: nodes.Call | nodes.Filter, local: _Local) -> None:
        for part in children(node):
            if part is not node.node:
                self.value(part, local)

    def _check_call(self, found: _Known, node: nodes.Node) -> _Known:
        """Check that a value is not used as a function without a call."""
        if found is None or not found.kind.example:
            return found
        holder = found.spelled.rpartition(".")[0]
        example = f"{holder}.{found.kind.example}" if holder else found.kind.example
        self._add(found.root, f"`{found.spelled}` is a function and needs parentheses", f"Write `{example}`.", node)
        return None

    def _check_text(self, found: _Known, node: nodes.Node) -> None:
        found = self._check_call(found, node)
        if found is not None and not found.kind.is_sayable:
            self._add(found.root, f"`{found.spelled}` has no value of its own", "Write one of its members.", node)

    def _add(self, root: str, message: str, fix: str, node: nodes.Node, *, is_fatal: bool = True) -> None:
        self.faults.append(MemberFault(root, message, fix, node.lineno, is_fatal))
