"""Rename a variable or an id in a script and its files, with the entry in `migrations:` that running sessions need."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from scripts.checks.identifier_checks import VARIABLE_NAME
from scripts.editing.name_occurrences import Name, Occurrence, occurrences_in, topics_in
from scripts.editing.text_parts import Part, PartPath, parts_of
from scripts.expressions.expressions import is_reserved
from scripts.model.actions import walk
from scripts.model.script import Path, Script, actions_of, nodes
from scripts.parse.read_script import Reading, Source, read_script
from scripts.versions.rename_map import SECTIONS, Section, format_path
from scripts.yaml.writer import pair_lines

_ID = re.compile(r"[^\W\d][\w-]*")
_LITERALS = frozenset({"true", "false", "null"})
_RENAMED_SECTIONS: Mapping[str, Section] = {each.removesuffix("s"): each for each in SECTIONS}


class RenameRefused(Exception):
    """The reason why a name cannot be changed; the message is for the author."""


class TextEdit(Struct, frozen=True, order=True):
    """A range of characters of a text, and what to write in its place."""

    start: int
    end: int
    text: str


Edits = Mapping[str, Sequence[TextEdit]]
"""By the name of a file, edits that do not overlap; the script itself has an empty name."""


def apply_edits(text: str, edits: Sequence[TextEdit]) -> str:
    """Return a text with its edits."""
    for each in sorted(edits, reverse=True):
        text = text[: each.start] + each.text + text[each.end :]
    return text


def rename(source: Source, beside: Mapping[str, str], name: Name, new: str) -> Edits:
    """Return the edits that rename something in a script, its include files and files `beside` it, such as cases.

    Raises RenameRefused if the new name is invalid or used, or if the script would have problems that it has not now.
    """
    reading = read_script(source)
    if reading.draft is None:
        raise RenameRefused(f"the script cannot be read: {reading.errors[0]}")
    texts = {"": source.text, **source.side_files, **beside}
    topics = topics_in(source.text)
    found = {file: occurrences_in(text, topics) for file, text in texts.items()}
    _check_name(name, new, [each for inner in found.values() for each in inner])
    edits = {
        file: [TextEdit(each.start, each.end, new) for each in inner if each.name == name]
        for file, inner in found.items()
    }
    renamed = _read_edited(source, edits)
    entries = list(_entries(name, new, reading.draft, renamed.draft))
    if entries:
        text = apply_edits(source.text, edits[""])
        edits[""] += [_to_original(each, edits[""]) for each in _entry_edits(text, entries)]
        renamed = _read_edited(source, edits)
    _check_result(reading, renamed)
    return {file: sorted(inner) for file, inner in edits.items() if inner}


def _check_name(name: Name, new: str, found: Sequence[Occurrence]) -> None:
    """Raise RenameRefused for a name that cannot be changed, or a new one that is invalid or used."""
    mine = [each for each in found if each.name == name]
    if any(each.is_global for each in mine):
        message = "values of users are stored under its name and would be lost"
        raise RenameRefused(f"{name.id} is a global variable: {message}")
    if name.kind == "experiment" or any(each.name == Name("experiment", name.path) for each in found):
        raise RenameRefused(f"{name.id} is an experiment: the arms of users are stored under its name")
    if not any(each.is_declaration for each in mine) and name.kind != "variable":
        raise RenameRefused(f"no {name.kind} {name.id} is declared in the files of this script")
    if not (VARIABLE_NAME if name.kind == "variable" else _ID).fullmatch(new) or new.lower() in _LITERALS:
        others = "letters, digits and _" if name.kind == "variable" else "letters, digits, _ and -"
        raise RenameRefused(f"{new!r} is not a valid name: it begins with a letter and contains {others}")
    if name.kind == "variable" and is_reserved(new):
        raise RenameRefused(f"the runtime reserves the name {new}")
    if any(each.name == _rename(name, new) for each in found):
        raise RenameRefused(f"there is already a {name.kind} {new}")


def _rename(name: Name, new: str) -> Name:
    return Name(name.kind, (*name.path[:-1], new))


def _read_edited(source: Source, edits: Edits) -> Reading:
    side_files = {file: apply_edits(text, edits.get(file, ())) for file, text in source.side_files.items()}
    text = apply_edits(source.text, edits.get("", ()))
    return read_script(replace(source, text=text, side_files=side_files))


def _check_result(before: Reading, after: Reading) -> None:
    """Raise RenameRefused if a script has errors or warnings that it did not have."""
    had = Counter(each.code for each in before.problems)
    for each in after.problems:
        had[each.code] -= 1
        if had[each.code] < 0 and each.severity != "note":
            raise RenameRefused(f"the renamed script would have a problem: {each}")


# -- migrations -------------------------------------------------------------------------------------------------------


class _Entry(Struct, frozen=True):
    section: Section
    old: str
    new: str


def _entries(name: Name, new: str, before: Script, after: Script | None) -> Iterator[_Entry]:
    """Yield the entries of `migrations:` for a rename; also for actions whose derived ids contain the variable."""
    section = _RENAMED_SECTIONS.get(name.kind)
    if section is not None and not (section == "actions" and len(name.path) == 3 and name.path[0].startswith(":")):
        yield _Entry(section, format_path(name.path), format_path(_rename(name, new).path))
    if name.kind == "variable" and after is not None:
        for old, changed in zip(_action_paths(before), _action_paths(after), strict=False):
            if old != changed and not old[0].startswith(":"):
                yield _Entry("actions", format_path(old), format_path(changed))


def _action_paths(script: Script) -> Iterator[Path]:
    for path, node in nodes(script):
        yield from ((*path, action.id) for action in walk(actions_of(node)))


def _entry_edits(text: str, entries: Sequence[_Entry]) -> Iterator[TextEdit]:
    """Yield the edits of a script's text that add entries; one that reverts an earlier rename removes its entry."""
    keys = {each.path: each for each in parts_of(text) if each.kind == "key" and each.path[0] == "migrations"}
    values = {each.path: each for each in parts_of(text) if each.kind != "key"}
    reverted: set[PartPath] = set()
    added: dict[str, list[str]] = {}
    for entry in entries:
        back: PartPath = ("migrations", entry.section, entry.new)
        if back in keys and values[back].text == entry.old:
            reverted.add(back)
        else:
            added.setdefault(entry.section, []).extend(pair_lines(entry.old, entry.new))
    for path in _without_empty_parents(reverted, keys, added):
        yield _removal(text, keys[path].start, values[path].end)
    for section in list(added):
        if (own := values.get(("migrations", section))) is not None:
            yield _append(text, own, added.pop(section))
    if added:
        lines = [line for section, inner in added.items() for line in (f"{section}:", *(f"  {each}" for each in inner))]
        yield _new_sections(text, values.get(("migrations",)), lines)


def _without_empty_parents(
    reverted: set[PartPath], keys: Collection[PartPath], added: Collection[str]
) -> Collection[PartPath]:
    """Return what to remove: instead of all pairs of a mapping, to which none is added, the mapping itself."""
    for length in (2, 1):
        for parent in {path[:length] for path in reverted}:
            inner = {path for path in keys if len(path) == length + 1 and path[:length] == parent}
            if inner <= reverted and not (parent[-1] in added or (length == 1 and added)):
                reverted = {*(reverted - inner), parent}
    return reverted


def _new_sections(text: str, migrations: Part | None, lines: Sequence[str]) -> TextEdit:
    """Return the edit that adds sections to `migrations`, or the whole of it at the end."""
    if migrations is not None and migrations.kind == "mapping":
        if text[migrations.start] == "{":
            raise RenameRefused("`migrations` is written in braces: write it over several lines first")
        return _append(text, migrations, lines)
    line_end = _line_end(text)
    before = "" if text.endswith("\n") else line_end
    written_lines = ("migrations:", *(f"  {each}" for each in lines))
    return TextEdit(len(text), len(text), before + "".join(f"{line_end}{each}" for each in written_lines) + line_end)


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _append(text: str, mapping: Part, lines: Sequence[str]) -> TextEdit:
    """Return the edit that appends pairs to a mapping, in a block or in braces."""
    start, end = mapping.start, mapping.end
    if text[start] == "{":
        is_empty = not text[start + 1 : end - 1].strip()
        return TextEdit(start + 1, start + 1, ", ".join(lines) + ("" if is_empty else ", "))
    indent = " " * (start - _line_start(text, start))
    end += len(re.split(r"[\r\n]", text[end:], maxsplit=1)[0])  # after a comment on its last line
    return TextEdit(end, end, "".join(f"{_line_end(text)}{indent}{each}" for each in lines))


def _line_start(text: str, position: int) -> int:
    return max(text.rfind("\n", 0, position), text.rfind("\r", 0, position)) + 1


def _removal(text: str, start: int, end: int) -> TextEdit:
    """Return the edit that removes a pair, with its line if nothing else is in it."""
    line = _line_start(text, start)
    if text[line:start].strip():
        raise RenameRefused("this reverts an earlier rename: remove its entry from `migrations` first")
    after = re.compile(r"[^\r\n]*(?:\r\n?|\n|\Z)").match(text, end)
    return TextEdit(line, after.end() if after is not None else end, "")


def _to_original(edit: TextEdit, earlier: Sequence[TextEdit]) -> TextEdit:
    """Return an edit of a text that has earlier edits as one of the text before them."""
    shift, start, end = 0, edit.start, edit.end
    for each in sorted(earlier):
        if each.start + shift < edit.start:
            grown = len(each.text) - (each.end - each.start)
            shift += grown
            start, end = start - grown, end - grown
    return TextEdit(start, end, edit.text)
