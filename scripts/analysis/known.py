"""What is known of the variables at one point of a script, and how two ways that meet there are put together."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import TypeAlias, TypeVar

from scripts.conditions import Atom, Literal, equality
from scripts.facts import Outcome
from scripts.meaning import compare
from scripts.members import BUILTINS
from scripts.values import Value
from scripts.variables import Declaration

ABSENT, NULL, VALUE = 1, 2, 4
"""What a cell may be: not there, there without a value, there with one; a mask of them where several are possible."""

FACTS_MAX = 200  # conditions remembered at one point
REASONS_MAX = 8  # sets of conditions that are remembered to give one variable a value
LITERALS_MAX = 4  # conditions in one such set


class Level(IntEnum):
    """The layers of variables, innermost first."""

    TOPIC = 0
    PHASE = 1
    SESSION = 2
    GLOBAL = 3


_Kept = TypeVar("_Kept", bool, Value)
Key: TypeAlias = tuple[Level, str]
Reason: TypeAlias = frozenset[Literal]


class Sight:
    """Which layer a name belongs to, seen from one place; the layers are those in sight there, innermost first."""

    def __init__(self, layers: Iterable[tuple[Level, Mapping[str, Declaration]]], otherwise: Level) -> None:
        self._layers = tuple(layers)
        self._otherwise = otherwise

    def key(self, name: str) -> Key:
        """The cell that a write goes to."""
        for level, names in self._layers:
            if name in names:
                return level, name
        return self._otherwise, name

    def declaration(self, name: str) -> Declaration | None:
        """What the script says of a name as it is written here."""
        return next((names[name] for _, names in self._layers if name in names), None)

    def outside(self, name: str) -> Level | None:
        """The innermost layer but the first that declares a name."""
        return next((level for level, names in self._layers[1:] if name in names), None)

    def mask(self, known: "Known", name: str) -> int:
        """What a read of the name may find."""
        found = 0
        for level, _ in self._layers:
            cell = known.masks.get((level, name), ABSENT)
            found |= cell & ~ABSENT
            if not cell & ABSENT:
                return found
        return found | ABSENT


class Known:
    """What is certain at one point.

    `masks`: what each cell may be (a missing key is ABSENT); `doubts`: when a cell is not set; `constants` and
    `facts`: values and conditions that are certain; `reasons`: conditions under which a cell is certainly set.
    """

    __slots__ = ("constants", "doubts", "facts", "masks", "reasons")

    def __init__(self) -> None:
        self.masks: dict[Key, int] = {}
        self.doubts: dict[Key, str] = {}
        self.constants: dict[str, Value] = {}
        self.facts: dict[str, bool] = {}
        self.reasons: dict[Key, frozenset[Reason]] = {}

    def copy(self) -> "Known":
        """The same, to be changed."""
        made = Known()
        made.masks, made.doubts = dict(self.masks), dict(self.doubts)
        made.constants, made.facts, made.reasons = dict(self.constants), dict(self.facts), dict(self.reasons)
        return made

    def same(self, other: "Known") -> bool:
        """Whether two know the same; the doubts are only words."""
        return (
            self.masks == other.masks
            and self.facts == other.facts
            and self.constants == other.constants
            and self.reasons == other.reasons
        )

    def drop(self, level: Level) -> None:
        """The cells of a scope end with it."""
        for key in [key for key in self.masks if key[0] == level]:
            del self.masks[key]
            self.doubts.pop(key, None)
        for key in [key for key in self.reasons if key[0] == level]:
            del self.reasons[key]

    def set(self, key: Key, mask: int, doubt: str = "") -> None:
        """A cell is written."""
        self.masks[key] = mask
        self.reasons.pop(key, None)
        self.doubts.pop(key, None)
        if mask != VALUE:
            self.doubts[key] = doubt


class Conditions:
    """The conditions of one script by spelling: what is known to hold, and what follows from it."""

    def __init__(self, at_any_time: frozenset[str]) -> None:
        self._passing = BUILTINS | at_any_time  # the clock, the conversation, and what changes beside it
        self._atoms: dict[str, Atom] = {}
        self._by_name: dict[str, set[str]] = {}

    def hold(self, known: Known, name: str, value: Value) -> None:
        """A variable is known to hold a text."""
        if name not in self._passing:
            known.constants[name] = value

    def learn(self, atoms: Iterable[Atom]) -> None:
        """Takes in the conditions of an expression."""
        for atom in atoms:
            if atom.spelling not in self._atoms:
                self._atoms[atom.spelling] = atom
                for name in atom.names:
                    self._by_name.setdefault(name, set()).add(atom.spelling)

    def forget(self, known: Known, name: str) -> None:
        """Nothing that was known of a name counts any longer: it was written, or means another variable now."""
        known.constants.pop(name, None)
        spellings = self._by_name.get(name)
        if not spellings:
            return
        for spelling in spellings:
            known.facts.pop(spelling, None)
        for key, reasons in list(known.reasons.items()):
            kept = frozenset(each for each in reasons if not any(spelling in spellings for spelling, _ in each))
            if kept:
                known.reasons[key] = kept
            else:
                del known.reasons[key]

    def names(self, known: Known) -> set[str]:
        """Every name that something is known of."""
        spelled = {spelling for reasons in known.reasons.values() for each in reasons for spelling, _ in each}
        found = {name for spelling in (*known.facts, *spelled) for name in self._atoms[spelling].names}
        return found | known.constants.keys()

    def truth(self, known: Known, sight: Sight, spelling: str) -> bool | None:
        """Whether a condition certainly holds or not."""
        if (fact := known.facts.get(spelling)) is not None:
            return fact
        atom = self._atoms[spelling]
        if atom.against is None:
            return None
        name, value = atom.against
        if name in known.constants:
            return compare("ne" if atom.differs else "eq", known.constants[name], value)
        mask = sight.mask(known, name)
        if not mask & VALUE and sight.key(name)[0] in (Level.TOPIC, Level.PHASE):
            return False  # a comparison with what has no value; the application may fill outer variables
        is_equal = known.facts.get(equality(name, value)) if atom.differs else None
        return None if is_equal is None or mask != VALUE else not is_equal

    def assume(self, known: Known, sight: Sight, outcome: Outcome, local: frozenset[str]) -> bool:
        """Takes a condition for certain; False where that contradicts what is known."""
        for spelling, holds in outcome.literals:
            atom = self._atoms[spelling]
            if atom.names & self._passing:
                continue
            if self.truth(known, sight, spelling) is (not holds):
                return False
            if len(known.facts) < FACTS_MAX:
                known.facts[spelling] = holds
            if atom.against is not None and (holds is not atom.differs):
                name, value = atom.against
                if not atom.differs or sight.mask(known, name) == VALUE:
                    known.constants[name] = value
        for name in outcome.names - local - BUILTINS:
            known.set(sight.key(name), VALUE)
        self._conclude(known, sight)
        return True

    def _conclude(self, known: Known, sight: Sight) -> None:
        for key, reasons in list(known.reasons.items()):
            if any(self._all_hold(known, sight, each) for each in reasons):
                known.set(key, VALUE)

    def _all_hold(self, known: Known, sight: Sight, reason: Reason) -> bool:
        return all(self.truth(known, sight, spelling) is holds for spelling, holds in reason)

    def join(self, one: Known, two: Known, sight: Sight, doubts: tuple[str, str] = ("", "")) -> Known:
        """What is certain whichever of two ways was taken; `doubts` say when each of them is."""
        made = Known()
        for key in one.masks.keys() | two.masks.keys():
            first, second = one.masks.get(key, ABSENT), two.masks.get(key, ABSENT)
            made.masks[key] = first | second
            if first | second != VALUE:
                made.doubts[key] = _doubt(key, (one, first, doubts[0]), (two, second, doubts[1]))
        made.facts = _common(one.facts, two.facts)
        made.constants = _common(one.constants, two.constants)
        self._join_reasons(made, one, two, sight)
        return made

    def _join_reasons(self, made: Known, one: Known, two: Known, sight: Sight) -> None:
        keys = {key for key, mask in made.masks.items() if mask != VALUE and mask & VALUE}
        apart = {}
        for key in keys:
            found: set[Reason] = set()
            for side, other in ((one, two), (two, one)):
                for reason in self._reasons(side, key):
                    if self._counts(reason, key, other, sight):
                        found.add(reason)
                        continue
                    if id(side) not in apart:
                        apart[id(side)] = self._apart(side, other, sight)
                    found |= {reason | {literal} for literal in apart[id(side)] if len(reason) < LITERALS_MAX}
            kept = sorted(found - {frozenset()}, key=lambda reason: (len(reason), sorted(reason)))
            if kept:
                made.reasons[key] = frozenset(kept[:REASONS_MAX])

    def _reasons(self, known: Known, key: Key) -> Iterable[Reason]:
        if known.masks.get(key, ABSENT) == VALUE:
            return (frozenset(),)
        return known.reasons.get(key, ())

    def _counts(self, reason: Reason, key: Key, other: Known, sight: Sight) -> bool:
        """Whether a set of conditions gives a cell a value on the other way too, or cannot hold there."""
        if other.masks.get(key, ABSENT) == VALUE:
            return bool(reason)
        return any(each <= reason for each in other.reasons.get(key, ())) or any(
            self.truth(other, sight, spelling) is (not holds) for spelling, holds in reason
        )

    def _apart(self, side: Known, other: Known, sight: Sight) -> list[Literal]:
        """Conditions that hold on the one way and not on the other."""
        found = [
            (spelling, holds)
            for spelling, holds in side.facts.items()
            if self.truth(other, sight, spelling) is (not holds)
        ]
        for name in side.constants:
            for spelling in self._by_name.get(name, ()):
                holds = self.truth(side, sight, spelling)
                if holds is not None and self.truth(other, sight, spelling) is (not holds):
                    found.append((spelling, holds))
        return sorted(set(found))[:REASONS_MAX]


def _doubt(key: Key, one: tuple[Known, int, str], two: tuple[Known, int, str]) -> str:
    """When a cell is not set: what its way knows of it, else when that way is taken."""
    for known, mask, otherwise in (one, two):
        if mask != VALUE and (found := known.doubts.get(key) or otherwise):
            return found
    return ""


def _common(one: Mapping[str, _Kept], two: Mapping[str, _Kept]) -> dict[str, _Kept]:
    return {name: value for name, value in one.items() if name in two and _same(two[name], value)}


def _same(one: Value, two: Value) -> bool:
    return type(one) is type(two) and one == two
