"""Detect patterns whose matching time can double with each character of a text.

A backtracking matcher tries every way in which a pattern can match the beginning of a text before it knows that
the rest does not match. Two ways through one loop over the same characters double the ways with each iteration. They
are detected on the automaton of the pattern: its positions are the places that match one character, its steps lead to
the next positions. A step that two constructs create, or two paths that separate and join again over the same
characters, make the loop ambiguous (A. Weber and H. Seidl, "On the degree of ambiguity of finite automata", 1991).
"""

import re
import warnings
from collections import Counter
from collections.abc import Iterator
from re import _constants as sre  # type: ignore[attr-defined]  # the standard library's own, for want of a public one
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple, TypeAlias

import regex

POSITIONS_MAX = 80  # of a pattern; a longer one is not checked
WORK_MAX = 200_000  # pairs of steps to compare; a pattern that needs more is not checked
COPIES_MAX = 4  # repetitions to unroll; more count as unlimited
PRIVATE = 0xE000  # placeholders for classes that the standard library cannot parse

# one of each kind of character that patterns distinguish
_SAMPLES = "az AZ09_\t\n.,;:!?@#%&*+-/=<>()[]{}'\"~^|\\$éßßǅЖя中文あア한ªٱ٣Ⅷ²€，。！　①\u200b😀"
_CLASS = regex.compile(r"(?<!\\)((?:\\\\)*)\\([pP])(\{\^?[\w\s:=&-]+\}|[A-Z])")

_BAR = regex.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<bar>\|)", regex.DOTALL)

Charset: TypeAlias = frozenset[str]
Steps: TypeAlias = dict[int, list[int]]
Pairs: TypeAlias = dict[tuple[int, int], list[tuple[int, int]]]


class _Part(NamedTuple):
    """A part of a pattern as an automaton: first and last positions, and whether it matches the empty text."""

    first: tuple[int, ...]
    last: tuple[int, ...]
    is_empty: bool


_NOTHING = _Part((), (), True)


class _Unreadable(Exception):
    """The pattern has a construct that this analysis does not support."""


def ambiguous_part(pattern: str) -> str | None:
    """Return a short text that a loop of the pattern matches in two ways, or None if none was found.

    None also for a pattern that is invalid, too long, or uses features of the module `regex` only.
    """
    try:
        automaton = _Automaton(pattern)
    except (_Unreadable, re.error, RecursionError, OverflowError):
        return None
    return automaton.ambiguous()


class _Automaton:
    """The positions of a pattern and the steps between them, with their multiplicity."""

    def __init__(self, pattern: str) -> None:
        """Build the automaton. Raises _Unreadable, re.error."""
        self._classes: list[regex.Pattern[str]] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = parser.parse(_BAR.sub(_apart, _CLASS.sub(self._stand_in, pattern)))
        self._alphabet = frozenset(_SAMPLES) | _written(tree)
        self._folds = bool(tree.state.flags & re.IGNORECASE)
        self._dots = bool(tree.state.flags & re.DOTALL)
        self._sets: list[Charset] = []
        self._steps: Counter[tuple[int, int]] = Counter()
        self._inner: list[str] = []  # of atomic parts
        self._sequence(tree)

    def _stand_in(self, found: Any) -> str:
        self._classes.append(regex.compile("\\" + found[2] + found[3]))
        return str(found[1]) + chr(PRIVATE + len(self._classes) - 1)

    # -- building -------------------------------------------------------------------------------------------------

    def _sequence(self, tree: Any) -> _Part:
        whole = _NOTHING
        for name, value in tree:
            whole = self._then(whole, self._part(name, value))
        return whole

    def _then(self, left: _Part, right: _Part) -> _Part:
        self._join(left.last, right.first)
        return _Part(
            left.first + right.first if left.is_empty else left.first,
            right.last + left.last if right.is_empty else right.last,
            left.is_empty and right.is_empty,
        )

    def _join(self, ends: tuple[int, ...], begins: tuple[int, ...]) -> None:
        for end in ends:
            for begin in begins:
                self._steps[end, begin] += 1

    def _part(self, name: Any, value: Any) -> _Part:
        match name:
            case sre.LITERAL | sre.NOT_LITERAL | sre.ANY | sre.IN:
                return self._position(self._characters(name, value))
            case sre.BRANCH:
                return self._either([self._sequence(each) for each in value[1]])
            case sre.SUBPATTERN:
                return self._sequence(value[-1])
            case sre.MAX_REPEAT | sre.MIN_REPEAT:
                return self._repeated(*value)
            case sre.ATOMIC_GROUP:
                return self._by_itself([(sre.SUBPATTERN, (None, 0, 0, value))])
            case sre.POSSESSIVE_REPEAT:
                return self._by_itself([(sre.MAX_REPEAT, value)])
            case sre.AT:
                return _NOTHING
            case sre.ASSERT | sre.ASSERT_NOT:
                if value[1]:
                    self._by_itself(value[1], is_taken=False)
                return _NOTHING
            case sre.GROUPREF_EXISTS:
                branches = [self._sequence(value[1]), self._sequence(value[2]) if value[2] else _NOTHING]
                return self._either(branches)
            case _:  # a back reference: what it matches depends on the text
                raise _Unreadable

    def _position(self, characters: Charset) -> _Part:
        if len(self._sets) >= POSITIONS_MAX:
            raise _Unreadable
        self._sets.append(characters)
        at = len(self._sets) - 1
        return _Part((at,), (at,), False)

    def _either(self, parts: list[_Part]) -> _Part:
        first = tuple(at for part in parts for at in part.first)
        last = tuple(at for part in parts for at in part.last)
        return _Part(first, last, any(part.is_empty for part in parts))

    def _repeated(self, least: int, most: int, tree: Any) -> _Part:
        if most == 0:
            return _NOTHING
        whole = _NOTHING
        for _ in range(min(least, COPIES_MAX) - 1 if most > COPIES_MAX else least):
            whole = self._then(whole, self._sequence(tree))
        if most > COPIES_MAX:
            part = self._sequence(tree)
            self._join(part.last, part.first)
            return self._then(whole, part._replace(is_empty=part.is_empty or least == 0))
        rest = _NOTHING
        for _ in range(most - least):  # the last is nested in the one before it
            part = self._sequence(tree)
            rest = self._then(part, rest)._replace(is_empty=True)
        return self._then(whole, rest)

    def _by_itself(self, tree: Any, *, is_taken: bool = True) -> _Part:
        """Add an atomic part: it has only one way once it has matched, but may be ambiguous inside."""
        steps, known = self._steps, len(self._sets)
        self._steps = Counter()
        part = self._sequence(tree)
        if (found := self.ambiguous()) is not None:
            self._inner.append(found)
        first = frozenset[str]().union(*(self._sets[at] for at in part.first))
        del self._sets[known:]
        self._steps = steps
        if not is_taken:
            return _NOTHING
        return self._position(first)._replace(is_empty=part.is_empty)

    def _characters(self, name: Any, value: Any) -> Charset:
        return frozenset(each for each in self._alphabet if self._takes(name, value, each))

    def _takes(self, name: Any, value: Any, character: str) -> bool:
        match name:
            case sre.LITERAL:
                return self._is(value, character)
            case sre.NOT_LITERAL:
                return not self._is(value, character)
            case sre.ANY:
                return self._dots or character != "\n"
            case sre.IN if value and value[0][0] == sre.NEGATE:
                return not any(self._takes(each[0], each[1], character) for each in value[1:])
            case sre.IN:
                return any(self._takes(each[0], each[1], character) for each in value)
            case sre.RANGE:
                forms = {character, *((character.lower(), character.upper()) if self._folds else ())}
                return any(len(form) == 1 and value[0] <= ord(form) <= value[1] for form in forms)
            case sre.CATEGORY:
                return _is_of(value, character)
            case _:
                raise _Unreadable

    def _is(self, code: int, character: str) -> bool:
        if PRIVATE <= code < PRIVATE + len(self._classes):
            return self._classes[code - PRIVATE].fullmatch(character) is not None
        written = chr(code)
        return written == character or (self._folds and written.casefold() == character.casefold())

    # -- ambiguity ------------------------------------------------------------------------------------------------

    def ambiguous(self) -> str | None:
        """Return a text that a loop of the automaton matches in two ways."""
        if self._inner:
            return self._inner[0]
        following: Steps = {}
        for end, begin in self._steps:
            if self._sets[begin]:
                following.setdefault(end, []).append(begin)
        for (end, begin), times in sorted(self._steps.items()):
            if times > 1 and (way := _way(following, begin, end)) is not None:
                return "".join(min(self._sets[at], key=_plainness) for at in (begin, *way))
        return self._parting(following)

    def _parting(self, following: Steps) -> str | None:
        """Return a text over which two paths separate at one position of a loop and join again."""
        sets = self._sets
        meets = [frozenset(at for at, other in enumerate(sets) if not other.isdisjoint(each)) for each in sets]
        work = 0
        for loop in _loops(following):
            inside = {at: [then for then in following[at] if then in loop] for at in loop}
            start = (min(loop), min(loop))  # every position of a loop reaches all others
            pairs: Pairs = {}
            origin = {start: start}
            for pair in (waiting := [start]):
                lefts, rights = inside[pair[0]], inside[pair[1]]
                pairs[pair] = [(left, right) for left in lefts for right in rights if right in meets[left]]
                new = [then for then in pairs[pair] if then not in origin]
                origin |= dict.fromkeys(new, pair)
                waiting += dict.fromkeys(new)
                work += len(lefts) * len(rights)
                if work > WORK_MAX:
                    break
            if (parted := _parted(pairs)) is not None:
                way = [parted]
                while way[0][0] != way[0][1]:
                    way.insert(0, origin[way[0]])
                return "".join(min(sets[left] & sets[right], key=_plainness) for left, right in way[1:])
        return None


def _apart(found: Any) -> str:
    """Prevent the parser from merging alternatives, because the matcher does not always merge them."""
    return "|(?=)" if found["bar"] else str(found[0])


def _written(tree: Any) -> set[str]:
    """Return the characters of a pattern, the ends of its ranges, and their other case."""
    found: set[str] = set()
    for each in _numbers(tree):
        character = chr(each)
        found |= {form for form in (character, character.lower(), character.upper()) if len(form) == 1}
    return found


def _numbers(tree: Any) -> Iterator[int]:
    for name, value in tree:
        match name:
            case sre.LITERAL | sre.NOT_LITERAL:
                yield value
            case sre.RANGE:
                yield from value
            case sre.IN:
                yield from _numbers(value)
            case sre.BRANCH:
                for each in value[1]:
                    yield from _numbers(each)
            case sre.SUBPATTERN | sre.MAX_REPEAT | sre.MIN_REPEAT | sre.POSSESSIVE_REPEAT:
                yield from _numbers(value[-1])
            case sre.ATOMIC_GROUP:
                yield from _numbers(value)
            case sre.ASSERT | sre.ASSERT_NOT:
                yield from _numbers(value[1])
            case sre.GROUPREF_EXISTS:
                for each in value[1:]:
                    yield from _numbers(each or ())
            case _:
                pass


def _is_of(category: Any, character: str) -> bool:
    match category:
        case sre.CATEGORY_DIGIT:
            return character.isdecimal()
        case sre.CATEGORY_NOT_DIGIT:
            return not character.isdecimal()
        case sre.CATEGORY_SPACE:
            return character.isspace()
        case sre.CATEGORY_NOT_SPACE:
            return not character.isspace()
        case sre.CATEGORY_WORD:
            return character.isalnum() or character == "_"
        case sre.CATEGORY_NOT_WORD:
            return not (character.isalnum() or character == "_")
        case _:
            raise _Unreadable


def _way(steps: Any, start: Any, end: Any) -> list[Any] | None:
    """Return the path from `start` (exclusive) to `end`; empty if they are equal."""
    if start == end:
        return []
    before: dict[Any, Any] = {}
    waiting = [start]
    while waiting:
        at = waiting.pop(0)
        for then in steps.get(at, ()):
            if then in before:
                continue
            before[then] = at
            if then == end:
                way = [end]
                while before[way[0]] != start:
                    way.insert(0, before[way[0]])
                return way
            waiting.append(then)
    return None


def _loops(following: Steps) -> Iterator[frozenset[int]]:
    """Return the strongly connected components of the positions."""
    reached = {at: _reached(following, at) for at in following}
    known: set[int] = set()
    for at in sorted(following):
        if at in reached[at] and at not in known:
            loop = frozenset(each for each in reached[at] if at in reached.get(each, ()))
            known |= loop
            yield loop


def _reached(following: Steps, start: int) -> frozenset[int]:
    found: set[int] = set()
    waiting = [start]
    while waiting:
        for then in following.get(waiting.pop(), ()):
            if then not in found:
                found.add(then)
                waiting.append(then)
    return frozenset(found)


def _parted(pairs: Pairs) -> tuple[int, int] | None:
    """Return a pair of different positions that leads to a pair of equal positions."""
    before: Pairs = {}
    for pair, following in pairs.items():
        for then in following:
            before.setdefault(then, []).append(pair)
    met = {pair for pair in pairs if pair[0] == pair[1]}
    for pair in (waiting := sorted(met)):
        for earlier in before.get(pair, ()):
            if earlier[0] != earlier[1]:
                return earlier
            if earlier not in met:
                met.add(earlier)
                waiting.append(earlier)
    return None


def _plainness(character: str) -> tuple[bool, bool, bool, str]:
    """Sort key of characters: the most readable first."""
    return not character.isascii(), not character.isalnum(), not character.islower(), character
