"""`migrations:`: what earlier versions called the phases, topics, actions, skills and variables of a script.

The newest version keeps every entry, so a version's own entries say what had its new id already by then: between two
versions only the entries count that one of them has and the other has not. A way back takes them the other way round.
"""

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from scripts.actions import walk
from scripts.diagnostics import Problems
from scripts.model import Migrations, Script
from scripts.names import names_in
from scripts.nodes import Reference
from scripts.suggest import suggest

Path: TypeAlias = tuple[str, ...]
"""Ids from the outside in: phase, topic, action. What stands beside the phases is a topic of one of `BESIDE`."""

INTERRUPTS, DETECTORS = ":interrupts", ":detectors"  # as a saved state has them
BESIDE: Mapping[str, str] = {"": "skill", INTERRUPTS: "interrupt", DETECTORS: "detector"}

Section: TypeAlias = Literal["phases", "topics", "actions", "skills", "interrupts", "detectors", "variables"]
SECTIONS: tuple[Section, ...] = ("phases", "topics", "actions", "skills", "interrupts", "detectors", "variables")
_PARTS: Mapping[Section, tuple[int, ...]] = {
    "phases": (1,),
    "topics": (2,),
    "actions": (2, 3),
    "skills": (1,),
    "interrupts": (1,),
    "detectors": (1,),
    "variables": (1,),
}
_HOMES: Mapping[Section, str] = {"skills": "", "interrupts": INTERRUPTS, "detectors": DETECTORS}


def path_of(section: Section, written: str) -> Path:
    """The path that is written as `phase/topic/action`; in a skill as `skill/action`."""
    if section == "variables":
        return (written,)
    parts = tuple(part.strip() for part in written.split("/"))
    if section == "actions" and len(parts) == 2:
        return ("", *parts)
    return (_HOMES[section], *parts) if section in _HOMES else parts


def written(path: Path) -> str:
    """A path as authors write it."""
    return "/".join(part for part in path if part not in BESIDE)


class _Way:
    """Renames in one direction."""

    def __init__(self, paths: Mapping[Path, Path], variables: Mapping[str, str]) -> None:
        self._paths = paths
        self._variables = variables

    def path(self, path: Path) -> Path | None:
        """The last name of a path; None where the renames lead in a circle."""
        seen = {path}
        following = self._step(path)
        while following != path:
            if following in seen:
                return None
            seen.add(following)
            path, following = following, self._step(following)
        return path

    def _step(self, path: Path) -> Path:
        for length in range(len(path), 0, -1):
            if path[:length] in self._paths:
                return self._paths[path[:length]] + path[length:]
        return path

    def variable(self, name: str) -> str | None:
        """The last name of a variable; None where the renames lead in a circle."""
        seen = {name}
        while name in self._variables:
            name = self._variables[name]
            if name in seen:
                return None
            seen.add(name)
        return name

    @property
    def targets(self) -> Iterator[tuple[Path, Path]]:
        """What each path that was renamed became in the end."""
        for path in self._paths:
            last = self.path(path)
            if last is not None:
                yield path, last

    @property
    def renamed_variables(self) -> Iterator[tuple[str, str]]:
        for name in self._variables:
            last = self.variable(name)
            if last is not None:
                yield name, last


class Renames:
    """From the ids of one version of a script to those of another."""

    def __init__(self, old: Script, new: Script) -> None:
        before, after = old.migrations, new.migrations
        self._ways = (_way(before, after, inverse=True), _way(after, before, inverse=False))
        paths, names = paths_of(old), names_in(old)
        # What took over the id of something else that stood in the old version leaves that without one.
        self._taken = {last for way in self._ways for first, last in way.targets if first in paths and first != last}
        self._taken_names = {
            last for way in self._ways for first, last in way.renamed_variables if first in names and first != last
        }

    def path(self, path: Path) -> Path | None:
        """What a path of the old version is called in the new one, whether it is there or not; None: nothing is."""
        found: Path | None = path
        for way in self._ways:
            found = None if found is None else way.path(found)
        return None if found == path and path in self._taken else found

    def variable(self, name: str) -> str | None:
        """What a variable of the old version is called in the new one; None: its name means another one now."""
        found: str | None = name
        for way in self._ways:
            found = None if found is None else way.variable(found)
        return None if found == name and name in self._taken_names else found


def _way(having: Migrations, lacking: Migrations, *, inverse: bool) -> _Way:
    """The renames that one version has and the other lacks."""
    paths: dict[Path, Path] = {}
    variables: dict[str, str] = {}
    for section in SECTIONS:
        others: Mapping[str, Reference] = getattr(lacking, section)
        for old, new in _entries(having, section):
            if old in others and others[old].id == new.id:
                continue
            pair = (old, new.id) if not inverse else (new.id, old)
            if section == "variables":
                variables[pair[0]] = pair[1]
            else:
                paths[path_of(section, pair[0])] = path_of(section, pair[1])
    return _Way(paths, variables)


def _entries(migrations: Migrations, section: Section) -> list[tuple[str, Reference]]:
    entries: Mapping[str, Reference] = getattr(migrations, section)
    return list(entries.items())


def paths_of(script: Script) -> set[Path]:
    """Every phase, topic, skill, interrupt, detector and action of a script."""
    topics = [((phase.id, topic.id), topic.actions) for phase in script.phases for topic in phase.topics]
    topics += [(("", skill.id), skill.actions) for skill in script.skills]
    topics += [((INTERRUPTS, each.id), each.actions) for each in script.interrupts]
    topics += [((DETECTORS, each.id), each.actions) for each in script.watchers]
    found: set[Path] = {(phase.id,) for phase in script.phases} | {path for path, _ in topics}
    return found | {(*path, action.id) for path, actions in topics for action in walk(actions)}


# -- checking -------------------------------------------------------------------------------------------------------


class _Entry(Struct, frozen=True):
    section: Section
    old: str
    new: Reference


def check_migrations(script: Script, problems: Problems) -> None:
    """Adds a problem for every rename that leads nowhere."""
    entries = [_Entry(section, old, new) for section in SECTIONS for old, new in _entries(script.migrations, section)]
    if not entries:
        return
    sound = [entry for entry in entries if _is_well_formed(entry, problems)]
    way = _way(_of(sound), Migrations(), inverse=False)
    paths, names = paths_of(script), names_in(script)
    taken: dict[tuple[Section, str], str] = {}
    for entry in sound:
        _check_target(entry, way, paths, names, problems)
        first = taken.setdefault((entry.section, entry.new.id), entry.old)
        if first != entry.old:
            problems.add("RENAME_CONFLICT", f"{first} became {entry.new.id} already", entry.new.at, path="migrations")


def _of(entries: list[_Entry]) -> Migrations:
    found: dict[Section, dict[str, Reference]] = {section: {} for section in SECTIONS}
    for entry in entries:
        found[entry.section][entry.old] = entry.new
    return Migrations(
        phases=found["phases"],
        topics=found["topics"],
        actions=found["actions"],
        skills=found["skills"],
        interrupts=found["interrupts"],
        detectors=found["detectors"],
        variables=found["variables"],
    )


def _is_well_formed(entry: _Entry, problems: Problems) -> bool:
    if entry.section == "variables":
        return True
    shapes = {"topics": "phase/topic", "actions": "phase/topic/action, or skill/action"}
    for each in (entry.old, entry.new.id):
        parts = each.split("/")
        if len(parts) not in _PARTS[entry.section] or not all(part.strip() for part in parts):
            shape = shapes.get(entry.section, "one id")
            problems.add("RENAME_INVALID", f"`{entry.section}` takes {shape}; {each!r} is none", entry.new.at)
            return False
    return True


def _beside(path: Path) -> str | None:
    """Which group beside the phases a path is in, None for what is in a phase."""
    return path[0] if path[0] in BESIDE else None


def _check_target(entry: _Entry, way: _Way, paths: set[Path], names: frozenset[str], problems: Problems) -> None:
    last: str | None
    if entry.section == "variables":
        last = way.variable(entry.old)
        known = sorted(names)
        found = last in names
    else:
        path = path_of(entry.section, entry.old)
        end = way.path(path)
        last = None if end is None else written(end)
        known = sorted(written(each) for each in paths if len(each) == len(path) and _beside(each) == _beside(path))
        found = end in paths
    if last is None:
        message = f"the renames of {entry.old} lead in a circle"
        problems.add("RENAME_CYCLE", message, entry.new.at, path="migrations")
    elif not found:
        message = f"{entry.old} became {last}, which the script does not have"
        problems.add(
            "RENAME_TARGET_UNKNOWN", message, entry.new.at, path="migrations", fix=suggest(last, known, otherwise="")
        )
