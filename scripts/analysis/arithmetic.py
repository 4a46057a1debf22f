"""Answers without a type that the script counts with."""

from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct

from scripts.actions import Action, walk
from scripts.analysis.deeds import facts_in, questions_in, sources_of
from scripts.analysis.known import Level
from scripts.analysis.layout import Layout, Node, Spot
from scripts.analysis.sense import outputs_of
from scripts.diagnostics import Problems
from scripts.nodes import Expression, Template
from scripts.variables import Output, Records

_TEXTS = frozenset({"text", "choice", "date"})
_Cell: TypeAlias = tuple[Level, str, str]
"""A variable: its layer, what of the script it belongs to, and its name."""


class Counted(Struct, frozen=True):
    """An answer that is counted with; `line` is where."""

    spot: Spot
    output: Output
    line: int


def check_arithmetic(layout: Layout, problems: Problems) -> None:
    """Adds a problem for each answer that is a text, or may be one, and stands where only numbers work."""
    for each in counted_answers(layout):
        name, kind = each.output.get, _kind(layout, each)
        path = "/".join(each.spot).strip("/")
        if kind is None:
            message = f"`{name}` has no type, and line {each.line} counts with it; the answer is read as a number"
            problems.add("TYPE_MISSING", message, each.output.mark("get"), path=path)
        else:
            message = f"`{name}` is a {kind}, and line {each.line} counts with it"
            fix = "Write `type: number`, or count with another variable."
            problems.add("TYPE_CLASH", message, each.output.mark("get"), path=path, fix=fix)


def _kind(layout: Layout, counted: Counted) -> str | None:
    declared = layout.sight(_node(layout, counted.spot)).declaration(counted.output.get)
    return counted.output.kind or (declared.kind if declared is not None else None)


def counted_answers(layout: Layout) -> Iterator[Counted]:
    """The answers that are no numbers for certain, and are counted with where their variable can be read."""
    uses: dict[_Cell, int] = {}
    for node, source in _sources(layout):
        for name in facts_in(source).counted:
            uses.setdefault(_cell(layout, node, name), source.at.line)
    for node, actions in _owners(layout):
        for output in _answers(actions):
            line = uses.get(_cell(layout, node, output.get))
            counted = Counted(layout.spot(node), output, line or 0)
            if line is not None and _kind(layout, counted) in {None, *_TEXTS}:
                yield counted


def _answers(actions: tuple[Action, ...]) -> Iterator[Output]:
    for action in walk(actions):
        for item in outputs_of(action):
            if not isinstance(item, Records):
                yield from questions_in(item)


def _cell(layout: Layout, node: Node, name: str) -> _Cell:
    level, name = layout.sight(node).key(name)
    owner = {Level.TOPIC: "/".join(layout.spot(node)), Level.PHASE: layout.spot(node)[0]}.get(level, "")
    return level, owner, name


def _owners(layout: Layout) -> Iterator[tuple[Node, tuple[Action, ...]]]:
    for phase in layout.script.phases:
        for topic in phase.topics:
            yield layout.body((phase.id, topic.id)), topic.actions
    for node, skill in zip(layout.skills, layout.script.skills, strict=True):
        yield node, skill.actions


def _sources(layout: Layout) -> Iterator[tuple[Node, Template | Expression]]:
    for node, actions in _owners(layout):
        for action in walk(actions):
            yield from ((node, source) for source in sources_of(action))
    for phase in layout.script.phases:
        for topic in phase.topics:
            if topic.when is not None:
                yield layout.body((phase.id, topic.id)), topic.when


def _node(layout: Layout, spot: Spot) -> Node:
    skill = layout.skill_node(spot[1]) if not spot[0] else None
    return skill if skill is not None else layout.body(spot)
