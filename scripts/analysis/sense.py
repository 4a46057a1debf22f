"""Values that cannot be: against the type of a variable, and against the choices there are."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from scripts.actions import Action, AiAsk, AiSay, AiThink, Ask, Call, Chat, Loop, Recall, walk
from scripts.analysis.deeds import Each, Look, Option, Pick, Put, deed_of, facts_in
from scripts.analysis.known import Level, Sight
from scripts.analysis.layout import Layout, Node
from scripts.conditions import Unknown
from scripts.diagnostics import Problems
from scripts.facts import Comparison
from scripts.meaning import compare
from scripts.model import Topic
from scripts.nodes import Expression, Location
from scripts.suggest import suggest
from scripts.values import DeclaredType, Value, ValueRefused, coerce, infer_type, number_in, shorten
from scripts.variables import Assignment, Declaration, Output, OutputItem, Records

_EQUALITIES = {"eq", "ne", "in", "notin"}
_ORDERS = {"lt", "lteq", "gt", "gteq"}
_WIDENED = {("number", "text"), ("date", "text"), ("choice", "text")}  # an answer of the one fits the other's variable


class Nature(Struct, frozen=True):
    """What a variable holds, as far as it is said: its type, and the texts of a choice."""

    kind: DeclaredType | None = None
    choices: tuple[str, ...] = ()


def check_sense(layout: Layout, problems: Problems) -> None:
    """Adds a problem for each value that its variable cannot take or be compared with."""
    _Sense(layout, problems).check()


class _Sense:
    def __init__(self, layout: Layout, problems: Problems) -> None:
        self._layout = layout
        self._problems = problems
        self._path = ""
        self._sight = layout.sight(layout.first)
        self._natures: Mapping[str, Nature] = {}
        self._session: dict[str, list[Nature | None]] = {}

    def check(self) -> None:
        owners = list(self._owners())
        for node, _, actions in owners:
            _gather(actions, self._layout.sight(node), Level.SESSION, self._session)
        for node, topic, actions in owners:
            self._path = "/".join(self._layout.spot(node)).strip("/")
            self._sight = self._layout.sight(node)
            local: dict[str, list[Nature | None]] = {}
            _gather(actions, self._sight, Level.TOPIC, local)
            self._natures = {name: nature for name, found in local.items() if (nature := _common(found))}
            if topic is not None and topic.when is not None:
                self._expression(topic.when)
            self._outputs_of_one_name(actions)
            for action in walk(actions):
                self._action(action)

    def _owners(self) -> Iterator[tuple[Node, Topic | None, tuple[Action, ...]]]:
        for phase in self._layout.script.phases:
            for topic in phase.topics:
                yield self._layout.body((phase.id, topic.id)), topic, topic.actions
        for node, skill in zip(self._layout.skills, self._layout.script.skills, strict=False):
            yield node, None, skill.actions

    def _add(self, message: str, at: Location, fix: str = "") -> None:
        self._problems.add("TYPE_CLASH", message, at, path=self._path, fix=fix)

    def _nature(self, name: str) -> Nature | None:
        declared = self._sight.declaration(name)
        if declared is not None:
            return Nature(declared.kind, declared.choices)
        if self._sight.key(name)[0] is Level.SESSION:
            return _common(self._session.get(name, []))
        return self._natures.get(name)

    # -- actions ------------------------------------------------------------------------------------------------------

    def _action(self, action: Action) -> None:
        deed = deed_of(action)
        if action.when is not None:
            self._expression(action.when)
        for step in deed.steps:
            match step:
                case Look():
                    self._compared(facts_in(step.source).comparisons, step.source.at)
                case Put() if step.value is not None:
                    self._assigned(step.name, step.value)
                case Put():
                    pass
        match deed.body:
            case Each() as each:
                self._loop(each.loop)
            case Pick() as pick:
                for option in pick.options:
                    self._option(pick.put.name, option, pick.put.at)
            case _:
                pass
        if isinstance(action, Call) and action.loop is not None:
            self._loop(action.loop)
        for output in outputs_of(action):
            if isinstance(output, Output):
                self._output(output)
        if isinstance(action, AiAsk | AiSay | Chat) and action.exit_criteria is not None:
            for condition in action.exit_criteria.custom_conditions:
                sign = {"==": "eq", "!=": "ne", "contains": ""}.get(condition.operator, "gt")
                self._compared((Comparison(condition.variable, sign, condition.value),), condition.at)

    def _expression(self, expression: Expression) -> None:
        self._compared(facts_in(expression).comparisons, expression.at)

    def _assigned(self, name: str, value: Expression) -> None:
        found, declared = facts_in(value).value, self._sight.declaration(name)
        if not isinstance(found, Unknown):
            self._fits(name, found, declared, value.at)

    def _fits(self, name: str, value: Value, declared: Declaration | None, at: Location) -> None:
        if declared is None or declared.kind is None or value is None:
            return
        try:
            coerce(value, declared.kind, declared.choices)
        except ValueRefused as refused:
            fix = suggest(str(value), declared.choices, "") if declared.choices else ""
            self._add(f"`{name}` cannot become this: {refused}", at, fix)

    def _option(self, name: str, option: Option, at: Location) -> None:
        declared = self._sight.declaration(name)
        self._fits(name, option.value, declared, at)

    def _loop(self, loop: Loop) -> None:
        value = facts_in(loop.items).value
        if not isinstance(value, Unknown) and value is not None and not isinstance(value, list):
            self._add(f"a loop goes through a list, not {shorten(value)}", loop.items.at)
            return
        source = loop.items.source.strip()
        nature = self._nature(source) if source.isidentifier() else None
        if nature is not None and nature.kind is not None and nature.kind != "list":
            self._add(f"a loop goes through a list, and `{source}` is a {nature.kind}", loop.items.at)

    def _output(self, output: Output) -> None:
        """An answer against the variable that it goes to."""
        declared = self._sight.declaration(output.get)
        wanted, given = (declared.kind if declared is not None else None), output.kind
        if declared is None or wanted is None or given is None:
            return
        strange = [choice for choice in output.choices if wanted == "choice" and choice not in declared.choices]
        if given != wanted and (given, wanted) not in _WIDENED:
            at = output.mark("type" if output.type is not None else "choices")
            self._add(f"`{output.get}` is declared as {wanted}, and this takes a {given}", at)
        elif strange and declared.choices:
            fix = suggest(strange[0], declared.choices)
            self._add(f"`{output.get}` cannot become {shorten(strange[0])}", output.mark("choices"), fix)

    def _outputs_of_one_name(self, actions: tuple[Action, ...]) -> None:
        seen: dict[str, DeclaredType] = {}
        for output in (item for action in walk(actions) for item in outputs_of(action)):
            if not isinstance(output, Output) or output.kind is None or self._sight.declaration(output.get) is not None:
                continue
            first = seen.setdefault(output.get, output.kind)
            if first != output.kind:
                at = output.mark("type" if output.type is not None else "choices")
                self._add(f"`{output.get}` is a {first} further up, and a {output.kind} here", at)

    # -- comparisons --------------------------------------------------------------------------------------------------

    def _compared(self, comparisons: tuple[Comparison, ...], at: Location) -> None:
        for each in comparisons:
            nature = self._nature(each.name)
            if nature is None or (each.sign not in _EQUALITIES and each.sign not in _ORDERS):
                continue
            values = each.value if each.sign in {"in", "notin"} else [each.value]
            for value in values if isinstance(values, list) else ():
                if (reason := _clash(nature, value, each.sign)) is not None:
                    fix = suggest(str(value), nature.choices) if nature.choices else ""
                    self._add(f"`{each.name}` {reason}", at, fix or _FIXES.get(nature.kind or "text", ""))


_FIXES = {
    "boolean": "Write the name alone, or `not name`.",
    "number": "Compare with a number, without quotes.",
    "date": "Compare with a date such as '2026-01-31', or with `today`.",
}


def _clash(nature: Nature, value: Value, sign: str) -> str | None:
    """Why a variable never equals a value or cannot be put in order with it; None where it may."""
    if value is None or value == "":
        return None
    found = shorten(value)
    match nature.kind:
        case "choice" if sign in _EQUALITIES and nature.choices:
            known = any(compare("eq", choice, value) for choice in nature.choices)
            return None if known else f"is never {found}: that is none of its choices"
        case "number":
            is_number = isinstance(value, str) and number_in(value) is not None
            return f"is a number, and {found} is a text" if isinstance(value, str) and not is_number else None
        case "boolean" if not isinstance(value, bool):
            return f"is true or false, never {found}"
        case "date" if isinstance(value, str):
            return None if _is_date(value) else f"is a date, and {found} is none"
        case "date" if isinstance(value, int | float):
            return f"is a date, and {found} is a {infer_type(value)}"
        case _:
            return None


def _is_date(value: str) -> bool:
    try:
        coerce(value, "date")
    except ValueRefused:
        return False
    return True


def outputs_of(action: Action) -> tuple[OutputItem, ...]:
    """The outputs of an action that has some."""
    return action.outputs if isinstance(action, Ask | AiAsk | AiThink) else ()


def _gather(actions: tuple[Action, ...], sight: Sight, level: Level, found: dict[str, list[Nature | None]]) -> None:
    """What each undeclared name of a level is given by the actions of a list."""
    for action in walk(actions):
        for name, nature in _given(action):
            if sight.declaration(name) is None and sight.key(name)[0] is level:
                found.setdefault(name, []).append(nature)


def _given(action: Action) -> Iterator[tuple[str, Nature | None]]:
    """The names an action writes, each with what it then holds; None where anything may come."""
    for output in outputs_of(action):
        if isinstance(output, Output):
            is_known = output.kind is not None and output.default is None
            yield output.get, Nature(output.kind, output.choices) if is_known else None
        elif isinstance(output, Records):
            yield output.tolist, Nature("list")
        elif isinstance(output, Assignment):
            yield output.set, _literal(output.value)
    deed = deed_of(action)
    for step in deed.steps:
        if isinstance(step, Put) and step.value is not None and not outputs_of(action):
            yield step.name, _literal(step.value)
    match deed.body:
        case Pick() as pick:
            texts = tuple(option.value for option in pick.options if isinstance(option.value, str))
            is_text = len(texts) == len(pick.options)
            yield pick.put.name, Nature("choice", texts) if is_text else None
        case _:
            pass
    if isinstance(action, Call):
        yield from ((name, None) for name in action.assigned)
    if isinstance(action, Recall):
        yield action.into, Nature("list")  # as which it comes where nobody declares another type


def _literal(value: Expression) -> Nature | None:
    found = facts_in(value).value
    return Nature("choice", (found,)) if isinstance(found, str) else None


def _common(found: list[Nature | None]) -> Nature | None:
    """What a variable holds whichever of its writers wrote it; None where they do not agree."""
    natures = [each for each in found if each is not None]
    kinds = {each.kind for each in natures}
    if not natures or len(natures) < len(found) or len(kinds) > 1:
        return None
    if all(each.choices for each in natures):
        return Nature("choice", tuple(dict.fromkeys(choice for each in natures for choice in each.choices)))
    return natures[0] if kinds != {"choice"} else None
