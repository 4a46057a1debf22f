"""Write YAML for people: one line if it fits, blocks for long texts, quotes only if needed.

The output reads back exactly with the rules of `scripts.yaml.parser` (YAML 1.2 core schema, libyaml).
"""

import re
from typing import TypeAlias

from msgspec import Struct

from scripts.expressions.values import Value, literal
from scripts.model.base import NOWHERE
from scripts.yaml.parser import Scalar as _Scalar

WIDTH = 120
_KEY_CHARS_MAX = 800  # a longer key needs `?`; libyaml looks 1,024 characters ahead for the colon


class Source(Struct, frozen=True):
    """An expression: a text without quotes if the reader converts the plain value to the same expression."""

    text: str


class Item(Struct, frozen=True):
    """An item of a list, with the comment lines above it."""

    layout: "Layout"
    notes: tuple[str, ...] = ()


class Items(Struct, frozen=True):
    """A list; `flow` allows it on one line, `spaced` separates its items with blank lines."""

    items: tuple[Item, ...]
    flow: bool = True
    spaced: bool = False


class Record(Struct, frozen=True):
    """A mapping; `flow` allows it on one line."""

    pairs: "tuple[tuple[str, Layout], ...]"
    flow: bool = True


Layout: TypeAlias = str | int | float | bool | Source | Items | Record | None

_LEADING = frozenset("-?:,[]{}#&*!|>'\"%@`")
_ESCAPED = re.compile("[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
_FLOW_ENDS = re.compile(r"[,\[\]{}]|:\?")
_FOLDS = re.compile(r"(?<=\S) (?=\S)")


def plain(value: Value) -> Layout:
    """Return the layout of a JSON value."""
    match value:
        case list():
            return Items(tuple(Item(plain(item)) for item in value))
        case dict():
            return Record(tuple((key, plain(item)) for key, item in value.items()))
        case _:
            return value


def document(*parts: Record) -> str:
    """Write several mappings as one, separated by blank lines."""
    return "\n\n".join("\n".join(_record(part, 0)) for part in parts if part.pairs) + "\n"


def pair_lines(key: str, value: Layout) -> list[str]:
    """Write one pair of the top-level mapping."""
    return _pair(key, value, 0)


def printable(text: str) -> str:
    """Return a text for a comment: one line of characters that YAML allows."""
    return _ESCAPED.sub(_escape, text)


# -- lists and mappings ---------------------------------------------------------------------------------------------


def _record(record: Record, indent: int) -> list[str]:
    return [line for key, value in record.pairs for line in _pair(key, value, indent)]


def _pair(key: str, value: Layout, indent: int) -> list[str]:
    pad, name = " " * indent, _key(key, in_flow=False)
    if len(name) > _KEY_CHARS_MAX:
        return [f"{pad}? {name}", *_write_item(":", value, indent)]
    return _after(f"{pad}{name}:", value, indent)


def _items(items: Items, indent: int) -> list[str]:
    lines: list[str] = []
    for item in items.items:
        if items.spaced and lines:
            lines.append("")
        lines += [" " * indent + note for note in item.notes]
        lines += _write_item("-", item.layout, indent)
    return lines


def _write_item(dash: str, layout: Layout, indent: int) -> list[str]:
    """Write an item after its dash, on the same line."""
    pad = " " * indent
    if isinstance(layout, Record | Items) and _on_one_line(layout, indent + 2) is None:
        first, *rest = _block(layout, indent + 2)
        if not first.lstrip().startswith("#"):
            return [f"{pad}{dash} {first.lstrip()}", *rest]
        return [f"{pad}{dash}", first, *rest]
    return _after(pad + dash, layout, indent)


def _after(head: str, layout: Layout, indent: int) -> list[str]:
    """Write a value after its key or dash, or below it if it does not fit."""
    if isinstance(layout, Record | Items):
        line = _on_one_line(layout, len(head) + 1)
        return [head, *_block(layout, indent + 2)] if line is None else [f"{head} {line}"]
    if isinstance(layout, str | Source):
        return _text(head, layout, indent)
    return [f"{head} {_scalar(layout, in_flow=False)}"]


def _block(layout: Record | Items, indent: int) -> list[str]:
    return _record(layout, indent) if isinstance(layout, Record) else _items(layout, indent)


def _on_one_line(layout: Record | Items, column: int) -> str | None:
    line = _flow(layout)
    empty = line in {"[]", "{}"}
    return line if line is not None and (empty or column + len(line) <= WIDTH) else None


def _flow(layout: Layout) -> str | None:
    """Write a value in brackets on one line; return None if that is hard to read."""
    match layout:
        case Record(pairs=()):
            return "{}"
        case Items(items=()):
            return "[]"
        case Record() | Items() if not layout.flow:
            return None
        case Record():
            values = [_flow(value) for _, value in layout.pairs]
            keys = [_key(key, in_flow=True) for key, _ in layout.pairs]
            marked = [f"? {key}" if len(key) > _KEY_CHARS_MAX else key for key in keys]
            parts = [f"{key}: {value}" for key, value in zip(marked, values, strict=True)]
            return "{" + ", ".join(parts) + "}" if None not in values else None
        case Items():
            items = [_flow(item.layout) if not item.notes else None for item in layout.items]
            return "[" + ", ".join(item for item in items if item is not None) + "]" if None not in items else None
        case _:
            is_lines = isinstance(layout, str | Source) and _literal(_raw(layout)) is not None
            return None if is_lines else _scalar(layout, in_flow=True)


# -- scalars --------------------------------------------------------------------------------------------------------


def needs_quotes(layout: str | Source, *, in_flow: bool) -> bool:
    """Return whether a text needs quotes."""
    text = _raw(layout)
    if not text or text != text.strip() or text[0] in _LEADING or text[-1] == ":" or text.startswith("..."):
        return True
    if ": " in text or " #" in text or _ESCAPED.search(text) or (in_flow and _FLOW_ENDS.search(text)):
        return True
    value = _Scalar(text, True, NOWHERE).value
    return value != text if isinstance(layout, str) or isinstance(value, str | None) else literal(value) != text


def _raw(layout: str | Source) -> str:
    return layout.text if isinstance(layout, Source) else layout


def _key(key: str, *, in_flow: bool) -> str:
    return _quote(key) if key == "<<" or needs_quotes(key, in_flow=in_flow) else key


def _scalar(layout: str | int | float | bool | Source | None, *, in_flow: bool) -> str:
    match layout:
        case None:
            return "null"
        case bool():
            return "true" if layout else "false"
        case int() | float():
            return repr(layout)
        case str() | Source():
            return _quote(_raw(layout)) if needs_quotes(layout, in_flow=in_flow) else _raw(layout)


def _quote(text: str) -> str:
    awkward = text.count('"') + text.count("\\")
    if awkward > text.count("'") and not _ESCAPED.search(text):
        return "'" + text.replace("'", "''") + "'"
    return '"' + _ESCAPED.sub(_escape, text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if found[0] in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[found[0]]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _text(head: str, layout: str | Source, indent: int) -> list[str]:
    """Write a text after its key: as a block if it has several lines or is too long, otherwise quoted or plain."""
    text, pad = _raw(layout), " " * (indent + 2)
    inline = f"{head} {_scalar(layout, in_flow=False)}"
    if len(inline) > WIDTH and (folded := _fold(text, WIDTH - len(pad))) is not None:
        return [f"{head} >{'' if text.endswith(chr(10)) else '-'}", *(pad + line for line in folded)]
    lines = _literal(text)
    if lines is None:
        return [inline]
    mark = "2" if next(line for line in lines if line).startswith(" ") else ""
    chomp = "" if text.endswith("\n") else "-"
    return [f"{head} |{mark}{chomp}", *(pad + line if line else "" for line in lines)]


def _literal(text: str) -> list[str] | None:
    """Return the lines of a text as a block; None if it has only one line or a block cannot preserve it."""
    lines = text.removesuffix("\n").split("\n")
    hidden = any(_ESCAPED.search(line.replace("\t", " ")) or line.startswith("\t") for line in lines)
    blank = any(line and line.isspace() for line in lines)
    return None if "\n" not in text or hidden or blank or not lines[-1] else lines


def _fold(text: str, width: int) -> list[str] | None:
    """Fold a text into lines that a reader joins with spaces again; None if that is not possible."""
    body = text.removesuffix("\n")
    if not body or body != body.strip() or _ESCAPED.search(body):
        return None
    lines = [""]
    for word in _FOLDS.split(body):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return lines if len(lines) > 1 else None
