"""The terms of a text: its words, folded and stemmed, or one or two characters in scripts without spaces.

Stemming is Snowball's, for the language that most texts in a script are written in: a stem need not be a word, only
equal for `paint`, `painted` and `painting`.

A unit is without content (an acknowledgement, a greeting, a sign) if it has no words left after removal of stop words
and the words of `_FILLERS`, in any case, repeated or not; or, in any language, if it is short and very frequent in this
memory (`is_routine`).
"""

import functools
import re
import threading
import unicodedata
from collections.abc import Iterator, Sequence

import Stemmer

TERM_CHARS_MAX = 64
STEMS_CACHED_MAX = 65_536  # words with a cached stem

_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_ASCII_WORD = re.compile("[a-z0-9]+")
_WORD = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_POSSESSIVE = re.compile(r"['’]s\b")

_STEMMED_AS: tuple[tuple[str, str, str], ...] = (  # the first and last character of a script, and its stemmer
    ("a", "\u024f", "english"),
    ("\u0370", "\u03ff", "greek"),
    ("\u0400", "\u04ff", "russian"),
    ("\u0600", "\u06ff", "arabic"),
    ("\u0900", "\u097f", "hindi"),
)


def word_set(text: str) -> frozenset[str]:
    """Return the words of a list written as a text."""
    return frozenset(text.split())


_STOP = word_set(
    "a an and are as at be been by d did do does for from had has have he her his how i in is it its ll m me my of on "
    "or our re s she so t that the their them they this to us ve was we were what when where which who whom whose why "
    "will with would you your 的 了 吗 呢 啊 是 在"
)


def plain_words(text: str) -> list[str]:
    """Return the words of a text, folded but neither stemmed nor left out: `Ana's dogs` is `ana dogs`.

    A run of characters without spaces stays in one piece.
    """
    if text.isascii():
        return _ASCII_WORD.findall(_POSSESSIVE.sub("", text.lower()))
    folded = unicodedata.normalize("NFKC", text).casefold()
    return _WORD.findall(_POSSESSIVE.sub("", folded))


def terms_of(text: str) -> list[str]:
    """Return the terms of a text in order, without stop words."""
    return terms_in(plain_words(text))


def terms_in(words: Sequence[str]) -> list[str]:
    """Return the terms of plain words."""
    terms: list[str] = []
    for word in words:
        if is_unspaced(word):
            terms.extend(_characters(word))
        elif word not in _STOP:
            terms.append(_stem(word[:TERM_CHARS_MAX]))
    return terms


def is_unspaced(word: str) -> bool:
    """Return whether a plain word belongs to a script without spaces between words."""
    return not word.isascii() and _IS_UNSPACED.match(word) is not None


def _characters(run: str) -> Iterator[str]:
    """Yield each character, and each pair of adjacent ones."""
    for at, character in enumerate(run):
        if character not in _STOP:
            yield character
        if at + 1 < len(run):
            yield run[at : at + 2]


class _Stemmers(threading.local):
    """The stemmers of one thread, because a stemmer is not thread-safe."""

    def __init__(self) -> None:
        self.by_name: dict[str, Stemmer.Stemmer] = {}


_stemmers = _Stemmers()


@functools.lru_cache(STEMS_CACHED_MAX)
def _stem(word: str) -> str:
    for first, last, name in _STEMMED_AS:
        if first <= word[0] <= last:
            stemmer = _stemmers.by_name.get(name)
            if stemmer is None:
                stemmer = _stemmers.by_name[name] = Stemmer.Stemmer(name)
            stem: str = stemmer.stemWord(word)
            return stem
    return word


# -- units without content --------------------------------------------------------------------------------------------


SHORT_WORDS_MAX = 2
SHORT_CHARS_MAX = 4  # in scripts without spaces
ROUTINE_UNITS_MIN = 10  # with the same words
ROUTINE_SHARE = 0.02  # of all units

_FILLERS = word_set(
    "ok okay okey k kk yes yeah yep yup no nope nah sure right alright fine great good nice cool wow well hm hmm "
    "hmmm mm mmm mhm uh um oh ah aha lol haha hahaha hi hello hey bye goodbye cheers thanks thank thx ty please sorry "
    "welcome gracias vale hola adiós sí oui non merci bonjour danke ja nein hallo tschüss bitte obrigado obrigada sim "
    "grazie ciao да нет спасибо привет ага"
)
_UNSPACED_FILLERS = re.compile(
    "(?:好的|好吧|好呀|好|嗯|哦|噢|喔|唔|哈|呵|嘿|嗨|行|对|是|不|没有|没事|谢谢|多谢|感谢|你|您|收到|明白|知道|再见|拜拜|晚安|早安"
    "|はい|うん|ええ|いいえ|ありがとう|どうも|네|예|아니요|감사합니다|고마워요?|了|啦|呀|啊|吧|呢|吗|的)+"
)


def is_filler(words: Sequence[str]) -> bool:
    """Return whether the plain words of a unit have no content of their own."""
    return not terms_in([word for word in words if not _is_filler_word(word)])


def says_nothing(text: str) -> bool:
    """Return whether a text consists only of fillers, so that it is not searched for."""
    return is_filler(plain_words(text))


def is_short(words: Sequence[str]) -> bool:
    """Return whether a unit is so short that frequent repetition makes it a routine."""
    chars = sum(len(word) if is_unspaced(word) else SHORT_CHARS_MAX / SHORT_WORDS_MAX for word in words)
    return chars <= SHORT_CHARS_MAX


def is_routine(times: int, units: int) -> bool:
    """Return whether a short unit that was said `times` times is a routine in a memory with `units` units."""
    return times >= max(ROUTINE_UNITS_MIN, ROUTINE_SHARE * units)


def _is_filler_word(word: str) -> bool:
    if is_unspaced(word):
        return _UNSPACED_FILLERS.fullmatch(word) is not None
    return word in _FILLERS
