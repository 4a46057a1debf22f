"""Find reads of variables that may have no value: definite assignment along every path through a script.

``VARIABLE_MAYBE_UNSET`` reports each name once per topic or skill. The analysis makes these assumptions to avoid
false warnings; apart from them it misses no such read:

- a required question gets its answer; the runtime reports a question that runs out of rounds (`value_missing`). After
  `on_fail: skip`, `required: false` or an expiry that skips the question, the variable may be unset;
- a `repeat` ends because its `until` is true;
- the application sets a session or global variable that no action writes; a variable that only a detector writes has
  a value;
- a variable with `auto` has a value, and no interrupt or repair ends an action early (`then: skip` may leave a
  question open; the runtime reports that, as when the question runs out of rounds);
- reads in the actions of interrupts and detectors, which may run anywhere, are reported only if nothing visible to
  them can set the variable (`VARIABLE_NEVER_SET`, `VARIABLE_UNDECLARED`);
- a form is filled in, except for fields with `required: false`; a computed field has no value if a value that it
  reads has none;
- an item of a record or list, and the result of a filter, have a value;
- a name in a comparison or condition (tested, not used) may be unset, as the language defines; it is reported only
  if a variable of a topic or phase has no value on any path.
"""

import heapq
import re
from collections.abc import Collection, Iterator
from typing import TypeAlias, assert_never

from msgspec import Struct
from msgspec.structs import replace

from scripts.checks import effects
from scripts.checks.abstract_state import ABSENT, NULL, VALUE, AbstractState, Conditions, Doubts, Level, Sight
from scripts.checks.control_flow import ControlFlowGraph, Node, Spot
from scripts.checks.effects import Read, Write, effect_of, with_shared_expiry
from scripts.expressions.analysis import Outcome
from scripts.expressions.condition_algebra import Atom, Unknown, equality
from scripts.expressions.members import BUILTINS
from scripts.expressions.values import Value, number_in
from scripts.model.actions import Action, Call, Sleep
from scripts.model.base import Expression, Location, Template
from scripts.model.diagnostics import Problems
from scripts.model.script import Script, Skill, all_actions, resolve_target
from scripts.model.variables import Declaration

VISITS_MAX = 30  # per node; more would mean that the analysis does not converge
PASSES_MAX = 12  # per loop
_Reached: TypeAlias = AbstractState | None
"""The state at a point; None if no path leads there."""
_EMPTY = ("", "the list is empty")
_PLACEHOLDER = re.compile(r"\{[{%].*?[}%]\}", re.DOTALL)
_WHOLE = re.compile(r".+", re.DOTALL)
_OLDER_FIX = "Set it on every path, or give this action a condition, such as `{{{name}}} is set`."
_ALONE = re.compile(r"\s*(not\s+)?([^\W\d]\w*)\s*")


class UnsetRead(Struct, frozen=True):
    """A read that may find no value. `doubt` says when; empty: on every path."""

    spot: Spot
    name: str
    at: Location
    doubt: str
    is_never: bool


class AnsweredCondition(Struct, frozen=True):
    """A condition that is a variable alone, or `not` and the variable, where the variable has a value for certain."""

    node: Node
    name: str
    at: Location
    is_negated: bool


def check_assignment(
    layout: ControlFlowGraph, problems: Problems, reported: Collection[tuple[str, Spot]]
) -> list[AnsweredCondition]:
    """Add a problem for every read that may find no value, once per name and topic or skill.

    `reported` are the names, with the place of the read, for which a problem already reports that nothing sets them.
    Returns the conditions that are a variable alone, which has a value there.
    """
    paths = _Paths(layout)
    is_native = layout.script.form in {"native", "detectors"}
    for read in paths.run():
        if (read.name, read.spot) in reported:
            continue
        if read.doubt:
            message = f"`{read.name}` may be unset here, when {read.doubt}"
        elif read.is_never:
            message = f"`{read.name}` has no value here: no path to this place sets it"
        else:
            message = f"`{read.name}` may be unset here: not every path sets it"
        fix = "" if is_native else _OLDER_FIX.format(name=read.name)
        problems.add("VARIABLE_MAYBE_UNSET", message, read.at, path="/".join(read.spot).strip("/"), fix=fix)
    return list(paths.find_answered())


def _parameters_passed(script: Script) -> dict[str, frozenset[str]]:
    """Return the parameters that every call of a skill passes; a value that may be unset is reported at the call.

    A technique alone is called with all its parameters, of which the application may leave some out.
    """
    found: dict[str, frozenset[str]] = {}
    for action in all_actions(script) if script.form != "technique" else ():
        if isinstance(action, Call):
            found[action.skill] = found.get(action.skill, frozenset(action.input)) & frozenset(action.input)
    return found


class _Paths:
    """Follows the paths through a script, and within each topic and skill."""

    def __init__(self, layout: ControlFlowGraph) -> None:
        self._layout = layout
        self._conditions = Conditions(layout.at_any_time)
        self._found: dict[Node, dict[str, UnsetRead]] = {}
        self._alone: dict[Node, dict[Location, tuple[AnsweredCondition, bool]]] = {}  # and whether it has a value
        self._node = layout.first
        self._sight = layout.sight(layout.first)
        self._local: frozenset[str] = frozenset()
        self._entries: dict[Node, AbstractState] = {}
        self._doubts: dict[Node, str] = {}  # when the first path to a node is taken
        self._exits: dict[str, AbstractState] = {}  # of skills
        self._callers: dict[str, set[Node]] = {}
        self._queue: list[Node] = []
        # of topics that answer messages in waits, from which the conversation returns there: the state on the other
        # paths into them, which go on
        self._onward: dict[Node, _Reached] = {}
        self._visits: dict[Node, int] = {}
        self._parameters_passed = _parameters_passed(layout.script)

    def run(self) -> list[UnsetRead]:
        start = self._layout.at_start()
        self._arrive(self._layout.first, start, "")
        for node in self._layout.interrupt_targets():
            self._arrive(node, self._at_start(node, start), "an interrupt leads here")
        self._drain()
        for node in self._layout.answering_topics():
            if node not in self._entries:  # only waits in skills and interrupts lead here
                self._arrive(node, self._at_start(node, start), "a wait leads here", returns=True)
        self._drain()
        for node in self._layout.skills:
            if node not in self._entries:  # never called
                self._arrive(node, self._begin_skill(node, start), "")
                self._drain()
        return [finding for node in sorted(self._found) for finding in self._found[node].values()]

    def _at_start(self, node: Node, start: AbstractState) -> AbstractState:
        """Return the state in which a topic begins that may be entered at any time."""
        known = self._enter(start.copy(), self._layout.phase(node).declare, Node(node.phase, node.topic))
        return self._enter(known, self._layout.topic(node).declare, node)

    def find_answered(self) -> Iterator[AnsweredCondition]:
        """Yield the conditions that are a variable alone, if it has a value on every path to them."""
        for node in sorted(self._alone):
            yield from (condition for condition, has_value in self._alone[node].values() if has_value)

    def _drain(self) -> None:
        while self._queue:
            node = heapq.heappop(self._queue)
            self._visits[node] = self._visits.get(node, 0) + 1
            if self._visits[node] <= VISITS_MAX:
                self._node, self._sight, self._local = node, self._layout.sight(node), frozenset()
                self._found[node] = {}
                self._alone[node] = {}
                self._visit(node, self._entries[node].copy())

    def _arrive(self, node: Node, known: AbstractState, doubt: str, *, returns: bool = False) -> None:
        """Add a path into a node; one that `returns` does not go on from there."""
        before = self._entries.get(node)
        onward = self._onward.get(node)
        if returns:
            self._onward.setdefault(node, before)
        elif node in self._onward:
            joined = known if onward is None else self._conditions.join(onward, known, self._layout.sight(node))
            self._onward[node] = onward if onward is not None and joined.same(onward) else joined
        if before is not None:
            known = self._conditions.join(before, known, self._layout.sight(node), (self._doubts[node], doubt))
            if known.same(before) and onward is self._onward.get(node):
                return
        self._doubts.setdefault(node, doubt)
        self._entries[node] = known
        if node not in self._queue:
            heapq.heappush(self._queue, node)

    # -- between topics and phases ------------------------------------------------------------------------------------

    def _visit(self, node: Node, known: AbstractState) -> None:
        layout = self._layout
        if layout.is_end(node):
            return
        if (skill := layout.skill(node)) is not None:
            self._skill(skill, known)
        elif layout.is_body(node):
            after = self._list(layout.topic(node).actions, known)
            if node in self._onward:
                onward = self._onward[node]
                after = self._list(layout.topic(node).actions, onward.copy()) if onward is not None else None
            if after is not None:
                self._arrive(layout.after(node), self._leave_topic(after), "")
        else:
            self._head(node, known)

    def _head(self, node: Node, known: AbstractState) -> None:
        """Follow both paths at a phase or topic: entered if its `when` is true, otherwise skipped."""
        phase = self._layout.phase(node)
        owner = phase if self._layout.is_phase(node) else self._layout.topic(node)
        on, off = self._decide(owner.when, known)
        if on is not None:
            self._arrive(self._layout.inside(node), self._enter(on, owner.declare, self._layout.inside(node)), "")
        if off is not None:
            kind = "phase" if self._layout.is_phase(node) else "topic"
            following = self._layout.past(node)
            self._arrive(following, self._left_phase(off, following), f"{kind} `{owner.id}` is skipped")

    def _enter(self, known: AbstractState, declared: tuple[Declaration, ...], node: Node) -> AbstractState:
        level = Level.TOPIC if self._layout.is_body(node) else Level.PHASE
        for each in declared:
            self._conditions.forget(known, each.var)
            if each.auto:
                known.set((level, each.var), VALUE)
            elif each.value is not None:
                known.set((level, each.var), VALUE)
                self._constant(known, each.var, each.value, self._layout.sight(node))
        return known

    def _leave_topic(self, known: AbstractState) -> AbstractState:
        self._drop(known, Level.TOPIC)
        return self._left_phase(known, self._layout.after(self._node))

    def _left_phase(self, known: AbstractState, following: Node) -> AbstractState:
        if following.phase != self._node.phase:
            self._drop(known, Level.PHASE)
        return known

    def _drop(self, known: AbstractState, level: Level) -> None:
        for name in self._conditions.names(known):
            if self._sight.key(name)[0] <= level:
                self._conditions.forget(known, name)
        known.drop(level)

    def _jump(self, target: str, known: AbstractState, doubt: str, *, returns: bool = False) -> None:
        here = self._node
        found = resolve_target(self._layout.ids, target, self._layout.phase(here).id)
        if found is None:
            return
        node = self._layout.body(found)
        known = known.copy()
        self._drop(known, Level.TOPIC)
        if node.phase != here.phase:
            self._drop(known, Level.PHASE)
            phase = self._layout.phase(node)
            known = self._enter(known, phase.declare, replace(node, step=0))
        known = self._enter(known, self._layout.topic(node).declare, node)
        self._arrive(node, known, doubt, returns=returns)

    # -- skills -------------------------------------------------------------------------------------------------------

    def _begin_skill(self, node: Node, caller: AbstractState) -> AbstractState:
        """Return the state at the start of a skill: global variables, parameters and declarations."""
        skill = self._layout.skill(node)
        known = AbstractState()
        for key, mask in caller.masks.items():
            if key[0] is Level.GLOBAL:
                known.set(key, mask, caller.doubts.get(key, ""))
        if skill is not None:
            passed = self._parameters_passed.get(skill.id, frozenset())
            for each in (*skill.params, *skill.declare):
                is_given = each in skill.params and (each.var in passed or getattr(each, "required", False))
                if each.value is not None or is_given:
                    known.set((Level.TOPIC, each.var), VALUE)
                elif each in skill.params:
                    known.set((Level.TOPIC, each.var), ABSENT | VALUE, "the call does not pass it")
        return known

    def _skill(self, skill: Skill, known: AbstractState) -> None:
        after = self._list(skill.actions, known)
        if after is None:
            return
        for name in skill.returns:
            mask = self._sight.mask(after, name)
            if not mask & VALUE:
                self._report(name, skill.mark("returns"), "", is_never=True)
        before = self._exits.get(skill.id)
        if before is not None:
            after = self._conditions.join(before, after, self._sight)
        self._exits[skill.id] = after
        if before is None or not after.same(before):
            for caller in self._callers.get(skill.id, set()):
                if caller not in self._queue:
                    heapq.heappush(self._queue, caller)

    def _call(self, run: effects.Run, known: AbstractState) -> _Reached:
        node = self._layout.skill_node(run.call.skill)
        skill = self._layout.skill(node) if node is not None else None
        if node is None or skill is None or not skill.actions:
            return known
        self._callers.setdefault(skill.id, set()).add(self._node)
        self._arrive(node, self._begin_skill(node, known), "")
        after = self._exits.get(skill.id)
        done = self._return_from(run, skill, known.copy(), after) if after is not None else None
        return done if run.call.loop is None else self._either(done, known, _EMPTY)

    def _return_from(self, run: effects.Run, skill: Skill, known: AbstractState, after: AbstractState) -> AbstractState:
        for name in self._layout.globals_written(skill):
            mask = after.masks.get((Level.GLOBAL, name), ABSENT)
            if mask != VALUE:
                mask |= known.masks.get((Level.GLOBAL, name), ABSENT)
            self._conditions.forget(known, name)
            known.set((Level.GLOBAL, name), mask, after.doubts.get((Level.GLOBAL, name), ""))
        for variable in run.call.assigned:
            name = run.call.output[variable]
            if not name:  # all results in one variable
                self._conditions.forget(known, variable)
                known.set(self._sight.key(variable), VALUE)
                continue
            mask = after.masks.get((Level.TOPIC, name), ABSENT)
            key = self._sight.key(variable)
            if mask & ABSENT:
                mask = (mask & ~ABSENT) | known.masks.get(key, ABSENT)
            doubt = after.doubts.get((Level.TOPIC, name), "")
            self._conditions.forget(known, variable)
            known.set(key, mask, f"the skill `{skill.id}` returns nothing for it" + (f": {doubt}" if doubt else ""))
        return known

    # -- within a topic -----------------------------------------------------------------------------------------------

    def _list(self, actions: tuple[Action, ...], known: _Reached) -> _Reached:
        """Return the state after a list of actions; None if its end is unreachable."""
        for action in actions:
            if known is None:
                return None
            on, off = self._decide(action.when, known)
            done = self._perform(action, on) if on is not None else None
            known = self._either(done, off, _doubts(action.when))
        return known

    def _decide(self, condition: Expression | None, known: AbstractState) -> tuple[_Reached, _Reached]:
        """Return the states in which a condition is true and false."""
        if condition is None:
            return known, None
        self._look(Read(condition, is_condition=True), known)
        return self._assume(condition, known, truth=True), self._assume(condition, known, truth=False)

    def _assume(self, condition: Expression, known: AbstractState, *, truth: bool) -> _Reached:
        facts = condition.compiled.facts
        if not isinstance(facts.value, Unknown):
            return known.copy() if bool(facts.value) is truth else None
        self._conditions.learn(facts.atoms)
        made = known.copy()
        outcome = facts.when_true if truth else facts.when_false
        return made if self._conditions.assume(made, self._sight, outcome, self._local) else None

    def _either(self, one: _Reached, two: _Reached, doubts: Doubts = ("", "")) -> _Reached:
        if one is None or two is None:
            return two if one is None else one
        return self._conditions.join(one, two, self._sight, doubts)

    def _perform(self, action: Action, known: AbstractState) -> _Reached:
        effect = effect_of(action, self._layout.script.forms)
        effect = with_shared_expiry(action, effect, self._layout.shared_expiry(self._node))
        before = known.copy() if effect.leaves or effect.failing else known
        for step in effect.steps:
            match step:
                case Read():
                    self._look(step, known)
                case Write():
                    known = self._put(step, known)
                case _:
                    assert_never(step)
        if isinstance(action, Sleep) and self._layout.skill(self._node) is None:
            self._jump(action.on_message, known, "a wait leads here", returns=True)
        failed: _Reached = None
        if effect.failing:  # its actions run without a valid answer, which may be partly answered
            failed = self._list(effect.failing, self._conditions.join(before, known, self._sight, _EMPTY))
        for leave in effect.leaves:
            if leave.kind == "expire":
                self._leave(leave, before, known)
            elif failed is not None or not effect.failing:
                self._leave(leave, before, known if failed is None else failed)
        done = self._inside(effect, known) if effect.passes else None
        stays = effect.failing and all(leave.kind == "expire" for leave in effect.leaves)
        return self._either(done, failed, ("there is a valid answer", "there is no valid answer")) if stays else done

    def _leave(self, leave: effects.Leave, before: AbstractState, known: AbstractState) -> None:
        if leave.target is None or self._layout.skill(self._node) is not None:
            return
        if leave.is_after_wait:
            doubt = effects.EXPIRED if leave.kind == "expire" else "there is no valid answer"
            known = self._conditions.join(before, known, self._sight, (doubt, ""))
        self._jump(leave.target, known, f"the conversation comes from {self._layout.topic(self._node).id} by `goto`")

    def _inside(self, effect: effects.Effect, known: AbstractState) -> _Reached:
        match effect.body:
            case effects.Straight():
                return known
            case effects.Branch() as branch:
                then, otherwise = (self._assume(branch.condition, known, truth=truth) for truth in (True, False))
                doubts = _doubts(branch.condition)
                return self._either(self._list(branch.then, then), self._list(branch.otherwise, otherwise), doubts)
            case effects.Each() as each:
                return self._each(each, known)
            case effects.LoopBack() as again:
                return self._again(again, known)
            case effects.Select() as pick:
                return self._pick(pick, known)
            case effects.Run() as run:
                return self._call(run, known)
            case _:
                assert_never(effect.body)

    def _each(self, each: effects.Each, known: AbstractState) -> _Reached:
        items = each.loop.items.compiled.facts.value
        if items == [] or not each.do:
            return known
        before, found = self._local, dict(self._found[self._node])
        self._local = before | {each.loop.name}
        once: _Reached = None
        entry = known
        for _ in range(PASSES_MAX):
            self._found[self._node] = dict(found)
            self._conditions.forget(entry, each.loop.name)
            once = self._list(each.do, entry.copy())
            joined = entry if once is None else self._conditions.join(once, entry, self._sight, _EMPTY)
            if joined.same(entry):
                break
            entry = joined
        self._local = before
        is_filled = isinstance(items, list)
        out = once if is_filled else self._either(once, known, _EMPTY)
        if out is not None:
            self._conditions.forget(out, each.loop.name)
        return out

    def _again(self, again: effects.LoopBack, known: AbstractState) -> _Reached:
        found = dict(self._found[self._node])
        out: _Reached = None
        for _ in range(PASSES_MAX):
            self._found[self._node] = dict(found)
            out = self._list(again.do, known.copy())
            if out is None:
                return None
            done, further = self._decide(again.until, out) if again.until is not None else (out, out)
            joined = known if further is None else self._conditions.join(known, further, self._sight)
            out = done if done is not None else out
            if joined.same(known):
                break
            known = joined
        return out

    def _pick(self, pick: effects.Select, known: AbstractState) -> _Reached:
        """Return the states after each list of a choice; choices without actions are combined."""
        name = pick.put.name
        with_actions = [option for option in pick.options if option.actions]
        plain = len(with_actions) < len(pick.options)
        texts = [each.value for each in with_actions if isinstance(each.value, str) and number_in(each.value) is None]
        self._conditions.learn(Atom(equality(name, text), frozenset({name}), (name, text)) for text in texts)
        out: _Reached = None
        if plain or not pick.options:
            out = self._select(pick, known)
            out.facts |= {equality(name, text): False for text in texts}
        for option in with_actions:
            entry = self._select(pick, known)
            self._constant(entry, name, option.value, self._sight)
            done = self._list(option.actions, entry)
            doubts = (f"the {pick.word} is `{option.key}`", f"the {pick.word} is not `{option.key}`")
            out = self._either(done, out, doubts)
        return self._either(out, known, ("", pick.put.doubt)) if pick.put.doubt else out

    def _select(self, pick: effects.Select, known: AbstractState) -> AbstractState:
        return self._put(replace(pick.put, doubt=""), known.copy())

    # -- reading and writing ------------------------------------------------------------------------------------------

    def _put(self, put: Write, known: AbstractState) -> AbstractState:
        if put.value is not None:
            on, off = self._decide(put.when, known)
            if on is not None:
                self._look(Read(put.value), on)
                self._assign(put.name, put.value, on)
            return self._either(on, off, _doubts(put.when)) or known
        key = self._sight.key(put.name)
        before = known.masks.get(key, ABSENT)
        self._conditions.forget(known, put.name)
        declared = self._sight.declaration(put.name)
        if put.null and declared is not None and declared.kind not in {None, "list"}:  # a type without an empty value
            known.set(key, NULL | VALUE, put.null)
        else:
            known.set(key, before | VALUE if put.doubt else VALUE, put.doubt)
        return known

    def _assign(self, variable: str, value: Expression, known: AbstractState) -> None:
        """Record a computed value, which is null if a name in it has no value."""
        facts = value.compiled.facts
        mask, doubt = NULL | VALUE if facts.is_null_able else VALUE, "its value is none"
        if facts.value is None:
            mask = NULL
        for name in sorted(facts.null_with - self._local - BUILTINS):
            found = self._sight.mask(known, name)
            if found != VALUE:
                mask = mask | NULL if found & VALUE else NULL
                doubt = known.doubts.get(self._sight.key(name), "") or f"`{name}` has no value"
        self._conditions.forget(known, variable)
        known.set(self._sight.key(variable), mask, doubt)
        if not isinstance(facts.value, Unknown):
            self._constant(known, variable, facts.value, self._sight)

    def _constant(self, known: AbstractState, name: str, value: Value, sight: Sight) -> None:
        """Record a text as the value of a variable, if its type stores it unchanged."""
        declared = sight.declaration(name)
        is_stored = declared is None or declared.kind in {None, "text"} or value in declared.choices
        if isinstance(value, str) and number_in(value) is None and is_stored:
            self._conditions.hold(known, name, value)

    def _note_alone(self, look: Read, known: AbstractState) -> None:
        """Note a condition that is a variable alone, and whether the variable has a value."""
        found = _ALONE.fullmatch(look.source.source)
        if found is None or found[2] in BUILTINS or found[2] in look.at_hand or found[2] in self._local:
            return
        condition = AnsweredCondition(self._node, found[2], look.source.at, bool(found[1]))
        noted = self._alone[self._node]
        had_value = noted[condition.at][1] if condition.at in noted else True
        noted[condition.at] = condition, had_value and self._sight.mask(known, found[2]) == VALUE

    def _look(self, look: Read, known: AbstractState) -> None:
        facts = look.source.compiled.facts
        self._conditions.learn(facts.atoms)
        if look.is_condition:
            self._note_alone(look, known)
        for read in facts.reads:
            if read.name in BUILTINS or read.name in look.at_hand or read.name in self._local:
                continue
            mask = self._sight.mask(known, read.name)
            if mask == VALUE or read.name in self._found[self._node]:
                continue
            key = self._sight.key(read.name)
            is_inner = key[0] in (Level.TOPIC, Level.PHASE) or key in self._layout.drawn
            is_never = not mask & VALUE
            is_tested = read.role == "tested" or (read.role == "whole" and look.is_condition)
            if is_tested and not (is_never and is_inner):
                continue
            if read.under and self._is_guarded(read.name, read.under, known):
                continue
            self._report(read.name, where(look.source, read.name), known.doubts.get(key, ""), is_never=is_never)

    def _is_guarded(self, name: str, under: tuple[tuple[str, bool], ...], known: AbstractState) -> bool:
        made = known.copy()
        is_possible = self._conditions.assume(made, self._sight, Outcome(literals=under), self._local)
        return not is_possible or self._sight.mask(made, name) == VALUE

    def _report(self, name: str, at: Location, doubt: str, *, is_never: bool) -> None:
        spot = self._layout.spot(self._node)
        self._found[self._node].setdefault(name, UnsetRead(spot, name, at, doubt, is_never))


def _doubts(condition: Expression | None) -> Doubts:
    """Return when each of the two paths at a condition is taken."""
    if condition is None:
        return "", ""
    spelled = " ".join(condition.source.split())
    spelled = spelled if len(spelled) <= 60 else spelled[:59] + "…"
    return f"`{spelled}` holds", f"`{spelled}` is false"


def where(source: Template | Expression, name: str) -> Location:
    """Return the location of a name: the line of an expression, or of a placeholder in a template, that contains it."""
    if "\n" not in source.source:
        return source.at
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    parts = _PLACEHOLDER if isinstance(source, Template) else _WHOLE
    places = (part.start() + found.start() for part in parts.finditer(source.source) if (found := word.search(part[0])))
    return source.at.below(source.source.count("\n", 0, next(places, 0)))
