"""`migrations:`: the renames of phases, topics, actions, skills and variables since earlier versions.

The newest version retains every entry, so the entries of a version list the ids that were already renamed by then:
between two versions only the entries that one of them has and the other lacks apply. A downgrade inverts them.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from scripts.expressions.suggestions import suggest
from scripts.model.actions import walk
from scripts.model.base import Reference
from scripts.model.diagnostics import Problems
from scripts.model.script import BESIDE, DETECTORS, INTERRUPTS, Migrations, Path, Script, actions_of, nodes
from scripts.model.variable_names import names_in

Section: TypeAlias = Literal["phases", "topics", "actions", "skills", "interrupts", "detectors", "variables"]
SECTIONS: tuple[Section, ...] = get_args(Section)
_PARTS: Mapping[Section, tuple[int, ...]] = {"topics": (2,), "actions": (2, 3)}  # ids in a path, of others one
_HOMES: Mapping[Section, str] = {"skills": "", "interrupts": INTERRUPTS, "detectors": DETECTORS}
_VARIABLES = ":variables"
_GROUPS = {*BESIDE, _VARIABLES}
"""What the paths of parts outside the phases begin with."""


def path_of(section: Section, written: str) -> Path:
    """Parse a path written as `phase/topic/action`; in a skill as `skill/action`."""
    if section == "variables":
        return (_VARIABLES, written)
    parts = tuple(part.strip() for part in written.split("/"))
    if section == "actions" and len(parts) == 2:
        return ("", *parts)
    return (_HOMES[section], *parts) if section in _HOMES else parts


def format_path(path: Path) -> str:
    """Return a path as authors write it."""
    return "/".join(part for part in path if part not in _GROUPS)


class _Direction:
    """Renames in one direction."""

    def __init__(self, entries: Iterable["_Entry"], *, inverse: bool = False) -> None:
        self.paths: dict[Path, Path] = {}
        for each in entries:
            old, new = path_of(each.section, each.old), path_of(each.section, each.new.id)
            self.paths[new if inverse else old] = old if inverse else new

    def path(self, path: Path) -> Path | None:
        """Return the final name of a path; None if the renames form a cycle."""
        seen = {path}
        while (following := self._step(path)) is not None:
            if following in seen:
                return None
            seen.add(following)
            path = following
        return path

    def _step(self, path: Path) -> Path | None:
        for length in range(len(path), 0, -1):
            if path[:length] in self.paths:
                following = self.paths[path[:length]] + path[length:]
                is_renamed = following != path or path[0] == _VARIABLES  # a variable with its own name is a cycle
                return following if is_renamed else None
        return None


class Renames:
    """Maps the ids of one version of a script to those of another."""

    def __init__(self, old: Script, new: Script) -> None:
        before, after = _entries(old.migrations), _entries(new.migrations)
        ways = (_Direction(_without(before, after), inverse=True), _Direction(_without(after, before)))
        self._ways = ways
        paths = _named_paths(old)
        # If a part has the former id of another part of the old version, that other part has no id in the new version.
        self._reused = {way.path(each) for way in ways for each in way.paths.keys() & paths if way.path(each) != each}

    def path(self, path: Path) -> Path | None:
        """Return the path in the new version, whether it exists or not; None if another part has taken its id."""
        found: Path | None = path
        for way in self._ways:
            found = None if found is None else way.path(found)
        return None if found == path and path in self._reused else found

    def variable(self, name: str) -> str | None:
        """Return a variable's name in the new version; None if its name now belongs to another variable."""
        found = self.path((_VARIABLES, name))
        return None if found is None else found[-1]


class _Entry(Struct, frozen=True):
    section: Section
    old: str
    new: Reference


def _entries(migrations: Migrations) -> list[_Entry]:
    return [_Entry(section, *pair) for section in SECTIONS for pair in getattr(migrations, section).items()]


def _without(entries: list[_Entry], others: list[_Entry]) -> list[_Entry]:
    """Return the entries that one version has and the other lacks."""
    known = {(each.section, each.old, each.new.id) for each in others}
    return [each for each in entries if (each.section, each.old, each.new.id) not in known]


def paths_of(script: Script) -> set[Path]:
    """Return every phase, topic, skill, interrupt, detector and action of a script."""
    found = {path: actions_of(node) for path, node in nodes(script)}
    found |= {(DETECTORS, each.id): each.actions for each in script.watchers}
    return {*found, *((*path, action.id) for path, actions in found.items() for action in walk(actions))}


def _named_paths(script: Script) -> set[Path]:
    """Return the paths of all parts of a script, and of its variables."""
    return paths_of(script) | {(_VARIABLES, name) for name in names_in(script)}


# -- checking -------------------------------------------------------------------------------------------------------


def check_migrations(script: Script, problems: Problems) -> None:
    """Add a problem for every invalid rename."""
    entries = _entries(script.migrations)
    if not entries:
        return
    valid = [entry for entry in entries if _is_well_formed(entry, problems)]
    way = _Direction(valid)
    paths = _named_paths(script)
    sources: dict[tuple[Section, str], str] = {}
    for entry in valid:
        _check_target(entry, way, paths, problems)
        first = sources.setdefault((entry.section, entry.new.id), entry.old)
        if first != entry.old:
            message = f"{first} was already renamed to {entry.new.id}"
            problems.add("RENAME_CONFLICT", message, entry.new.at, path="migrations")


def _is_well_formed(entry: _Entry, problems: Problems) -> bool:
    if entry.section == "variables":
        return True
    shapes = {"topics": "phase/topic", "actions": "phase/topic/action, or skill/action"}
    for each in (entry.old, entry.new.id):
        parts = each.split("/")
        if len(parts) not in _PARTS.get(entry.section, (1,)) or not all(part.strip() for part in parts):
            shape = shapes.get(entry.section, "one id")
            problems.add("RENAME_INVALID", f"`{entry.section}` needs {shape}, not {each!r}", entry.new.at)
            return False
    return True


def _group(path: Path) -> str | None:
    """Return the group of a path outside the phases; None for a path in a phase."""
    return path[0] if path[0] in _GROUPS else None


def _check_target(entry: _Entry, way: _Direction, paths: set[Path], problems: Problems) -> None:
    path = path_of(entry.section, entry.old)
    last = way.path(path)
    if last is None:
        message = f"the renames of {entry.old} form a cycle"
        problems.add("RENAME_CYCLE", message, entry.new.at, path="migrations")
    elif last not in paths:
        known = sorted(format_path(each) for each in paths if len(each) == len(path) and _group(each) == _group(path))
        message = f"{entry.old} was renamed to {format_path(last)}, which is not in the script"
        fix = suggest(format_path(last), known, otherwise="")
        problems.add("RENAME_TARGET_UNKNOWN", message, entry.new.at, path="migrations", fix=fix)
