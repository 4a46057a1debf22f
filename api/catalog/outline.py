"""The outline of a script for pages: its parts with their lines, and its picture."""

from api.schemas.scripts import Outline, OutlineItem, OutlineKind
from scripts.graph.graph import ActionItem, Graph, PhaseNode, TopicNode
from scripts.graph.svg import svg


def outline(graph: Graph) -> Outline:
    """Return the phases, topics and actions of a graph in their order, and its picture."""
    items: list[OutlineItem] = []
    for phase in graph.phases:
        items.append(_item(phase, "phase", phase.name, phase.title, 0))
        for topic in (each for each in graph.topics if each.phase == phase.id):
            items.append(_item(topic, "topic", topic.topic, topic.title, 1))
            items += [_item(each, "action", each.id, each.detail, 2 + each.depth) for each in topic.actions]
    return Outline(data=items, svg=svg(graph))


def _item(part: PhaseNode | TopicNode | ActionItem, kind: OutlineKind, id: str, text: str, depth: int) -> OutlineItem:
    own_type = part.type if isinstance(part, ActionItem) else ""
    return OutlineItem(kind=kind, id=id, type=own_type, text=text, depth=depth, file=part.at.file, line=part.at.line)
