"""Pages of sessions and of search results, for the API and the command line."""

from collections.abc import Iterator, Sequence

import regex

from api.schemas.session_lists import (
    ExcerptPiece,
    HitList,
    HitView,
    MessageHit,
    SessionEntry,
    SessionList,
)
from store.interface.list_rows import Hit, Order, SearchFilter, SessionFilter
from store.interface.list_rows import ListedSession as ListedRow
from store.store import Store

WORDS_CHARS_MAX = 120
METADATA_MAX = 10
QUERY_CHARS_MAX = 200
WORDS_MAX = 10
EXCERPT_CHARS = 160
_BEFORE = 40  # characters of the excerpt before the first match
_TERM = regex.compile(r'(?:^|(?<=\s))"([^"]+)"(?=\s|$)|(\S+)')
_NAME = regex.compile(r"(?:\\[\\:]|[^:])*+(?=:)")
_ESCAPE = regex.compile(r"\\([\\:])")


class SearchInvalid(ValueError):
    """The query has no words or too many; the message says which."""


def parse_terms(query: str) -> tuple[str, ...]:
    """Parse the words, and the phrases in quotes, that must all occur; an unpaired quote is an ordinary character.

    Raises SearchInvalid for no words or too many.
    """
    terms = [phrase or word for phrase, word in _TERM.findall(query)]
    words = tuple(dict.fromkeys(word for word in terms if word.strip()))
    if not words:
        raise SearchInvalid("name at least one word to search for")
    if len(words) > WORDS_MAX:
        raise SearchInvalid(f"at most {WORDS_MAX} words and phrases")
    return words


def highlight(content: str, words: tuple[str, ...]) -> list[tuple[str, bool]]:
    """Cut an excerpt around the first match; return it as pieces of text, each with whether it is a match.

    An ellipsis stands for text that was cut off.
    """
    pattern = regex.compile("|".join(regex.escape(word) for word in sorted(words, key=len, reverse=True)), regex.I)
    first = pattern.search(content)
    start = max(0, first.start() - _BEFORE) if first is not None and len(content) > EXCERPT_CHARS else 0
    end = start + EXCERPT_CHARS
    pieces = list(_pieces(content[start:end], pattern))
    return [("…", False)] * (start > 0) + pieces + [("…", False)] * (end < len(content))


def _pieces(text: str, pattern: regex.Pattern[str]) -> Iterator[tuple[str, bool]]:
    done = 0
    for match in pattern.finditer(text):
        if match.start() > done:
            yield text[done : match.start()], False
        yield match[0], True
        done = match.end()
    if done < len(text):
        yield text[done:], False


def shorten_text(text: str, chars_max: int) -> str:
    """Join a text to one line and truncate it to `chars_max`."""
    line = " ".join(text.split())
    return line if len(line) <= chars_max else line[: chars_max - 1].rstrip() + "…"


class FilterPairInvalid(ValueError):
    """A metadata filter is not `name:value`, or there are too many; the message says which."""


async def session_page(
    store: Store, tenant: str, which: SessionFilter, *, order: Order, limit: int, cursor: str | None
) -> SessionList:
    """Return a page of a tenant's sessions. Raises CursorInvalid."""
    page = await store.sessions.page(tenant, which, order=order, limit=limit, cursor=cursor)
    return SessionList(data=[session_entry(row) for row in page.rows], next_cursor=page.next)


async def search_page(store: Store, tenant: str, what: SearchFilter, *, limit: int, cursor: str | None) -> HitList:
    """Return a page of messages that contain all words, the last recorded first. Raises CursorInvalid."""
    page = await store.turns.search(tenant, what, limit=limit, cursor=cursor)
    return HitList(data=[_hit(row, what.words) for row in page.rows], next_cursor=page.next)


def metadata_pairs(filters: Sequence[str]) -> tuple[tuple[str, str], ...]:
    r"""Parse filters written `name:value`, with `\:` and `\\` for `:` and `\` in a name. Raises FilterPairInvalid."""
    if len(filters) > METADATA_MAX:
        raise FilterPairInvalid(f"at most {METADATA_MAX} filters")
    pairs = []
    for each in filters:
        if ":" not in each:
            raise FilterPairInvalid("write `name:value`")
        found = _NAME.match(each)
        name = found[0] if found is not None else each.partition(":")[0]  # all colons follow a backslash: `a\:b`
        pairs.append((_ESCAPE.sub(r"\1", name), each[len(name) + 1 :]))
    return tuple(pairs)


def session_entry(row: ListedRow) -> SessionEntry:
    """Return the list entry of a session."""
    return SessionEntry.of(
        row,
        title=shorten_text(row.title, WORDS_CHARS_MAX),
        preview=shorten_text(row.preview, WORDS_CHARS_MAX) if row.preview is not None else None,
        last_message=shorten_text(row.last_message, WORDS_CHARS_MAX) if row.last_message is not None else None,
        script_id=row.script_uuid,
        script_key=row.script_id,
    )


def _hit(row: Hit, words: tuple[str, ...]) -> HitView:
    message = row.message
    return HitView.of(
        row,
        title=shorten_text(row.title, WORDS_CHARS_MAX),
        message=MessageHit.of(
            message,
            number=message.seq,
            excerpt=[ExcerptPiece(text=text, found=found) for text, found in highlight(message.content, words)],
            timestamp=message.created_at,
        ),
    )
