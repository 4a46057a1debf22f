"""The control flow graph of a script: points for phases, topics and skills, their scopes and their successors."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from msgspec import Struct

from scripts.checks.abstract_state import ABSENT, VALUE, AbstractState, Key, Level, Sight
from scripts.checks.effects import effect_of
from scripts.model.actions import Action, Expiry, Sleep, walk
from scripts.model.base import Expression, Template
from scripts.model.script import (
    FormDefinition,
    Phase,
    Script,
    Skill,
    Topic,
    all_actions,
    declarations_of,
    innermost_expiry,
    nodes,
    resolve_target,
    skills_called,
    topic_ids,
)
from scripts.model.variable_names import reads_below
from scripts.model.variables import Declaration, by_name

Spot: TypeAlias = tuple[str, str]
"""The ids of a place: phase and topic, or "" and a skill."""
Cell: TypeAlias = tuple[Level, str, str]
"""A variable: its layer, its owner in the script, and its name."""

_NOTHING: Mapping[str, Declaration] = {}
_SKILLS = -1  # in place of a phase's number


class Node(Struct, frozen=True, order=True):
    """A point, in the order of the script: step 0 is before a phase (topic -1) or topic, step 1 is inside it."""

    phase: int
    topic: int = -1
    step: int = 0


class ControlFlowGraph:
    """The points of a script and the edges between them."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.ids = topic_ids(script)
        self._places = {
            (phase.id, topic.id): Node(p, t, 1)
            for p, phase in enumerate(script.phases)
            for t, topic in enumerate(phase.topics)
        }
        self._skills = {skill.id: Node(_SKILLS, number, 1) for number, skill in enumerate(script.skills)}
        self._sights: dict[Node, Sight] = {}
        self._actions: dict[Node, tuple[Action, ...]] = {}
        self._sources: dict[Node, tuple[Template | Expression, ...]] = {}
        # Undeclared variables that a detector or `on_budget` sets have session scope, and it may act at any time.
        self._watched = {name for each in script.watchers for name in self._names_written(each.actions)}
        watched = tuple(Declaration(var=name) for name in sorted(self._watched))
        self._session = by_name((*watched, *script.session_variables))
        self._globals = by_name(script.global_variables)
        self.drawn: frozenset[Key] = frozenset(
            (Level.SESSION if plan.by == "session" else Level.GLOBAL, plan.id) for plan in script.experiments
        )
        self._otherwise = Level.SESSION if script.default_scope == "session" else Level.TOPIC
        self._writes = {skill.id: set(self._names_written(skill.actions)) for skill in script.skills}

    @property
    def first(self) -> Node:
        """Return the first point of a session."""
        return Node(0)

    @property
    def skills(self) -> tuple[Node, ...]:
        """The skills."""
        return tuple(self._skills.values())

    def skill_node(self, skill: str) -> Node | None:
        """Return the point of a skill."""
        return self._skills.get(skill)

    def skill(self, node: Node) -> Skill | None:
        """Return the skill at a point, None in a topic."""
        return self.script.skills[node.topic] if node.phase == _SKILLS else None

    def is_end(self, node: Node) -> bool:
        """Return whether a point is after the last phase."""
        return node.phase >= len(self.script.phases)

    def is_phase(self, node: Node) -> bool:
        """Return whether a point is before a phase."""
        return node.topic < 0

    def is_body(self, node: Node) -> bool:
        """Return whether a point is inside a topic or skill."""
        return node.topic >= 0 and node.step == 1

    def phase(self, node: Node) -> Phase:
        """Return the phase of a point."""
        return self.script.phases[node.phase]

    def topic(self, node: Node) -> Topic:
        """Return the topic of a point."""
        return self.phase(node).topics[node.topic]

    def shared_expiry(self, node: Node) -> Expiry | None:
        """Return the expiry of the questions at a point without their own; in a skill only the script's counts."""
        holders = () if self.skill(node) is not None else (self.topic(node), self.phase(node))
        return innermost_expiry(*holders, self.script)

    def body(self, place: Spot) -> Node:
        """Return the point inside a topic."""
        return self._places[place]

    def bodies(self) -> Iterator[tuple[Node, Topic | Skill]]:
        """Yield every topic and skill with the point inside it."""
        for node in (*self._places.values(), *self._skills.values()):
            yield node, self.skill(node) or self.topic(node)

    def placed_actions(self) -> Iterator[tuple[Node, Action]]:
        """Yield every action of the topics and skills with the point inside its topic or skill."""
        return ((node, action) for node, _ in self.bodies() for action in self.actions(node))

    def actions(self, node: Node) -> tuple[Action, ...]:
        """Return the actions of a topic or skill and those inside them, in the order written."""
        if node not in self._actions:
            self._actions[node] = tuple(walk((self.skill(node) or self.topic(node)).actions))
        return self._actions[node]

    def sources(self, node: Node) -> tuple[Template | Expression, ...]:
        """Return the texts and expressions of a topic or skill."""
        if node not in self._sources:
            self._sources[node] = tuple(reads_below(self.skill(node) or self.topic(node)))
        return self._sources[node]

    def inside(self, node: Node) -> Node:
        """Return the point after entering a phase or topic."""
        if not self.is_phase(node):
            return Node(node.phase, node.topic, 1)
        return Node(node.phase, 0) if self.phase(node).topics else Node(node.phase + 1)

    def past(self, node: Node) -> Node:
        """Return the point after a phase or topic that is skipped."""
        return Node(node.phase + 1) if self.is_phase(node) else self.after(node)

    def after(self, node: Node) -> Node:
        """Return the point after a topic."""
        is_last = node.topic + 1 >= len(self.phase(node).topics)
        return Node(node.phase + 1) if is_last else Node(node.phase, node.topic + 1)

    def spot(self, node: Node) -> Spot:
        """Return the ids of a point for messages; a point before a topic belongs to its phase."""
        skill = self.skill(node)
        if skill is not None:
            return "", skill.id
        return self.phase(node).id, self.topic(node).id if self.is_body(node) else ""

    def path(self, node: Node) -> str:
        """Return the path of a point for problems."""
        return "/".join(self.spot(node)).strip("/")

    def sight(self, node: Node) -> Sight:
        """Return the visible variables at a point."""
        if node not in self._sights:
            self._sights[node] = self._sight(node)
        return self._sights[node]

    def _sight(self, node: Node) -> Sight:
        skill = self.skill(node)
        if skill is not None:
            own = by_name((*skill.params, *skill.declare))
            return Sight([(Level.TOPIC, own), (Level.GLOBAL, self._globals)], Level.TOPIC)
        in_phase = not self.is_end(node) and not self.is_phase(node)
        phase = by_name(self.phase(node).declare) if in_phase else _NOTHING
        topic = by_name(self.topic(node).declare) if in_phase and self.is_body(node) else _NOTHING
        outer = [(Level.SESSION, self._session), (Level.GLOBAL, self._globals)]
        return Sight([(Level.TOPIC, topic), (Level.PHASE, phase), *outer], self._otherwise)

    def cell(self, node: Node, name: str) -> Cell:
        """Return the variable that a name refers to in a topic or skill."""
        level, name = self.sight(node).key(name)
        owner = {Level.TOPIC: "/".join(self.spot(node)), Level.PHASE: self.spot(node)[0]}.get(level, "")
        return level, owner, name

    def at_start(self) -> AbstractState:
        """Return the state before the first phase.

        The application sets what no action writes. An earlier session may have written a global variable.
        """
        written = self.at_any_time.union(*(self._names_written(body.actions) for _, body in self.bodies()))
        known = AbstractState()
        for each in self.script.globals:
            is_sure = each.value is not None or each.auto or each.var not in written
            known.set((Level.GLOBAL, each.var), VALUE if is_sure else ABSENT | VALUE, "no session has set it yet")
        for name in self._watched:
            known.set((Level.SESSION, name), VALUE)
        for each in self.script.declare:
            is_sure = each.value is not None or each.auto or each.var not in written
            known.set((Level.SESSION, each.var), VALUE if is_sure else ABSENT)
        return known

    @property
    def at_any_time(self) -> frozenset[str]:
        """The names that may change at every wait: writes of interrupts, and variables with `auto`."""
        inner = [declarations_of(node) for _, node in nodes(self.script) if isinstance(node, Phase | Topic)]
        names = {each.var for declared in (self.script.declare, *inner) for each in declared if each.auto}
        return frozenset(names.union(*(self._names_written(each.actions) for each in self.script.interrupts)))

    def interrupt_targets(self) -> list[Node]:
        """Return the topics that interrupts and repairs may jump to from any place."""
        script = self.script
        targets = [each.then.target for each in script.interrupts]
        targets += [each.then.target for each in script.repairs if each.then is not None]
        for interrupt in script.interrupts:
            leaves = (leave for action in walk(interrupt.actions) for leave in effect_of(action).leaves)
            targets += [leave.target for leave in leaves if leave.target is not None]
        return sorted(self.body(place) for place in self.places(targets))

    def answering_topics(self) -> list[Node]:
        """Return the topics that answer messages in waits."""
        targets = [each.on_message for each in all_actions(self.script) if isinstance(each, Sleep)]
        return sorted(self.body(place) for place in self.places(targets))

    def places(self, targets: Iterable[str]) -> set[Spot]:
        """Return the topics that targets lead to from any phase."""
        found = {resolve_target(self.ids, target, phase.id) for target in targets for phase in self.script.phases}
        return {place for place in found if place is not None}

    def _names_written(self, actions: tuple[Action, ...]) -> set[str]:
        return set(names_written(actions, self.script.forms))

    def globals_written(self, skill: Skill) -> frozenset[str]:
        """Return the global variables that a skill and the skills that it calls write."""
        called = {skill.id, *skills_called(self.script, skill.actions)} & self._skills.keys()
        written = ((self.sight(self._skills[each]), name) for each in called for name in self._writes[each])
        return frozenset(name for sight, name in written if sight.key(name)[0] is Level.GLOBAL)


def names_written(actions: tuple[Action, ...], sheets: tuple[FormDefinition, ...] = ()) -> Iterable[str]:
    """Return every name that a list of actions and the actions inside them write; `sheets` are the script's forms."""
    return (name for action in walk(actions) for name, _ in effect_of(action, sheets).written)
