"""Extraction of one calendar day from a free reply, in the Gregorian calendar; relative days count from ``today``.

Digits and Chinese are parsed here, the words of other languages in `spoken_days`.
"""

import re
from datetime import date, timedelta

from runtime.answers.languages import LANGUAGES
from runtime.answers.languages.cldr import conventions
from runtime.answers.languages.spelling import fold
from runtime.answers.numbers import parse_number
from runtime.answers.spoken_days import relative_day, spoken_days
from scripts.model.script import Locale
from scripts.translations.localisation import language

CHARS_MAX = 2_000
_HAN = "零〇一二三四五六七八九十"
_HAN_OFFSETS = LANGUAGES["zh"].day_offsets

_DATE = re.compile(
    r"(?<![0-9.])(?P<year>[0-9]{4})(?P<gap>[-/.]) ?(?P<month>[0-9]{1,2})(?P=gap) ?(?P<day>[0-9]{1,2})(?![0-9])"
    rf"|(?P<han_year>[0-9]{{4}}|[{_HAN}]{{4}})\s?年\s?(?P<han_month>[0-9]{{1,2}}|[{_HAN}]{{1,3}})\s?月\s?"
    rf"(?P<han_day>[0-9]{{1,2}}|[{_HAN}]{{1,3}})\s?[日号]?"
    r"|(?<![0-9./-])(?P<first>[0-9]{1,2})(?P<sep>[-/.]) ?(?P<second>[0-9]{1,2})(?P=sep) ?(?P<last>[0-9]{4})(?![0-9])"
    rf"|(?<![一年月周])(?P<han_word>{'|'.join(sorted(_HAN_OFFSETS, key=len, reverse=True))})"
    rf"|(?P<han_count>[0-9]{{1,4}}|[{_HAN}两]{{1,5}})\s?(?P<han_unit>天|周|个?星期)(?:以|之)?(?P<han_way>前|后)"
    r"|(?P<han_week>上|下|这|本)个?(?:周|星期|礼拜)(?P<han_weekday>[一二三四五六日天])"
)

_OTHER = re.compile(
    r"~(?:或者?|还是|到|至)(?:周|星期|礼拜)[一二三四五六日天]|(?:周|星期|礼拜)[一二三四五六日天](?:或者?|还是|到|至)~"
)
_NEGATED = re.compile(r"(?:\bnot(?: on)?|不是) ?$")
_DIRECTION_MARKS = re.compile("[\u061c\u200e\u200f]")  # occur between the parts of Arabic dates
_LETTER = re.compile(r"[^\W\d_]")


def parse_date(text: str, today: date, locale: Locale = "en") -> str | None:
    """Return the ISO day in a reply, or None if it has no day, two days, or one that does not exist or lacks its year.

    ``next Friday`` is the first Friday after today, ``下周五`` the Friday of the next Monday-to-Sunday week. The locale
    decides which of two ambiguous numbers is the month.
    """
    folded = re.sub(r"[ \t]+", " ", _DIRECTION_MARKS.sub("", text[:CHARS_MAX]).casefold().replace("後", "后"))
    if not folded.isascii():
        folded = "".join(str(int(char)) if char.isdecimal() else char for char in folded)
    try:
        days = {_day(match, today, locale) for match in _DATE.finditer(folded)}
        rest = _DATE.sub("~", folded)
        if _OTHER.search(rest):
            return None  # 明天或周五
        if _LETTER.search(folded):
            days |= _in_words(rest, today, locale, is_alone=not days)
    except (ValueError, OverflowError):  # 2023-02-30, or before year 1
        return None
    return days.pop().isoformat() if len(days) == 1 else None


def _in_words(text: str, today: date, locale: Locale, *, is_alone: bool) -> set[date]:
    """Return the days in the words of the locale's language and of English. Raises ValueError, OverflowError."""
    code = language(locale)
    text = fold(text)
    if code in {"en", "zh"}:
        return set(spoken_days(text, today, locale if code == "en" else "en").days)
    own = spoken_days(text, today, locale)
    days = set(own.days) | spoken_days(own.rest, today, "en").days
    if is_alone and not days and code not in LANGUAGES:
        found = relative_day(text, today, locale)
        return set() if found is None else {found}
    return days


def _day(match: re.Match[str], today: date, locale: Locale) -> date:
    """Return the day of one match. Raises ValueError if it has none."""
    if _NEGATED.search(match.string[max(match.start() - 8, 0) : match.start()]):
        raise ValueError(match[0])
    part = match.groupdict()
    if part["year"]:
        return date(int(part["year"]), int(part["month"]), int(part["day"]))
    if part["han_year"]:
        return date(*(_count(part[name]) for name in ("han_year", "han_month", "han_day")))
    if part["last"]:
        month_first = part["sep"] != "." and _month_first(locale)  # dates with dots are day first everywhere
        return _year_last(int(part["first"]), int(part["second"]), int(part["last"]), month_first)
    if part["han_word"]:
        return today + timedelta(days=_HAN_OFFSETS[part["han_word"]])
    if part["han_count"]:
        days = _count(part["han_count"]) * (1 if part["han_unit"] == "天" else 7)
        return today + timedelta(days=days if part["han_way"] == "后" else -days)
    monday = today - timedelta(days=today.weekday())
    weeks = {"上": -1, "下": 1}.get(part["han_week"], 0)
    return monday + timedelta(
        weeks=weeks, days="一二三四五六日天".index(part["han_weekday"]) - (part["han_weekday"] == "天")
    )


def _count(text: str) -> int:
    number = parse_number(text)
    if not isinstance(number, int):
        raise ValueError(text)  # noqa: TRY004  # a numeral without a value, not a wrong type
    return number


def _month_first(locale: Locale) -> bool:
    used = conventions(locale)
    return used is not None and used.month_first


def _year_last(first: int, second: int, year: int, month_first: bool) -> date:
    if (month_first and first <= 12) or second > 12:
        return date(year, first, second)
    return date(year, second, first)
