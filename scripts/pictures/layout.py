"""Where everything stands in the picture of a graph: phases as columns, topics as boxes, ways between them in lanes.

Beside each column runs a gutter with one vertical lane for each topic that is led to; ways to the same topic join.
A way to a column that is not the next goes over the top, so that no line crosses a box. All lengths are in pixels.
"""

from collections.abc import Iterator, Mapping
from itertools import accumulate, pairwise

from msgspec import Struct

from scripts.graph import END, START, Edge, EdgeKind, Graph, PhaseNode, TopicNode
from scripts.pictures.lines import Line, topic_lines
from scripts.pictures.widths import text_width

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

BACK_PORT = 4.0  # arrivals on the right stand a little lower, so that they never share a line with those on the left
_PORTS: Mapping[EdgeKind, float] = {
    "order": 12.0, "goto": 20.0, "on_fail": 28.0, "on_blocked": 28.0, "on_off_topic": 28.0, "end": 20.0, "call": 12.0,
    "detect": 12.0,
}  # fmt: skip

Point = tuple[float, float]
_Lane = tuple[str, EdgeKind]  # what it leads to


class Rect(Struct, frozen=True):
    """A place on the page."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """Its right border."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """Its lower border."""
        return self.y + self.height


class Box(Struct, frozen=True):
    """A topic: its heading, then one line below the other."""

    topic: TopicNode
    lines: tuple[Line, ...]
    rect: Rect
    column: int

    @property
    def first_line(self) -> float:
        """The middle of the line below the heading."""
        return self.rect.y + _heading_height(self.topic) + LINE / 2

    def exit(self, edge: Edge) -> float:
        """Where an edge leaves the box: beside the action that takes it, or below all of them."""
        for index, line in enumerate(self.lines):
            if line.item.id == edge.action and line.kind == "action":
                return self.first_line + index * LINE
        return self.rect.bottom - PAD


class Column(Struct, frozen=True):
    """A phase: its heading and the boxes of its topics."""

    phase: PhaseNode
    rect: Rect
    boxes: tuple[Box, ...]


class Way(Struct, frozen=True):
    """An edge as a line with right angles, from its source to its target."""

    edge: Edge
    points: tuple[Point, ...]


class Layout(Struct, frozen=True):
    """The whole picture."""

    width: float
    height: float
    columns: tuple[Column, ...]
    start: Point
    end: Point | None  # none where nothing leads there in order; actions that end the session say so themselves
    ways: tuple[Way, ...]


def lay_out(graph: Graph) -> Layout:
    """The picture of a graph."""
    return _Plan(graph).layout()


def label_width(label: str) -> float:
    """How much room an edge's label takes."""
    return min(text_width(label) * SMALL, LABEL_MAX)


def _is_drawn(edge: Edge) -> bool:
    """Whether an edge is a line; an action that ends the session says so itself, and all would lead to one place."""
    return edge.target != END or edge.kind == "order"


class _Plan:
    """The measures of one picture, each computed from those before it."""

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
        self.columns = tuple(
            self._column(index, Rect(right - width, self.top, width, 0.0))
            for index, (right, width) in enumerate(zip(rights, widths, strict=True))
        )
        self.gutters = [MARGIN, *rights]  # where each begins
        self.gutter_widths = gutters
        self.boxes = {box.topic.id: box for column in self.columns for box in column.boxes}

    # -- which column, lane and channel -------------------------------------------------------------------------------

    def _columns_by_node(self) -> dict[str, int]:
        """The column of each node; the start stands before the first, the end behind the last."""
        phases = {phase.id: index for index, phase in enumerate(self.graph.phases)}
        found = {START: -1, END: len(phases)}
        return found | {topic.id: phases[topic.phase] for topic in self.graph.topics}

    def _is_straight(self, edge: Edge) -> bool:
        """Whether an edge goes down to the very next box."""
        return edge.kind == "order" and (edge.source, edge.target) in self.neighbours

    def _gutters_of(self, edge: Edge) -> tuple[int, int]:
        """The gutter an edge leaves into, and the one it arrives from; gutter n lies left of column n."""
        source, target = self.column_of[edge.source], self.column_of[edge.target]
        return source + 1, target if target > source else target + 1

    def _lanes(self) -> dict[int, list[_Lane]]:
        """The lanes of each gutter; the order runs nearest to what it leads to."""
        lanes: dict[int, dict[_Lane, None]] = {}
        for edge in self.edges:
            if not self._is_straight(edge):
                for gutter in self._gutters_of(edge):
                    lanes.setdefault(gutter, {})[edge.target, edge.kind] = None
        return {gutter: sorted(found, key=lambda lane: lane[1] == "order") for gutter, found in lanes.items()}

    def _channels(self) -> list[_Lane]:
        """The ways over the top."""
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

    # -- the ways -----------------------------------------------------------------------------------------------------

    def layout(self) -> Layout:
        end = self._end()
        return Layout(
            width=self.gutters[-1] + self.gutter_widths[-1] + END_WIDTH + MARGIN,
            height=max([column.rect.bottom for column in self.columns], default=self.top) + LEGEND,
            columns=self.columns,
            start=(MARGIN - 8.0, self._start_y()),
            end=end,
            ways=tuple(Way(edge, tuple(self._points(edge, end))) for edge in self.edges),
        )

    def _start_y(self) -> float:
        first = next((edge.target for edge in self.edges if edge.source == START), "")
        return self.boxes[first].rect.y + _PORTS["order"] if first in self.boxes else self.top

    def _end(self) -> Point | None:
        """The place of the end: beside the last topic that leads there."""
        leading = [self.boxes[edge.source].exit(edge) for edge in self.edges if edge.target == END]
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
        """On the left of a box that lies further on; else on its right."""
        rect = self.boxes[edge.target].rect
        is_forward = self.column_of[edge.target] > self.column_of[edge.source]
        port = rect.y + _PORTS[edge.kind]
        return (rect.x, port) if is_forward else (rect.right, port + BACK_PORT)

    def _lane_x(self, gutter: int, edge: Edge) -> float:
        index = self.lanes[gutter].index((edge.target, edge.kind))
        return self.gutters[gutter] + self.label_rooms[gutter] + LANE * index


def _heading_height(node: PhaseNode | TopicNode) -> float:
    """The height of a heading: the id, then a line each for title and condition."""
    return 34.0 + LINE * sum(bool(part) for part in (node.title, node.when))


def _widths(topic: TopicNode) -> Iterator[float]:
    """What the parts of a box would like to have."""
    yield text_width(topic.topic) * (TEXT + 1)
    yield text_width(topic.title) * SMALL
    for line in topic_lines(topic):
        name = text_width(line.item.type) * SMALL + TYPE_GAP if line.kind == "action" else 0.0
        yield line.depth * INDENT + name + text_width(line.text) * TEXT
