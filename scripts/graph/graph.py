"""Build the graph of a script: phases, topics with their actions, and the edges between topics.

Skills, interrupts and detectors are beside the phases, each kind in a separate column: a call leads to its skill, an
interrupt to where the conversation continues after it, a detector to the interrupts that it triggers.

The actions of a topic stay a list: the nodes show what happens, and the edges show what leads where.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from scripts.checks.effects import Leave, LeaveKind, effect_of, with_shared_expiry
from scripts.checks.reachability import goes_on
from scripts.model import actions
from scripts.model.actions import Action, action_type, arms, key_field
from scripts.model.base import NOWHERE, Expression, Location, Template
from scripts.model.moments import Moment
from scripts.model.script import (
    DETECTORS,
    INTERRUPTS,
    Detector,
    Interrupt,
    Script,
    Skill,
    Topic,
    TopicIds,
    innermost_expiry,
    resolve_target,
    topic_ids,
)

START = ":start"  # no id of a script contains a colon
END = ":end"
SKILLS = ":skills"

EdgeKind: TypeAlias = LeaveKind | Literal["order", "call", "detect"]
FAILING: tuple[EdgeKind, ...] = ("on_fail", "on_blocked", "on_off_topic", "expire")


class ActionItem(Struct, frozen=True, kw_only=True, rename="camel"):
    """An action of a topic, in the order written; an inner action is deeper and names its arm."""

    id: str
    type: str
    depth: int = 0
    arm: str = ""
    when: str = ""
    detail: str = ""  # the value of its key: a text, a condition, a target
    on_fail: str = ""  # as written, if it leads out of the topic
    on_blocked: str = ""  # the same
    on_off_topic: str = ""
    expire: str = ""
    at: Location = NOWHERE


class StartNode(Struct, frozen=True, tag_field="kind", tag="start"):
    """The start of a session."""

    id: str = START


class EndNode(Struct, frozen=True, tag_field="kind", tag="end"):
    """The end of a session."""

    id: str = END


class PhaseNode(Struct, frozen=True, kw_only=True, tag_field="kind", tag="phase"):
    """A phase, or a group beside the phases: all skills, interrupts or detectors. Its topics refer to it."""

    id: str
    title: str = ""
    goal: str = ""
    when: str = ""
    at: Location = NOWHERE

    @property
    def name(self) -> str:
        """The name for authors."""
        return self.id.lstrip(":")

    @property
    def is_beside(self) -> bool:
        """Whether it is a group, not a phase of the script."""
        return self.id.startswith(":")


class TopicNode(Struct, frozen=True, kw_only=True, tag_field="kind", tag="topic"):
    """A topic; its id is ``phase/topic``. Skills, interrupts and detectors are represented as topics too."""

    id: str
    phase: str
    topic: str
    title: str = ""
    goal: str = ""
    when: str = ""
    actions: tuple[ActionItem, ...] = ()
    at: Location = NOWHERE


GraphNode: TypeAlias = StartNode | PhaseNode | TopicNode | EndNode


class Edge(Struct, frozen=True):
    """An edge between topics: in `order`, or by the action that jumps, if all conditions of `when` are true."""

    source: str
    target: str
    kind: EdgeKind
    action: str = ""
    when: tuple[str, ...] = ()  # innermost first

    @property
    def label(self) -> str:
        """The label of the edge; empty for the plain order."""
        if self.kind == "order":
            return ""
        has_condition = self.when and self.kind not in FAILING  # there, the source node is sufficient
        return f"{self.kind} when {' and '.join(self.when)}" if has_condition else self.kind


class Graph(Struct, frozen=True):
    """The graph of a script; edges refer to nodes by id."""

    script: str
    title: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[Edge, ...]

    @property
    def phases(self) -> tuple[PhaseNode, ...]:
        """The phases in order."""
        return tuple(node for node in self.nodes if isinstance(node, PhaseNode))

    @property
    def topics(self) -> tuple[TopicNode, ...]:
        """The topics in order."""
        return tuple(node for node in self.nodes if isinstance(node, TopicNode))


_Owner: TypeAlias = Topic | Skill | Interrupt | Detector


class _Step(Struct, frozen=True):
    """An action with the conditions for reaching it within its topic, innermost first."""

    action: Action
    depth: int
    arm: str
    when: tuple[str, ...]
    leaves: tuple[Leave, ...]


def build_graph(script: Script) -> Graph:
    """Return the graph of a checked script."""
    nodes: list[GraphNode] = [StartNode()]
    jumps: list[Edge] = []
    ids = topic_ids(script)

    def add(group: str, owner: _Owner, shared: actions.Expiry | None) -> None:
        steps = list(_steps(owner.actions, shared))
        nodes.append(_topic_node(group, owner, steps))
        jumps.extend(edge for step in steps for edge in _jumps(script, ids, group, step, f"{group}/{owner.id}"))

    for phase in script.phases:
        nodes.append(PhaseNode(id=phase.id, title=phase.title, goal=phase.goal, when=_source(phase.when), at=phase.at))
        for topic in phase.topics:
            add(phase.id, topic, innermost_expiry(topic, phase, script))
    groups = ((SKILLS, script.skills), (INTERRUPTS, script.interrupts), (DETECTORS, script.watchers))
    for group, owners in groups:
        if owners:
            nodes.append(PhaseNode(id=group))
        for owner in owners:
            add(group, owner, script.expire if group == SKILLS else None)
    jumps += [edge for interrupt in script.interrupts for edge in _afterwards(ids, interrupt)]
    jumps += [
        Edge(f"{DETECTORS}/{detector.id}", f"{INTERRUPTS}/{interrupt.id}", "detect", detector.id)
        for detector in script.detectors
        for interrupt in script.interrupts
        if interrupt.on.detector == detector.id
    ]
    return Graph(script.id, script.title, (*nodes, EndNode()), (*_order(script), *jumps))


def _topic_node(group: str, owner: _Owner, steps: Sequence[_Step]) -> TopicNode:
    """Return a topic, or what is beside the phases as one."""
    actions = tuple(map(_item, steps))
    node = TopicNode(id=f"{group}/{owner.id}", phase=group, topic=owner.id.lstrip(":"), actions=actions, at=owner.at)
    if isinstance(owner, Skill):
        return structs.replace(node, title=owner.title, goal=owner.goal)
    if isinstance(owner, Topic):
        return structs.replace(node, title=owner.title, goal=owner.goal, when=_source(owner.when))
    return structs.replace(node, title=_listens(owner), when=_source(owner.when))


def _listens(owner: Interrupt | Detector) -> str:
    """Return the trigger of an interrupt or a detector on one line."""
    if isinstance(owner, Interrupt):
        trigger = owner.on
        return ", ".join(filter(None, (*trigger.keywords, trigger.intent, trigger.detector)))
    words = [word for rule in owner.rules for word in rule.words]
    seen = [*words, *(each.name for each in owner.measures), *(each.id for each in owner.patterns)]
    return owner.title or ", ".join(filter(None, (*seen, " ".join(owner.define.split()))))


def _afterwards(ids: TopicIds, interrupt: Interrupt) -> Iterator[Edge]:
    """Yield the target of an interrupt."""
    here, then = f"{INTERRUPTS}/{interrupt.id}", interrupt.then
    if then.policy == "end":
        yield Edge(here, END, "end", interrupt.id)
    if then.policy == "goto" and (target := resolve_target(ids, then.target, "")) is not None:
        yield Edge(here, "/".join(target), "goto", interrupt.id)


def _source(expression: Expression | None) -> str:
    return " ".join(expression.source.split()) if expression is not None else ""


def _steps(
    actions: Sequence[Action], shared: actions.Expiry | None, depth: int = 0, arm: str = "", when: tuple[str, ...] = ()
) -> Iterator[_Step]:
    """Yield every action of a topic and its inner actions, in the order written.

    `shared` is the expiry of questions without their own.
    """
    for action in actions:
        holds = (_source(action.when), *when) if action.when is not None else when
        leaves = with_shared_expiry(action, effect_of(action), shared).leaves
        yield _Step(action, depth, arm, holds, leaves)
        for name, inner in arms(action).items():
            yield from _steps(inner, shared, depth + 1, name, (*_arm_condition(action, name), *holds))


def _arm_condition(action: Action, arm: str) -> tuple[str, ...]:
    match action:
        case actions.If():
            condition = _source(action.condition)
            return (condition if arm == "then" else f"not ({condition})",)
        case actions.Choose():
            return (f"{action.variable} is {arm}",)
        case actions.Experiment():
            return (f"{action.plan} is {arm}",)
        case _:
            return ()


def _item(step: _Step) -> ActionItem:
    action = step.action
    failing = [leave for leave in step.leaves if leave.kind in FAILING]
    away = {str(leave.kind): "end" if leave.target is None else f"goto {leave.target}" for leave in failing}
    return ActionItem(
        id=action.id,
        type=action_type(action),
        depth=step.depth,
        arm=step.arm,
        when=_source(action.when),
        detail=" ".join(_detail(action).split()),
        at=action.at,
        **away,
    )


def _detail(action: Action) -> str:
    match action:
        case actions.Choose():
            listed = [] if action.is_fixed else ["…"]
            return f"{action.variable}: {', '.join([*(choice.key for choice in action.fixed), *listed])}"
        case actions.Recall():
            return f"{action.into}: {action.query.source}"
        case actions.Repeat() if action.until.until is None:
            return f"{action.until.max} times"
        case actions.Repeat():
            return f"until {_one_line(action.until)}"
        case _:
            return _one_line(getattr(action, key_field(type(action)).name))


def _one_line(value: object) -> str:
    """Return the value of an action's key on one line."""
    match value:
        case Template() | Expression():
            return value.source
        case tuple():
            return " | ".join(map(_one_line, value))
        case Mapping():
            return ", ".join(f"{name} = {_one_line(each)}" for name, each in value.items())
        case actions.Media():
            return _one_line(value.caption or value.image or value.url)
        case actions.Until():
            return _one_line(value.until)
        case actions.Loop():
            return f"{value.items.source} as {value.name}"
        case actions.Signal():
            return value.event
        case actions.Ending():
            return ": ".join(filter(None, (value.outcome, value.reason)))
        case Moment():
            return value.text
        case actions.Speakers():
            return ", ".join(filter(None, (value.ai, value.human)))
        case _:
            return "" if value is None else str(value)


def _jumps(script: Script, ids: TopicIds, phase: str, step: _Step, here: str) -> Iterator[Edge]:
    """Yield the edges of an action; `phase` is no phase's id for what is beside the phases."""
    action = step.action
    if isinstance(action, actions.Call) and any(skill.id == action.skill for skill in script.skills):
        yield Edge(here, f"{SKILLS}/{action.skill}", "call", action.id, step.when)
    for leave in step.leaves:
        found = resolve_target(ids, leave.target, phase) if leave.target is not None else (END,)
        if found is not None:
            yield Edge(here, "/".join(found), leave.kind, action.id, step.when)


def _order(script: Script) -> Iterator[Edge]:
    """Yield the edges in order: from each topic whose end is reachable to the next topic.

    Edges lead through a topic with a condition, whether it is entered or not. Only if nothing continues from it
    (it jumps away or ends), an edge leads past it.
    """
    reached = [START]
    for phase in script.phases:
        before = reached
        for topic in phase.topics:
            here, is_entered = f"{phase.id}/{topic.id}", _source(topic.when).casefold() != "false"
            if is_entered:
                yield from (Edge(source, here, "order") for source in reached)
            is_left = goes_on(topic.actions)
            is_passed_by = topic.when is not None and not (is_left and is_entered)
            reached = [*(reached if is_passed_by else []), *([here] if is_left else [])]
        if phase.when is not None and not reached:
            reached = before
    yield from (Edge(source, END, "order") for source in reached)
