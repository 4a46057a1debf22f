"""Completion at a position of a text, which may have errors: keys, fixed values and names."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from scripts.editing.known_keys import Offer, known_keys
from scripts.editing.line_place import place_at
from scripts.editing.name_occurrences import REFERRING, Name, NameKind, Occurrence
from scripts.expressions.members import BUILTINS
from scripts.model.script import Script, all_declarations
from scripts.model.variables import Declaration

_KEY = re.compile(r"(?:^\s*(?:-\s+)*|[{,]\s*)(\w*)$")
_VALUE = re.compile(r"(?:^\s*(?:-\s+)*|[{,]\s*)(\w+):\s+[\"']?([^\s{\[]*)$")
_ITEM = re.compile(r"^\s*-\s+(\S*)$")
_GOTO = re.compile(r"\bgoto:?\s+(\S*)$")
_IN_EXPRESSION = re.compile(
    r"(?:\{\{(?:(?!\}\}).)*|\{%(?:(?!%\}).)*|[:\[,-]\s+[\"']?=(?!=).*|\b(?:if|when|unless|computed|foreach|each):\s.*)$"
)
_WORD = re.compile(r"(?<![\w.])[^\W\d]?\w*$")
_NAMED: Mapping[str, NameKind] = {**REFERRING, "into": "variable", "var": "variable", "add_to": "variable"}
_WITH_NAMES_AS_KEYS = frozenset({"set", "add", "into"})
_OUTPUT_KEYS = frozenset({"var", "add_to", "set"})  # with one of these, the mapping below `into` is a variable
CompletionKind: TypeAlias = Literal["key", "value", "variable", "name"]


class Completion(Struct, frozen=True):
    """What may be written from a column of the line on, counted in characters from 0."""

    offer: Offer
    kind: CompletionKind
    column: int

    @property
    def text(self) -> str:
        """The text to insert."""
        return f"{self.offer.label}: " if self.kind == "key" else self.offer.label


class KnownNames(Struct, frozen=True):
    """The names of a script and its files, and the declarations of its variables."""

    names: tuple[Name, ...] = ()
    declarations: Mapping[str, Declaration] = {}

    @classmethod
    def of(cls, found: Iterable[Occurrence], script: Script | None) -> "KnownNames":
        """Collect the names that files of a script declare or set."""
        names = dict.fromkeys(each.name for each in found if each.is_declaration or each.name.kind == "variable")
        declared = {} if script is None else {each.var: each for each in all_declarations(script)}
        return cls(tuple(names), declared)

    def offers(self, kind: NameKind) -> list[Offer]:
        """Return the names of a kind, with what variables are."""
        found = dict.fromkeys(each.id for each in self.names if each.kind == kind)
        return [Offer(id, about(self.declarations[id]) if id in self.declarations else kind) for id in found]

    @property
    def targets(self) -> list[Offer]:
        """What `goto` may name: topics, also with their phases, and phases."""
        topics = [each.path for each in self.names if each.kind == "topic"]
        return [
            *(Offer(id, "topic") for id in dict.fromkeys(path[-1] for path in topics)),
            *(Offer("/".join(path), "topic") for path in topics),
            *self.offers("phase"),
        ]


def about(declaration: Declaration) -> str:
    """Return the type and the meaning of a variable, as far as they are declared."""
    choices = f" ({', '.join(declaration.choices)})" if declaration.choices else ""
    return ": ".join(part for part in (f"{declaration.kind or 'any type'}{choices}", declaration.define) if part)


def complete(
    lines: Sequence[str], index: int, column: int, known: KnownNames, kind: type[Struct] = Script
) -> list[Completion]:
    """Return what may be written at a position: the index of its line, and its column, both from 0.

    `kind` is the type that the file is read into.
    """
    keys = known_keys(kind)
    before = lines[index][:column]
    if found := _GOTO.search(before):
        return _completions(known.targets, "name", found.start(1))
    if _IN_EXPRESSION.search(before):
        word = _WORD.search(before)
        names = [*known.offers("variable"), *(Offer(each, "built in") for each in sorted(BUILTINS))]
        return [] if word is None else _completions(names, "variable", word.start())
    place = place_at([*lines[:index], before, *lines[index + 1 :]], index, column)
    if found := _VALUE.search(before):
        key = found[1]
        fixed = _completions(keys.values_at(place, key), "value", found.start(2))
        named = known.targets if key == "on_message" else known.offers(_NAMED[key]) if key in _NAMED else []
        return [*fixed, *_completions(named, "name", found.start(2))]
    item, key_found = _ITEM.search(before), _KEY.search(before)
    completions: list[Completion] = []
    if item is not None and len(place.path) > 1 and place.path[-2] in _NAMED:
        completions += _completions(known.offers(_NAMED[place.path[-2]]), "name", item.start(1))
    if key_found is not None:
        completions += _completions(keys.keys_at(place), "key", key_found.start(1))
        if place.path and place.path[-1] in _WITH_NAMES_AS_KEYS and not _OUTPUT_KEYS & {*place.beside}:
            completions += _completions(known.offers("variable"), "key", key_found.start(1))
    return completions


def _completions(offers: Iterable[Offer], kind: CompletionKind, column: int) -> list[Completion]:
    return [Completion(each, kind, column) for each in offers]
