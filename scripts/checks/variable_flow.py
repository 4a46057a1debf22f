"""Collect reads and writes of variables, and check that each read can find a value."""

import re
from collections.abc import Collection, Iterator

from msgspec import Struct

from scripts.checks.unreadable_parts import LostParts
from scripts.expressions.expressions import is_reserved
from scripts.expressions.suggestions import suggest
from scripts.model.base import Location
from scripts.model.diagnostics import Problems, Severity
from scripts.model.script import Detector, Interrupt, Phase, Script, Skill, Topic, declarations_of

_OUT_OF_SIGHT = (
    "A skill reads only its parameters and global variables, and its own variables end with it: pass the value."
)
_CONSTANTS = {"null": "none", "nil": "none", "yes": "true", "no": "false", "on": "true", "off": "false"}
_OF_USER = "Of the user, a script knows only the id, `{user.id}`: ask for other values, or declare variables for them."
_BUILT_IN = {
    **dict.fromkeys(("user", "user_id", "userid", "uid"), "The id of the user is `{user.id}`."),
    **dict.fromkeys(("now", "time", "datetime", "current_time", "date", "today"), "The time is `{%time%}`."),
    **dict.fromkeys(("role", "who", "speaker"), "The role that speaks is `{%who%}`."),
}
"""By the names that authors of the older formats try, the built-in values."""
_NAME = re.compile(r"(?<!\w)[^\W\d]\w*")


class Place(Struct, frozen=True):
    """The place of a read or write: a phase, if any, and the node whose actions contain it, if any."""

    phase: Phase | None = None
    node: Topic | Skill | Interrupt | Detector | None = None

    @property
    def path(self) -> str:
        """The path for problems."""
        return "/".join(node.id for node in (self.phase, self.node) if node is not None)

    @property
    def ids(self) -> tuple[str, str]:
        """The ids: phase and topic; "" and the skill; or a colon and the interrupt or detector."""
        match self.node:
            case Skill():
                return "", self.node.id
            case Interrupt():
                return ":", self.node.id
            case Detector():
                return ":", f"detector {self.node.id}"
            case _:
                return self.phase.id if self.phase else "", self.node.id if self.node else ""

    @property
    def declared(self) -> Iterator[str]:
        """Return the names that the phase, topic or skill declares."""
        for node in (self.phase, self.node):
            yield from (each.var for each in declarations_of(node)) if node is not None else ()


class _Read(Struct, frozen=True):
    name: str
    at: Location
    place: Place


class VariableFlow:
    """The reads and writes of a script."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._reads: list[_Read] = []
        self._mentions: list[tuple[str, str, Location, str, bool]] = []
        self._texts: list[tuple[str, Location, Place, Severity | None]] = []
        self._by_detectors: set[str] = set()  # undeclared, it has session scope
        self._writers: dict[str, set[tuple[str, str]]] = {}  # places that write a variable, by name

    def read(self, name: str, at: Location, place: Place) -> None:
        """Record a read of a variable."""
        self._reads.append(_Read(name, at, place))

    def write(self, name: str, place: Place) -> None:
        """Record a write of a variable, within a topic or skill."""
        if isinstance(place.node, Detector):
            self._by_detectors.add(name)
        if place.ids[1]:
            self._writers.setdefault(name, set()).add(place.ids)

    def mention(self, name: str, written: str, at: Location, fix: str, place: Place, *, is_at_hand: bool) -> None:
        """Record a name in single braces, which are a placeholder only in the older formats, or in no format.

        `is_at_hand` is whether it has a value here besides the variables.
        """
        self._mentions.append((name, written, at, fix, is_at_hand or name in place.declared))

    def text(self, written: str, at: Location, place: Place, severity: Severity | None) -> None:
        """Record a text that would be an expression after `=`, which was probably meant if it has only variables."""
        self._texts.append((written, at, place, severity))

    def check(self, problems: Problems, lost: LostParts) -> frozenset[tuple[str, tuple[str, str]]]:
        """Add a problem for every read of a variable that no action sets; return these names with their locations.

        `lost` are the parts of the script that errors made unreadable: they may set or declare the variables.
        """
        reported: set[tuple[str, tuple[str, str]]] = set()
        everywhere = {each.var for each in self._script.global_variables}
        session = {each.var for each in self._script.session_variables} | self._by_detectors
        known = self.known_names()
        of_phases = {each.var for phase in self._script.phases for each in phase.declare}
        for read in self._reads:
            in_sight = everywhere if isinstance(read.place.node, Skill) else everywhere | session
            if isinstance(read.place.node, Interrupt | Detector):  # which may run in each phase
                in_sight = in_sight | of_phases
            is_known = read.name in in_sight or read.name in read.place.declared
            if not is_known and self._check(read, known, problems, lost):
                reported.add((read.name, read.place.ids))
        for name, written, at, fix, is_known in self._mentions:
            if is_known or name in known:
                problems.add("PLACEHOLDER_INVALID", f"{written} is shown unchanged", at, fix=fix)
        for written, at, place, severity in self._texts:
            names = set(_NAME.findall(written))
            if names and names <= known:
                meant = "the value of the variable" if written in known else "its result"
                fix = f"Write `={written}` for {meant}."
                message = f"`{written}` is the text, not {'the variable' if written in known else 'a calculation'}"
                problems.add("NAME_AS_TEXT", message, at, path=place.path, fix=fix, severity=severity)
        return frozenset(reported)

    def _check(self, read: _Read, known: Collection[str], problems: Problems, lost: LostParts) -> bool:
        """Return whether a problem reports the read."""
        writers = self._writers.get(read.name, set())
        if read.place.ids in writers:
            return False
        path = "/".join(read.place.ids).strip("/")
        setter, declared = self._setter(writers, read.place.ids), self._declaring_places(read.name)
        source = setter or next((path for path, has_value in declared.items() if has_value), "")
        if source and lost:
            return False
        if source and not isinstance(read.place.node, Skill):
            ends = any(f"{source}/".startswith(f"{each}/") for each in declared)  # whatever the default scope is
            lasts = self._script.default_scope == "session" and not ends
            message = f"`{read.name}` is {'set' if setter else 'declared'} in {source}"
            if lasts:
                problems.add("CROSS_TOPIC_READ", message, read.at, path=path)
            else:
                phases = {phase for phase, _ in writers} | {read.place.ids[0]}
                within = f" in the phase {read.place.ids[0]}, or" if len(phases) == 1 and not declared else ""
                fix = f"Declare it{within} at the top of the script: `declare: [{{var: {read.name}}}]`."
                problems.add("VARIABLE_UNDECLARED", message, read.at, path=path, fix=fix)
            return True
        meant = "" if read.name in known else suggest(read.name, sorted(known), otherwise="")
        is_out_of_sight = read.name in known and (isinstance(read.place.node, Skill) or not declared)
        fix = _OUT_OF_SIGHT if is_out_of_sight else meant
        constant = _CONSTANTS.get(read.name.lower(), "")
        if constant and fix == meant:
            fix = f"Write `{constant}`, or '{read.name}' in quotes if it is a text."
        name = read.name
        if self._script.form not in {"native", "detectors"}:
            name = name[:-1] if name.endswith("_") and is_reserved(name[:-1]) else name  # renamed by the stage format
            of_user = _OF_USER if name.lower().startswith("user.") else ""
            fix = _BUILT_IN.get(name.lower(), "") or fix or of_user
        lines = [each.at for each in self._reads if each.name == read.name] if lost else []
        if not lost or constant or not lost.may_contain(read.name, lines, is_misspelt=bool(meant)):
            problems.add("VARIABLE_NEVER_SET", f"nothing sets `{name}`", read.at, path=path, fix=fix)
        return True

    def _setter(self, writers: set[tuple[str, str]], reader: tuple[str, str]) -> str:
        """Return the topic whose value a read finds, in script order: the last one before it, else the first after.

        Empty if no topic writes it; the variables of skills and interrupts end with them.
        """
        topics = [(phase.id, topic.id) for phase in self._script.phases for topic in phase.topics]
        phases = [phase for phase, _ in topics]
        here = phases.index(reader[0]) if reader[0] in phases else 0  # for reads in the `when` of a phase or topic
        here = topics.index(reader) if reader in topics else here
        setters = [topic for topic in (*reversed(topics[:here]), *topics[here:]) if topic in writers]
        return "/".join(setters[0]) if setters else ""

    def _declaring_places(self, name: str) -> dict[str, bool]:
        """Return the phases and topics that declare a variable, in script order, and whether it has a value there."""
        places: list[tuple[str, Phase | Topic]] = [(phase.id, phase) for phase in self._script.phases]
        places += [(f"{phase.id}/{topic.id}", topic) for phase in self._script.phases for topic in phase.topics]
        found = [(path, each) for path, node in places for each in node.declare if each.var == name]
        return {path: each.value is not None or each.auto for path, each in found}

    def known_names(self) -> frozenset[str]:
        """Return the names that the script declares or writes."""
        declared = [self._script.global_variables, self._script.session_variables]
        for phase in self._script.phases:
            declared += [phase.declare, *(topic.declare for topic in phase.topics)]
        return frozenset({*self._writers, *(each.var for some in declared for each in some)})
