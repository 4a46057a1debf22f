"""Check for unreachable topics and actions, and for endless loops."""

from collections.abc import Iterator, Mapping, Set
from typing import assert_never

from msgspec import Struct

from scripts.checks import effects
from scripts.checks.control_flow import ControlFlowGraph, Spot, names_written
from scripts.checks.effects import Body, Leave, effect_of, with_shared_expiry
from scripts.expressions.condition_algebra import Unknown
from scripts.expressions.members import BUILTINS
from scripts.model.actions import Action, Expiry, If, Repeat, arms, walk
from scripts.model.base import Expression, Location
from scripts.model.diagnostics import Problems
from scripts.model.script import Script, Topic, resolve_target, skills_called

_END: Spot = ("", "")


def check_reachability(layout: ControlFlowGraph, problems: Problems) -> None:
    """Add a problem for each unreachable topic, phase and action, and for each endless loop."""
    _Transitions(layout, problems).check()
    for node, body in layout.bodies():
        for dead, why in _dead(body.actions):
            fix = "Correct the condition, or remove it." if " true" in why else ""
            problems.add("ACTION_UNREACHABLE", f"unreachable: {why}", dead.at, path=layout.path(node), fix=fix)
        for action in layout.actions(node):
            if isinstance(action, Repeat):
                _check_repeat(action, problems, layout.path(node))


def goes_on(actions: tuple[Action, ...]) -> bool:
    """Return whether the end of a list of actions is reachable."""
    return all(_passes(action) for action in actions)


def _passes(action: Action) -> bool:
    """Return whether the end of an action is reachable."""
    if _truth_of(action.when) is not True:
        return True
    effect = effect_of(action)
    match effect.body:
        case effects.Straight() | effects.Each() | effects.Run():
            return effect.passes
        case effects.Select() as pick if not (effect.leaves or pick.is_sure):
            return effect.passes
        case _:
            return any(map(goes_on, _inner_lists(effect.body)))


def _inner_lists(body: Body) -> Iterator[tuple[Action, ...]]:
    """Yield the lists inside an action that may run: none that a constant condition excludes."""
    match body:
        case effects.Branch():
            truth = _truth_of(body.condition)
            yield from (body.then,) if truth is not False else ()
            yield from (body.otherwise,) if truth is not True else ()
        case effects.Each() | effects.LoopBack():
            yield body.do
        case effects.Select():
            yield from (option.actions for option in body.options)
        case effects.Straight() | effects.Run():
            pass
        case _:
            assert_never(body)


def _truth_of(condition: Expression | None) -> bool | None:
    """Return the constant result of a condition; None if it depends on variables."""
    value = condition.compiled.facts.value if condition is not None else True
    return None if isinstance(value, Unknown) else bool(value)


# -- actions --------------------------------------------------------------------------------------------------------


def _dead(actions: tuple[Action, ...]) -> Iterator[tuple[Action, str]]:
    """Yield the first action of each unreachable sequence, and the reason."""
    for number, action in enumerate(actions):
        if _truth_of(action.when) is False:
            yield action, "its `when` is never true"
        else:
            yield from _dead_inside(action)
        if not _passes(action) and number + 1 < len(actions):
            yield actions[number + 1], f"the action before it (`{action.id}`) never continues"
            return


def _dead_inside(action: Action) -> Iterator[tuple[Action, str]]:
    inside = arms(action)
    if isinstance(action, If) and (truth := _truth_of(action.condition)) is not None:
        name, dead, live = ("else", action.otherwise, action.then) if truth else ("then", action.then, action.otherwise)
        if dead:
            yield dead[0], f"`{name}` never runs, the condition is {'always' if truth else 'never'} true"
        inside = {"": live}
    for inner in inside.values():
        yield from _dead(inner)


# -- topics ---------------------------------------------------------------------------------------------------------


class _Transition(Struct, frozen=True):
    """A transition from one topic to another without waiting for the user."""

    target: Spot
    at: Location
    is_jump: bool = False


class _Transitions:
    """The transitions between topics."""

    def __init__(self, layout: ControlFlowGraph, problems: Problems) -> None:
        self._layout = layout
        self._script = script = layout.script
        self._from_anywhere = [layout.spot(node) for node in (*layout.interrupt_targets(), *layout.answering_topics())]
        if script.skills and script.expire is not None and script.expire.then.target is not None:
            # questions in skills have the expiry of the script, and any topic may have called them
            self._from_anywhere += layout.places([script.expire.then.target])
        self._problems = problems
        self._topics = {(phase.id, topic.id): (phase, topic) for phase in script.phases for topic in phase.topics}
        self._waiting = _waiting_skills(script)

    def check(self) -> None:
        reached = self._reachable()
        for phase in self._script.phases:
            spots = [(phase.id, topic.id) for topic in phase.topics]
            if spots and not any(spot in reached for spot in spots):
                self._problems.add("TOPIC_UNREACHABLE", f"no path leads to phase {phase.id}", phase.mark("phase"))
                continue
            for spot in spots:
                topic = self._topics[spot][1]
                if topic.milestone and not goes_on(topic.actions):
                    message = f"`{topic.milestone}` is never reached: the topic is always left before its end"
                    fix = f"Write `milestone: {topic.milestone}` at the action that leaves it."
                    at, path = topic.mark("milestone"), "/".join(spot)
                    self._problems.add("MILESTONE_UNREACHABLE", message, at, path=path, fix=fix)
                if spot not in reached:
                    never = _truth_of(topic.when) is False
                    why = "its `when` is never true and no `goto` leads here" if never else "no path leads here"
                    at = topic.mark("topic")
                    self._problems.add("TOPIC_UNREACHABLE", f"topic {topic.id}: {why}", at, path="/".join(spot))
        self._check_rounds(reached)

    def _reachable(self) -> set[Spot]:
        """Return every reachable topic."""
        first = {*self._from(0, 0), *self._from_anywhere}
        ways = {spot: self._next(spot, topic) for spot, (_, topic) in self._topics.items()}
        return (first | _reach(first, ways)) - {_END}

    def _next(self, spot: Spot, topic: Topic) -> list[Spot]:
        return [*self._jumps(spot, topic.actions), *(self._following(spot) if goes_on(topic.actions) else ())]

    def _jumps(self, spot: Spot, actions: tuple[Action, ...]) -> list[Spot]:
        leaves = _leaves(actions, self._layout.shared_expiry(self._layout.body(spot)))
        return [found for leave in leaves if (found := self._target(spot, leave)) is not None]

    def _target(self, spot: Spot, leave: Leave) -> Spot | None:
        return resolve_target(self._layout.ids, leave.target, spot[0]) if leave.target is not None else None

    def _following(self, spot: Spot) -> list[Spot]:
        node = self._layout.body(spot)
        return self._from(node.phase, node.topic + 1)

    def _from(self, p: int, t: int) -> list[Spot]:
        """Return the topics that may be next in order from a place on; the end if all may be skipped."""
        found: list[Spot] = []
        for number, phase in enumerate(self._script.phases[p:]):
            is_inside = number == 0 and t > 0  # the phase was entered before
            if not is_inside and _truth_of(phase.when) is False:
                continue
            for topic in phase.topics[t if number == 0 else 0 :]:
                truth = _truth_of(topic.when)
                if truth is not False:
                    found.append((phase.id, topic.id))
                if topic.when is None and (is_inside or phase.when is None):
                    return found
                if topic.when is None:
                    break
        return [*found, _END]

    # -- loops ------------------------------------------------------------------------------------------------------

    def _check_rounds(self, reached: set[Spot]) -> None:
        """Find cycles of topics in which nothing waits, and out of which nothing leads or only unchanged conditions."""
        ways = {spot: self._ways(spot) for spot in self._topics if spot in reached}
        targets = {spot: [way.target for way in found] for spot, found in ways.items()}
        reported: set[Spot] = set()
        for spot in ways:
            ring = _ring(spot, targets)
            topics = [self._topics[each][1] for each in ways if each in ring]
            actions = [action for topic in topics for action in walk(topic.actions)]
            if not ring or spot in reported or any(_waits(action, self._waiting) for action in actions):
                continue
            reported |= ring
            inside = [way for each in ways if each in ring for way in ways[each] if way.target in ring]
            back = next((way for way in inside if way.is_jump), inside[0])
            if all(target in ring for each in ring for target in targets[each]):
                message = "endless loop: nothing in it waits, and nothing leads out"
                self._problems.add("LOOP_ENDLESS", message, back.at, path="/".join(spot))
            elif condition := _condition_unchanged(topics):
                message = f"endless loop: nothing in it waits or changes its conditions (`{condition}`)"
                self._problems.add("LOOP_ENDLESS", message, back.at, path="/".join(spot), severity="warning")

    def _ways(self, spot: Spot) -> list[_Transition]:
        """Return where a topic may lead without a wait."""
        topic = self._topics[spot][1]
        ways: list[_Transition] = []
        if self._walk(spot, topic.actions, ways):
            ways += [_Transition(target, topic.at) for target in self._following(spot) or [_END]]
        return ways

    def _walk(self, spot: Spot, actions: tuple[Action, ...], ways: list[_Transition]) -> bool:
        """Collect the jumps out of a list; return whether its end is reachable without a wait."""
        for action in actions:
            if _truth_of(action.when) is False:
                continue
            through = self._step(spot, action, ways)
            if not through and _truth_of(action.when) is True:
                return False
        return True

    def _step(self, spot: Spot, action: Action, ways: list[_Transition]) -> bool:
        effect = effect_of(action)
        for leave in effect.leaves:
            if not leave.is_after_wait:
                ways.append(_Transition(self._target(spot, leave) or _END, leave.at, is_jump=True))
        if effect.waits == "always" or not effect.passes:
            return False
        through = [self._walk(spot, inner, ways) for inner in _inner_lists(effect.body)]
        return not through or isinstance(effect.body, effects.Each) or any(through)


def _ring(spot: Spot, ways: Mapping[Spot, list[Spot]]) -> set[Spot]:
    """Return the topics on a cycle through a topic; empty if there is none."""
    reached = _reach({spot}, ways)
    return {each for each in reached if spot in _reach({each}, ways)} if spot in reached else set()


def _reach(starts: Set[Spot], ways: Mapping[Spot, list[Spot]]) -> set[Spot]:
    found: set[Spot] = set()
    waiting = [*starts]
    while waiting:
        more = set(ways.get(waiting.pop(), ())) - found
        found |= more
        waiting += more
    return found


def _condition_unchanged(topics: list[Topic]) -> str:
    """Return the first condition in a cycle of topics if nothing in it changes a variable of any, or an empty text."""
    conditions: list[Expression] = []
    written: set[str] = set()
    for topic in topics:
        written |= {*names_written(topic.actions), *(each.var for each in topic.declare)}
        for action in walk(topic.actions):
            conditions += [action.when] if action.when is not None else []
            conditions += [action.condition] if isinstance(action, If) else []
        conditions += [topic.when] if topic.when is not None else []
    names = {name for condition in conditions for name in condition.compiled.facts.names}
    return " ".join(conditions[0].source.split()) if names and not names & (BUILTINS | written) else ""


def _leaves(actions: tuple[Action, ...], expire: Expiry | None) -> Iterator[Leave]:
    """Yield every possible jump out of a list whose questions without an expiry of their own have a shared one."""
    for action in actions:
        if _truth_of(action.when) is False:
            continue
        effect = with_shared_expiry(action, effect_of(action), expire)
        yield from effect.leaves
        for inner in (*_inner_lists(effect.body), effect.failing):
            yield from _leaves(inner, expire)
        if not _passes(action):
            return


def _waiting_skills(script: Script) -> set[str]:
    """Return the skills that may wait for the user, themselves or in a skill that they call."""
    own = {each.id for each in script.skills if any(effect_of(inner).waits != "never" for inner in walk(each.actions))}
    return own | {each.id for each in script.skills if own & skills_called(script, each.actions)}


def _waits(action: Action, waiting: set[str]) -> bool:
    effect = effect_of(action)
    return effect.waits != "never" or (isinstance(effect.body, effects.Run) and effect.body.call.skill in waiting)


# -- repeat ---------------------------------------------------------------------------------------------------------


def _check_repeat(action: Repeat, problems: Problems, path: str) -> None:
    """Add a problem if nothing inside waits, leads out, calls a skill or changes a variable of the condition."""
    until = action.until.until
    inside = [effect_of(each) for each in walk(action.do)]
    if until is None or _truth_of(until) is not None:
        return
    if any(each.waits != "never" or each.leaves or isinstance(each.body, effects.Run) for each in inside):
        return
    if not until.compiled.facts.names & BUILTINS.union(names_written(action.do)):
        spelled = " ".join(until.source.split())
        message = (
            f"nothing in `do` waits or changes a variable of `{spelled}`, so it runs {action.until.max} times or once"
        )
        problems.add("LOOP_ENDLESS", message, until.at, path=path, severity="warning")
