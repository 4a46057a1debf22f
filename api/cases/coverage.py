"""What of a script its conversations reached: phases, topics, actions, branches and conditions, from the events.

A branch is an arm of an `if` (also an `else` nobody wrote) or of an `experiment`, a choice of a `choose`, an `on_fail`
that leads away (`goto`, `end`), an `on_blocked` or `on_off_topic` that gives up, an interrupt that comes up, or a
detector that acts; a condition is a `when` that held, or did not. No branches, since many a sound script cannot take
both ways: a `foreach` over an empty list, the other texts of a `say`, and an `on_fail` that goes on with what follows.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from runtime.answers import Choice, match_choice
from runtime.engine import Turn
from runtime.events import (
    ActionEntered,
    ActionLeft,
    ActionSkipped,
    Body,
    Detected,
    Ended,
    Exited,
    Exposed,
    Interrupted,
    Jumped,
    Message,
    ScopeEntered,
    ScopeLeft,
    ScopeSkipped,
)
from runtime.program import Program
from runtime.state import DETECTORS, INTERRUPTS, Wait
from scripts.actions import Action, AiAsk, Ask, Choose, Experiment, Form, If, PolicyKey, arms, policies, rounds_of, walk
from scripts.model import ON_BUDGET, Phase, Script, Topic
from scripts.nodes import Location

Kind: TypeAlias = Literal["phase", "topic", "action", "branch", "condition"]
KINDS: dict[Kind, str] = {
    "phase": "phases",
    "topic": "topics",
    "action": "actions",
    "branch": "branches",
    "condition": "conditions",
}
ON_FAIL = "on_fail"
LEADS_AWAY = frozenset({"goto", "end"})
HELD, NOT_HELD = "when held", "when did not hold"
SKILL, INTERRUPT, DETECTOR = "skill:", "interrupt:", "detector:"  # begin the names of what stands in one
CAME_UP = "came up"
ACTED = "acted"


class Item(Struct, frozen=True):
    """Something a conversation can reach. `name` is its path of ids; `arm` which way it went there."""

    kind: Kind
    name: str
    arm: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.arm})" if self.arm else self.name


class Count(Struct, frozen=True):
    """How many of a kind there are, and how many were reached."""

    covered: int
    total: int

    @property
    def percent(self) -> float:
        """100 where there is nothing to reach."""
        return 100.0 if self.total == 0 else round(100 * self.covered / self.total, 1)


class Coverage(Struct, frozen=True):
    """The items of a script with their places, in the order written, and those that were reached."""

    items: dict[Item, Location]
    reached: frozenset[Item]

    def count(self, kind: Kind) -> Count:
        """How many of a kind were reached."""
        of_kind = [item for item in self.items if item.kind == kind]
        return Count(sum(item in self.reached for item in of_kind), len(of_kind))

    @property
    def missed(self) -> list[tuple[Item, Location]]:
        """What no conversation reached."""
        return [(item, at) for item, at in self.items.items() if item not in self.reached]


def reached_by(program: Program, session: Iterable[Turn]) -> frozenset[Item]:
    """What a session, given by all of its turns, reached of its script."""
    return frozenset(_Tracker(program).follow(session))


def cover(program: Program, reached: Iterable[frozenset[Item]]) -> Coverage:
    """What some sessions reached of all there is."""
    items = dict(_items(program.script))
    return Coverage(items, frozenset().union(*reached) & items.keys())


# -- what there is ----------------------------------------------------------------------------------------------------


def _items(script: Script) -> Iterator[tuple[Item, Location]]:
    for phase in script.phases:
        yield Item("phase", phase.id), phase.at
        yield from _conditions(phase.id, phase)
        for topic in phase.topics:
            name = f"{phase.id}/{topic.id}"
            yield Item("topic", name), topic.at
            yield from _conditions(name, topic)
            for action in walk(topic.actions):
                yield from _action_items(f"{name}/{action.id}", action)
    for skill in script.skills:
        for action in walk(skill.actions):
            yield from _action_items(f"{SKILL}{skill.id}/{action.id}", action)
    for each in script.interrupts:
        yield Item("branch", f"{INTERRUPT}{each.id}", CAME_UP), each.at
        for action in walk(each.actions):
            yield from _action_items(f"{INTERRUPT}{each.id}/{action.id}", action)
    for detector in script.detectors:
        yield Item("branch", f"{DETECTOR}{detector.id}", ACTED), detector.at
    for watcher in script.watchers:
        for action in walk(watcher.actions):
            yield from _action_items(f"{_beside(watcher.id)}/{action.id}", action)


def _beside(watcher: str) -> str:
    """What begins the names of what a detector, or `on_budget`, does."""
    return ON_BUDGET.lstrip(":") if watcher == ON_BUDGET else f"{DETECTOR}{watcher}"


def _action_items(name: str, action: Action) -> Iterator[tuple[Item, Location]]:
    yield Item("action", name), action.at
    yield from _conditions(name, action)
    match action:
        case If(then=then, otherwise=otherwise) if then or otherwise:
            yield Item("branch", name, "then"), then[0].at if then else action.at
            yield Item("branch", name, "else"), otherwise[0].at if otherwise else action.at
        case Experiment():
            for arm, inner in action.arms.items():
                yield Item("branch", name, arm), inner[0].at if inner else action.mark("arms")
        case Choose():
            for choice in action.choices:
                yield Item("branch", name, choice.key), choice.at
        case _:
            pass
    if isinstance(action, Ask | AiAsk | Choose | Form) and action.on_fail.policy in LEADS_AWAY:
        yield Item("branch", name, ON_FAIL), action.mark("on_fail")
    for key, policy in policies(action).items():
        if policy.then.policy != "continue":
            yield Item("branch", name, key), action.mark(key)


def _conditions(name: str, node: Phase | Topic | Action) -> Iterator[tuple[Item, Location]]:
    if node.when is not None:
        yield Item("condition", name, HELD), node.mark("when")
        yield Item("condition", name, NOT_HELD), node.mark("when")


# -- what was reached -------------------------------------------------------------------------------------------------


class _Tracker:
    """Follows the events of one session. `_fork` is the action whose next event tells which way it went."""

    def __init__(self, program: Program, detector: str = "", met: dict[str, str] | None = None) -> None:
        self._program = program
        self._met = {} if met is None else met  # by experiment, the arm the session met it in
        self._detector = detector  # whose actions are followed; none: those of the session
        self._beside: dict[str, _Tracker] = {}  # of what detectors do meanwhile, by their ids
        self._phase = ""
        self._topic = ""
        self._skill = ""
        self._interrupt = ""
        self._wait: Wait | None = None
        self._locale = program.locale
        self._fork: Action | None = None
        self._picked: str | None = None  # the choice that a reply to a `choose` means
        self._left: Item | None = None  # the branch that was taken if the question just left leads away
        self._given_up = ""  # the question that a policy ended, just before it is left
        self._leaving = False  # whether actions are being left, of which only the first counts

    def follow(self, session: Iterable[Turn]) -> Iterator[Item]:
        for turn in session:
            self._locale = turn.state.locale
            for event in turn.events:
                yield from self.see(event.body)
            self._wait = turn.state.wait
            call = turn.state.call()  # what waits may not be where something happened last
            self._skill, self._interrupt = (call.skill, call.interrupt) if call is not None else ("", "")

    @property
    def _home(self) -> tuple[str, str]:
        """Where the actions at hand stand, as `State.home` has it."""
        if self._detector:
            return DETECTORS, self._detector
        if self._interrupt:
            return INTERRUPTS, self._interrupt
        return ("", self._skill) if self._skill else (self._phase, self._topic)

    def see(self, body: Body) -> Iterator[Item]:
        """What an event reaches."""
        if isinstance(body, ActionEntered | ActionSkipped | ActionLeft):
            if body.detector != self._detector:
                beside = self._beside.setdefault(body.detector, _Tracker(self._program, body.detector, self._met))
                yield from beside.see(body)
                return
            self._skill, self._interrupt = body.skill, body.interrupt
        self._leaving = self._leaving and isinstance(body, ActionLeft | ScopeLeft | Jumped | Ended)
        match body:
            case ScopeEntered() if body.scope == "phase":
                self._phase = body.id
                yield Item("phase", body.id)
                yield Item("condition", body.id, HELD)
            case ScopeEntered():
                self._topic = body.id
                yield Item("topic", self._name())
                yield Item("condition", self._name(), HELD)
            case ScopeSkipped():
                name = body.id if body.scope == "phase" else f"{self._phase}/{body.id}"
                yield Item("condition", name, NOT_HELD)
            case Message(role="user"):
                self._hear(body)
            case ActionEntered():
                yield from self._way(body.action_id, left=False)
                yield Item("action", self._name(body.action_id))
                yield Item("condition", self._name(body.action_id), HELD)
                action = self._program.action(*self._home, body.action_id)
                self._fork = action if isinstance(action, If | Experiment) else None
            case Exposed():
                self._met[body.experiment] = body.arm
            case ActionSkipped():
                yield from self._way(body.action_id, left=False)
                yield Item("condition", self._name(body.action_id), NOT_HELD)
            case ActionLeft():
                yield from self._way(body.action_id, left=True)
                if not self._leaving:
                    self._left, self._leaving = self._failing(body), True
            case Jumped() | Ended() if self._leaving and self._left is not None:
                if isinstance(body, Jumped) or body.reason:  # else the script just came to its end
                    yield self._left
            case Exited() if body.source in get_args(PolicyKey):
                yield Item("branch", self._name(body.action_id), body.source)
                self._given_up = body.action_id
            case Interrupted():
                yield Item("branch", f"{INTERRUPT}{body.interrupt}", CAME_UP)
            case Detected():
                yield Item("branch", f"{DETECTOR}{body.detector}", ACTED)
            case _:
                pass

    def _failing(self, body: ActionLeft) -> Item | None:
        """The branch that a question takes which is left with all its rounds used up, if what follows leads away."""
        action = self._program.action(*self._home, body.action_id)
        used_up = isinstance(action, Ask | AiAsk | Choose | Form) and body.rounds >= rounds_of(action)
        given_up, self._given_up = self._given_up == body.action_id, ""
        return Item("branch", self._name(body.action_id), ON_FAIL) if used_up and not given_up else None

    def _hear(self, message: Message) -> None:
        """Notes what a reply to a `choose` picks, as the action itself will see it."""
        action = self._program.action(*self._home, message.action_id)
        if not isinstance(action, Choose) or self._wait is None:
            return
        pressed = message.metadata.get("choice")
        offered: tuple[Choice, ...] = self._wait.choices
        self._picked = str(pressed) if pressed is not None else match_choice(message.content, offered, self._locale)
        self._fork = action

    def _way(self, action_id: str, *, left: bool) -> Iterator[Item]:
        """Which way the last fork went, seen from the first thing that happened after it."""
        fork, self._fork = self._fork, None
        if fork is None:
            return
        name = self._name(fork.id)
        inner = {arm: actions[0].id for arm, actions in arms(fork).items() if actions}
        if isinstance(fork, Experiment):
            yield from (Item("branch", name, arm) for arm in fork.arms if arm == self._met.get(fork.plan))
        elif isinstance(fork, Choose):
            follows = inner.get(self._picked or "", fork.id)
            if self._picked is not None and follows == action_id and left == (follows == fork.id):
                yield Item("branch", name, self._picked)
        elif left and action_id == fork.id:
            yield from (Item("branch", name, arm) for arm in ("then", "else") if arm not in inner)
        else:
            yield from (Item("branch", name, arm) for arm, first in inner.items() if first == action_id)

    def _name(self, action_id: str = "") -> str:
        if self._detector and action_id:
            return f"{_beside(self._detector)}/{action_id}"
        if self._skill and action_id:
            return f"{SKILL}{self._skill}/{action_id}"
        if self._interrupt and action_id:
            return f"{INTERRUPT}{self._interrupt}/{action_id}"
        return "/".join(part for part in (self._phase, self._topic, action_id) if part)
