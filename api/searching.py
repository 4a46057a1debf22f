"""From what somebody types into a search box to words, and from a message that was found to the lines worth showing."""

from collections.abc import Iterator

import regex

from api.errors import ApiError

QUERY_CHARS_MAX = 200
WORDS_MAX = 10
EXCERPT_CHARS = 160
_BEFORE = 40  # characters of the excerpt before the first word that was found
_TERM = regex.compile(r'(?:^|(?<=\s))"([^"]+)"(?=\s|$)|(\S+)')


def words_of(query: str) -> tuple[str, ...]:
    """The words that must all occur, and the phrases in quotes; another quote is a sign like any.

    Raises ApiError REQUEST_INVALID where there are none, or too many.
    """
    found = [phrase or word for phrase, word in _TERM.findall(query)]
    words = tuple(dict.fromkeys(word for word in found if word.strip()))
    if not words:
        raise ApiError("REQUEST_INVALID", "q: name at least one word to search for")
    if len(words) > WORDS_MAX:
        raise ApiError("REQUEST_INVALID", f"q: at most {WORDS_MAX} words and phrases")
    return words


def excerpt(content: str, words: tuple[str, ...]) -> list[tuple[str, bool]]:
    """The part of a message around the first word that was found, in pieces: those words, and what is between them.

    What was cut off is an ellipsis.
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


def shortened(text: str, chars_max: int) -> str:
    """A text on one line, cut where it is longer."""
    line = " ".join(text.split())
    return line if len(line) <= chars_max else line[: chars_max - 1].rstrip() + "…"
