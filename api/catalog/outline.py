"""The outline of a script for pages: its parts with their lines, and its picture with the place of each part."""

from api.schemas.scripts import Area, Outline, OutlineItem, OutlineKind
from scripts.graph.graph import ActionItem, Graph, PhaseNode, TopicNode
from scripts.graph.layout import Rect, lay_out
from scripts.graph.svg import svg


def outline(graph: Graph) -> Outline:
    """Return the phases, topics and actions of a graph in their order, and its picture."""
    layout = lay_out(graph)
    items: list[OutlineItem] = []
    for column in layout.columns:
        items.append(_item(column.phase, "phase", column.phase.name, column.phase.title, 0, column.rect))
        for box in column.boxes:
            items.append(_item(box.topic, "topic", box.topic.topic, box.topic.title, 1, box.rect))
            items += [
                _item(each, "action", each.id, each.detail, 2 + each.depth, box.line_rect(each))
                for each in box.topic.actions
            ]
    return Outline(data=items, svg=svg(graph, layout))


def _item(
    part: PhaseNode | TopicNode | ActionItem, kind: OutlineKind, id: str, text: str, depth: int, rect: Rect
) -> OutlineItem:
    own_type = part.type if isinstance(part, ActionItem) else ""
    area = Area(x=round(rect.x), y=round(rect.y), width=round(rect.width), height=round(rect.height))
    return OutlineItem(
        kind=kind, id=id, type=own_type, text=text, depth=depth, file=part.at.file, line=part.at.line, area=area
    )
