"""Coverage of a script by conversations: phases, topics, actions, branches and conditions, computed from events.

A branch is an arm of an `if` (also an implicit `else`) or of an `experiment`, a choice of a `choose`, an `on_fail` that
has actions or leaves the topic (`goto`, `end`), an `on_blocked` or `on_off_topic` that gives up, an interrupt that is
triggered, or a detector that acts; a condition is a `when` that is true, or false. Not branches, because correct
scripts often cannot reach both sides: a `foreach` over an empty list, variants of a `say`, and an `on_fail` that only
continues.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from runtime.answers.choices import match_choice
from runtime.engine.engine import Turn
from runtime.state import events
from runtime.state.events import Body
from runtime.state.program import Program, answering_place
from runtime.state.state import Choice, Wait
from scripts.model.actions import (
    ON_FAIL,
    Action,
    Asking,
    Choose,
    Experiment,
    If,
    PolicyKey,
    arms,
    policies,
    rounds_of,
    walk,
)
from scripts.model.base import Location
from scripts.model.script import (
    BESIDE,
    DETECTORS,
    INTERRUPTS,
    ON_BUDGET,
    Detector,
    Interrupt,
    Path,
    Phase,
    Script,
    Skill,
    Topic,
    actions_of,
    nodes,
)

Kind: TypeAlias = Literal["phase", "topic", "action", "branch", "condition"]
KINDS: dict[Kind, str] = {
    "phase": "phases",
    "topic": "topics",
    "action": "actions",
    "branch": "branches",
    "condition": "conditions",
}
LEADS_AWAY = frozenset({"goto", "end"})
HELD, NOT_HELD = "when held", "when did not hold"
CAME_UP = "came up"
ACTED = "acted"


class Item(Struct, frozen=True):
    """A part of a script that a conversation can reach. `name` is its path of ids; `arm` is the branch."""

    kind: Kind
    name: str
    arm: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.arm})" if self.arm else self.name


class Count(Struct, frozen=True):
    """The number of items of a kind, and how many of them were reached."""

    covered: int
    total: int

    @property
    def percent(self) -> float:
        """Return the percentage; 100 if there are no items."""
        return 100.0 if self.total == 0 else round(100 * self.covered / self.total, 1)


class Coverage(Struct, frozen=True):
    """The items of a script with their locations, in the order of the file, and the reached ones."""

    items: dict[Item, Location]
    reached: frozenset[Item]

    def count(self, kind: Kind) -> Count:
        """Return the counts of a kind."""
        of_kind = [item for item in self.items if item.kind == kind]
        return Count(sum(item in self.reached for item in of_kind), len(of_kind))

    @property
    def missed(self) -> list[tuple[Item, Location]]:
        """Return the items that no conversation reached."""
        return [(item, at) for item, at in self.items.items() if item not in self.reached]


def items_reached(program: Program, session: Iterable[Turn]) -> frozenset[Item]:
    """Return the items that a session, passed as its turns, reached."""
    return frozenset(_Tracker(program).follow(session))


def cover(program: Program, reached: Iterable[frozenset[Item]]) -> Coverage:
    """Return the coverage of a script by several sessions."""
    items = dict(_items(program.script))
    return Coverage(items, frozenset().union(*reached) & items.keys())


# -- all items --------------------------------------------------------------------------------------------------------


def _items(script: Script) -> Iterator[tuple[Item, Location]]:
    for path, node in nodes(script):
        name = _node_name(path)
        match node:
            case Phase() | Topic():
                yield Item("topic" if isinstance(node, Topic) else "phase", name), node.at
                yield from _conditions(name, node)
            case Interrupt():
                yield Item("branch", name, CAME_UP), node.at
            case Detector():
                yield Item("branch", name, ACTED), node.at
            case Skill():
                pass
        for action in walk(actions_of(node)):
            yield from _action_items(f"{name}/{action.id}", action)
    for action in walk(script.on_budget):
        yield from _action_items(f"{_node_name((DETECTORS, ON_BUDGET))}/{action.id}", action)


def _node_name(path: Path) -> str:
    """Return the beginning of the names of items inside a node, whose path is as in `State.home`."""
    if path == (DETECTORS, ON_BUDGET):
        return ON_BUDGET.lstrip(":")
    return f"{BESIDE[path[0]]}:{path[1]}" if path[0] in BESIDE else "/".join(path)


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
            for choice in action.fixed:
                yield Item("branch", name, choice.key), choice.at
        case _:
            pass
    if isinstance(action, Asking) and (action.on_fail.actions or action.on_fail.then.policy in LEADS_AWAY):
        yield Item("branch", name, ON_FAIL), action.mark("on_fail")
    for key, policy in policies(action).items():
        if policy.then.policy != "continue":
            yield Item("branch", name, key), action.mark(key)


def _conditions(name: str, node: Phase | Topic | Action) -> Iterator[tuple[Item, Location]]:
    if node.when is not None:
        yield Item("condition", name, HELD), node.mark("when")
        yield Item("condition", name, NOT_HELD), node.mark("when")


def _questions_before_failure(script: Script) -> dict[Path, str]:
    """Return the question by the first action of its `on_fail`, whose home is as in `State.home`."""
    return {
        (*path, action.on_fail.actions[0].id): action.id
        for path, node in nodes(script)
        for action in walk(actions_of(node))
        if isinstance(action, Asking) and action.on_fail.actions
    }


# -- reached items ----------------------------------------------------------------------------------------------------


class _Tracker:
    """Follows the events of one session. `_fork` is the action whose next event shows the branch it took."""

    def __init__(self, program: Program, detector: str = "", met: dict[str, str] | None = None) -> None:
        self._program = program
        self._met = {} if met is None else met  # the session's arm by experiment
        self._detector = detector  # the detector whose actions are followed; empty: those of the session
        self._beside: dict[str, _Tracker] = {}  # trackers of detectors by id
        self._phase = ""
        self._topic = ""
        self._skill = ""
        self._interrupt = ""
        self._wait: Wait | None = None
        self._locale = program.locale
        self._fork: Action | None = None
        self._chosen: tuple[Choose, str] | None = None  # the `choose` that got a reply, and the choice that it selects
        self._left: Item | None = None  # the branch taken if the question just left leaves its topic
        self._given_up = ""  # the question that a policy ended, before it is left
        self._failed_before = _questions_before_failure(program.script)
        self._has_waited = False  # whether the current action has waited
        self._leaving = False  # whether several actions are being left; only the first counts

    def follow(self, session: Iterable[Turn]) -> Iterator[Item]:
        for turn in session:
            self._locale = turn.state.locale
            for event in turn.events:
                yield from self.see(event.body)
            self._wait = turn.state.wait
            call = turn.state.call()  # the waiting action may not be that of the last event
            self._skill, self._interrupt = (call.skill, call.interrupt) if call is not None else ("", "")

    @property
    def _home(self) -> tuple[str, str]:
        """Return the phase and topic of the current actions, as `State.home` does."""
        if self._detector:
            return DETECTORS, self._detector
        if self._interrupt in self._program.answering:
            return answering_place(self._interrupt)
        if self._interrupt:
            return INTERRUPTS, self._interrupt
        return ("", self._skill) if self._skill else (self._phase, self._topic)

    def see(self, body: Body) -> Iterator[Item]:
        """Yield the items that an event reaches."""
        if isinstance(body, events.ActionEntered | events.ActionSkipped | events.ActionLeft):
            if body.detector != self._detector:
                beside = self._beside.setdefault(body.detector, _Tracker(self._program, body.detector, self._met))
                yield from beside.see(body)
                return
            self._skill, self._interrupt = body.skill, body.interrupt
        self._leaving = self._leaving and isinstance(
            body, events.ActionLeft | events.ScopeLeft | events.Jumped | events.Ended
        )
        match body:
            case events.ScopeEntered() if body.scope == "phase":
                self._phase = body.id
                yield Item("phase", body.id)
                yield Item("condition", body.id, HELD)
            case events.ScopeEntered():
                self._topic = body.id
                yield Item("topic", self._name())
                yield Item("condition", self._name(), HELD)
            case events.ScopeSkipped():
                name = body.id if body.scope == "phase" else f"{self._phase}/{body.id}"
                yield Item("condition", name, NOT_HELD)
            case events.Message(role="user"):
                self._note_choice(body)
            case events.ActionEntered():
                yield from self._enter(body)
            case events.Waiting():
                self._has_waited = True
            case events.Exposed():
                self._met[body.experiment] = body.arm
            case events.ActionSkipped():
                yield from self._way(body.action_id, left=False)
                yield Item("condition", self._name(body.action_id), NOT_HELD)
            case events.ActionLeft():
                yield from self._way(body.action_id, left=True)
                if not self._leaving:
                    self._left, self._leaving = self._failing(body), True
            case events.Jumped() | events.Ended() if self._leaving and self._left is not None:
                if isinstance(body, events.Jumped) or body.reason:  # otherwise the script reached its end
                    yield self._left
            case events.Exited() if body.source in get_args(PolicyKey):
                yield Item("branch", self._name(body.action_id), body.source)
                self._given_up = body.action_id
            case events.Interrupted():
                yield Item("branch", _node_name((INTERRUPTS, body.interrupt)), CAME_UP)
            case events.VariableChanged() if self._chosen is not None and body.action_id == self._chosen[0].id:
                if body.name == self._chosen[0].variable and body.source == "user":
                    yield Item("branch", self._name(body.action_id), self._chosen[1])
            case events.Detected():
                yield Item("branch", _node_name((DETECTORS, body.detector)), ACTED)

    def _enter(self, body: events.ActionEntered) -> Iterator[Item]:
        """Yield what an action reaches when it begins: also its topic if that answers in a wait, without an event."""
        if self._interrupt in self._program.answering:
            phase, topic = self._home
            yield from (Item("phase", phase), Item("topic", f"{phase}/{topic}"))
            yield Item("condition", f"{phase}/{topic}", HELD)
        yield from self._way(body.action_id, left=False)
        yield Item("action", self._name(body.action_id))
        yield Item("condition", self._name(body.action_id), HELD)
        failed = self._failed_before.get((*self._home, body.action_id))
        if failed is not None:
            yield Item("branch", self._name(failed), ON_FAIL)
        self._has_waited = False
        action = self._program.action(*self._home, body.action_id)
        self._fork = action if isinstance(action, If | Experiment) else None

    def _failing(self, body: events.ActionLeft) -> Item | None:
        """Return the branch of a question that used up its rounds, if its `on_fail` leaves the topic."""
        action = self._program.action(*self._home, body.action_id)
        is_empty = isinstance(action, Choose) and not self._has_waited  # no choice was left
        used_up = is_empty or (isinstance(action, Asking) and body.rounds >= rounds_of(action))
        given_up, self._given_up = self._given_up == body.action_id, ""
        return Item("branch", self._name(body.action_id), ON_FAIL) if used_up and not given_up else None

    def _note_choice(self, message: events.Message) -> None:
        """Store the choice that a reply to a `choose` selects, by the rules of the action."""
        action = self._program.action(*self._home, message.action_id)
        self._chosen = None
        if not isinstance(action, Choose) or self._wait is None:
            return
        pressed = message.metadata.get("choice")
        offered: tuple[Choice, ...] = self._wait.choices
        picked = str(pressed) if pressed is not None else match_choice(message.content, offered, self._locale)
        self._chosen = (action, picked) if picked is not None else None

    def _way(self, action_id: str, *, left: bool) -> Iterator[Item]:
        """Yield the branch of the last fork, as the first event after it shows."""
        fork, self._fork = self._fork, None
        if fork is None:
            return
        name = self._name(fork.id)
        inner = {arm: actions[0].id for arm, actions in arms(fork).items() if actions}
        if isinstance(fork, Experiment):
            yield from (Item("branch", name, arm) for arm in fork.arms if arm == self._met.get(fork.plan))
        elif left and action_id == fork.id:
            yield from (Item("branch", name, arm) for arm in ("then", "else") if arm not in inner)
        else:
            yield from (Item("branch", name, arm) for arm, first in inner.items() if first == action_id)

    def _name(self, action_id: str = "") -> str:
        """Return the name of an action of the current actions, or else of the phase and topic."""
        path = self._home if action_id else (self._phase, self._topic)
        return "/".join(part for part in (_node_name(path), action_id) if part)
