"""Parse YAML text into a tree of located nodes, bounded in size, depth and aliases.

The parser reads libyaml's event stream, not `yaml.compose`: the stream is flat, so a hostile file is rejected before
any recursive code reads it. Scalars follow the YAML 1.2 core schema (``yes`` and ``off`` are texts), because
authors write ``choices: [yes, no]`` and mean the words.
"""

import difflib
import re
from collections.abc import Callable, Iterator
from collections.abc import Mapping as MappingType
from typing import TypeAlias

import yaml
from msgspec import Struct
from msgspec.structs import replace

from scripts.expressions.values import Value, number_in
from scripts.model.actions import ACTION_TYPES
from scripts.model.base import Location
from scripts.model.diagnostics import Problems
from scripts.yaml.syntax_hints import find_hint

FILE_CHARS_MAX = 1_000_000
DEPTH_MAX = 64
NODES_MAX = 200_000  # after alias expansion


class Scalar(Struct, frozen=True, gc=False):
    """A text, number, boolean or null; `plain` if it has no quotes and no block indicator."""

    text: str
    plain: bool
    at: Location
    is_block: bool = False  # with the indicator `|` or `>`
    written: str = ""  # the key in the file, if another one is read in its place

    @property
    def value(self) -> Value:
        """The value according to the YAML 1.2 core schema."""
        return _resolve(self.text) if self.plain else self.text

    @property
    def content_at(self) -> Location:
        """The location of the text: for a block, the line below its indicator."""
        return Location(self.at.line + 1, 1, self.at.file) if self.is_block else self.at


class Sequence(Struct, frozen=True):
    """A list."""

    items: "tuple[Tree, ...]"
    at: Location
    size: int = 1  # nodes, to limit the expansion of aliases
    is_anchored: bool = False  # marked with `&name`, to be repeated elsewhere


class Mapping(Struct, frozen=True):
    """Pairs in the order written; keys are texts."""

    pairs: "tuple[tuple[Scalar, Tree], ...]"
    at: Location
    size: int = 1  # nodes, to limit the expansion of aliases
    is_anchored: bool = False

    def get(self, key: str) -> "Tree | None":
        """Return the value of a key, or None."""
        return next((value for name, value in self.pairs if name.text == key), None)

    def keys(self) -> Iterator[str]:
        """Return the keys in order."""
        return (name.text for name, _ in self.pairs)


Tree: TypeAlias = Scalar | Sequence | Mapping


def word(text: str, near: Tree) -> Scalar:
    """Return a word that no author wrote, such as a key, at the location of another node."""
    return Scalar(text, True, near.at)


_INTEGER = re.compile(r"[-+]?[0-9]{1,40}|0x[0-9a-fA-F]{1,16}|0o[0-7]{1,20}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]{1,40}|[0-9]{1,40}(\.[0-9]{0,40})?)([eE][-+]?[0-9]{1,3})?")

_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map")}  # the syntax shows every other kind


def _resolve(text: str) -> Value:
    if text in {"", "~", "null", "Null", "NULL"}:
        return None
    if text in {"true", "True", "TRUE", "false", "False", "FALSE"}:
        return text.lower() == "true"
    if _INTEGER.fullmatch(text):
        return int(text, 0) if text[:2] in {"0x", "0o"} else int(text)
    if _FLOAT.fullmatch(text):
        number = number_in(text)
        return text if number is None else number
    return text


def items_of(tree: Tree | None) -> tuple[Tree, ...]:
    """Return the items of a list; everything else has none."""
    return tree.items if isinstance(tree, Sequence) else ()


def as_items(tree: Tree) -> tuple[Tree, ...]:
    """Return the items of a list; a single item needs no dash."""
    return tree.items if isinstance(tree, Sequence) else (tree,)


def pairs_of(tree: Tree | None) -> tuple[tuple[Scalar, Tree], ...]:
    """Return the pairs of a mapping; everything else has none."""
    return tree.pairs if isinstance(tree, Mapping) else ()


def inner_trees(tree: Tree) -> tuple[Tree, ...]:
    """Return the values of a mapping, or the items of a list."""
    return (*items_of(tree), *(value for _, value in pairs_of(tree)))


def pairs_within(tree: Tree) -> Iterator[tuple[Scalar, Tree]]:
    """Yield the pairs of all mappings in a tree, a pair before those in its value."""
    for key, value in pairs_of(tree):
        yield key, value
        yield from pairs_within(value)
    for each in items_of(tree):
        yield from pairs_within(each)


def text_in(tree: Tree | None) -> str:
    """Return the text of a scalar; everything else has none."""
    return tree.text if isinstance(tree, Scalar) else ""


def is_null(tree: Tree) -> bool:
    """Return whether a value is null: nothing is written."""
    return isinstance(tree, Scalar) and tree.value is None


def is_empty(tree: Tree) -> bool:
    """Return whether nothing is written where a value could be, not even `null`."""
    return isinstance(tree, Scalar) and tree.plain and not tree.text


def with_value(tree: Mapping, key: str, change: Callable[[Tree], Tree]) -> Mapping:
    """Return a mapping with the value of a key changed."""
    return Mapping(tuple((name, change(value) if name.text == key else value) for name, value in tree.pairs), tree.at)


def text_replaced(tree: Mapping, key: str, change: Callable[[str], str]) -> Mapping:
    """Return a mapping with the text of a key changed."""

    def change_text(value: Tree) -> Tree:
        return value if not isinstance(value, Scalar) or is_null(value) else Scalar(change(value.text), False, value.at)

    return with_value(tree, key, change_text)


def keys_renamed(tree: Mapping, names: MappingType[str, str]) -> Mapping:
    """Rename keys of a mapping, unless it already has the new names."""
    used_keys = set(tree.keys())
    pairs = []
    for key, value in tree.pairs:
        name = names.get(key.text, key.text)
        if name != key.text and name not in used_keys:
            used_keys.add(name)
            pairs.append((replace(key, text=name, written=key.written or key.text), value))
        else:
            pairs.append((key, value))
    return Mapping(tuple(pairs), tree.at)


def plain_value(tree: Tree) -> Value:
    """Convert a tree to plain JSON data."""
    match tree:
        case Scalar():
            return tree.value
        case Sequence():
            return [plain_value(item) for item in tree.items]
        case Mapping():
            return {key.text: plain_value(value) for key, value in tree.pairs}


class _Refused(Exception):
    """Parsing stops; the problem is recorded."""


def read_tree(text: str, problems: Problems) -> Tree | None:
    """Parse the single document of a YAML text. On failure, add the reason to `problems` and return None."""
    if len(text) > FILE_CHARS_MAX:
        problems.add("DOCUMENT_TOO_LARGE", f"{len(text):,} characters; a script may have {FILE_CHARS_MAX:,}")
        return None
    try:
        return _Builder(_with_characters(text), problems).document()
    except yaml.MarkedYAMLError as error:
        if (without_tabs := _TABS_AT_END.sub("", text)) != text:  # libyaml refuses them, YAML does not
            return read_tree(without_tabs, problems)
        hint = find_hint(text, error)
        problems.add("SYNTAX_ERROR", hint.message, Location(hint.line, hint.column), fix=hint.fix)
    except (yaml.reader.ReaderError, UnicodeEncodeError) as error:
        position = error.start if isinstance(error, UnicodeEncodeError) else error.position
        line = text.count("\n", 0, position) + 1
        problems.add("SYNTAX_ERROR", "a character that YAML does not allow", Location(line, 1))
    except _Refused:
        pass
    return None


_BRACES = 'Put quotes around the whole text: "{{ name }} …".'


_SURROGATES = re.compile(r"(?<!\\)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_TABS_AT_END = re.compile(r" *\t[ \t]*(?=\r?$)", re.MULTILINE)


def _with_characters(text: str) -> str:
    """Return JSON with the characters that it writes as two escapes, such as emojis, which YAML does not know."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    return _SURROGATES.sub(lambda pair: bytes.fromhex(pair[1] + pair[2]).decode("utf-16-be"), text)


class _Builder:
    """Builds trees from the event stream and counts their nodes."""

    def __init__(self, text: str, problems: Problems) -> None:
        self.problems = problems
        self.events: Iterator[yaml.Event] = yaml.parse(text, Loader=yaml.CSafeLoader)
        self.anchors: dict[str, Tree | None] = {}  # None while the node is still open
        self.nodes = 0

    def document(self) -> Tree | None:
        next(self.events)  # stream start
        event = next(self.events)
        if isinstance(event, yaml.StreamEndEvent):
            self.problems.add("UNRECOGNISED_SCRIPT", "the file is empty", Location(1, 1))
            return None
        tree = self.node(next(self.events), depth=0)
        next(self.events)  # document end
        while not isinstance(start := next(self.events), yaml.StreamEndEvent):
            begin = next(self.events)
            if not isinstance(begin, yaml.ScalarEvent) or begin.value:
                fix = "Keep one script in one file."
                raise self.refuse("SYNTAX_ERROR", "a second document starts here", start, fix)
            next(self.events)  # document end of an empty document, as after a last `---`
        return tree

    def place(self, event: yaml.Event) -> Location:
        mark = event.start_mark
        return Location(mark.line + 1, mark.column + 1, self.problems.file) if mark else Location(1, 1)

    def refuse(self, code: str, message: str, event: yaml.Event, fix: str = "") -> _Refused:
        self.problems.add(code, message, self.place(event), fix=fix)
        return _Refused()

    def node(self, event: yaml.Event, depth: int) -> Tree:
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event)
        if not isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
            raise self.refuse("SYNTAX_ERROR", "a value is missing here", event)
        if depth > DEPTH_MAX:
            raise self.refuse("DOCUMENT_TOO_DEEP", f"nested more than {DEPTH_MAX} levels deep", event)
        self.count(event, 1)
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        tree = self.open_node(event, depth)
        if event.anchor is not None:
            self.anchors[event.anchor] = tree
        return tree

    def open_node(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent, depth: int) -> Tree:
        if event.tag is not None and event.tag not in _TAGS:
            fix = "Put quotes around a text that starts with !."
            raise self.refuse("SYNTAX_ERROR", f"the tag {event.tag} is not supported", event, fix)
        if isinstance(event, yaml.ScalarEvent):
            plain = event.style is None or event.style == ""
            return Scalar(event.value, plain and event.tag is None, self.place(event), event.style in ("|", ">"))
        if isinstance(event, yaml.SequenceStartEvent):
            return self.sequence(event, depth)
        return self.mapping(event, depth)

    def sequence(self, start: yaml.CollectionStartEvent, depth: int) -> Sequence:
        before, items = self.nodes, []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self.node(event, depth + 1))
        return Sequence(tuple(items), self.place(start), self.nodes - before + 1, start.anchor is not None)

    def mapping(self, start: yaml.CollectionStartEvent, depth: int) -> Mapping:
        before = self.nodes
        pairs: dict[str, tuple[Scalar, Tree]] = {}
        merged: list[Tree] = []
        is_undashed = False  # the rest of the mapping is probably another item
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key = self.node(event, depth + 1)
            value = self.node(next(self.events), depth + 1)
            if not isinstance(key, Scalar):
                is_next_item = start.flow_style and self.place(event).line > self.place(start).line
                if is_next_item:  # of a list
                    raise self.refuse("SYNTAX_ERROR", "this { is never closed", start, "Write } where it ends.")
                raise self.refuse("SYNTAX_ERROR", "unquoted braces or brackets", event, _BRACES)
            if key.plain and key.text == "<<":
                merged.append(value)
            elif key.text in pairs:
                is_undashed = is_undashed or self.duplicate(key, pairs, is_item=depth > 1)
            else:
                pairs[key.text] = (key, value)
        for tree in merged:
            self.merge(pairs, tree)
        return Mapping(tuple(pairs.values()), self.place(start), self.nodes - before + 1, start.anchor is not None)

    def duplicate(self, key: Scalar, pairs: dict[str, tuple[Scalar, Tree]], *, is_item: bool) -> bool:
        """Report a key that a mapping has already; return whether it probably begins another item of a list."""
        fix = "Start each action with its own dash." if len(ACTION_TYPES & pairs.keys()) > 1 else ""
        begins_item = is_item and key.text == next(iter(pairs))
        if begins_item:
            fix = f"To start a list item here, write a dash before it: `- {key.text}:`. Otherwise remove one."
        message = f"duplicate key `{key.text}`, first in line {pairs[key.text][0].at.line}"
        self.problems.add("DUPLICATE_KEY", message, key.at, fix=fix)
        return begins_item

    def merge(self, pairs: dict[str, tuple[Scalar, Tree]], tree: Tree) -> None:
        """Add the pairs of ``<<: *anchor``; the mapping's own keys take precedence."""
        for part in as_items(tree):
            if not isinstance(part, Mapping):
                self.problems.add("SYNTAX_ERROR", "`<<` requires a mapping", tree.at, fix="Write `<<: *anchor`.")
                continue
            for key, value in part.pairs:
                pairs.setdefault(key.text, (key, value))

    def alias(self, event: yaml.AliasEvent) -> Tree:
        anchor = str(event.anchor)
        if anchor not in self.anchors:
            close = difflib.get_close_matches(anchor, list(self.anchors), 1)
            fix = f"Put quotes around a text that starts with *, or mark the part to repeat: &{anchor}."
            message = f"*{anchor} refers to a part marked &{anchor}, but no part above has this mark"
            raise self.refuse("SYNTAX_ERROR", message, event, f"Did you mean *{close[0]}?" if close else fix)
        tree = self.anchors[anchor]
        if tree is None:
            raise self.refuse("ALIAS_LIMIT", f"*{anchor} contains itself", event)
        self.count(event, tree.size if isinstance(tree, Sequence | Mapping) else 1)
        return tree

    def count(self, event: yaml.Event, nodes: int) -> None:
        self.nodes += nodes
        if self.nodes > NODES_MAX:
            raise self.refuse("ALIAS_LIMIT", f"the file expands to more than {NODES_MAX:,} nodes", event)
