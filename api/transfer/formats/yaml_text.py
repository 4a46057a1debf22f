"""Reads and writes YAML as plain values.

Scalars have the types of common YAML 1.1 dumpers; times stay texts. Tags are rejected. The flat stream of events is
checked before a value is built from it: deep documents could exhaust the stack, and a small document could become a
large one, because aliases count with their expanded size.
"""

from collections.abc import Mapping
from typing import Any

import yaml

from api.transfer.import_report import DocumentInvalid

DEPTH_MAX = 100
SIZE_MAX = 100_000_000
"""Characters, with aliases expanded; every part counts for some even if it is empty."""
PART_SIZE = 8
_PREFIX = "tag:yaml.org,2002:"
_PLAIN_TAGS = {None, "!", *(_PREFIX + kind for kind in ("str", "map", "seq"))}
_RESOLVED = {_PREFIX + kind for kind in ("null", "bool", "int", "float")}


class _Loader(yaml.CSafeLoader):
    """Resolves the type of a plain scalar; a time is a text."""

    yaml_implicit_resolvers = {  # noqa: RUF012  (declared by the library)
        sign: [resolver for resolver in resolvers if resolver[0] in _RESOLVED]
        for sign, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }


def yaml_value(text: str) -> object:
    """Parse the one document of a YAML text; null if it is empty. Raises DocumentInvalid."""
    try:
        _check_bounds(text)
        return yaml.load(text, Loader=_Loader)  # noqa: S506  (a safe loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise DocumentInvalid(f"{where}not YAML: {error.problem or error.context}") from error
    except DocumentInvalid:
        raise
    except (yaml.YAMLError, ValueError) as error:
        raise DocumentInvalid("not YAML: it contains characters that YAML does not allow") from error


def _check_bounds(text: str) -> None:
    bounds = _Bounds()
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        problem = bounds.problem_of(event)
        if problem is not None:
            line = event.start_mark.line + 1 if event.start_mark is not None else 0
            raise DocumentInvalid(f"line {line}: {problem}")


class _Bounds:
    """The sizes of the collections that are open, and of the values with an anchor."""

    def __init__(self) -> None:
        self._open: list[tuple[str | None, int]] = [(None, 0)]
        self._sizes: dict[str, int] = {}
        self._has_document = False

    def problem_of(self, event: yaml.Event) -> str | None:
        """Return why a document with this event is not read."""
        match event:
            case yaml.DocumentStartEvent() if self._has_document:
                return "a second document begins; expected only one"
            case yaml.DocumentStartEvent():
                self._has_document = True
            case yaml.AliasEvent(anchor=str() as name) if name in self._sizes:
                return self._add(None, self._sizes[name])
            case yaml.AliasEvent():
                return f"there is no complete value with the anchor {event.anchor}"
            case yaml.ScalarEvent() | yaml.CollectionStartEvent() if event.tag not in _PLAIN_TAGS:
                return f"tags such as {event.tag} are not read"
            case yaml.ScalarEvent():
                return self._add(event.anchor, PART_SIZE + len(event.value))
            case yaml.CollectionStartEvent() if len(self._open) > DEPTH_MAX:
                return f"nested more than {DEPTH_MAX} deep"
            case yaml.CollectionStartEvent():
                self._open.append((event.anchor, PART_SIZE))
            case yaml.CollectionEndEvent():
                return self._add(*self._open.pop())
        return None

    def _add(self, anchor: str | None, size: int) -> str | None:
        """Add a complete value to the collection around it."""
        if anchor is not None:
            self._sizes[anchor] = size
        around, total = self._open[-1]
        self._open[-1] = around, total + size
        return f"more than {SIZE_MAX:,} characters, with aliases expanded" if total + size > SIZE_MAX else None


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
