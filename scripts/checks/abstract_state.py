"""The abstract state of the variables at one point of a script, and its join where paths meet."""

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import TypeAlias, TypeVar

from scripts.expressions.analysis import Outcome
from scripts.expressions.condition_algebra import Atom, Literal, equality
from scripts.expressions.members import BUILTINS
from scripts.expressions.values import Value, compare
from scripts.model.variables import Declaration

ABSENT, NULL, VALUE = 1, 2, 4
"""The possible states of a cell: absent, without a value, or with a value; a bit mask if several are possible."""

FACTS_MAX = 200  # conditions stored at one point
REASONS_MAX = 8  # condition sets stored per variable, each of which implies a value
LITERALS_MAX = 4  # conditions per set


class Level(IntEnum):
    """The layers of variables, innermost first."""

    TOPIC = 0
    PHASE = 1
    SESSION = 2
    GLOBAL = 3


_Reasons = TypeVar("_Reasons", bool, Value)
Key: TypeAlias = tuple[Level, str]
Reason: TypeAlias = frozenset[Literal]
Doubts: TypeAlias = tuple[str, str]
"""When each of two paths is taken."""


class Sight:
    """Resolves names at one place; the layers are the visible ones, innermost first."""

    def __init__(self, layers: Iterable[tuple[Level, Mapping[str, Declaration]]], otherwise: Level) -> None:
        self._layers = tuple(layers)
        self._otherwise = otherwise

    def key(self, name: str) -> Key:
        """Return the cell that a write changes."""
        for level, names in self._layers:
            if name in names:
                return level, name
        return self._otherwise, name

    def declaration(self, name: str) -> Declaration | None:
        """Return the declaration that applies to a write of a name here."""
        return next((names[name] for _, names in self._layers if name in names), None)

    @property
    def declared(self) -> Iterator[Declaration]:
        """Every visible declaration, innermost first."""
        for _, names in self._layers:
            yield from names.values()

    def mask(self, known: "AbstractState", name: str) -> int:
        """Return the possible states that a read of the name finds."""
        found = 0
        for level, _ in self._layers:
            cell = known.masks.get((level, name), ABSENT)
            found |= cell & ~ABSENT
            if not cell & ABSENT:
                return found
        return found | ABSENT


class AbstractState:
    """The abstract state at one point.

    `masks`: the possible states of each cell (a missing key is ABSENT); `doubts`: when a cell is not set; `constants`
    and `facts`: values and conditions that are certain; `reasons`: conditions under which a cell is certainly set.
    """

    __slots__ = ("constants", "doubts", "facts", "masks", "reasons")

    def __init__(self) -> None:
        self.masks: dict[Key, int] = {}
        self.doubts: dict[Key, str] = {}
        self.constants: dict[str, Value] = {}
        self.facts: dict[str, bool] = {}
        self.reasons: dict[Key, frozenset[Reason]] = {}

    def copy(self) -> "AbstractState":
        """Return a copy that may be changed."""
        made = AbstractState()
        made.masks, made.doubts = dict(self.masks), dict(self.doubts)
        made.constants, made.facts, made.reasons = dict(self.constants), dict(self.facts), dict(self.reasons)
        return made

    def same(self, other: "AbstractState") -> bool:
        """Return whether two states are equal; doubts are only texts and are not compared."""
        return (
            self.masks == other.masks
            and self.facts == other.facts
            and self.constants == other.constants
            and self.reasons == other.reasons
        )

    def drop(self, level: Level) -> None:
        """Remove the cells of a scope that ends."""
        for key in [key for key in self.masks if key[0] == level]:
            del self.masks[key]
            self.doubts.pop(key, None)
        for key in [key for key in self.reasons if key[0] == level]:
            del self.reasons[key]

    def set(self, key: Key, mask: int, doubt: str = "") -> None:
        """Record a write of a cell."""
        self.masks[key] = mask
        self.reasons.pop(key, None)
        self.doubts.pop(key, None)
        if mask != VALUE:
            self.doubts[key] = doubt


class Conditions:
    """The conditions of one script by their source: which of them hold, and what they imply."""

    def __init__(self, at_any_time: frozenset[str]) -> None:
        self._passing = BUILTINS | at_any_time  # the clock, the conversation, and values that change outside
        self._atoms: dict[str, Atom] = {}
        self._by_name: dict[str, set[str]] = {}

    def hold(self, known: AbstractState, name: str, value: Value) -> None:
        """Record that a variable has a certain text."""
        if name not in self._passing:
            known.constants[name] = value

    def learn(self, atoms: Iterable[Atom]) -> None:
        """Register the conditions of an expression."""
        for atom in atoms:
            if atom.spelling not in self._atoms:
                self._atoms[atom.spelling] = atom
                for name in atom.names:
                    self._by_name.setdefault(name, set()).add(atom.spelling)

    def forget(self, known: AbstractState, name: str) -> None:
        """Discard all facts on a name, because it was written or now refers to another variable."""
        known.constants.pop(name, None)
        spellings = self._by_name.get(name)
        if not spellings:
            return
        for spelling in known.facts.keys() & spellings:
            del known.facts[spelling]
        for key, reasons in list(known.reasons.items()):
            remaining = frozenset(each for each in reasons if not any(spelling in spellings for spelling, _ in each))
            if remaining:
                known.reasons[key] = remaining
            else:
                del known.reasons[key]

    def names(self, known: AbstractState) -> set[str]:
        """Return every name with a known fact."""
        spelled = {spelling for reasons in known.reasons.values() for each in reasons for spelling, _ in each}
        found = {name for spelling in (*known.facts, *spelled) for name in self._atoms[spelling].names}
        return found | known.constants.keys()

    def truth(self, known: AbstractState, sight: Sight, spelling: str) -> bool | None:
        """Return whether a condition certainly holds or fails; None if unknown."""
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
            return False  # a comparison without a value; the application may set outer variables
        is_equal = known.facts.get(equality(name, value)) if atom.differs else None
        return None if is_equal is None or mask != VALUE else not is_equal

    def assume(self, known: AbstractState, sight: Sight, outcome: Outcome, local: frozenset[str]) -> bool:
        """Assume a condition; return False if it contradicts the known facts."""
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

    def _conclude(self, known: AbstractState, sight: Sight) -> None:
        for key, reasons in list(known.reasons.items()):
            if any(all(self.truth(known, sight, each) is holds for each, holds in reason) for reason in reasons):
                known.set(key, VALUE)

    def join(self, one: AbstractState, two: AbstractState, sight: Sight, doubts: Doubts = ("", "")) -> AbstractState:
        """Join the states of two paths; `doubts` say when each path is taken."""
        made = AbstractState()
        for key in one.masks.keys() | two.masks.keys():
            first, second = one.masks.get(key, ABSENT), two.masks.get(key, ABSENT)
            made.masks[key] = first | second
            if first | second != VALUE:
                made.doubts[key] = _doubt(key, (one, first, doubts[0]), (two, second, doubts[1]))
        made.facts = _common(one.facts, two.facts)
        made.constants = _common(one.constants, two.constants)
        self._join_reasons(made, one, two, sight)
        return made

    def _join_reasons(self, made: AbstractState, one: AbstractState, two: AbstractState, sight: Sight) -> None:
        keys = {key for key, mask in made.masks.items() if mask != VALUE and mask & VALUE}
        apart = {}
        for key in keys:
            if one.masks.get(key) == two.masks.get(key) and one.reasons.get(key) is two.reasons.get(key):
                if key in one.reasons:  # neither path has changed them
                    made.reasons[key] = one.reasons[key]
                continue
            found: set[Reason] = set()
            for side, other in ((one, two), (two, one)):
                for reason in self._reasons(side, key):
                    if self._counts(reason, key, other, sight):
                        found.add(reason)
                        continue
                    if id(side) not in apart:
                        apart[id(side)] = self._apart(side, other, sight)
                    found |= {reason | {literal} for literal in apart[id(side)] if len(reason) < LITERALS_MAX}
            remaining = sorted(found - {frozenset()}, key=lambda reason: (len(reason), sorted(reason)))
            if remaining:
                made.reasons[key] = frozenset(remaining[:REASONS_MAX])

    def _reasons(self, known: AbstractState, key: Key) -> Iterable[Reason]:
        return (frozenset(),) if known.masks.get(key, ABSENT) == VALUE else known.reasons.get(key, ())

    def _counts(self, reason: Reason, key: Key, other: AbstractState, sight: Sight) -> bool:
        """Return whether a condition set also implies a value on the other path, or cannot hold there."""
        if other.masks.get(key, ABSENT) == VALUE:
            return bool(reason)
        return any(each <= reason for each in other.reasons.get(key, ())) or any(
            self.truth(other, sight, spelling) is (not holds) for spelling, holds in reason
        )

    def _apart(self, side: AbstractState, other: AbstractState, sight: Sight) -> list[Literal]:
        """Return conditions that hold on one path but not on the other."""
        found = [fact for fact in side.facts.items() if self.truth(other, sight, fact[0]) is (not fact[1])]
        for name in side.constants:
            for spelling in self._by_name.get(name, ()):
                holds = self.truth(side, sight, spelling)
                if holds is not None and self.truth(other, sight, spelling) is (not holds):
                    found.append((spelling, holds))
        return sorted(set(found))[:REASONS_MAX]


def _doubt(key: Key, one: tuple[AbstractState, int, str], two: tuple[AbstractState, int, str]) -> str:
    """Return when a cell is not set: the doubt of its path, otherwise when that path is taken."""
    for known, mask, otherwise in (one, two):
        if mask != VALUE and (found := known.doubts.get(key) or otherwise):
            return found
    return ""


def _common(one: Mapping[str, _Reasons], two: Mapping[str, _Reasons]) -> dict[str, _Reasons]:
    return {name: value for name, value in one.items() if name in two and _same(two[name], value)}


def _same(one: Value, two: Value) -> bool:
    return type(one) is type(two) and one == two
