"""Words that authors list, found in what people say."""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

CHARS_MAX = 20_000
# A letter or digit of a script that parts words by spaces; not Thai, Lao, Burmese, Khmer, Chinese, Japanese, Korean.
SPACED = (
    r"[^\W_\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\ud7ff"
    r"\uf900-\ufaff\uff66-\uffdc\U00020000-\U0003ffff]"
)

_ALL_SPACED = re.compile(f"{SPACED}+")


def folded(text: str) -> str:
    """A text as words are compared: without differences of case, width, spacing and quotes."""
    return " ".join(unicodedata.normalize("NFKC", text[:CHARS_MAX]).casefold().replace("’", "'").split())


def bare(text: str) -> str:
    """A folded text without the punctuation around it."""
    return folded(text).strip(" .,!?;:…~。，！？；：、'\"“”")


def mentioned(text: str, words: Iterable[str]) -> str:
    """The first of the words that a text mentions, or an empty text.

    Words count as whole words only (``red`` is not in ``bored``); Chinese and the like have no such borders.
    """
    said = folded(text)
    return next((word for word in words if word.strip() and _whole(word).search(said)), "")


def is_spaced(text: str) -> bool:
    """Whether a text has nothing but letters and digits of scripts that part words by spaces, at least one."""
    return bool(text) and _ALL_SPACED.fullmatch(text) is not None


@lru_cache(maxsize=10_000)
def _whole(written: str) -> re.Pattern[str]:
    word = folded(written)
    before = rf"(?<!{SPACED})" if is_spaced(word[:1]) else ""
    after = rf"(?!{SPACED})" if is_spaced(word[-1:]) else ""
    return re.compile(before + re.escape(word) + after)
