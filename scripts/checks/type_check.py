"""Check values against the types and choices of their variables."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from msgspec import Struct

from scripts.checks.abstract_state import Level
from scripts.checks.control_flow import Cell, ControlFlowGraph, Node
from scripts.checks.effects import Each, Read, Select, Write, effect_of
from scripts.checks.time_checks import action_moments
from scripts.expressions.condition_algebra import Unknown
from scripts.expressions.members import DATE_PARTS, TEXT_METHODS
from scripts.expressions.suggestions import suggest
from scripts.expressions.time_values import iso_time, moment_in
from scripts.expressions.values import (
    DATES,
    ISO_TYPES,
    DeclaredType,
    Value,
    coerce,
    compare,
    infer_type,
    number_in,
    refusal,
    shorten,
)
from scripts.model import actions
from scripts.model.actions import Action, outputs_of
from scripts.model.base import Expression, Location, Template
from scripts.model.diagnostics import Problems
from scripts.model.moments import Moment
from scripts.model.script import Topic
from scripts.model.variables import Assignment, Declaration, Output, Records

_EQUALITIES = {"eq", "ne", "in", "notin"}
ORDERS = {"lt", "lteq", "gt", "gteq"}
_WIDENED = {(kind, "text") for kind in ("number", "date", "time", "datetime", "timezone", "choice")}
_WIDENED |= {("datetime", "date")}  # an answer of the one type is valid for a variable of the other


TEXT_TYPES = frozenset({"text", "choice", "time", "timezone", *DATES})
"""The types whose values are texts."""


class InferredType(Struct, frozen=True):
    """The declared type of a variable, and the texts of a choice."""

    kind: DeclaredType | None = None
    choices: tuple[str, ...] = ()


_Written: TypeAlias = tuple[str, InferredType | None]
"""A name that an action writes, with its type; None if any type is possible."""


def check_sense(layout: ControlFlowGraph, problems: Problems, *, is_whole: bool = True) -> None:
    """Add a problem for each value that its variable cannot store or be compared with.

    `is_whole` is false if parts of the script are missing because of errors: then only declared variables have a type,
    because the missing parts may set the others.
    """
    _Sense(layout, problems, is_whole=is_whole).check()


class _Sense:
    def __init__(self, layout: ControlFlowGraph, problems: Problems, *, is_whole: bool) -> None:
        self._layout = layout
        self._problems = problems
        self._is_whole = is_whole
        # where an error is reported, its consequences are not
        self._wrong = {(each.file, each.line, each.column) for each in problems.errors}
        self._path = ""
        self._sight = layout.sight(layout.first)
        self._natures: Mapping[str, InferredType] = {}
        self._session: dict[str, list[InferredType | None]] = {}
        self._keys = dict(_keys_of_choices(layout))
        self._node = layout.first
        self._writes = {node: list(_written_types(layout.actions(node))) for node, _ in layout.bodies()}
        self._untyped, self._chosen = self._types_of_untyped() if is_whole else ({}, {})

    def check(self) -> None:
        for node, _ in self._layout.bodies():
            self._gather(node, Level.SESSION, self._session)
        for node, body in self._layout.bodies():
            self._node, self._path = node, self._layout.path(node)
            self._sight = self._layout.sight(node)
            local: dict[str, list[InferredType | None]] = {}
            self._gather(node, Level.TOPIC, local)
            self._natures = {name: nature for name, found in local.items() if (nature := _common(found))}
            begun = (each.when for each in self._layout.script.phases if each.topics and each.topics[0] is body)
            for when in (*begun, body.when if isinstance(body, Topic) else None):
                if when is not None:
                    self._check_comparisons(when)
            self._outputs_of_one_name()
            for action in self._layout.actions(node):
                self._action(action)

    def _types_of_untyped(self) -> tuple[dict[Cell, InferredType], dict[Cell, InferredType]]:
        """Return the types of variables that are declared without one: those of their initial value and all answers.

        Only yes and no and numbers count, because a text may stand for anything. The variables of choices are apart:
        their keys count where a condition compares with the text of one.
        """
        layout = self._layout
        watched = [pair for each in layout.script.watchers for pair in _written_types(each.actions)]
        found: dict[Cell, list[InferredType | None]] = {}
        for node, writes in self._writes.items():
            for name, nature in (*writes, *watched):
                declared = layout.sight(node).declaration(name)
                if declared is not None and declared.kind is None and name not in layout.at_any_time:
                    is_kind = nature is not None and infer_type(declared.value) == nature.kind
                    is_empty = nature is not None and nature.kind == "choice" and declared.value == ""
                    is_alike = declared.value is None or is_kind or is_empty
                    found.setdefault(layout.cell(node, name), []).append(nature if is_alike else None)
        types = {cell: each for cell, natures in found.items() if (each := _common(natures)) is not None}
        chosen = {cell: each for cell, each in types.items() if each.kind == "choice"}
        return {cell: each for cell, each in types.items() if each.kind in {"boolean", "number"}}, chosen

    def _gather(self, node: Node, level: Level, found: dict[str, list[InferredType | None]]) -> None:
        """Add the types of what a topic or skill writes to each undeclared name of a level to `found`."""
        sight = self._layout.sight(node)
        for name, nature in self._writes[node]:
            if sight.declaration(name) is None and sight.key(name)[0] is level:
                found.setdefault(name, []).append(nature)

    def _add(self, message: str, at: Location, fix: str = "", code: str = "TYPE_CLASH") -> None:
        if (at.file or self._problems.file, at.line, at.column) in self._wrong:
            return
        self._problems.add(code, message, at, path=self._path, fix=fix)

    def _nature(self, name: str) -> InferredType | None:
        if name in _CLOCKS:
            return InferredType(_CLOCKS[name])
        declared = self._sight.declaration(name)
        if declared is not None and declared.kind is not None:
            return InferredType(declared.kind, declared.choices)
        if declared is not None:
            return self._untyped.get(self._layout.cell(self._node, name))
        if not self._is_whole:
            return None
        if self._sight.key(name)[0] is Level.SESSION:
            return _common(self._session.get(name, []))
        return self._natures.get(name)

    # -- actions ------------------------------------------------------------------------------------------------------

    def _action(self, action: Action) -> None:
        effect = effect_of(action)
        if action.when is not None:
            self._check_comparisons(action.when)
        for step in effect.steps:
            match step:
                case Read():
                    self._check_comparisons(step.source)
                case Write() if step.value is not None:
                    self._check_comparisons(step.value)
                    self._literal_fits(step.name, step.value, self._sight.declaration(step.name))
        match effect.body:
            case Each() as each:
                self._loop(each.loop)
            case Select(word="choice") as pick:
                name, at = pick.put.name, pick.put.at
                for option in pick.options:
                    self._fits(name, option.value, self._sight.declaration(name), at)
        if isinstance(action, actions.Add):
            for name, value in action.additions.items():
                self._check_append(name, value.at)
        if isinstance(action, actions.Call):
            self._call(action)
        for moment in action_moments(action):
            self._date(moment)
        for output in outputs_of(action):
            if isinstance(output, Output):
                self._output(output)

    def _literal_fits(self, name: str, value: Expression, declared: Declaration | None) -> None:
        found = value.facts.value
        if not isinstance(found, Unknown):
            self._fits(name, found, declared, value.at)

    def _fits(self, name: str, value: Value, declared: Declaration | None, at: Location) -> None:
        if declared is None or declared.kind is None or value is None:
            return
        reason = refusal(value, declared.kind, declared.choices)
        if reason and not self._problems.has_at(at, "NAME_AS_TEXT", "SIGN_IGNORED"):  # which say what to write
            fix = suggest(str(value), declared.choices, "") if declared.choices else ""
            self._add(f"`{name}` cannot store this value: {reason}", at, fix)

    def _check_append(self, name: str, at: Location) -> None:
        declared = self._sight.declaration(name)
        if declared is not None and declared.kind not in {None, "list"}:
            self._add(f"`add` needs a list, but `{name}` is a {declared.kind}", at)

    def _loop(self, loop: actions.Loop) -> None:
        value = loop.items.facts.value
        if not isinstance(value, Unknown) and value is not None and not isinstance(value, list):
            self._add(f"a loop needs a list, not {shorten(value)}", loop.items.at)
            return
        source = loop.items.source.strip()
        nature = self._nature(source) if source.isidentifier() else None
        if nature is not None and nature.kind is not None and nature.kind != "list":
            self._add(f"a loop needs a list, but `{source}` is a {nature.kind}", loop.items.at)

    def _call(self, action: actions.Call) -> None:
        if action.loop is not None:
            self._loop(action.loop)
        params = (each for skill in self._layout.script.skills if skill.id == action.skill for each in skill.params)
        for each in params:
            if each.var in action.input:
                self._literal_fits(each.var, action.input[each.var], each)

    def _date(self, moment: Moment) -> None:
        """Check that the variable of `until` may be a date; for any other value the moment never comes."""
        name = moment.until.expression.source if moment.until is not None else ""
        nature = self._nature(name)
        if nature is not None and nature.kind not in {None, "text", "choice", *DATES}:
            fix = f"For today at that time, write `until: \"=today ~ 'T' ~ {name}\"`." if nature.kind == "time" else ""
            self._add(f"`until` needs a date, but `{name}` is a {nature.kind}", moment.mark("until"), fix)

    def _output(self, output: Output) -> None:
        """Check an output against the variable that stores it."""
        declared = self._sight.declaration(output.get)
        if output.kind is None and not isinstance(output.default, Expression):
            self._fits(output.get, output.default, declared, output.mark("default"))
        wanted, actual = (declared.kind if declared is not None else None), output.kind
        if declared is None or wanted is None or actual is None:
            return
        strange = [choice for choice in output.choices if wanted == "choice" and choice not in declared.choices]
        if actual != wanted and (actual, wanted) not in _WIDENED:
            at = output.mark("type" if output.type is not None else "choices")
            message = f"`{output.get}` is declared as {wanted}, but this answer is a {actual}"
            self._add(message, at, code="ANSWER_TYPE_MISMATCH")
        elif strange and declared.choices:
            fix = suggest(strange[0], declared.choices)
            self._add(f"`{output.get}` cannot store {shorten(strange[0])}", output.mark("choices"), fix)

    def _outputs_of_one_name(self) -> None:
        seen: dict[str, DeclaredType] = {}
        for output in (item for action in self._layout.actions(self._node) for item in outputs_of(action)):
            if not isinstance(output, Output) or output.kind is None or self._sight.declaration(output.get) is not None:
                continue
            first = seen.setdefault(output.get, output.kind)
            if first != output.kind:
                at = output.mark("type" if output.type is not None else "choices")
                self._add(f"`{output.get}` is a {first} above, but a {output.kind} here", at)

    # -- comparisons --------------------------------------------------------------------------------------------------

    def _check_comparisons(self, source: Template | Expression) -> None:
        self._parts_of(source)
        for each in source.facts.comparisons:
            if each.sign in {"in", "notin"} and not isinstance(each.value, list | str):
                fix = f"Write `{each.name} in [1, 2]` for values, or `1 <= {each.name} <= 2` for a range."
                self._add(f"`in` needs a list or a text, not {shorten(each.value)}", source.at, fix)
                continue
            written = each.value if each.sign in {"in", "notin"} else [each.value]
            values = written if isinstance(written, list) else []
            nature = self._nature(each.name)
            if nature is None and any((each.name, str(value)) in self._keys for value in values):
                nature = self._chosen.get(self._layout.cell(self._node, each.name))
            if nature is None or (each.sign not in _EQUALITIES and each.sign not in ORDERS):
                continue
            for value in values:
                if isinstance(value, str) and value in {"true", "false"} and (value == "true") in values:
                    continue  # `{x} == true` of an older format, where x may be a text
                if (reason := _clash(nature, value, each.sign)) is not None:
                    key = self._keys.get((each.name, str(value)))
                    fix = suggest(str(value), nature.choices) if nature.choices else ""
                    fix = f"Write '{key}', the key of this choice." if key in nature.choices else fix
                    usual = _FIXES.get("clock" if each.name in _CLOCKS else nature.kind or "text", "")
                    self._add(f"`{each.name}` {reason}", source.at, fix or usual)

    def _parts_of(self, source: Template | Expression) -> None:
        """Check the members that are read from variables of a type; only records have members of their own."""
        for name, member in source.facts.parts:
            nature = self._nature(name)
            kind = nature.kind if nature is not None else None
            if kind is None or kind == "record" or (kind in TEXT_TYPES and member in TEXT_METHODS):
                continue
            fix = f"Write `{name} | length`, `{name} | first` or `{name}[0]`." if kind == "list" else f"Write `{name}`."
            if kind == "list" and member == "find":
                fix = f"Write `VALUE in {name}`."
            if kind in DATES and member in DATE_PARTS:
                fix = f"A date is stored as a text: `{name}[:4]` is its year, `{name}[5:7]` its month."
            self._add(f"`{name}` is a {kind}, which has no member `{member}`", source.at, fix)


_CLOCKS: Mapping[str, DeclaredType] = {"now": "datetime", "today": "date"}
_FIXES = {
    "boolean": "Write the name alone, or `not name`.",
    "number": "Compare with a number, without quotes.",
    "date": "Compare with a date such as '2026-01-31', or with `today`.",
    "time": "Compare with a time such as '09:30', with two digits each.",
    "datetime": "Compare with a date and time such as '2026-01-31T09:30', a time such as '09:30', or with `now`.",
    "timezone": "Compare with the name of a time zone, such as 'Europe/Berlin'.",
    "clock": "Compare with a date such as '2026-01-31', or the time of day: `now >= '18:00'`.",
}


def _clash(nature: InferredType, value: Value, sign: str) -> str | None:
    """Return why a variable never equals a value or cannot be ordered with it; None if it can."""
    if value is None or value == "":
        return None
    found, kind = shorten(value), ISO_TYPES.get(nature.kind or "")
    noun = kind.noun if kind is not None else ""
    match nature.kind:
        case "choice" if sign in _EQUALITIES and nature.choices:
            known = any(compare("eq", choice, value) for choice in nature.choices)
            return None if known else f"is never {found}, which is not one of its choices"
        case "number":
            is_number = isinstance(value, str) and number_in(value) is not None
            return f"is a number, but {found} is a text" if isinstance(value, str) and not is_number else None
        case "boolean" if not isinstance(value, bool):
            return f"is true or false, never {found}"
        case "date" | "datetime" if isinstance(value, str):
            is_time_of_day = nature.kind == "datetime" and iso_time(value) is not None
            return None if is_time_of_day or moment_in(value) else f"is {noun}, but {found} is not"
        case "time" | "timezone" if isinstance(value, str):
            # `9:30` is stored as `09:30`
            is_stored = not refusal(value, nature.kind) and coerce(value, nature.kind) == value
            return None if is_stored else f"is {noun}, and never {found}"
        case "date" | "time" | "datetime" | "timezone" if isinstance(value, int | float):
            return f"is {noun}, but {found} is a {infer_type(value)}"
        case _:
            return None


def _keys_of_choices(layout: ControlFlowGraph) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield the variables of `choose` with the texts of their choices, and the keys, which they store."""
    for _, action in layout.placed_actions():
        if isinstance(action, actions.Choose):
            for each in action.fixed:
                yield (action.variable, each.text.source.strip()), each.key


def _written_types(actions: Iterable[Action]) -> "Iterator[_Written]":
    """Yield the names that actions write with their types."""
    for action in actions:
        typed = list(_typed_writes(action))
        yield from typed
        names = {name for name, _ in typed}
        yield from ((name, None) for name, _ in effect_of(action).written if name not in names)


def _typed_writes(action: Action) -> "Iterator[_Written]":
    for output in outputs_of(action):
        if isinstance(output, Output):
            is_known = output.kind is not None and output.default is None
            yield output.get, InferredType(output.kind, output.choices) if is_known else None
        elif isinstance(output, Records):
            yield output.tolist, InferredType("list")
        elif isinstance(output, Assignment):
            yield output.set, _literal(output.value)
    effect = effect_of(action)
    for step in effect.steps:
        if isinstance(step, Write) and step.value is not None and not outputs_of(action):
            yield step.name, _literal(step.value)
    if isinstance(effect.body, Select):
        texts = tuple(option.value for option in effect.body.options if isinstance(option.value, str))
        is_text = len(texts) == len(effect.body.options)
        yield effect.body.put.name, InferredType("choice", texts) if is_text else None
    if isinstance(action, actions.Add):
        yield from ((name, InferredType("list")) for name in action.additions)
    if isinstance(action, actions.Recall):
        yield action.into, InferredType("list")  # its type if no other type is declared


def _literal(value: Expression) -> InferredType | None:
    if value.source in {"detected.severity", "detected.score"}:
        return InferredType("number")
    found = value.facts.value
    return InferredType("choice", (found,)) if isinstance(found, str) else None


def _common(found: list[InferredType | None]) -> InferredType | None:
    """Return the common type of all writes of a variable; None if they differ."""
    natures = [each for each in found if each is not None]
    kinds = {each.kind for each in natures}
    if not natures or len(natures) < len(found) or len(kinds) > 1:
        return None
    if all(each.choices for each in natures):
        return InferredType("choice", tuple(dict.fromkeys(choice for each in natures for choice in each.choices)))
    return natures[0] if kinds != {"choice"} else None
