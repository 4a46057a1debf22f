"""Lay out a graph as a picture: phases as columns, topics as boxes, edges between them in lanes.

Beside each column is a gutter with one vertical lane for each target topic; edges to the same topic join. An edge to
a column that is not the next one runs above the columns, so that no line crosses a box. All lengths are in pixels.
"""

import unicodedata
from collections.abc import Iterator, Mapping
from itertools import accumulate, pairwise
from typing import Literal, TypeAlias

from msgspec import Struct

from scripts.graph.graph import END, FAILING, START, ActionItem, Edge, EdgeKind, Graph, PhaseNode, TopicNode

TEXT = 12.0
SMALL = 11.0
LINE = 18.0
INDENT = 14.0
PAD = 12.0
LANE = 12.0
COLUMN_MIN, COLUMN_MAX = 190.0, 320.0
LABEL_MAX = 150.0
MARGIN = 28.0
TITLE = 58.0
TOPIC_GAP = 30.0
LEGEND = 44.0
TYPE_GAP = 7.0
END_WIDTH = 48.0

BACK_PORT = 4.0  # arrivals on the right are a little lower, so that they never share a line with those on the left
_PORTS: Mapping[EdgeKind, float] = {
    "order": 12.0, "goto": 20.0, **dict.fromkeys(FAILING, 28.0), "end": 20.0, "call": 12.0, "detect": 12.0,
}  # fmt: skip

Point = tuple[float, float]
_Lane = tuple[str, EdgeKind]  # its target


LineKind: TypeAlias = Literal["action", "arm", "when", "detail", "on_fail"]
_EXPLAINED = {"if", "foreach", "repeat", "goto", "end"}  # their verb names the next position


class Line(Struct, frozen=True):
    """One line of a topic's box: an action, or a detail below it."""

    kind: LineKind
    depth: int
    text: str
    item: ActionItem


def topic_lines(topic: TopicNode) -> Iterator[Line]:
    """Yield the lines of a topic's actions."""
    standing: list[str] = []  # the arms that contain the latest action, outermost first
    for item in topic.actions:
        outer = standing[: item.depth]
        if item.depth and (len(outer) < item.depth or outer[-1] != item.arm):
            yield Line("arm", item.depth, item.arm, item)
        standing = [*outer[: item.depth - 1], item.arm] if item.depth else []
        yield Line("action", item.depth, item.id, item)
        if item.when:
            yield Line("when", item.depth + 1, f"when {item.when}", item)
        if item.detail and item.type in _EXPLAINED:
            yield Line("detail", item.depth + 1, f"→ {item.detail}" if item.type == "goto" else item.detail, item)
        for key in ("on_fail", "on_blocked", "on_off_topic"):
            if away := getattr(item, key):
                yield Line("on_fail", item.depth + 1, f"{key} {away}", item)


class Rect(Struct, frozen=True):
    """A rectangle on the page."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """The right border."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """The lower border."""
        return self.y + self.height


class Box(Struct, frozen=True):
    """A topic: its heading and its lines."""

    topic: TopicNode
    lines: tuple[Line, ...]
    rect: Rect
    column: int

    @property
    def first_line(self) -> float:
        """The vertical middle of the line below the heading."""
        return self.rect.y + _heading_height(self.topic) + LINE / 2

    def line_rect(self, action: ActionItem) -> Rect:
        """Return the line of an action of the topic."""
        index = next(index for index, line in enumerate(self.lines) if line.item is action and line.kind == "action")
        return Rect(self.rect.x, self.first_line + (index - 0.5) * LINE, self.rect.width, LINE)

    def exit(self, edge: Edge) -> float:
        """Return where an edge leaves the box: beside its action, or below all actions."""
        for index, line in enumerate(self.lines):
            if line.item.id == edge.action and line.kind == "action":
                return self.first_line + index * LINE
        return self.rect.bottom - PAD


class Column(Struct, frozen=True):
    """A phase: its heading and the boxes of its topics."""

    phase: PhaseNode
    rect: Rect
    boxes: tuple[Box, ...]


class Route(Struct, frozen=True):
    """An edge as a line with right angles, from its source to its target."""

    edge: Edge
    points: tuple[Point, ...]


class GraphLayout(Struct, frozen=True):
    """The whole picture."""

    width: float
    height: float
    columns: tuple[Column, ...]
    start: Point
    end: Point | None  # None if no topic leads there in order; actions that end the session have their own sign
    ways: tuple[Route, ...]


def lay_out(graph: Graph) -> GraphLayout:
    """Return the layout of a graph."""
    return _Plan(graph).layout()


def label_width(label: str) -> float:
    """Return the width of an edge's label."""
    return min(text_width(label) * SMALL, LABEL_MAX)


def _is_drawn(edge: Edge) -> bool:
    """Return whether an edge is drawn as a line; an action that ends the session has its own sign instead."""
    return edge.target != END or edge.kind == "order"


class _Plan:
    """The measures of a picture, each computed from those before it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.edges = [edge for edge in graph.edges if _is_drawn(edge)]
        self.column_of = self._columns_by_node()
        self.neighbours = {(one.id, two.id) for one, two in pairwise(graph.topics) if one.phase == two.phase}
        self.lanes = self._lanes()
        self.channels = self._channels()
        self.top = TITLE + MARGIN + LANE * len(self.channels)
        widths = [self._column_width(phase) for phase in graph.phases]
        self.label_rooms = [self._label_room(index) for index in range(len(widths) + 1)]
        gutters = [self._gutter_width(index) for index in range(len(widths) + 1)]
        pairs = [gutters[index] + width for index, width in enumerate(widths)]
        rights = [MARGIN + end for end in accumulate(pairs)]
        rects = [Rect(right - width, self.top, width, 0.0) for right, width in zip(rights, widths, strict=True)]
        self.columns = tuple(self._column(index, rect) for index, rect in enumerate(rects))
        self.gutters = [MARGIN, *rights]  # start of each
        self.gutter_widths = gutters
        self.boxes = {box.topic.id: box for column in self.columns for box in column.boxes}

    # -- which column, lane and channel -------------------------------------------------------------------------------

    def _columns_by_node(self) -> dict[str, int]:
        """Return the column of each node; the start is before the first, the end after the last."""
        phases = {phase.id: index for index, phase in enumerate(self.graph.phases)}
        return {START: -1, END: len(phases)} | {topic.id: phases[topic.phase] for topic in self.graph.topics}

    def _is_straight(self, edge: Edge) -> bool:
        """Return whether an edge leads down to the next box."""
        return edge.kind == "order" and (edge.source, edge.target) in self.neighbours

    def _gutters_of(self, edge: Edge) -> tuple[int, int]:
        """Return the gutters in which an edge leaves and arrives; gutter n is left of column n."""
        source, target = self.column_of[edge.source], self.column_of[edge.target]
        return source + 1, target if target > source else target + 1

    def _lanes(self) -> dict[int, list[_Lane]]:
        """Assign the lanes of each gutter, nearest to the target first."""
        lanes: dict[int, dict[_Lane, None]] = {}
        for edge in self.edges:
            if not self._is_straight(edge):
                for gutter in self._gutters_of(edge):
                    lanes.setdefault(gutter, {})[edge.target, edge.kind] = None
        return {gutter: sorted(found, key=lambda lane: lane[1] == "order") for gutter, found in lanes.items()}

    def _channels(self) -> list[_Lane]:
        """Assign the channels above the columns."""
        over = [edge for edge in self.edges if len(set(self._gutters_of(edge))) > 1]
        return list(dict.fromkeys((edge.target, edge.kind) for edge in over))

    # -- sizes and places ---------------------------------------------------------------------------------------------

    def _column_width(self, phase: PhaseNode) -> float:
        topics = [topic for topic in self.graph.topics if topic.phase == phase.id]
        widest = max((width for topic in topics for width in _widths(topic)), default=0.0)
        heading = max(text_width(phase.name), text_width(phase.title)) * (TEXT + 2)
        return min(max(widest + 4 * PAD, heading + 2 * PAD, COLUMN_MIN) + 1, COLUMN_MAX)

    def _gutter_width(self, index: int) -> float:
        return self.label_rooms[index] + LANE * len(self.lanes.get(index, [])) + 2 * LANE

    def _label_room(self, gutter: int) -> float:
        leaving = [edge for edge in self.edges if self.column_of[edge.source] + 1 == gutter and edge.label]
        return max((label_width(edge.label) + PAD for edge in leaving), default=0.0) + LANE

    def _column(self, index: int, at: Rect) -> Column:
        phase = self.graph.phases[index]
        y = at.y + _heading_height(phase)
        boxes = []
        for topic in self.graph.topics:
            if topic.phase == phase.id:
                lines = tuple(topic_lines(topic))
                height = _heading_height(topic) + LINE * len(lines) + PAD
                boxes.append(Box(topic, lines, Rect(at.x + PAD, y, at.width - 2 * PAD, height), index))
                y += height + TOPIC_GAP
        bottom = y - TOPIC_GAP + PAD if boxes else y
        return Column(phase, Rect(at.x, at.y, at.width, bottom - at.y), tuple(boxes))

    # -- edges -----------------------------------------------------------------------------------------------------

    def layout(self) -> GraphLayout:
        end = self._end()
        return GraphLayout(
            width=self.gutters[-1] + self.gutter_widths[-1] + END_WIDTH + MARGIN,
            height=max([column.rect.bottom for column in self.columns], default=self.top) + LEGEND,
            columns=self.columns,
            start=(MARGIN - 8.0, self._start_y()),
            end=end,
            ways=tuple(Route(edge, tuple(self._points(edge, end))) for edge in self.edges),
        )

    def _start_y(self) -> float:
        first = next((edge.target for edge in self.edges if edge.source == START), "")
        return self.boxes[first].rect.y + _PORTS["order"] if first in self.boxes else self.top

    def _end(self) -> Point | None:
        """Return the position of the end: beside the last topic that leads there."""
        leading = [self._leaves(edge)[1] for edge in self.edges if edge.target == END]
        return (self.gutters[-1] + self.gutter_widths[-1], max(leading)) if leading else None

    def _points(self, edge: Edge, end: Point | None) -> Iterator[Point]:
        if self._is_straight(edge):
            source, target = self.boxes[edge.source].rect, self.boxes[edge.target].rect
            middle = source.x + source.width / 2
            yield from ((middle, source.bottom), (middle, target.y))
            return
        leaving, arriving = self._gutters_of(edge)
        x, y = self._leaves(edge)
        yield x, y
        yield self._lane_x(leaving, edge), y
        if leaving != arriving:
            over = TITLE + MARGIN / 2 + LANE * self.channels.index((edge.target, edge.kind))
            yield self._lane_x(leaving, edge), over
            yield self._lane_x(arriving, edge), over
        x, y = end if end is not None and edge.target == END else self._arrives(edge)
        yield self._lane_x(arriving, edge), y
        yield x, y

    def _leaves(self, edge: Edge) -> Point:
        if edge.source == START:
            return MARGIN - 2.0, self._start_y()
        box = self.boxes[edge.source]
        return box.rect.right, box.exit(edge)

    def _arrives(self, edge: Edge) -> Point:
        """Return the left side of a box that is further on, otherwise its right side."""
        rect = self.boxes[edge.target].rect
        is_forward = self.column_of[edge.target] > self.column_of[edge.source]
        port = rect.y + _PORTS[edge.kind]
        return (rect.x, port) if is_forward else (rect.right, port + BACK_PORT)

    def _lane_x(self, gutter: int, edge: Edge) -> float:
        index = self.lanes[gutter].index((edge.target, edge.kind))
        return self.gutters[gutter] + self.label_rooms[gutter] + LANE * index


def _heading_height(node: PhaseNode | TopicNode) -> float:
    """Return the height of a heading: the id, then one line each for title and condition."""
    return 34.0 + LINE * sum(bool(part) for part in (node.title, node.when))


def _widths(topic: TopicNode) -> Iterator[float]:
    """Yield the preferred width of a box."""
    yield text_width(topic.topic) * (TEXT + 1)
    yield text_width(topic.title) * SMALL
    for line in topic_lines(topic):
        name = text_width(line.item.type) * SMALL + TYPE_GAP if line.kind == "action" else 0.0
        yield line.depth * INDENT + name + text_width(line.text) * TEXT


_NARROW = frozenset("iljtf.,:;!|'()[] I")
_BROAD = frozenset("mwMW@%")


def text_width(text: str) -> float:
    """Return the width of a text in em, based on Unicode's East Asian Width (UAX #11)."""
    return sum(_advance(char) for char in text)


def _advance(char: str) -> float:
    if unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0.0
    if unicodedata.east_asian_width(char) in {"W", "F"}:
        return 1.0
    if char in _NARROW:
        return 0.36
    return 0.9 if char in _BROAD else 0.7 if char.isupper() else 0.61


def fit(text: str, width: float) -> str:
    """Return a text on one line, truncated with … to a width in em."""
    line = " ".join(text.split())
    if text_width(line) <= width:
        return line
    left = width - 1.0  # the … itself
    for index, char in enumerate(line):
        left -= _advance(char)
        if left < 0:
            return line[:index].rstrip() + "…"
    return line
