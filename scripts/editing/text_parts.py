"""The parts of a YAML text with their ranges, also of a text with errors: those before the first error."""

from contextlib import suppress
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import yaml
from msgspec import Struct

from scripts.yaml.parser import FILE_CHARS_MAX

TEXTS_MAX = 64  # whose parts are cached: those of a few scripts with their include files

PartPath: TypeAlias = tuple[str | int, ...]
"""The keys and the indexes of items that lead to a part; that of a key is the path of its value."""


class Part(Struct, frozen=True, gc=False):
    """A key, a scalar, a list or a mapping: the range from `start` to `end` (exclusive), in characters of the text.

    `text` is that of a scalar, without quotes and escapes.
    """

    kind: Literal["key", "scalar", "list", "mapping"]
    path: PartPath
    start: int
    end: int
    text: str = ""


class _Open(Struct):
    """A list or mapping whose end is not read yet."""

    kind: Literal["list", "mapping"]
    path: PartPath
    start: int
    key: str | None = None  # of the value that is next
    count: int = 0


class _Builder:
    """Builds the parts from the events of the parser."""

    def __init__(self, text: str) -> None:
        self.parts: list[Part] = []
        self._text = text
        self._open: list[_Open] = []

    def read(self) -> None:
        """Read the text. Raises YAMLError at its first error."""
        try:
            for event in yaml.parse(self._text, Loader=yaml.CSafeLoader):
                if isinstance(event, yaml.NodeEvent):
                    self._begin(event)
                elif isinstance(event, yaml.CollectionEndEvent):
                    self._close(_index(event.end_mark))
        finally:
            while self._open:
                self._close(0)

    def _begin(self, event: yaml.NodeEvent) -> None:
        start = _index(event.start_mark)
        around = self._open[-1] if self._open else None
        if around is not None and around.kind == "mapping" and around.key is None:
            around.key = event.value if isinstance(event, yaml.ScalarEvent) else "?"
            if isinstance(event, yaml.ScalarEvent):
                self._add("key", (*around.path, around.key), event)
                return
        path = self._path(around)
        if isinstance(event, yaml.ScalarEvent):
            self._add("scalar", path, event)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._open.append(_Open("list" if isinstance(event, yaml.SequenceStartEvent) else "mapping", path, start))

    def _add(self, kind: Literal["key", "scalar"], path: PartPath, event: yaml.ScalarEvent) -> None:
        """Add a scalar; one in a block ends with its text, not where the next part begins."""
        start, end = _index(event.start_mark), _index(event.end_mark)
        end = start + len(self._text[start:end].rstrip())
        self.parts.append(Part(kind, path, start, end, event.value))

    def _path(self, around: _Open | None) -> PartPath:
        """Return the path of the value that begins, and expect what follows it."""
        if around is None:
            return ()
        if around.kind == "list":
            around.count += 1
            return (*around.path, around.count - 1)
        key, around.key = around.key or "", None
        return (*around.path, key)

    def _close(self, end: int) -> None:
        """Close the innermost list or mapping; one without brackets ends with the last part in it."""
        closed = self._open.pop()
        if not self._text.startswith(("[", "{"), closed.start) or not end:
            end = max(closed.start, self.parts[-1].end if self.parts else 0)
        self.parts.append(Part(closed.kind, closed.path, closed.start, end))


def _index(mark: Any) -> int:
    """Return the offset of a mark, which PyYAML declares as optional but sets in every event of a text."""
    index: int = mark.index
    return index


@lru_cache(maxsize=TEXTS_MAX)
def parts_of(text: str) -> tuple[Part, ...]:
    """Return the parts of a text without a byte order mark, a list or mapping after those inside it."""
    builder = _Builder(text)
    if len(text) <= FILE_CHARS_MAX:
        with suppress(yaml.YAMLError, UnicodeEncodeError):  # the checker reports it, and the parts before it are known
            builder.read()
    return tuple(builder.parts)
