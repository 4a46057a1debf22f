"""A script as the points that its paths run through: phases, topics and skills, what each sees and what follows it."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct

from scripts.actions import Action, walk
from scripts.analysis.deeds import Pick, Put, Run, deed_of
from scripts.analysis.known import ABSENT, VALUE, Key, Known, Level, Sight
from scripts.model import FormSheet, Phase, Script, Skill, Topic
from scripts.targets import resolve_target
from scripts.variables import Declaration

Spot: TypeAlias = tuple[str, str]
"""A place by its ids: phase and topic, or "" and a skill."""

_NOTHING: Mapping[str, Declaration] = {}
_SKILLS = -1  # where a phase's number would be


class Node(Struct, frozen=True, order=True):
    """A point, in the order of the script: step 0 comes before a phase (topic -1) or topic, step 1 is within it."""

    phase: int
    topic: int = -1
    step: int = 0


class Layout:
    """The points of one script."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._places = {
            (phase.id, topic.id): Node(p, t, 1)
            for p, phase in enumerate(script.phases)
            for t, topic in enumerate(phase.topics)
        }
        self._skills = {skill.id: Node(_SKILLS, number, 1) for number, skill in enumerate(script.skills)}
        self._sights: dict[Node, Sight] = {}
        # What a detector or `on_budget` sets and nobody declares is the session's, from whenever it acts.
        self._watched = {name for each in script.watchers for name in self._written(each.actions)}
        watched = tuple(Declaration(var=name) for name in sorted(self._watched))
        self._session = _by_name((*watched, *script.session_variables))
        self._globals = _by_name(script.global_variables)
        self.drawn: frozenset[Key] = frozenset(
            (Level.SESSION if plan.by == "session" else Level.GLOBAL, plan.id) for plan in script.experiments
        )
        self._otherwise = Level.SESSION if script.default_scope == "session" else Level.TOPIC
        self._writes = {skill.id: set(self._written(skill.actions)) for skill in script.skills}

    @property
    def first(self) -> Node:
        """Where a session begins."""
        return Node(0)

    @property
    def skills(self) -> tuple[Node, ...]:
        """The skills."""
        return tuple(self._skills.values())

    def skill_node(self, skill: str) -> Node | None:
        """A skill by its id."""
        return self._skills.get(skill)

    def skill(self, node: Node) -> Skill | None:
        """The skill at a point, None in a topic."""
        return self.script.skills[node.topic] if node.phase == _SKILLS else None

    def is_end(self, node: Node) -> bool:
        """Whether a point is past the last phase."""
        return node.phase >= len(self.script.phases)

    def is_phase(self, node: Node) -> bool:
        """Whether a point is before a phase."""
        return node.topic < 0

    def is_body(self, node: Node) -> bool:
        """Whether a point is within a topic or skill."""
        return node.topic >= 0 and node.step == 1

    def phase(self, node: Node) -> Phase:
        """The phase of a point."""
        return self.script.phases[node.phase]

    def topic(self, node: Node) -> Topic:
        """The topic of a point."""
        return self.phase(node).topics[node.topic]

    def body(self, place: Spot) -> Node:
        """The inside of a topic by its ids."""
        return self._places[place]

    def inside(self, node: Node) -> Node:
        """What a phase or topic that is entered begins with."""
        if not self.is_phase(node):
            return Node(node.phase, node.topic, 1)
        return Node(node.phase, 0) if self.phase(node).topics else Node(node.phase + 1)

    def past(self, node: Node) -> Node:
        """What follows a phase or topic that is not entered."""
        return Node(node.phase + 1) if self.is_phase(node) else self.after(node)

    def after(self, node: Node) -> Node:
        """What follows a topic."""
        is_last = node.topic + 1 >= len(self.phase(node).topics)
        return Node(node.phase + 1) if is_last else Node(node.phase, node.topic + 1)

    def spot(self, node: Node) -> Spot:
        """The ids of a point, as problems name them; what stands before a topic belongs to its phase."""
        skill = self.skill(node)
        if skill is not None:
            return "", skill.id
        return self.phase(node).id, self.topic(node).id if self.is_body(node) else ""

    def sight(self, node: Node) -> Sight:
        """Which variables a name means at a point."""
        if node not in self._sights:
            self._sights[node] = self._sight(node)
        return self._sights[node]

    def _sight(self, node: Node) -> Sight:
        skill = self.skill(node)
        if skill is not None:
            own = _by_name((*skill.params, *skill.declare))
            return Sight([(Level.TOPIC, own), (Level.GLOBAL, self._globals)], Level.TOPIC)
        in_phase = not self.is_end(node) and not self.is_phase(node)
        phase = _by_name(self.phase(node).declare) if in_phase else _NOTHING
        topic = _by_name(self.topic(node).declare) if in_phase and self.is_body(node) else _NOTHING
        outer = [(Level.SESSION, self._session), (Level.GLOBAL, self._globals)]
        return Sight([(Level.TOPIC, topic), (Level.PHASE, phase), *outer], self._otherwise)

    def at_start(self) -> Known:
        """What is known before the first phase.

        What no action writes comes from the application. A global variable may have been written in a session before.
        """
        written = {
            name for phase in self.script.phases for topic in phase.topics for name in self._written(topic.actions)
        }
        written |= {name for names in self._writes.values() for name in names} | self.at_any_time
        known = Known()
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
        """The names that may change at every wait: what interrupts write, and what is kept up to date meanwhile."""
        script = self.script
        declared = [script.declare, *(phase.declare for phase in script.phases)]
        declared += [topic.declare for phase in script.phases for topic in phase.topics]
        names = {each.var for some in declared for each in some if each.auto}
        names |= {name for interrupt in script.interrupts for name in self._written(interrupt.actions)}
        return frozenset(names)

    def led_by_interrupts(self) -> list[Node]:
        """The topics that interrupts and repairs lead to, from wherever the conversation is."""
        script = self.script
        targets = [each.then.target for each in script.interrupts]
        targets += [each.then.target for each in script.repairs if each.then is not None]
        for interrupt in script.interrupts:
            leaves = (leave for action in walk(interrupt.actions) for leave in deed_of(action).leaves)
            targets += [leave.target for leave in leaves if leave.target is not None]
        found = {resolve_target(script, target, phase.id) for target in targets for phase in script.phases}
        return sorted(self.body(place) for place in found if place is not None)

    def _written(self, actions: tuple[Action, ...]) -> set[str]:
        return set(names_written(actions, self.script.forms))

    def globals_written(self, skill: str) -> frozenset[str]:
        """The global variables that a skill, or one it calls, writes."""
        found: set[str] = set()
        reached, open_ids = {skill}, [skill]
        while open_ids:
            node = self._skills.get(open_ids.pop())
            called = self.skill(node) if node is not None else None
            if called is None:
                continue
            found |= {name for name in self._writes[called.id] if self.sight(self._skills[called.id]).key(name)[0] == 3}
            further = {
                run.call.skill for action in walk(called.actions) if isinstance(run := deed_of(action).body, Run)
            }
            open_ids += further - reached
            reached |= further
        return frozenset(found)


def names_written(actions: tuple[Action, ...], sheets: tuple[FormSheet, ...] = ()) -> Iterable[str]:
    """Every name that a list of actions writes, with those inside it; `sheets` are the script's forms."""
    for action in walk(actions):
        deed = deed_of(action, sheets)
        yield from (step.name for step in deed.steps if isinstance(step, Put))
        match deed.body:
            case Pick() as pick:
                yield pick.put.name
            case Run() as run:
                yield from run.call.assigned
            case _:
                pass


def _by_name(declared: Iterable[Declaration]) -> Mapping[str, Declaration]:
    return {each.var: each for each in declared}
