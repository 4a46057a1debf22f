"""Render a graph as a self-contained SVG picture with a text description."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from scripts.expressions.values import count_text
from scripts.graph import layout
from scripts.graph.graph import FAILING, EdgeKind, Graph, PhaseNode, TopicNode
from scripts.graph.layout import Box, Column, GraphLayout, Line, Point, Rect, Route, fit, lay_out, text_width

_CORNER = 8.0
_UNPRINTABLE = re.compile(
    r"[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)  # XML 1.0 allows no others

_COLOURS: Mapping[EdgeKind, str] = {
    "order": "#8a94a3",
    "goto": "#2563eb",
    **dict.fromkeys(FAILING, "#c2410c"),
    "end": "#1f2937",
    "call": "#7c3aed",
    "detect": "#be185d",
}
_LEGEND: Mapping[EdgeKind, str] = {
    "order": "in order",
    "goto": "goto",
    "on_fail": "no valid answer",
    "call": "call",
    "detect": "sets off",
}
_FAMILIES = {
    "asks": ("ask", "ai_ask", "choose", "user_say", "form", "chat"),
    "silent": ("set", "ai_think", "emit", "remember", "recall", "scene", "wait"),
    "flow": ("if", "foreach", "repeat", "call"),
    "goto": ("goto",),
    "end": ("end",),
}
_FAMILY = {verb: family for family, verbs in _FAMILIES.items() for verb in verbs}


def svg(graph: Graph, picture: GraphLayout | None = None) -> str:
    """Return the picture as an SVG document; `picture` is that of the graph, if it is known."""
    return "".join(f"{part}\n" for part in _document(graph, picture or lay_out(graph)))


def _document(graph: Graph, picture: GraphLayout) -> Iterator[str]:
    title = graph.title or graph.script
    actions = sum(len(topic.actions) for topic in graph.topics)
    width = max(picture.width, text_width(title) * 19 + 2 * layout.MARGIN, 560.0)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{picture.height:.0f}" '
        f'viewBox="0 0 {width:.0f} {picture.height:.0f}" role="img">'
    )
    yield f"<title>{_plain(title)}</title>"
    yield f"<desc>{_plain(_description(graph))}</desc>"
    yield f"<style>{Path(__file__).with_suffix('.css').read_text('utf-8').strip()}</style>"
    yield "<defs>" + "".join(_marker(kind, colour) for kind, colour in _COLOURS.items()) + "</defs>"
    yield '<rect width="100%" height="100%" fill="#fff"/>'
    yield _text(layout.MARGIN, 34, title, "title")
    phases = [phase.id for phase in graph.phases if not phase.is_beside]
    topics = sum(topic.phase in phases for topic in graph.topics)
    counts = ((len(phases), "phase"), (topics, "topic"), (actions, "action"))
    yield _text(layout.MARGIN, 52, " · ".join([graph.script, *(count_text(*each) for each in counts)]), "small")
    for column in picture.columns:
        yield from _column(column)
    yield from map(_way, picture.ways)
    for column in picture.columns:
        for box in column.boxes:
            yield from _box(box)
    yield from (_label(way) for way in picture.ways if way.edge.label)
    yield f'<circle class="dot" cx="{picture.start[0]:.1f}" cy="{picture.start[1]:.1f}" r="6"/>'
    if picture.end is not None:
        yield from _end(picture.end)
    yield from _legend(picture.height - 18)
    yield "</svg>"


def _description(graph: Graph) -> str:
    """Describe phases and topics in words, and every edge except the plain order."""
    topics = {phase.id: [topic.topic for topic in graph.topics if topic.phase == phase.id] for phase in graph.phases}
    parts = [
        f"{'' if phase.is_beside else 'Phase '}{phase.name}: {', '.join(topics[phase.id])}." for phase in graph.phases
    ]
    parts += [f"{edge.source} → {edge.target.lstrip(':')} ({edge.label})." for edge in graph.edges if edge.label]
    return " ".join(parts)


def _marker(kind: EdgeKind, colour: str) -> str:
    return (
        f'<marker id="to-{kind}" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" markerHeight="8" '
        f'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" fill="{colour}"/></marker>'
    )


# -- phases and topics ------------------------------------------------------------------------------------------------


def _column(column: Column) -> Iterator[str]:
    rect, phase = column.rect, column.phase
    yield "<g>"
    yield _rect(rect, "column maybe" if phase.when else "column", 10)
    yield from _heading(rect, phase.name, phase, "phase", 14)
    yield "</g>"


def _box(box: Box) -> Iterator[str]:
    rect, topic = box.rect, box.topic
    yield "<g>"
    yield _rect(rect, "box maybe" if topic.when else "box", 7)
    yield from _heading(rect, topic.topic, topic, "topic", 13)
    for index, line in enumerate(box.lines):
        yield from _line(line, rect.x + layout.PAD, box.first_line + index * layout.LINE, rect.width - 2 * layout.PAD)
    yield "</g>"


def _rect(rect: Rect, style: str, radius: int) -> str:
    place = f'x="{rect.x:.1f}" y="{rect.y:.1f}" width="{rect.width:.1f}" height="{rect.height:.1f}"'
    return f'<rect class="{style}" {place} rx="{radius}"/>'


def _heading(rect: Rect, name: str, node: PhaseNode | TopicNode, style: str, size: int) -> Iterator[str]:
    """Draw the name, with the goal as a tooltip; below it the title and condition, if any."""
    x, y, room = rect.x + layout.PAD, rect.y + 21, rect.width - 2 * layout.PAD
    yield _text(x, y, fit(name, room / size), style, f"{name}: {node.goal}" if node.goal else name)
    for text, kind in ((node.title, "small"), (f"when {node.when}" if node.when else "", "when")):
        if text:
            y += layout.LINE
            yield _text(x, y, fit(text, room / layout.SMALL), kind, text)


def _line(line: Line, x: float, middle: float, room: float) -> Iterator[str]:
    """Draw one line of a box, with the whole text as a tooltip."""
    indent = line.depth * layout.INDENT
    x, y, room = x + indent, middle + 4, room - indent
    verb = line.item.type
    if line.kind != "action":
        style = "small" if line.kind == "detail" and verb in {"goto", "end"} else line.kind
        yield _text(x, y, fit(line.text, room / layout.SMALL), style, line.text)
        return
    width = text_width(verb) * layout.SMALL
    if verb == "end":
        yield f'<rect class="chip" x="{x - 4:.1f}" y="{middle - 7:.1f}" width="{width + 6:.1f}" height="14" rx="7"/>'
    name = fit(line.text, (room - width - layout.TYPE_GAP) / layout.TEXT)
    whole = f"{verb} {line.text}: {line.item.detail}"
    yield (
        f'<text x="{x:.1f}" y="{y:.1f}"><title>{_plain(whole)}</title>'
        f'<tspan class="verb {_FAMILY.get(verb, "says")}">{_plain(verb)}</tspan>'
        f'<tspan dx="{layout.TYPE_GAP}">{_plain(name)}</tspan></text>'
    )


# -- edges -------------------------------------------------------------------------------------------------------------


def _way(way: Route) -> str:
    kind = way.edge.kind
    return f'<path class="way" d="{_rounded_path(way.points)}" stroke="{_COLOURS[kind]}" marker-end="url(#to-{kind})"/>'


def _rounded_path(points: Sequence[Point]) -> str:
    """Return a path through points with rounded corners."""
    parts = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        near, far = _towards(corner, before), _towards(corner, after)
        parts.append(f"L{near[0]:.1f} {near[1]:.1f}Q{corner[0]:.1f} {corner[1]:.1f} {far[0]:.1f} {far[1]:.1f}")
    parts.append(f"L{points[-1][0]:.1f} {points[-1][1]:.1f}")
    return "".join(parts)


def _towards(corner: Point, other: Point) -> Point:
    """Return a point near a corner, at most half way to the other point."""
    across, down = other[0] - corner[0], other[1] - corner[1]
    length = abs(across) + abs(down)  # one of the two differences is 0
    share = min(_CORNER / length, 0.5) if length else 0.0
    return corner[0] + across * share, corner[1] + down * share


def _label(way: Route) -> str:
    x, y = way.points[0]
    label = fit(way.edge.label, layout.LABEL_MAX / layout.SMALL)
    return _text(x + layout.PAD + 4, y - 4, label, "label", f"{way.edge.action}: {way.edge.label}")


def _end(at: Point) -> Iterator[str]:
    x, y = at
    yield f'<rect class="chip" x="{x:.1f}" y="{y - 12:.1f}" width="48" height="24" rx="12"/>'
    yield _text(x + 12, y + 4, "end", "end")


def _legend(y: float) -> Iterator[str]:
    x = layout.MARGIN
    for kind, text in _LEGEND.items():
        yield f'<path class="way" d="M{x} {y - 4}h26" stroke="{_COLOURS[kind]}" marker-end="url(#to-{kind})"/>'
        yield _text(x + 34, y, text, "small")
        x += 58 + text_width(text) * layout.SMALL
    yield f'<rect class="box maybe" x="{x}" y="{y - 11}" width="26" height="13" rx="3"/>'
    yield _text(x + 34, y, "only if its condition is true", "small")


# -- text -------------------------------------------------------------------------------------------------------------


def _text(x: float, y: float, text: str, style: str, whole: str = "") -> str:
    """Draw a text; if `whole` is longer, it is the tooltip."""
    style = f" class={quoteattr(style)}" if style else ""
    more = f"<title>{_plain(whole)}</title>" if whole and whole != text else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{style}>{more}{_plain(text)}</text>'


def _plain(text: str) -> str:
    return escape(_UNPRINTABLE.sub("", text))
