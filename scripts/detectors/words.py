"""Search messages for words that authors list."""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

CHARS_MAX = 20_000
# A letter or digit of a script with spaces between words; not Thai, Lao, Burmese, Khmer, Chinese, Japanese, Korean.
_SPACED = (
    r"[^\W_\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\ud7ff"
    r"\uf900-\ufaff\uff66-\uffdc\U00020000-\U0003ffff]"
)

SHORT_WORDS, SHORT_CHARS = 6, 12
"""The length of a short message, in words, and in characters where a writing system has no spaces between words."""

_ALL_SPACED = re.compile(f"{_SPACED}+")
_SPACED_RUN = re.compile(rf"{_SPACED}+(?:['-]{_SPACED}+)*")


def fold(text: str) -> str:
    """Normalise case, width, spacing and quotes of a text for comparison."""
    return " ".join(unicodedata.normalize("NFKC", text[:CHARS_MAX]).casefold().replace("’", "'").split())


def bare(text: str) -> str:
    """Return a normalised text without surrounding punctuation."""
    return fold(text).strip(" .,!?;:…~。，！？；：、'\"“”")


def find_mentioned(text: str, words: Iterable[str]) -> str:
    """Return the first of the words that a text contains, or an empty text.

    Only whole words match (``red`` is not in ``bored``), except in writing systems without word borders, as Chinese.
    """
    said = fold(text)
    return next((word for word in words if word.strip() and _whole(word).search(said)), "")


def is_short(text: str) -> bool:
    """Return whether a text has at most 6 words, and 12 characters of writing systems without spaces between words."""
    said = fold(text)
    words = sum(1 for _ in _SPACED_RUN.finditer(said))
    rest = sum(1 for character in _SPACED_RUN.sub("", said) if character.isalnum())
    return words <= SHORT_WORDS and rest <= SHORT_CHARS


def is_spaced(text: str) -> bool:
    """Return whether a text has only letters and digits, at least one, of writing systems with spaces between words."""
    return bool(text) and _ALL_SPACED.fullmatch(text) is not None


@lru_cache(maxsize=10_000)
def _whole(written: str) -> re.Pattern[str]:
    return whole_word(fold(written))


def whole_word(word: str) -> re.Pattern[str]:
    """Return a pattern for a word in normalised texts: ``red`` is not in ``bored``, except in texts without spaces."""
    before = rf"(?<!{_SPACED})" if is_spaced(word[:1]) else ""
    after = rf"(?!{_SPACED})" if is_spaced(word[-1:]) else ""
    return re.compile(before + re.escape(word) + after)
