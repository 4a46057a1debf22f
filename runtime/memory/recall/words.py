"""The words of a text, as they are compared: folded and stemmed, and one or two characters where no spaces are written.

Stemming is Snowball's, of the language that most texts in a script are written in: a stem need not be a word, only the
same for `paint`, `painted` and `painting`.
"""

import functools
import re
import threading
import unicodedata
from collections.abc import Iterator, Sequence

import Stemmer

TERM_CHARS_MAX = 64
STEMS_KEPT_MAX = 65_536  # words whose stems are kept at hand

_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_ASCII_WORD = re.compile("[a-z0-9]+")
_WORD = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_POSSESSIVE = re.compile(r"['’]s\b")

_STEMMED_AS: tuple[tuple[str, str, str], ...] = (  # the first and the last character of a script, and its stemmer
    ("a", "\u024f", "english"),
    ("\u0370", "\u03ff", "greek"),
    ("\u0400", "\u04ff", "russian"),
    ("\u0600", "\u06ff", "arabic"),
    ("\u0900", "\u097f", "hindi"),
)


def word_set(text: str) -> frozenset[str]:
    """The words of a list written as a text."""
    return frozenset(text.split())


_STOP = word_set(
    "a an and are as at be been by d did do does for from had has have he her his how i in is it its ll m me my of on "
    "or our re s she so t that the their them they this to us ve was we were what when where which who whom whose why "
    "will with would you your 的 了 吗 呢 啊 是 在"
)


def plain_words(text: str) -> list[str]:
    """The words of a text, folded but neither stemmed nor left out: `Ana's dogs` is `ana dogs`.

    What is written without spaces stays in one piece.
    """
    if text.isascii():
        return _ASCII_WORD.findall(_POSSESSIVE.sub("", text.lower()))
    folded = unicodedata.normalize("NFKC", text).casefold()
    return _WORD.findall(_POSSESSIVE.sub("", folded))


def terms_of(text: str) -> list[str]:
    """The terms of a text in their order, the commonest words left out."""
    return terms_in(plain_words(text))


def terms_in(words: Sequence[str]) -> list[str]:
    """The terms of plain words."""
    terms: list[str] = []
    for word in words:
        if is_unspaced(word):
            terms.extend(_characters(word))
        elif word not in _STOP:
            terms.append(_stem(word[:TERM_CHARS_MAX]))
    return terms


def is_unspaced(word: str) -> bool:
    """Whether a plain word is of a script that writes no spaces between words."""
    return not word.isascii() and _IS_UNSPACED.match(word) is not None


def _characters(run: str) -> Iterator[str]:
    """Each character, and each two beside each other."""
    for at, character in enumerate(run):
        if character not in _STOP:
            yield character
        if at + 1 < len(run):
            yield run[at : at + 2]


class _Stemmers(threading.local):
    """The stemmers of one thread, for a stemmer serves one at a time."""

    def __init__(self) -> None:
        self.by_name: dict[str, Stemmer.Stemmer] = {}


_stemmers = _Stemmers()


@functools.lru_cache(STEMS_KEPT_MAX)
def _stem(word: str) -> str:
    for first, last, name in _STEMMED_AS:
        if first <= word[0] <= last:
            stemmer = _stemmers.by_name.get(name)
            if stemmer is None:
                stemmer = _stemmers.by_name[name] = Stemmer.Stemmer(name)
            stem: str = stemmer.stemWord(word)
            return stem
    return word
