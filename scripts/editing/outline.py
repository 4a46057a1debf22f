"""The outline of a file: its phases, topics, actions, skills and the like, with their lines."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from scripts.model.actions import Action, action_type
from scripts.model.base import NOWHERE, Location, Node
from scripts.model.script import Script


class OutlineItem(Struct, frozen=True):
    """A part of a file, from its line up to `end_line` (inclusive), counted from 1."""

    name: str
    kind: str  # phase, topic, action …
    detail: str
    line: int
    end_line: int
    inner: "tuple[OutlineItem, ...]" = ()


def outline(script: Script, file: str, last_line: int) -> tuple[OutlineItem, ...]:
    """Return the parts of a script that are in a file, named as in their locations."""
    kinds = ("phase", "skill", "form", "role", "interrupt", "detector", "experiment", "tool")
    found: list[tuple[str, Node]] = [(kind, node) for kind in kinds for node in getattr(script, f"{kind}s")]
    found += [("variable", each) for each in (*script.declare, *script.globals)]
    return tuple(_items([each for each in found if _is_in(each[1].at, file)], last_line))


def _is_in(at: Location, file: str) -> bool:
    return at != NOWHERE and at.file == file


def _items(found: Iterable[tuple[str, Node | Action]], last_line: int) -> Iterator[OutlineItem]:
    """Yield nodes in the order of their file, each up to the line before the next one."""
    ordered = sorted(found, key=lambda each: each[1].at.line)
    ends = [*(max(each.at.line - 1, 1) for _, each in ordered[1:]), last_line]
    for (kind, node), end in zip(ordered, ends, strict=False):
        end_line = max(end, node.at.line)
        inner = tuple(_items(_inside(kind, node), end_line))
        title = action_type(node) if kind == "action" else getattr(node, "title", "")  # type: ignore[arg-type]
        detail = title if isinstance(title, str) else ""
        yield OutlineItem(_name(node) or kind, kind, detail, node.at.line, end_line, inner)


def _inside(kind: str, node: Any) -> Sequence[tuple[str, Node | Action]]:
    if kind == "phase":
        return [("topic", each) for each in node.topics]
    return [("action", each) for each in getattr(node, "actions", ()) if _is_in(each.at, node.at.file)]


def _name(node: Any) -> str:
    return str(getattr(node, "id", "") or getattr(node, "var", ""))
