"""The paths within one topic or skill: what its actions read and write, and what is known after each."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import assert_never

import msgspec
from msgspec import Struct

from scripts.actions import Action
from scripts.analysis.deeds import (
    Again,
    Branch,
    Deed,
    Each,
    Leave,
    Look,
    Pick,
    Put,
    Run,
    Straight,
    deed_of,
    facts_in,
)
from scripts.analysis.known import ABSENT, NULL, VALUE, Conditions, Known, Level, Sight
from scripts.analysis.layout import Layout, Node, Spot
from scripts.conditions import UNKNOWN, Atom, Unknown, equality
from scripts.facts import Outcome
from scripts.members import BUILTINS
from scripts.nodes import Expression, Location, Template
from scripts.values import Value, number_in

VISITS_MAX = 30  # of one node; more would mean that the paths do not come to rest
PASSES_MAX = 12  # through one loop


class Finding(Struct, frozen=True):
    """A read that may find nothing. `doubt` says when; empty: on every path there is."""

    spot: Spot
    name: str
    at: Location
    doubt: str
    is_never: bool


class Within(ABC):
    """Follows the paths within one topic or skill; where they lead out is for the whole script to say."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._conditions = Conditions(layout.at_any_time)
        self._found: dict[Node, dict[str, Finding]] = {}
        self._deeds: dict[int, Deed] = {}
        self._node = layout.first
        self._sight = layout.sight(layout.first)
        self._local: frozenset[str] = frozenset()

    @abstractmethod
    def _jump(self, target: str, known: Known) -> None:
        """A way leads to another topic."""

    @abstractmethod
    def _call(self, run: Run, known: Known) -> Known | None:
        """What is known after a skill; None where it never comes back."""

    # -- within a topic -----------------------------------------------------------------------------------------------

    def _list(self, actions: tuple[Action, ...], known: Known | None) -> Known | None:
        """What is known after a list of actions; None where its end is never reached."""
        for action in actions:
            if known is None:
                return None
            on, off = self._decide(action.when, known)
            done = self._perform(action, on) if on is not None else None
            known = self._either(done, off, _doubts(action.when))
        return known

    def _decide(self, condition: Expression | None, known: Known) -> tuple[Known | None, Known | None]:
        """What is known where a condition holds, and where it does not."""
        if condition is None:
            return known, None
        self._look(Look(condition, is_condition=True), known)
        return self._assumed(condition, known, truth=True), self._assumed(condition, known, truth=False)

    def _assumed(self, condition: Expression, known: Known, *, truth: bool) -> Known | None:
        facts = facts_in(condition)
        if not isinstance(facts.value, Unknown):
            return known.copy() if bool(facts.value) is truth else None
        self._conditions.learn(facts.atoms)
        made = known.copy()
        outcome = facts.when_true if truth else facts.when_false
        return made if self._conditions.assume(made, self._sight, outcome, self._local) else None

    def _either(self, one: Known | None, two: Known | None, doubts: tuple[str, str] = ("", "")) -> Known | None:
        if one is None or two is None:
            return two if one is None else one
        return self._conditions.join(one, two, self._sight, doubts)

    def _perform(self, action: Action, known: Known) -> Known | None:
        deed = self._deeds.get(id(action)) or self._deeds.setdefault(id(action), self._deed(action))
        before = known.copy() if deed.leaves else known
        for step in deed.steps:
            match step:
                case Look():
                    self._look(step, known)
                case Put():
                    known = self._put(step, known)
                case _:
                    assert_never(step)
        for leave in deed.leaves:
            self._leave(leave, before, known)
        return self._inside(deed, known) if deed.passes else None

    def _deed(self, action: Action) -> Deed:
        return deed_of(action, self._layout.script.forms)

    def _leave(self, leave: Leave, before: Known, known: Known) -> None:
        if leave.target is None or self._layout.skill(self._node) is not None:
            return
        if leave.is_on_fail:
            known = self._conditions.join(before, known, self._sight, ("no valid answer comes", ""))
        self._jump(leave.target, known)

    def _inside(self, deed: Deed, known: Known) -> Known | None:
        match deed.body:
            case Straight():
                return known
            case Branch() as branch:
                then, otherwise = (self._assumed(branch.condition, known, truth=truth) for truth in (True, False))
                doubts = _doubts(branch.condition)
                return self._either(self._list(branch.then, then), self._list(branch.otherwise, otherwise), doubts)
            case Each() as each:
                return self._each(each, known)
            case Again() as again:
                return self._again(again, known)
            case Pick() as pick:
                return self._pick(pick, known)
            case Run() as run:
                return self._call(run, known)
            case _:
                assert_never(deed.body)

    def _each(self, each: Each, known: Known) -> Known | None:
        items = facts_in(each.loop.items).value
        if items == [] or not each.do:
            return known
        before, found = self._local, dict(self._found[self._node])
        self._local = before | {each.loop.name}
        once: Known | None = None
        entry = known
        for _ in range(PASSES_MAX):
            self._found[self._node] = dict(found)
            self._conditions.forget(entry, each.loop.name)
            once = self._list(each.do, entry.copy())
            joined = entry if once is None else self._conditions.join(once, entry, self._sight, EMPTY)
            if joined.same(entry):
                break
            entry = joined
        self._local = before
        is_filled = isinstance(items, list)
        out = once if is_filled else self._either(once, known, EMPTY)
        if out is not None:
            self._conditions.forget(out, each.loop.name)
        return out

    def _again(self, again: Again, known: Known) -> Known | None:
        found = dict(self._found[self._node])
        out: Known | None = None
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

    def _pick(self, pick: Pick, known: Known) -> Known | None:
        """After a choice: what each of its lists of actions came to; the choices without any together."""
        name = pick.put.name
        led = [option for option in pick.options if option.actions]
        plain = len(led) < len(pick.options)
        for option in led:
            self._learn_equality(name, option.value)
        out: Known | None = None
        if plain or not pick.options:
            out = self._chosen(pick, known)
            for option in led:
                if isinstance(option.value, str) and number_in(option.value) is None:
                    out.facts[equality(name, option.value)] = False
        for option in led:
            entry = self._chosen(pick, known)
            self._constant(entry, name, option.value, self._sight)
            done = self._list(option.actions, entry)
            doubts = (f"the {pick.word} is `{option.key}`", f"the {pick.word} is not `{option.key}`")
            out = self._either(done, out, doubts)
        return self._either(out, known, ("", pick.put.doubt)) if pick.put.doubt else out

    def _chosen(self, pick: Pick, known: Known) -> Known:
        return self._put(msgspec.structs.replace(pick.put, doubt=""), known.copy())

    def _learn_equality(self, name: str, value: Value) -> None:
        if isinstance(value, str) and number_in(value) is None:
            self._conditions.learn([Atom(equality(name, value), frozenset({name}), (name, value))])

    # -- reading and writing ------------------------------------------------------------------------------------------

    def _put(self, put: Put, known: Known) -> Known:
        if put.value is not None and put.when is not None:
            on, off = self._decide(put.when, known)
            if on is not None:
                self._look(Look(put.value), on)
                self._assign(put, on)
            return self._either(on, off, _doubts(put.when)) or known
        if put.value is not None and put.when is None:
            self._assign(put, known)
            return known
        key = self._sight.key(put.name)
        before = known.masks.get(key, ABSENT)
        self._conditions.forget(known, put.name)
        if put.null and self._holds_no_list(put.name):
            known.set(key, NULL | VALUE, put.null)
        else:
            known.set(key, before | VALUE if put.doubt else VALUE, put.doubt)
        return known

    def _holds_no_list(self, name: str) -> bool:
        """Whether a variable is declared with a type that has no empty value."""
        declared = self._sight.declaration(name)
        return declared is not None and declared.kind not in {None, "list"}

    def _assign(self, put: Put, known: Known) -> None:
        """A computed value is null where a name in it has none."""
        if put.value is None:
            return
        facts = facts_in(put.value)
        mask, doubt = NULL | VALUE if facts.is_null_able else VALUE, "its value is none"
        if facts.value is None:
            mask = NULL
        for name in sorted(facts.null_with - self._local - BUILTINS):
            found = self._sight.mask(known, name)
            if found != VALUE:
                mask = mask | NULL if found & VALUE else NULL
                doubt = known.doubts.get(self._sight.key(name), "") or f"`{name}` has no value"
        self._conditions.forget(known, put.name)
        known.set(self._sight.key(put.name), mask, doubt)
        if facts.value is not UNKNOWN and not isinstance(facts.value, Unknown):
            self._constant(known, put.name, facts.value, self._sight)

    def _constant(self, known: Known, name: str, value: Value, sight: Sight) -> None:
        """Remembers a text that a variable is known to hold, where its type takes it as it is."""
        declared = sight.declaration(name)
        is_kept = declared is None or declared.kind in {None, "text"} or value in declared.choices
        if isinstance(value, str) and number_in(value) is None and is_kept:
            self._conditions.hold(known, name, value)

    def _look(self, look: Look, known: Known) -> None:
        facts = facts_in(look.source)
        self._conditions.learn(facts.atoms)
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
            self._report(read.name, where(look.source, read.name), self._doubt_of(known, read.name), is_never=is_never)

    def _is_guarded(self, name: str, under: tuple[tuple[str, bool], ...], known: Known) -> bool:
        made = known.copy()
        is_possible = self._conditions.assume(made, self._sight, Outcome(literals=under), self._local)
        return not is_possible or self._sight.mask(made, name) == VALUE

    def _doubt_of(self, known: Known, name: str) -> str:
        return known.doubts.get(self._sight.key(name), "")

    def _report(self, name: str, at: Location, doubt: str, *, is_never: bool) -> None:
        spot = self._layout.spot(self._node)
        self._found[self._node].setdefault(name, Finding(spot, name, at, doubt, is_never))


EMPTY = ("", "the list is empty")


def _doubts(condition: Expression | None) -> tuple[str, str]:
    """When each of the two ways at a condition is taken."""
    if condition is None:
        return "", ""
    spelled = " ".join(condition.source.split())
    spelled = spelled if len(spelled) <= 60 else spelled[:59] + "…"
    return f"`{spelled}` holds", f"`{spelled}` does not hold"


def where(source: Template | Expression, name: str) -> Location:
    """Where a name stands in a text: its first line for an expression, the line that holds it for a template."""
    for offset, line in _numbered(source.source):
        if name in line:
            return Location(source.at.line + offset, 1 if offset else source.at.column, source.at.file)
    return source.at


def _numbered(text: str) -> Iterator[tuple[int, str]]:
    return enumerate(text.split("\n"))
