"""Read, update and write string table files, which translators edit.

No translation is ever lost: a line that is no longer in the script is moved to `unused`.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from scripts.model.base import Location
from scripts.model.script import Locale, StringTable, Translation
from scripts.translations.localisation import Line
from scripts.yaml.comments import attach
from scripts.yaml.decoder import Reader
from scripts.yaml.parser import Mapping as MappingTree
from scripts.yaml.parser import pairs_of
from scripts.yaml.writer import Layout, Record, pair_lines, printable

Lines = dict[str, Translation]


class Update(Struct, frozen=True):
    """A table with every line of its script, in the script's order.

    `moved` counts translations that moved to another id, `set_aside` those that moved to `unused`.
    """

    table: StringTable
    moved: int = 0
    set_aside: int = 0

    @property
    def missing(self) -> int:
        """The number of lines without a translation."""
        return sum(each.is_missing for each in self.table.lines.values())

    @property
    def stale(self) -> int:
        """The number of stale translations."""
        return sum(each.was is not None and not each.is_missing for each in self.table.lines.values())

    @property
    def translated(self) -> int:
        """The number of complete lines."""
        return len(self.table.lines) - self.missing - self.stale


def read_table(tree: MappingTree, reader: Reader) -> StringTable | None:
    """Read the table of a file, or None; `at` are the locations of translations by id. Problems are recorded."""
    table = reader.read(tree, StringTable)
    if table is None:
        return None
    sections = ("lines", "unused", "phrases")
    places = {name: {key.text: key.at for key, _ in pairs_of(tree.get(name))} for name in sections}
    marks = {f"phrases.{name}": at for name, at in places["phrases"].items()}
    return replace(
        table,
        lines=_with_places(table.lines, places["lines"]),
        unused=_with_places(table.unused, places["unused"]),
        marks={**table.marks, **marks},
    )


def _with_places(lines: Mapping[str, Translation], places: Mapping[str, Location]) -> Lines:
    return {id: replace(each, at=places[id]) for id, each in lines.items()}


# -- update -----------------------------------------------------------------------------------------------------


def update_lines(table: StringTable | None, lines: Sequence[Line], locale: Locale) -> Update:
    """Update a table to the lines of a script that have ids: new lines are empty, changed ones get `was`."""
    table = table or StringTable(locale=locale)
    known = {line.id for line in lines if line.id}
    orphans = {id: each for id, each in table.lines.items() if id not in known and not each.is_missing}
    by_source = {each.of: id for id, each in reversed(orphans.items()) if each.was is None}
    # by the texts of one `say`, so that translations follow their text when the order changes
    complete = {id: each for id, each in table.lines.items() if not each.is_missing and each.was is None}
    variants = {(_group(id), each.of): each for id, each in complete.items()}
    unused: Lines = dict(table.unused)
    translations: Lines = {}
    moved: set[str] = set()
    for line in lines:
        if not line.id:
            continue
        old = table.lines.get(line.id) or unused.pop(line.id, None)
        counterpart = variants.get((_group(line.id), line.text))
        if (old is None or old.is_missing) and line.text in by_source:
            moved.add(by_source[line.text])
            translations[line.id] = orphans[by_source[line.text]]
        elif counterpart is not None and (old is None or old.of != line.text):
            translations[line.id] = counterpart
            _set_aside(unused, line.id, old or counterpart)
        else:
            translations[line.id] = _current(old or Translation(), line.text)
    left = {id: each for id, each in orphans.items() if id not in moved}
    for id, each in left.items():
        _set_aside(unused, id, each)
    said = {(each.of, each.text.source) for each in translations.values()}
    unused = {id: each for id, each in unused.items() if (each.of, each.text.source) not in said}
    return Update(replace(table, lines=translations, unused=unused), len(moved), len(left))


def _current(old: Translation, text: str) -> Translation:
    """Return a translation, updated to the current source text."""
    was = old.was if old.of in {None, text} else old.was or old.of
    return replace(old, of=text, was=None if was == text or old.is_missing else was)


def _group(id: str) -> str:
    """Return what the ids of all texts of one `say` begin with; they differ only in their number."""
    head, _, last = id.rpartition(".")
    return head if last.isdecimal() else id


def _set_aside(unused: Lines, id: str, translation: Translation) -> None:
    if translation.is_missing:
        return
    while id in unused and unused[id].text.source != translation.text.source:
        id += "~"  # an older one with this id exists
    unused[id] = translation


# -- output --------------------------------------------------------------------------------------------------------


def table_yaml(table: StringTable, before: str = "", *, title: str = "") -> str:
    """Return the YAML of a table with the comments of its source text; `title` is the comment of a new table."""
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
    left = [note for found in notes.values() for note in found]  # translations of removed lines
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
