"""Where variables are set and where they are read: whether what is read can have a value there."""

from collections.abc import Iterator

from msgspec import Struct

from scripts.diagnostics import Problems
from scripts.model import Detector, Interrupt, Phase, Script, Skill, Topic
from scripts.nodes import Location
from scripts.suggest import suggest

_OUT_OF_SIGHT = "A skill sees its parameters and globals only, and its variables end with it: hand the value over."


class Place(Struct, frozen=True):
    """The nodes around a read or write, as far as there are any: a phase and topic, a skill, interrupt or detector."""

    phase: Phase | None = None
    topic: Topic | None = None
    skill: Skill | None = None
    interrupt: Interrupt | None = None
    detector: Detector | None = None

    @property
    def ids(self) -> tuple[str, str]:
        """Phase and topic; "" and the skill; or a colon and the interrupt or detector."""
        if self.skill is not None:
            return "", self.skill.id
        if self.interrupt is not None:
            return ":", self.interrupt.id
        if self.detector is not None:
            return ":", f"detector {self.detector.id}"
        return self.phase.id if self.phase else "", self.topic.id if self.topic else ""

    @property
    def declared(self) -> Iterator[str]:
        """The names that phase, topic or skill declare."""
        for node in (self.phase, self.topic, self.skill):
            yield from (each.var for each in node.declare) if node is not None else ()
        yield from (each.var for each in self.skill.params) if self.skill is not None else ()


class _Read(Struct, frozen=True):
    name: str
    at: Location
    place: Place


class VariableFlow:
    """Collects the reads and writes of one script."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._reads: list[_Read] = []
        self._mentions: list[tuple[str, str, Location]] = []
        self._by_detectors: set[str] = set()  # which is the session's where nobody declares it
        self._writers: dict[str, set[tuple[str, str]]] = {}  # by name, the places that write it

    def read(self, name: str, at: Location, place: Place) -> None:
        """A variable is read."""
        self._reads.append(_Read(name, at, place))

    def write(self, name: str, place: Place) -> None:
        """A variable is written, within a topic or skill."""
        if place.detector is not None:
            self._by_detectors.add(name)
        if place.ids[1]:
            self._writers.setdefault(name, set()).add(place.ids)

    def mention(self, name: str, written: str, at: Location) -> None:
        """A name stands in a text in braces that only the older forms, or nobody, takes for a variable's."""
        self._mentions.append((name, written, at))

    def check(self, problems: Problems) -> frozenset[tuple[str, tuple[str, str]]]:
        """Adds a problem for every read of what no action here sets; the names of those reads, with their place."""
        told: set[tuple[str, tuple[str, str]]] = set()
        everywhere = {each.var for each in self._script.global_variables}
        session = {each.var for each in self._script.session_variables} | self._by_detectors
        known = set(self._known())
        for read in self._reads:
            in_sight = everywhere if read.place.skill is not None else everywhere | session
            is_known = read.name in in_sight or read.name in read.place.declared
            if not is_known and self._check(read, known, problems):
                told.add((read.name, read.place.ids))
        for name, written, at in self._mentions:
            if name in known:
                fix = f"Write {{{{ {name} }}}}."
                problems.add("PLACEHOLDER_INVALID", f"{written} will be shown as it stands", at, fix=fix)
        return frozenset(told)

    def _check(self, read: _Read, known: set[str], problems: Problems) -> bool:
        """Whether a problem tells of the read."""
        writers = self._writers.get(read.name, set())
        if read.place.ids in writers:
            return False
        path = "/".join(read.place.ids).strip("/")
        setter = self._setter(writers, read.place.ids)
        if setter and read.place.skill is None:
            code = "CROSS_TOPIC_READ" if self._script.default_scope == "session" else "VARIABLE_UNDECLARED"
            problems.add(code, f"`{read.name}` is set in {setter}", read.at, path=path)
            return True
        fix = _OUT_OF_SIGHT if read.name in known else suggest(read.name, sorted(known), otherwise="")
        problems.add("VARIABLE_NEVER_SET", f"nothing sets `{read.name}`", read.at, path=path, fix=fix)
        return True

    def _setter(self, writers: set[tuple[str, str]], reader: tuple[str, str]) -> str:
        """The topic whose value a reader finds in the order of the script: the last before it, else the first after.

        Empty where no topic writes; the variables of skills and interrupts end with them.
        """
        topics = [(phase.id, topic.id) for phase in self._script.phases for topic in phase.topics]
        phases = [phase for phase, _ in topics]
        here = phases.index(reader[0]) if reader[0] in phases else 0  # where the `when` of a phase or topic is read
        here = topics.index(reader) if reader in topics else here
        setters = [topic for topic in (*reversed(topics[:here]), *topics[here:]) if topic in writers]
        return "/".join(setters[0]) if setters else ""

    def _known(self) -> Iterator[str]:
        yield from self._writers
        declared = [self._script.global_variables, self._script.session_variables]
        for phase in self._script.phases:
            declared += [phase.declare, *(topic.declare for topic in phase.topics)]
        yield from (each.var for some in declared for each in some)
