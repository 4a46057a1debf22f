"""A string table as a file: read, brought up to date with its script, and written for a translator to go on with.

Nothing that was translated is ever lost: a line that is no longer in the script is set aside under `unused`.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from scripts.model import Locale, StringTable, Translation
from scripts.nodes import Location, Template
from scripts.reader import Reader
from scripts.remarks import attach
from scripts.source import Mapping as MappingTree
from scripts.strings import Line
from scripts.yaml_text import Layout, Record, pair_lines, printable

Lines = dict[str, Translation]


class Update(Struct, frozen=True):
    """A table that has every line of its script, in the script's order.

    `moved` counts translations that were found again under another id, `set_aside` those that were not.
    """

    table: StringTable
    moved: int = 0
    set_aside: int = 0

    @property
    def missing(self) -> int:
        """How many lines have no text."""
        return sum(each.is_missing for each in self.table.lines.values())

    @property
    def stale(self) -> int:
        """How many translations are of an older text."""
        return sum(each.was is not None and not each.is_missing for each in self.table.lines.values())

    @property
    def translated(self) -> int:
        """How many lines are as they should be."""
        return len(self.table.lines) - self.missing - self.stale


def read_table(tree: MappingTree, reader: Reader) -> StringTable | None:
    """The table of a file whose translations stand `at` their ids, or None; what is wrong is with the reader."""
    table = reader.read(tree, StringTable)
    if table is None:
        return None
    places = {name: _key_places(tree, name) for name in ("lines", "unused", "phrases")}
    marks = {f"phrases.{name}": at for name, at in places["phrases"].items()}
    return msgspec.structs.replace(
        table,
        lines=_placed(table.lines, places["lines"]),
        unused=_placed(table.unused, places["unused"]),
        marks={**table.marks, **marks},
    )


def _key_places(tree: MappingTree, name: str) -> Mapping[str, Location]:
    part = tree.get(name)
    return {key.text: key.at for key, _ in part.pairs} if isinstance(part, MappingTree) else {}


def _placed(lines: Mapping[str, Translation], places: Mapping[str, Location]) -> Lines:
    return {id: msgspec.structs.replace(each, at=places[id]) for id, each in lines.items()}


# -- up to date -----------------------------------------------------------------------------------------------------


def updated(table: StringTable | None, lines: Sequence[Line], locale: Locale) -> Update:
    """The table with the lines of a script that have ids: new ones empty, changed ones marked with what they were."""
    table = table or StringTable(locale=locale)
    known = {line.id for line in lines if line.id}
    orphans = {id: each for id, each in table.lines.items() if id not in known and not each.is_missing}
    by_source = {each.of: id for id, each in reversed(orphans.items()) if each.was is None}
    variants = _variants(table)
    unused: Lines = dict(table.unused)
    kept: Lines = {}
    moved: set[str] = set()
    for line in lines:
        if not line.id:
            continue
        old = table.lines.get(line.id) or unused.pop(line.id, None)
        twin = variants.get((_group(line.id), line.text))
        if (old is None or old.is_missing) and line.text in by_source:
            moved.add(by_source[line.text])
            kept[line.id] = orphans[by_source[line.text]]
        elif twin is not None and (old is None or old.of != line.text):
            kept[line.id] = twin
            _set_aside(unused, line.id, old or twin)
        else:
            kept[line.id] = _current(old or Translation(), line.text)
    left = {id: each for id, each in orphans.items() if id not in moved}
    for id, each in left.items():
        _set_aside(unused, id, each)
    said = {(each.of, each.text.source) for each in kept.values()}
    unused = {id: each for id, each in unused.items() if (each.of, each.text.source) not in said}
    return Update(msgspec.structs.replace(table, lines=kept, unused=unused), len(moved), len(left))


def _current(old: Translation, text: str) -> Translation:
    """A translation beside the text it should be of."""
    was = old.was if old.of in {None, text} else old.was or old.of
    return msgspec.structs.replace(old, of=text, was=None if was == text or old.is_missing else was)


def _group(id: str) -> str:
    """The same for all texts of one `say`, which only their number tells apart."""
    head, _, last = id.rpartition(".")
    return head if last.isdecimal() else id


def _variants(table: StringTable) -> Mapping[tuple[str, str], Translation]:
    """The translations of one `say` by what they are of: they stay with their text when the texts change places."""
    groups: dict[str, list[Translation]] = defaultdict(list)
    for id, each in table.lines.items():
        if not each.is_missing and each.was is None:
            groups[_group(id)].append(each)
    several = {group: found for group, found in groups.items() if len(found) > 1}
    return {(group, each.of): each for group, found in several.items() for each in found if each.of is not None}


def _set_aside(unused: Lines, id: str, translation: Translation) -> None:
    if translation.is_missing:
        return
    while id in unused and unused[id].text.source != translation.text.source:
        id += "~"  # an older one of this id is there
    unused[id] = translation


# -- as text --------------------------------------------------------------------------------------------------------


def table_yaml(table: StringTable, before: str = "", *, title: str = "") -> str:
    """The YAML of a table with the comments of the text it was read from; `title` is the comment of a new one."""
    places = {id: each.at for part in (table.unused, table.lines) for id, each in part.items() if each.at.line}
    in_order = sorted(set(places.values()), key=lambda at: at.line)
    notes, tail = attach(before, [table.at, *in_order]) if before else ({}, [])
    lines = [*([f"# {title}"] if title else []), *notes.pop(table.at, [])]
    lines += pair_lines("strings", table.locale)
    lines += _entries("lines", table.lines, notes)
    if table.phrases:
        lines += pair_lines("phrases", Record(tuple(table.phrases.items()), flow=False))
    if table.unused:
        lines += _entries("unused", table.unused, notes)
    left = [note for found in notes.values() for note in found]  # of lines that are no more
    return "\n".join([*lines, *(printable(note) for note in (*left, *tail))]) + "\n"


def _entries(key: str, lines: Mapping[str, Translation], notes: dict[Location, list[str]]) -> list[str]:
    if not lines:
        return [f"{key}: {{}}"]
    written = [f"{key}:"]
    for id, each in lines.items():
        written += [f"  {printable(note)}".rstrip() for note in notes.pop(each.at, ())]
        written += [f"  {line}" if line else "" for line in pair_lines(id, _layout(each))]
    return written


def _layout(translation: Translation) -> Record:
    texts = (("was", translation.was), ("of", translation.of), ("text", translation.text.source))
    pairs: tuple[tuple[str, Layout], ...] = tuple((key, text) for key, text in texts if text is not None)
    return Record(pairs, flow=False)


class Sent(Struct, frozen=True):
    """What a translator sends back of a line: the texts as they saw them, and the translation."""

    of: str
    was: str
    text: str


def with_sent(table: StringTable, sent: Mapping[str, Sent]) -> StringTable:
    """The table with what a translator sent; a blank text changes nothing, and ids it does not have are passed over.

    A stale line counts as looked at where its text is another one, or `was` came back blank.
    """
    lines = dict(table.lines)
    for id, each in sent.items():
        old = lines.get(id)
        if old is None or not each.text.strip():
            continue
        looked_at = each.text != old.text.source or not each.was.strip()
        was = each.of if each.of != old.of else None if looked_at else old.was
        lines[id] = msgspec.structs.replace(old, text=Template(each.text), was=was)
    return msgspec.structs.replace(table, lines=lines)
