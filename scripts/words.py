"""Words that authors list, found in what people say."""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

CHARS_MAX = 20_000


def folded(text: str) -> str:
    """A text as words are compared: without differences of case, width, spacing and quotes."""
    return " ".join(unicodedata.normalize("NFKC", text[:CHARS_MAX]).casefold().replace("’", "'").split())


def bare(text: str) -> str:
    """A folded text without the punctuation around it."""
    return folded(text).strip(" .,!?;:…~。，！？；：、'\"“”")


def mentioned(text: str, words: Iterable[str]) -> str:
    """The first of the words that a text mentions, or an empty text.

    Latin words count as whole words only (``red`` is not in ``bored``); Chinese has no such borders.
    """
    said = folded(text)
    return next((word for word in words if word.strip() and _whole(word).search(said)), "")


@lru_cache(maxsize=10_000)
def _whole(written: str) -> re.Pattern[str]:
    word = folded(written)
    before = r"(?<![a-z0-9])" if re.match(r"[a-z0-9]", word) else ""
    after = r"(?![a-z0-9])" if re.search(r"[a-z0-9]$", word) else ""
    return re.compile(before + re.escape(word) + after)
