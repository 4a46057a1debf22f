"""What no path of a script comes to, and what goes round without ever waiting or changing anything."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from scripts.actions import Action, If, Repeat, arms, walk
from scripts.analysis.deeds import Again, Branch, Each, Leave, Pick, Run, deed_of, facts_in, goes_on, passes, truth_of
from scripts.analysis.layout import Layout, Spot, names_written
from scripts.diagnostics import Problems
from scripts.members import BUILTINS
from scripts.model import Script
from scripts.nodes import Expression, Location
from scripts.targets import resolve_target

_END: Spot = ("", "")


def check_reachability(layout: Layout, problems: Problems) -> None:
    """Adds a problem for each topic, phase and action that nothing leads to, and each loop that has no end."""
    script = layout.script
    lists = [(f"{phase.id}/{topic.id}", topic.actions) for phase in script.phases for topic in phase.topics]
    lists += [(skill.id, skill.actions) for skill in script.skills]
    for path, actions in lists:
        for dead, why in _dead(actions):
            problems.add("ACTION_UNREACHABLE", f"this is never reached: {why}", dead.at, path=path)
    _Ways(layout, problems).check()
    waiting = _waiting_skills(script)
    for path, actions in lists:
        for action in walk(actions):
            if isinstance(action, Repeat):
                _check_repeat(action, waiting, problems, path)


# -- actions --------------------------------------------------------------------------------------------------------


def _dead(actions: tuple[Action, ...]) -> Iterator[tuple[Action, str]]:
    """The first action of each stretch that no path comes to, and why."""
    for number, action in enumerate(actions):
        if truth_of(action.when) is False:
            yield action, "its `when` never holds"
        else:
            yield from _dead_inside(action)
        if not passes(action) and number + 1 < len(actions):
            yield actions[number + 1], f"what stands before it (`{action.id}`) never goes on"
            return


def _dead_inside(action: Action) -> Iterator[tuple[Action, str]]:
    if isinstance(action, If) and (truth := truth_of(action.condition)) is not None:
        name, dead, live = ("else", action.otherwise, action.then) if truth else ("then", action.then, action.otherwise)
        if dead:
            yield dead[0], f"`{name}` is never taken, the condition {'always' if truth else 'never'} holds"
        yield from _dead(live)
        return
    for inner in arms(action).values():
        yield from _dead(inner)


# -- topics ---------------------------------------------------------------------------------------------------------


class _Way(Struct, frozen=True):
    """A step from one topic to another without waiting for the user."""

    target: Spot
    at: Location
    is_jump: bool = False


class _Ways:
    """The ways from topic to topic."""

    def __init__(self, layout: Layout, problems: Problems) -> None:
        self._script = script = layout.script
        self._led = [layout.spot(node) for node in layout.led_by_interrupts()]
        self._problems = problems
        self._topics = {(phase.id, topic.id): (phase, topic) for phase in script.phases for topic in phase.topics}
        self._waiting = _waiting_skills(script)

    def check(self) -> None:
        reached = self._reached()
        for phase in self._script.phases:
            spots = [(phase.id, topic.id) for topic in phase.topics]
            if spots and not any(spot in reached for spot in spots):
                self._problems.add("TOPIC_UNREACHABLE", f"no path leads into phase {phase.id}", phase.mark("phase"))
                continue
            for spot in spots:
                if spot not in reached:
                    topic = self._topics[spot][1]
                    never = truth_of(topic.when) is False
                    why = "its `when` never holds and no `goto` leads here" if never else "no path leads here"
                    at = topic.mark("topic")
                    self._problems.add("TOPIC_UNREACHABLE", f"topic {topic.id}: {why}", at, path="/".join(spot))
        self._check_rounds(reached)

    def _reached(self) -> set[Spot]:
        """Every topic that can be entered."""
        reached: set[Spot] = set()
        waiting = [self._from(0, 0), self._led]
        while waiting:
            for spot in waiting.pop():
                if spot in reached or spot == _END:
                    continue
                reached.add(spot)
                topic = self._topics[spot][1]
                waiting.append(self._jumps(spot, topic.actions))
                if goes_on(topic.actions):
                    waiting.append(self._following(spot))
        return reached

    def _jumps(self, spot: Spot, actions: tuple[Action, ...]) -> list[Spot]:
        return [found for leave in _leaves(actions) if (found := self._target(spot, leave)) is not None]

    def _target(self, spot: Spot, leave: Leave) -> Spot | None:
        return resolve_target(self._script, leave.target, spot[0]) if leave.target is not None else None

    def _following(self, spot: Spot) -> list[Spot]:
        for p, phase in enumerate(self._script.phases):
            for t, topic in enumerate(phase.topics):
                if (phase.id, topic.id) == spot:
                    return self._from(p, t + 1)
        return []

    def _from(self, p: int, t: int) -> list[Spot]:
        """The topics that may come next in order, from a place on; the end where all may be passed by."""
        found: list[Spot] = []
        for number, phase in enumerate(self._script.phases[p:]):
            if number and truth_of(phase.when) is False:
                continue
            for topic in phase.topics[t if number == 0 else 0 :]:
                truth = truth_of(topic.when)
                if truth is not False:
                    found.append((phase.id, topic.id))
                if topic.when is None and (number == 0 or phase.when is None):
                    return found
                if topic.when is None:
                    break
        return [*found, _END]

    # -- loops ------------------------------------------------------------------------------------------------------

    def _check_rounds(self, reached: set[Spot]) -> None:
        """Finds the topics that lead back to themselves without a wait."""
        ways = {spot: self._ways(spot) for spot in self._topics if spot in reached}
        told: set[Spot] = set()
        for spot in ways:
            ring = _ring(spot, {each: [way.target for way in ways[each]] for each in ways})
            if spot in told or not ring:
                continue
            told |= ring
            self._check_ring(ring, ways)

    def _check_ring(self, ring: set[Spot], ways: Mapping[Spot, list[_Way]]) -> None:
        inside = [way for spot in ways if spot in ring for way in ways[spot] if way.target in ring]
        back = next((way.at for way in sorted(inside, key=lambda way: not way.is_jump)), None)
        if back is None:
            return
        path = "/".join(next(spot for spot in self._topics if spot in ring))
        may_wait = any(self._may_wait(self._topics[spot][1].actions) for spot in ring)
        leads_out = any(way.target not in ring for spot in ring for way in ways[spot])
        if not may_wait and not leads_out:
            message = "the conversation goes round here for ever: nothing on the way waits, and nothing leads out"
            self._problems.add("LOOP_ENDLESS", message, back, path=path)
            return
        asked, written = self._conditions(ring)
        names = {name for condition in asked for name in facts_in(condition).names}
        if names and not names & (BUILTINS | written) and all(self._is_conditional(spot) for spot in ring):
            spelled = next((condition.source for condition in asked), "")
            message = f"nothing on the way round waits or changes what decides it (`{' '.join(spelled.split())}`)"
            self._problems.add("LOOP_ENDLESS", message, back, path=path, severity="warning")

    def _is_conditional(self, spot: Spot) -> bool:
        """Whether only conditions decide what is done in a topic, no answer."""
        return not self._may_wait(self._topics[spot][1].actions)

    def _conditions(self, ring: set[Spot]) -> tuple[list[Expression], set[str]]:
        """Every condition in a ring of topics, and every name that is written there."""
        asked: list[Expression] = []
        written: set[str] = set()
        for spot in ring:
            topic = self._topics[spot][1]
            written |= set(names_written(topic.actions)) | {each.var for each in topic.declare}
            for action in walk(topic.actions):
                asked += [action.when] if action.when is not None else []
                asked += [action.condition] if isinstance(action, If) else []
            asked += [topic.when] if topic.when is not None else []
        return asked, written

    def _may_wait(self, actions: tuple[Action, ...]) -> bool:
        return any(_waits(action, self._waiting) for action in walk(actions))

    def _ways(self, spot: Spot) -> list[_Way]:
        """Where a topic may lead without a wait on the way."""
        topic = self._topics[spot][1]
        ways: list[_Way] = []
        if self._walk(spot, topic.actions, ways):
            ways += [_Way(target, topic.at) for target in self._following(spot) or [_END]]
        return ways

    def _walk(self, spot: Spot, actions: tuple[Action, ...], ways: list[_Way]) -> bool:
        """Collects the ways out of a list; whether its end may be come to without a wait."""
        for action in actions:
            if truth_of(action.when) is False:
                continue
            through = self._step(spot, action, ways)
            if not through and truth_of(action.when) is True:
                return False
        return True

    def _step(self, spot: Spot, action: Action, ways: list[_Way]) -> bool:
        deed = deed_of(action)
        for leave in deed.leaves:
            if not leave.is_on_fail:
                ways.append(_Way(self._target(spot, leave) or _END, leave.at, is_jump=True))
        if deed.waits == "always" or not deed.passes:
            return False
        match deed.body:
            case Branch() as branch:
                truth = truth_of(branch.condition)
                then = truth is not False and self._walk(spot, branch.then, ways)
                otherwise = truth is not True and self._walk(spot, branch.otherwise, ways)
                return then or otherwise
            case Each() as each:
                self._walk(spot, each.do, ways)
                return True
            case Again() as again:
                return self._walk(spot, again.do, ways)
            case Pick() as pick if pick.is_sure:
                through = [self._walk(spot, option.actions, ways) for option in pick.options]
                return any(through)
            case _:
                return True


def _ring(spot: Spot, ways: Mapping[Spot, list[Spot]]) -> set[Spot]:
    """The topics that lie on a way from a topic back to itself; empty where there is none."""
    forth = _reach(spot, ways)
    if spot not in forth:
        return set()
    return {each for each in forth if spot in _reach(each, ways)}


def _reach(spot: Spot, ways: Mapping[Spot, list[Spot]]) -> set[Spot]:
    found: set[Spot] = set()
    waiting = [spot]
    while waiting:
        for target in ways.get(waiting.pop(), []):
            if target not in found:
                found.add(target)
                waiting.append(target)
    return found


def _leaves(actions: tuple[Action, ...]) -> Iterator[Leave]:
    """Every way out of a list that may be taken."""
    for action in actions:
        if truth_of(action.when) is False:
            continue
        deed = deed_of(action)
        yield from deed.leaves
        match deed.body:
            case Branch() as branch:
                truth = truth_of(branch.condition)
                yield from _leaves(branch.then if truth is not False else ())
                yield from _leaves(branch.otherwise if truth is not True else ())
            case Each() | Again() as block:
                yield from _leaves(block.do)
            case Pick() as pick:
                for option in pick.options:
                    yield from _leaves(option.actions)
            case _:
                pass
        if not passes(action):
            return


# -- repeat -----------------------------------------------------------------------------------------------------------


def _waiting_skills(script: Script) -> set[str]:
    """The skills that may wait for the user, by themselves or by one they call."""
    waiting: set[str] = set()
    for _ in script.skills:
        found = {skill.id for skill in script.skills if any(_waits(action, waiting) for action in walk(skill.actions))}
        if found == waiting:
            break
        waiting = found
    return waiting


def _waits(action: Action, waiting: set[str]) -> bool:
    deed = deed_of(action)
    return deed.waits != "never" or (isinstance(deed.body, Run) and deed.body.call.skill in waiting)


def _check_repeat(action: Repeat, waiting: set[str], problems: Problems, path: str) -> None:
    until = action.until.until
    if until is None or truth_of(until) is not None:
        return
    inside = list(walk(action.do))
    leads_out = any(deed_of(each).leaves for each in inside)
    if leads_out or any(_waits(each, waiting) for each in inside) or any(_calls(each) for each in inside):
        return
    facts = facts_in(until)
    if not facts.names & (BUILTINS | set(names_written(action.do))):
        spelled = " ".join(until.source.split())
        message = f"nothing in `do` waits or changes what `{spelled}` asks, so it runs {action.until.max} times or once"
        problems.add("LOOP_ENDLESS", message, until.at, path=path, severity="warning")


def _calls(action: Action) -> bool:
    return isinstance(deed_of(action).body, Run)
