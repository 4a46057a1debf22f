"""Reads and writes YAML as plain values. Reading processes a flat stream of events, so deep documents cannot exhaust
the stack.

Scalars have the types of common YAML 1.1 dumpers; times stay texts. Aliases count with their expanded size, so that a
small document cannot become a large one. Tags are rejected.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import yaml
from yaml.constructor import ConstructorError, SafeConstructor
from yaml.resolver import Resolver

from api.transfer.import_report import DocumentInvalid

DEPTH_MAX = 100
SIZE_MAX = 100_000_000
"""Characters, with aliases expanded; every part counts for some even if it is empty."""
PART_SIZE = 8
_PREFIX = "tag:yaml.org,2002:"
_PLAIN_TAGS = {None, "!", *(_PREFIX + kind for kind in ("str", "map", "seq"))}


class _Scalars(Resolver, SafeConstructor):
    """Resolves the type of a plain scalar."""

    def __init__(self) -> None:
        Resolver.__init__(self)
        SafeConstructor.__init__(self)
        self._makers = {
            _PREFIX + "null": lambda _: None,
            _PREFIX + "bool": self.construct_yaml_bool,
            _PREFIX + "int": self.construct_yaml_int,
            _PREFIX + "float": self.construct_yaml_float,
        }

    def value(self, event: yaml.ScalarEvent) -> object:
        text: str = event.value
        if not event.implicit[0]:
            return text
        tag: str = self.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
        make = self._makers.get(tag)
        return text if make is None else make(yaml.ScalarNode(tag, text))


def yaml_value(text: str) -> object:
    """Parse the one document of a YAML text; null if it is empty. Raises DocumentInvalid."""
    try:
        return _value(yaml.parse(text, Loader=yaml.CSafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise DocumentInvalid(f"{where}not YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, ConstructorError, ValueError) as error:
        if isinstance(error, DocumentInvalid):
            raise
        raise DocumentInvalid("not YAML: it contains characters that YAML does not allow") from error


class _Open:
    """A collection that is not closed yet, with its items so far; those of a mapping are keys and values in turn."""

    def __init__(self, anchor: str | None = None) -> None:
        self.anchor = anchor
        self.items: list[object] = []
        self.size = PART_SIZE


class _Builder:
    """Builds the value from events."""

    def __init__(self) -> None:
        self._scalars = _Scalars()
        self._open = [_Open()]
        self._anchors: dict[str, tuple[object, int]] = {}

    @property
    def values(self) -> list[object]:
        """Return the documents."""
        return self._open[0].items

    def take(self, event: yaml.Event) -> None:
        """Process one event. Raises DocumentInvalid."""
        match event:
            case yaml.AliasEvent():
                if event.anchor not in self._anchors:
                    raise DocumentInvalid(f"there is no complete value with the anchor {event.anchor}")
                self._add(*self._anchors[event.anchor], None)
            case yaml.ScalarEvent():
                self._check_tag(event.tag)
                self._add(self._scalars.value(event), PART_SIZE + len(event.value), event.anchor)
            case yaml.CollectionStartEvent():
                self._check_tag(event.tag)
                if len(self._open) > DEPTH_MAX:
                    raise DocumentInvalid(f"nested more than {DEPTH_MAX} deep")
                self._open.append(_Open(event.anchor))
            case yaml.SequenceEndEvent():
                closed = self._open.pop()
                self._add(closed.items, closed.size, closed.anchor)
            case yaml.MappingEndEvent():
                closed = self._open.pop()
                parts = closed.items
                mapping = dict(zip(map(_key, parts[::2]), parts[1::2], strict=True))
                self._add(mapping, closed.size, closed.anchor)
            case yaml.DocumentStartEvent() if self.values:
                raise DocumentInvalid("a second document begins; expected only one")

    def _add(self, value: object, size: int, anchor: str | None) -> None:
        around = self._open[-1]
        around.items.append(value)
        around.size += size
        if around.size > SIZE_MAX:
            raise DocumentInvalid(f"more than {SIZE_MAX:,} characters, with aliases expanded")
        if anchor is not None:
            self._anchors[anchor] = value, size

    def _check_tag(self, tag: str | None) -> None:
        if tag not in _PLAIN_TAGS:
            raise DocumentInvalid(f"tags such as {tag} are not read")


def _value(events: Iterable[yaml.Event]) -> object:
    builder = _Builder()
    for event in events:
        try:
            builder.take(event)
        except DocumentInvalid as error:
            line = event.start_mark.line + 1 if event.start_mark is not None else 0
            raise DocumentInvalid(f"line {line}: {error}") from None
    return builder.values[0] if builder.values else None


def _key(key: object) -> str:
    if isinstance(key, list | dict):
        raise DocumentInvalid("this YAML is not supported: a list or a mapping is a key")
    return key if isinstance(key, str) else str(key)


class _Dumper(yaml.CSafeDumper):
    """Writes texts so that no reader converts them to another type."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    word = text.replace("_", "a").isalpha() and text.isascii() and text.lower() not in _WORDS
    return dumper.represent_scalar(_PREFIX + "str", text, style=None if word else '"')


_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"}
_Dumper.add_representer(str, _text)


def yaml_text(document: Mapping[str, Any] | list[Any]) -> str:
    """Write a mapping or a list as YAML."""
    text: str = yaml.dump(
        document, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=2**20, default_flow_style=False
    )
    return text
