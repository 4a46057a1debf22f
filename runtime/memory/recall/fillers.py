"""Units that carry no content: acknowledgements, greetings, filler words, signs alone.

Two rules. A unit has nothing left without stop words and the words of `_FILLERS`, in whichever case, repeated or not.
Or, in any language, it is short and said very often in this memory (`is_routine`).
"""

import re
from collections.abc import Sequence

from runtime.memory.recall.words import is_unspaced, plain_words, terms_in, word_set

SHORT_WORDS_MAX = 2
SHORT_CHARS_MAX = 4  # where no spaces are written
ROUTINE_UNITS_MIN = 10  # that say the same
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
    """Whether the plain words of a unit say nothing by themselves."""
    return not terms_in([word for word in words if not _is_filler_word(word)])


def says_nothing(text: str) -> bool:
    """Whether a text is nothing but fillers, so that it calls nothing up."""
    return is_filler(plain_words(text))


def is_short(words: Sequence[str]) -> bool:
    """Whether a unit is so short that saying it often makes it a routine."""
    chars = sum(len(word) if is_unspaced(word) else SHORT_CHARS_MAX / SHORT_WORDS_MAX for word in words)
    return chars <= SHORT_CHARS_MAX


def is_routine(times: int, units: int) -> bool:
    """Whether a short unit that is said so many times is a routine of a memory with so many units."""
    return times >= max(ROUTINE_UNITS_MIN, ROUTINE_SHARE * units)


def _is_filler_word(word: str) -> bool:
    if is_unspaced(word):
        return _UNSPACED_FILLERS.fullmatch(word) is not None
    return word in _FILLERS
