"""What a picture shows of a topic's actions: one line for each, and below it what decides where it leads."""

from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from scripts.graph import ActionItem, TopicNode

LineKind: TypeAlias = Literal["action", "arm", "when", "detail", "on_fail"]
_EXPLAINED = {"if", "foreach", "repeat", "goto", "end"}  # their verb says where the conversation goes


class Line(Struct, frozen=True):
    """One line of a topic's box: an action, or what is said of it below."""

    kind: LineKind
    depth: int
    text: str
    item: ActionItem


def topic_lines(topic: TopicNode) -> Iterator[Line]:
    """What a picture shows of a topic's actions."""
    standing: list[str] = []  # the arms the latest action stood in, outermost first
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
        for key, away in (
            ("on_fail", item.on_fail),
            ("on_blocked", item.on_blocked),
            ("on_off_topic", item.on_off_topic),
        ):
            if away:
                yield Line("on_fail", item.depth + 1, f"{key} {away}", item)
