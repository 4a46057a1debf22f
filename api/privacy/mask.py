"""Finds the personal values of a session, and masks them: values by name, and texts wherever a value occurs."""

import re
import unicodedata
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from api.catalog.catalog import Catalog
from runtime.state.scopes import CELLS_MAX
from scripts.checks.personal_data import asking, choices, personal_names
from scripts.expressions.values import Value
from store.interface.masking import HIDDEN
from store.interface.rows import MessageRow, SessionRow, TurnEventsRow, UserHistoryRow, VariableWriteRow
from store.store import Store

CHARS_MIN = 2
"""Shorter spellings are not masked in texts: a single letter or digit identifies nobody and occurs everywhere."""
SPELLINGS_MAX = CELLS_MAX
"""If a session has more different values, all its texts are hidden."""

_SPACED = "0-9A-Za-z\u00c0-\u052f"  # letters of scripts that put spaces between words, and do not join others to them
TURNS_A_PAGE = 100
QUOTED_CHARS_MIN = 4
"""The shortest hidden message whose text is also hidden in other texts; shorter ones (yes, no) are too common."""


class Mask:
    """The personal variables of a session, and every value that they had."""

    def __init__(self, names: frozenset[str], values: Iterable[tuple[str, Value]]) -> None:
        self.names = names
        spelt: dict[str, str] = {}
        for spelling, name in ((each, name) for name, value in values for each in spellings(value)):
            spelt.setdefault(spelling, name)
            if len(spelt) > SPELLINGS_MAX:
                break
        self._is_full = len(spelt) > SPELLINGS_MAX
        self._names_by_spelling = {_plain(spelling): name for spelling, name in reversed(spelt.items())}
        longest_first = sorted(spelt, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(_pattern, longest_first)), re.IGNORECASE) if longest_first else None

    def text(self, text: str) -> str:
        """Replace values in a text by the names of their variables in brackets."""
        if self._is_full:
            return HIDDEN if text else ""
        return text if self._pattern is None else self._pattern.sub(self._placeholder, text)

    def value(self, value: Value) -> Value:
        """Mask a value of another kind: replace the personal values that are visible in it."""
        match value:
            case str():
                return self.text(value)
            case bool() | None:
                return value
            case int() | float() if self._is_full:
                return HIDDEN
            case int() | float():
                name = next((found for each in spellings(value) if (found := self._names_by_spelling.get(each))), None)
                return value if name is None else name_placeholder(name)
            case list():
                return [self.value(item) for item in value]
            case dict():
                return self.fields(value)

    def fields(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Mask values by name; some names may be personal variables."""
        return {name: self.variable(name, value) for name, value in fields.items()}

    def variable(self, name: str, value: Value) -> Value:
        """Mask the value of a variable; whether it is set stays visible."""
        if name in self.names:
            return None if value is None else name_placeholder(name)
        return self.value(value)

    def contains(self, text: str, value: Value) -> bool:
        """Return whether every part of a value occurs literally in a text, so that masking removes it."""
        if isinstance(value, bool):
            return False
        if isinstance(value, list | dict):
            return all(self.contains(text, each) for each in (value.values() if isinstance(value, dict) else value))
        return any(re.search(_pattern(each), text, re.IGNORECASE) for each in spellings(value))

    def _placeholder(self, match: re.Match[str]) -> str:
        name = self._names_by_spelling.get(_plain(match.group()))
        return (
            HIDDEN if name is None else name_placeholder(name)
        )  # a few letters match another case and yet have another spelling


def name_placeholder(name: str) -> str:
    """Return the placeholder of a variable's value."""
    return f"[{name}]"


def spellings(value: Value) -> Iterator[str]:
    """Yield how the parts of a value are written in texts, if they are long enough to be recognised."""
    match value:
        case list() | dict():
            for part in value.values() if isinstance(value, dict) else value:
                yield from spellings(part)
        case bool() | None:
            pass
        case _:
            written = [str(value).strip()]
            if isinstance(value, float) and value.is_integer():
                written.append(str(int(value)))
            # keyboards and files differ in whether a letter with an accent is one character or two
            forms = [unicodedata.normalize(form, each) for each in written for form in ("NFC", "NFD")]
            yield from (each for each in dict.fromkeys((*written, *forms)) if len(each) >= CHARS_MIN)


def _plain(spelling: str) -> str:
    return " ".join(spelling.lower().split())


def _pattern(spelling: str) -> str:
    """Return a pattern of a spelling with any space between its words. Letters of scripts with spaces between words
    match only as a whole word.
    """
    words = r"\s+".join(map(re.escape, spelling.split()))
    before = f"(?<![{_SPACED}])" if re.match(f"[{_SPACED}]", spelling[0]) else ""
    after = f"(?![{_SPACED}])" if re.match(f"[{_SPACED}]", spelling[-1]) else ""
    return before + words + after


# -- the personal values of a session ---------------------------------------------------------------------------------


class HiddenValues(Struct, frozen=True):
    """The masked values of one session, for every reader."""

    mask: Mask
    messages: Mapping[int, str]
    """The variable of each message that is hidden as a whole, by message number."""
    turns: frozenset[int]
    """The turns with such a message: other texts in them that quote it are hidden too."""


class _QuotedValue(Struct, frozen=True):
    """A message that contains a personal value in other words."""

    number: int
    turn: int
    name: str
    content: str


async def find_hidden_values(store: Store, catalog: Catalog, session: SessionRow) -> HiddenValues:
    """Return the personal values of a session, by every script version that it ran on and the latest published one.

    Raises ApiError SCRIPT_NOT_FOUND, StoreError.
    """
    tenant, session_id = session.tenant, session.session_id
    moves = await store.sessions.migrations(tenant, session_id)
    latest = await store.scripts.latest_published(tenant, session.script_id)
    digests = {session.digest, *(digest for move in moves for digest in (move.from_digest, move.digest))}
    digests |= {latest.digest} if latest is not None else set()
    scripts = [(await catalog.program(tenant, digest)).script for digest in digests]
    names = frozenset[str]().union(*map(personal_names, scripts))
    if not names:
        return HiddenValues(Mask(names, ()), {}, frozenset())
    questions = {action: name for script in scripts for action, name in asking(script, names).items()}
    values: list[tuple[str, Value]] = [each for script in scripts for each in choices(script, names)]
    values += [found async for found in _values(store, session, names)]
    quotes = [found async for found in _quotes(store, session, Mask(names, values), questions)]
    values += [(each.name, each.content) for each in quotes if len(each.content) >= QUOTED_CHARS_MIN]
    return HiddenValues(
        Mask(names, values), {each.number: each.name for each in quotes}, frozenset(each.turn for each in quotes)
    )


async def _values(store: Store, session: SessionRow, names: frozenset[str]) -> AsyncIterator[tuple[str, Value]]:
    """Yield every value that variables of these names had in the session, and the user's values in other sessions."""
    tenant, after, offset = session.tenant, -1, 0
    while rows := await store.turns.variable_history(tenant, session.session_id, after_turn=after, limit=TURNS_A_PAGE):
        for found in _values_in(rows, names):
            yield found
        after = rows[-1].turn
    while writes := await store.sessions.user_history(tenant, session.user_id, offset=offset, limit=TURNS_A_PAGE):
        for found in _values_in(writes, names):
            yield found
        offset += len(writes)


def _values_in(rows: Iterable[VariableWriteRow | UserHistoryRow], names: frozenset[str]) -> Iterator[tuple[str, Value]]:
    return ((row.name, value) for row in rows if row.name in names for value in (row.old, row.new))


async def _quotes(
    store: Store, session: SessionRow, mask: Mask, questions: Mapping[str, str]
) -> AsyncIterator[_QuotedValue]:
    """Yield the user's messages that contain a personal value in other words than the stored value, or may: messages
    that set such a value and do not spell it, and answers to a question for one in which no value is recognised.
    """
    after = 0
    while rows := await store.turns.events(session.tenant, session.session_id, after_seq=after, limit=TURNS_A_PAGE):
        for row in rows:
            for message in row.messages:
                name = _quoted_text(row, message, mask, questions) if message.role == "user" else None
                if name is not None:
                    yield _QuotedValue(message.seq, row.turn, name, message.content)
        after = rows[-1].events[-1].seq


def _quoted_text(row: TurnEventsRow, message: MessageRow, mask: Mask, questions: Mapping[str, str]) -> str | None:
    for write in row.variables:
        is_quoted = write.name in mask.names and write.source != "api" and write.new is not None
        if is_quoted and not mask.contains(message.content, write.new):
            return write.name
    if message.content.strip() and mask.text(message.content) == message.content:
        return questions.get(message.action_id or "")
    return None
