"""Properties of units besides their words, and what a query asks for: cues derived from the words.

The words are English, with the commonest Chinese ones. In another language a cue is not detected; it is one signal of
many.
"""

import math
import re
from collections.abc import Sequence

from msgspec import Struct

from runtime.memory.recall.terms import is_unspaced, plain_words, word_set

CHARS_OF_WORD = 1.6  # in scripts without spaces, so that the length is comparable to English
_SELF = word_set("i my me mine myself we our ours us")
_OTHER = word_set("you your yours yourself yourselves")
_TIMES = word_set(
    "yesterday today tomorrow tonight week weekend month year last next ago recently since day night morning monday "
    "tuesday wednesday thursday friday saturday sunday january february march april may june july august september "
    "october november december spring summer autumn fall winter"
)
_NUMBERS = word_set("two three four five six seven eight nine ten once twice couple few")
_DIGIT = re.compile(r"[\d两二三四五六七八九十]")
_NAME = re.compile(r"(?<![.!?] )(?<!^)\b[A-Z][a-z]+")
_CHINESE_TIMES = re.compile("昨天|今天|明天|上周|下周|去年|明年|上个月|星期|周[一二三四五六日末]")
_QUESTION_ENDS_CHARS = 40  # a question mark further from the end is not the point of the message
_WHEN = word_set("when date year month")
_HOW_MANY = word_set("many often old long")
_WHO = word_set("which who where")


class UnitCues(Struct, frozen=True):
    """The properties of a unit, as numbers."""

    length: float  # the logarithm of its words
    is_question: float
    of_self: float  # how much the speaker talks about themselves
    to_other: float  # how much the speaker addresses the listener
    tells_time: float
    tells_number: float
    tells_name: float
    has_attachment: float


class QuestionCues(Struct, frozen=True):
    """What a query asks for: 1 or 0 each."""

    when: float
    how_many: float
    who: float


def cues_of_unit(content: str, words: Sequence[str], *, has_attachment: bool) -> UnitCues:
    """Return the cues of a unit from its content and its plain words."""
    length = sum(len(word) / CHARS_OF_WORD if is_unspaced(word) else 1 for word in words)
    count = length + 3
    ending = content[-_QUESTION_ENDS_CHARS:]
    return UnitCues(
        length=math.log1p(length),
        is_question=float("?" in ending or "？" in ending),
        of_self=(sum(map(_SELF.__contains__, words)) + content.count("我")) / count,
        to_other=(sum(map(_OTHER.__contains__, words)) + content.count("你")) / count,
        tells_time=float(
            not _TIMES.isdisjoint(words) or (not content.isascii() and _CHINESE_TIMES.search(content) is not None)
        ),
        tells_number=float(not _NUMBERS.isdisjoint(words) or _DIGIT.search(content) is not None),
        tells_name=math.log1p(len(_NAME.findall(content))),
        has_attachment=float(has_attachment),
    )


def cues_of_question(text: str) -> QuestionCues:
    """Return the cues of a query: what it asks for."""
    words = plain_words(text)
    return QuestionCues(
        when=float(not _WHEN.isdisjoint(words) or "什么时候" in text or "哪天" in text),
        how_many=float(not _HOW_MANY.isdisjoint(words) or "多少" in text or "几" in text),
        who=float((bool(words) and words[0] in _WHO) or "谁" in text or "哪里" in text),
    )
