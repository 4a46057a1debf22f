"""A script as a graph: phases, topics with their actions, and the ways from one topic to another.

Skills, interrupts and detectors stand beside the phases, each kind in a column of its own: a call leads to its skill,
an interrupt to where the conversation goes on after it, a detector to the interrupts that it sets off.

What stands inside a topic stays a list: an author sees there what happens, and between topics what leads where.
"""

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias, assert_never

from msgspec import Struct, structs

from scripts.actions import (
    Action,
    AiAsk,
    AiSay,
    AiThink,
    Ask,
    Call,
    Chat,
    Choose,
    Emit,
    End,
    Experiment,
    Foreach,
    Form,
    Goto,
    If,
    OnFail,
    Onward,
    Recall,
    Remember,
    Repeat,
    Say,
    Scene,
    Set,
    Show,
    UserSay,
    action_type,
    arms,
    policies,
)
from scripts.model import Detector, Interrupt, Phase, Script, Skill, Topic
from scripts.nodes import Expression
from scripts.targets import resolve_target

START = ":start"  # no id of a script holds a colon
END = ":end"
SKILLS = ":skills"
INTERRUPTS = ":interrupts"
DETECTORS = ":detectors"

EdgeKind: TypeAlias = Literal["order", "goto", "on_fail", "on_blocked", "on_off_topic", "end", "call", "detect"]
FAILING: frozenset[EdgeKind] = frozenset({"on_fail", "on_blocked", "on_off_topic"})


class ActionItem(Struct, frozen=True, kw_only=True, rename="camel"):
    """One action of a topic, in the order written; one inside another is deeper and names the arm it stands in."""

    id: str
    type: str
    depth: int = 0
    arm: str = ""
    when: str = ""
    detail: str = ""  # what its verb says: a text, a condition, a target
    on_fail: str = ""  # as an author writes it, where it leads away from the topic
    on_blocked: str = ""  # the same
    on_off_topic: str = ""


class StartNode(Struct, frozen=True, tag_field="kind", tag="start"):
    """Where a session begins."""

    id: str = START


class EndNode(Struct, frozen=True, tag_field="kind", tag="end"):
    """Where a session is completed."""

    id: str = END


class PhaseNode(Struct, frozen=True, kw_only=True, tag_field="kind", tag="phase"):
    """A phase, or what stands beside the phases: all skills, interrupts or detectors. Its topics name it."""

    id: str
    title: str = ""
    goal: str = ""
    when: str = ""

    @property
    def name(self) -> str:
        """What an author calls it."""
        return self.id.lstrip(":")

    @property
    def is_beside(self) -> bool:
        """Whether it is none of the script's phases."""
        return self.id.startswith(":")


class TopicNode(Struct, frozen=True, kw_only=True, tag_field="kind", tag="topic"):
    """A topic; its id is ``phase/topic``. A skill, an interrupt or a detector looks the same."""

    id: str
    phase: str
    topic: str
    title: str = ""
    goal: str = ""
    when: str = ""
    actions: tuple[ActionItem, ...] = ()


GraphNode: TypeAlias = StartNode | PhaseNode | TopicNode | EndNode


class Edge(Struct, frozen=True):
    """A way between topics: in `order`, or by the action that takes it, when all of `when` hold."""

    source: str
    target: str
    kind: EdgeKind
    action: str = ""
    when: tuple[str, ...] = ()  # the nearest to the action first

    @property
    def label(self) -> str:
        """What an author reads along the edge; nothing for the plain order."""
        if self.kind == "order":
            return ""
        has_condition = self.when and self.kind not in FAILING  # there, where it leads from says enough
        return f"{self.kind} when {' and '.join(self.when)}" if has_condition else self.kind


class Graph(Struct, frozen=True):
    """The whole script; edges name nodes by id."""

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


class _Step(Struct, frozen=True):
    """An action with what has to hold for it to be reached within its topic, the nearest first."""

    action: Action
    depth: int
    arm: str
    when: tuple[str, ...]


def build_graph(script: Script) -> Graph:
    """The graph of a checked script."""
    nodes: list[GraphNode] = [StartNode()]
    jumps: list[Edge] = []
    for phase in script.phases:
        nodes.append(PhaseNode(id=phase.id, title=phase.title, goal=phase.goal, when=_source(phase.when)))
        for topic in phase.topics:
            steps = list(_steps(topic.actions))
            nodes.append(_topic_node(phase, topic, steps))
            jumps += [edge for step in steps for edge in _jumps(script, phase.id, _topic_id(phase, topic), step)]
    nodes += [*_beside(SKILLS, script.skills), *_beside(INTERRUPTS, script.interrupts)]
    nodes += _beside(DETECTORS, script.watchers)
    beside = {f"{SKILLS}/{each.id}": each.actions for each in script.skills}
    beside |= {f"{INTERRUPTS}/{each.id}": each.actions for each in script.interrupts}
    beside |= {f"{DETECTORS}/{each.id}": each.actions for each in script.watchers}
    for here, actions in beside.items():
        jumps += [edge for step in _steps(actions) for edge in _jumps(script, "", here, step)]
    jumps += [edge for interrupt in script.interrupts for edge in _afterwards(script, interrupt)]
    jumps += [
        Edge(f"{DETECTORS}/{detector.id}", f"{INTERRUPTS}/{interrupt.id}", "detect", detector.id)
        for detector in script.detectors
        for interrupt in script.interrupts
        if interrupt.on.detector == detector.id
    ]
    return Graph(script.id, script.title, (*nodes, EndNode()), (*_order(script), *jumps))


def _beside(group: str, owners: Sequence[Skill | Interrupt | Detector]) -> Iterator[GraphNode]:
    """What stands beside the phases, where there is any."""
    if owners:
        yield PhaseNode(id=group)
    for owner in owners:
        actions = tuple(_item(step) for step in _steps(owner.actions))
        node = TopicNode(id=f"{group}/{owner.id}", phase=group, topic=owner.id.lstrip(":"), actions=actions)
        if isinstance(owner, Skill):
            yield structs.replace(node, title=owner.title, goal=owner.goal)
        else:
            yield structs.replace(node, title=_listens(owner), when=_source(owner.when))


def _listens(owner: Interrupt | Detector) -> str:
    """What an interrupt or a detector listens for, on one line."""
    if isinstance(owner, Interrupt):
        trigger = owner.on
        return ", ".join(filter(None, (*trigger.keywords, trigger.intent, trigger.detector)))
    words = [word for rule in owner.rules for word in rule.words]
    seen = [*words, *(each.name for each in owner.measures), *(each.id for each in owner.patterns)]
    return owner.title or ", ".join(filter(None, (*seen, " ".join(owner.define.split()))))


def _afterwards(script: Script, interrupt: Interrupt) -> Iterator[Edge]:
    """Where an interrupt leads away to."""
    here, then = f"{INTERRUPTS}/{interrupt.id}", interrupt.then
    if then.policy == "end":
        yield Edge(here, END, "end", interrupt.id)
    if then.policy == "goto" and (target := resolve_target(script, then.target, "")) is not None:
        yield Edge(here, "/".join(target), "goto", interrupt.id)


def _topic_id(phase: Phase, topic: Topic) -> str:
    return f"{phase.id}/{topic.id}"


def _topic_node(phase: Phase, topic: Topic, steps: Sequence[_Step]) -> TopicNode:
    return TopicNode(
        id=_topic_id(phase, topic),
        phase=phase.id,
        topic=topic.id,
        title=topic.title,
        goal=topic.goal,
        when=_source(topic.when),
        actions=tuple(_item(step) for step in steps),
    )


def _source(expression: Expression | None) -> str:
    return " ".join(expression.source.split()) if expression is not None else ""


def _steps(actions: Sequence[Action], depth: int = 0, arm: str = "", when: tuple[str, ...] = ()) -> Iterator[_Step]:
    """Every action of a topic with those inside it, in the order written."""
    for action in actions:
        holds = (_source(action.when), *when) if action.when is not None else when
        yield _Step(action, depth, arm, holds)
        for name, inner in arms(action).items():
            yield from _steps(inner, depth + 1, name, (*_arm_condition(action, name), *holds))


def _arm_condition(action: Action, arm: str) -> tuple[str, ...]:
    match action:
        case If():
            condition = _source(action.condition)
            return (condition if arm == "then" else f"not ({condition})",)
        case Choose():
            return (f"{action.variable} is {arm}",)
        case Experiment():
            return (f"{action.plan} is {arm}",)
        case _:
            return ()


def _item(step: _Step) -> ActionItem:
    action = step.action
    away = {kind: f"{then.policy} {then.target}".rstrip() for kind, then in _led_away(action)}
    return ActionItem(
        id=action.id,
        type=action_type(action),
        depth=step.depth,
        arm=step.arm,
        when=_source(action.when),
        detail=" ".join(_detail(action).split()),
        on_fail=away.get("on_fail", ""),
        on_blocked=away.get("on_blocked", ""),
        on_off_topic=away.get("on_off_topic", ""),
    )


def _detail(action: Action) -> str:
    match action:
        case Say():
            return " | ".join(text.source for text in action.texts)
        case AiSay() | AiAsk() | AiThink() | Chat():
            return action.task.source
        case Ask():
            return action.question.source
        case Set():
            return ", ".join(f"{name} = {value.source}" for name, value in action.assignments.items())
        case Choose():
            return f"{action.variable}: {', '.join(choice.key for choice in action.choices)}"
        case UserSay():
            return action.text.source
        case Show():
            shown = action.media.caption or action.media.image or action.media.url
            return shown.source if shown is not None else ""
        case If():
            return action.condition.source
        case Experiment():
            return action.plan
        case Foreach():
            return f"{action.loop.items.source} as {action.loop.name}"
        case Repeat():
            until = action.until.until
            return f"until {until.source}" if until is not None else f"{action.until.max} times"
        case Call():
            return action.skill
        case Emit():
            return action.signal.event
        case Remember():
            return action.text.source
        case Recall():
            return f"{action.into}: {action.query.source}"
        case Form():
            return action.sheet
        case Scene():
            return ", ".join(filter(None, (action.speakers.ai, action.speakers.human)))
        case Goto():
            return action.target
        case End():
            return action.reason or ""
        case _:
            assert_never(action)


def _led_away(action: Action) -> Iterator[tuple[EdgeKind, OnFail | Onward]]:
    """What leads away from an action that got no answer."""
    found: list[tuple[EdgeKind, OnFail | Onward]] = [(key, each.then) for key, each in policies(action).items()]
    if isinstance(action, Ask | AiAsk | Choose | Form):
        found = [("on_fail", action.on_fail), *found]
    yield from ((kind, then) for kind, then in found if then.policy in {"goto", "end"})


def _jumps(script: Script, phase: str, here: str, step: _Step) -> Iterator[Edge]:
    """The edges that one action makes."""
    action = step.action
    if isinstance(action, Call) and any(skill.id == action.skill for skill in script.skills):
        yield Edge(here, f"{SKILLS}/{action.skill}", "call", action.id, step.when)
    if isinstance(action, End):
        yield Edge(here, END, "end", action.id, step.when)
    if isinstance(action, Goto) and (target := resolve_target(script, action.target, phase)) is not None:
        yield Edge(here, "/".join(target), "goto", action.id, step.when)
    for kind, then in _led_away(action):
        if then.policy == "end":
            yield Edge(here, END, kind, action.id, step.when)
        elif (found := resolve_target(script, then.target, phase)) is not None:
            yield Edge(here, "/".join(found), kind, action.id, step.when)


def _order(script: Script) -> Iterator[Edge]:
    """The ways in order: from each topic that can reach its end to the one that follows.

    A topic with a condition is passed through, whether it is entered or not. Only where nothing goes on from it
    (it jumps away or ends) does an edge lead past it.
    """
    reached = [START]
    for phase in script.phases:
        before = reached
        for topic in phase.topics:
            here, is_entered = _topic_id(phase, topic), not _is_never(topic.when)
            if is_entered:
                yield from (Edge(source, here, "order") for source in reached)
            goes_on = _goes_on(topic.actions)
            is_passed_by = topic.when is not None and not (goes_on and is_entered)
            reached = [*(reached if is_passed_by else []), *([here] if goes_on else [])]
        if phase.when is not None and not reached:
            reached = before
    yield from (Edge(source, END, "order") for source in reached)


def _is_never(when: Expression | None) -> bool:
    """Whether a condition is written as false: the topic is there for jumps alone."""
    return _source(when).casefold() == "false"


def _goes_on(actions: Sequence[Action]) -> bool:
    """Whether what follows a list of actions can be reached through it."""
    return all(action.when is not None or _passes(action) for action in actions)


def _passes(action: Action) -> bool:
    match action:
        case Goto() | End():
            return False
        case If():
            return _goes_on(action.then) or _goes_on(action.otherwise)
        case Experiment():
            return not action.arms or any(_goes_on(inner) for inner in action.arms.values())
        case Repeat():
            return _goes_on(action.do)
        case Choose() if action.on_fail.policy in {"goto", "end"}:
            return any(_goes_on(choice.actions) for choice in action.choices)
        case _:
            return True
