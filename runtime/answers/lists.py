"""Extraction of a list from a free reply: items separated by punctuation, lines, bullets, ``and``, ``和``."""

import re
from functools import lru_cache

from runtime.answers.languages import ENGLISH, LANGUAGES, also_english, language_of
from runtime.answers.languages.spelling import any_of, fold
from runtime.answers.numbers import has_decimal_comma
from scripts.expressions.values import LIST_ITEMS_MAX, TEXT_CHARS_MAX
from scripts.model.script import Locale

# 和 also occurs inside words (和平, 温和), where it is not a separator.
_HAN_JOINS = r"(?<![温暖柔缓平共谐饱总随祥调])和(?![平谐尚解睦好气服])|以及|还有"
_BULLET = re.compile(r"\s*(?:[-*•·–](?=\s|[^\W\d])|[0-9]{1,3}[.)、](?!\d)\s*)\s*")


def parse_list(text: str, locale: Locale = "en") -> list[str] | None:
    """Return the items of a reply in order, ``[]`` if it says there are none, None if it is empty.

    At most LIST_ITEMS_MAX items; the rest is ignored.
    """
    text = text[:TEXT_CHARS_MAX].strip()
    own = language_of(locale)
    bare = text.rstrip("。.!！")
    if bare in LANGUAGES["zh"].nothing or re.fullmatch(_nothing(own.code), fold(bare)):
        return []
    lines = [_BULLET.sub("", line, count=1) if _BULLET.match(line) else line for line in text.splitlines()]
    separator = _separator(own.code, decimal_comma=has_decimal_comma(locale))
    items = [_item(part, own.code) for part in separator.split("\n".join(lines))]
    return [item for item in items if item][:LIST_ITEMS_MAX] or None


@lru_cache(maxsize=len(LANGUAGES))
def _nothing(code: str) -> str:
    own = LANGUAGES[code]
    return any_of(also_english(own.nothing, ENGLISH.nothing, own), digraphs=own.digraphs)


def _joins(code: str) -> str:
    words = LANGUAGES[code].joins if code != "zh" else LANGUAGES["en"].joins
    return "|".join(map(re.escape, (*words, "&")))


@lru_cache(maxsize=2 * len(LANGUAGES))
def _separator(code: str, *, decimal_comma: bool) -> re.Pattern[str]:
    comma = r"(?<![0-9]),|,(?![0-9])" if decimal_comma else ","
    return re.compile(rf"[，、;；\n]|{comma}|\s(?:{_joins(code)})\s|{_HAN_JOINS}", re.IGNORECASE)


@lru_cache(maxsize=len(LANGUAGES))
def _leading_join(code: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{_joins(code)})\s|以及|还有", re.IGNORECASE)


def _item(part: str, code: str) -> str:
    part = part.strip().rstrip("。.!！").strip()
    leading = _leading_join(code).match(part)
    return part[leading.end() :].strip() if leading else part
