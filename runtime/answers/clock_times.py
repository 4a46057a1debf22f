"""Extraction of one clock time, or of one day with a clock time, from a free reply.

Digits are read in every locale (``9:30``, ``21:05``); words are those of the locale's language and of English, from
`runtime.answers.languages`.
"""

import re
from datetime import date, time
from functools import lru_cache

from runtime.answers.dates import CHARS_MAX, parse_date
from runtime.answers.languages import ENGLISH, LANGUAGES, between_words
from runtime.answers.languages.cldr import LOCALES_CACHED_MAX, halves_of_day
from runtime.answers.languages.language import TimeWords
from runtime.answers.languages.spelling import fold, word_pattern
from runtime.answers.number_words import small_number
from runtime.answers.numbers import parse_number
from scripts.expressions.time_values import iso_datetime, iso_time
from scripts.model.script import Locale
from scripts.translations.localisation import language

_TAKEN = "~"  # replaces a time that was found
_HAN = "零〇一二三四五六七八九十两"
_HOUR = rf"(?P<hour>(?<![\d:.,])[0-9]{{1,2}}|[{_HAN}]{{1,3}}|(?<!\w)[^\W\d_{_HAN}]{{1,20}})"
_OTHER_HOUR = rf"(?:(?<![\w.:/-])[0-9]{{1,2}}(?!\d|[./]\d)|[{_HAN}]{{1,3}}|(?<!\w)[^\W\d_{_HAN}]{{1,20}})"
_MINUTE = rf"(?P<minute>[0-9]{{2}}|[{_HAN}]{{2,3}}|[{_HAN}](?=分))"
_DIGITS = re.compile(
    r"(?<![\d:.,+])(?P<hour>[0-9]{1,2})\s?[:：]\s?(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}))?(?![\d:])"
)
_POINT = r"(?:\s?[.h]\s?|\s)"  # between hours and minutes: 6.30, 18h30, 6 30
_BARE = re.compile(
    rf"\W*(?:(?P<hour>[0-9]{{1,2}})(?:(?:{_POINT}|(?<=[0-9]{{2}}))(?P<minute>[0-9]{{2}}))?|(?P<word>[^\W\d_]{{1,20}}))\W*"
)  # 0630 has two digits each
_SPOKEN = tuple(rf"(?P<spoken>[^\W\d_]{{3,20}}{more})(?![\w-])" for more in (r"[\s-][^\W\d_]{3,20}", ""))
"""Minutes in two words, or in one: ``six forty five``, ``six thirty``."""
_NO_DATE = r"(?!\s?[./:-]\s?\w|\d)"  # a number that goes on is no hour
_NEGATED = re.compile(r"(?:\bnot(?: at)?|不是) ?$")
_MIDDAY_MAX = 3  # the last hour that is around noon
_TIMES_MAX = 8  # of one reply, also if all are the same
_SHORT = 4  # a word of so few letters counts only behind a number: "I am at home"


class _TimeRefused(ValueError):
    """A time in the reply does not exist, or is negated."""


def parse_time(text: str, locale: Locale = "en") -> str | None:
    """Return the ISO time in a reply, ``09:30``; None if it has no time, two times, or one that does not exist.

    Without a word for the half of the day, ``9`` is nine in the morning and ``21`` nine in the evening.
    """
    found = iso_time(text.strip())
    if found is not None:
        return found
    try:
        times, rest = _grammar(locale).times(text)
        return _only(times or _grammar(locale).bare_hour(rest))
    except _TimeRefused:
        return None


def is_bare_hour(text: str, locale: Locale = "en") -> bool:
    """Return whether `parse_time` reads a reply as an hour although it is only a number: ``9``, ``nine``."""
    try:
        times, rest = _grammar(locale).times(text)
        return not times and bool(_grammar(locale).bare_hour(rest))
    except _TimeRefused:
        return False


def parse_datetime(text: str, today: date, locale: Locale = "en") -> str | None:
    """Return the ISO date and time in a reply, ``2026-01-31T09:30:00``; None if it does not have one day and one time.

    Days are read as by `parse_date`. The result has an offset only if the reply is an ISO text with one.
    """
    found = iso_datetime(text.strip()) if ":" in text else None
    if found is not None:
        return found
    try:
        times, rest = _grammar(locale).times(text)
    except _TimeRefused:
        return None
    day, clock = parse_date(rest, today, locale), _only(times)
    return iso_datetime(f"{day}T{clock}") if day is not None and clock is not None else None


def _only(times: set[time]) -> str | None:
    return iso_time(times.pop().isoformat()) if len(times) == 1 else None


# -- times in a text ---------------------------------------------------------------------------------------------------


class _Grammar:
    """The patterns of clock times in a locale, and the times in a text."""

    def __init__(self, locale: Locale) -> None:
        code = language(locale)
        own = LANGUAGES.get(code)
        words = [own.times, ENGLISH.times] if own is not None and own is not ENGLISH else [ENGLISH.times]
        am, pm = halves_of_day(locale)
        hour = _either(*(each.hour for each in words))
        before = _either(*(each.before for each in words))
        other = rf"\s?{_either(between_words(code))}\s?"
        between = rf"(?:{other}|\s?[-–—]\s?)"
        halves = _either(am, pm, *(each.am + each.pm + each.night for each in words))
        self._locale = locale
        self._code = code if own is not None else "en"
        self._minutes = tuple((minutes, _template(each)) for of in words for each, minutes in _longest_first(of))
        self._spoken = tuple(re.compile(rf"{_HOUR}\s?(?:{hour}\s)?{minutes}") for minutes in _SPOKEN)
        self._hours = (
            re.compile(rf"{before}\s(?P<hour>[0-9]{{1,2}}){_POINT}(?P<minute>[0-9]{{2}})(?=\W*\Z)"),
            re.compile(rf"(?<![\d.])(?P<hour>[0-9]{{1,2}})[.](?P<minute>[0-9]{{2}})\s?(?:{hour}|(?={halves}))"),
            re.compile(rf"{_HOUR}\s?{hour}(?:\s?{_MINUTE}分?(?![\d:]))?"),
            re.compile(rf"{_HOUR}\s?(?={halves})"),
            re.compile(rf"{before}\s{_HOUR}{_NO_DATE}"),
        )
        self._noon = re.compile(_either(*(each.noon for each in words)))
        self._midnight = re.compile(_either(*(each.midnight for each in words)))
        self._am = _half(am, *(each.am for each in words))
        self._pm = _half(pm, *(each.pm for each in words))
        self._night = _half(*(each.night for each in words))
        self._midday = re.compile(_either(*(each.midday for each in words)))
        self._other = re.compile(
            rf"(?P<before>{_OTHER_HOUR}){between}{_TAKEN}|{_TAKEN}\s?(?:{halves})?,?{other}(?P<after>{_OTHER_HOUR})"
        )

    def times(self, text: str) -> tuple[set[time], str]:
        """Return the times in a text, and the text without them.

        Raises _TimeRefused for one that does not exist, or with a number as its alternative or other end of a range,
        and for too many.
        """
        rest = fold(text[:CHARS_MAX])
        whole, times = rest, set[time]()
        left = _TIMES_MAX

        def take(match: re.Match[str], minutes: int | None = 0) -> str:
            nonlocal left
            hour = self._hour(match["hour"])
            if hour is None or minutes is None:
                return match[0]  # a word that is no number
            left -= 1
            if left < 0:
                raise _TimeRefused(match[0])
            times.add(self._clock(match, hour, whole, minutes))
            return _TAKEN

        for minutes, pattern in self._minutes:
            rest = pattern.sub(lambda match, minutes=minutes: take(match, minutes), rest)  # type: ignore[misc]
        for pattern in self._spoken:
            at = 0
            while (match := pattern.search(rest, at)) is not None:  # a word that is no number may precede the hour
                taken = take(match, self._spoken_minutes(match["spoken"]))
                rest = rest[: match.start()] + taken + rest[match.end() :]
                at = match.start() + 1 if rest[match.start()] == _TAKEN else match.end("hour")
        for pattern in (_DIGITS, *self._hours):
            rest = pattern.sub(take, rest)
        for hour, pattern in ((12, self._noon), (0, self._midnight)):
            if pattern.search(rest):
                times.add(time(hour))
                rest = pattern.sub(_TAKEN, rest)
        if not times and self._midday.search(rest):
            times.add(time(12))
            rest = self._midday.sub(_TAKEN, rest)
        for match in self._other.finditer(rest) if times else ():
            if self._hour(match["before"] or match["after"]) is not None:
                raise _TimeRefused(match[0])  # at 9 or 10
        return times, rest

    def bare_hour(self, text: str) -> set[time]:
        """Return the hour that is all of a text; empty if it is not a number. Raises _TimeRefused for one above 23."""
        bare = _BARE.fullmatch(text)
        hour = self._hour(bare["hour"] or bare["word"]) if bare is not None else None
        return {self._clock(bare, hour, text)} if bare is not None and hour is not None else set()

    def _clock(self, match: re.Match[str], hour: int, whole: str, minutes: int = 0) -> time:
        """Return the time of one match, whose hour is read already. Raises _TimeRefused if there is none."""
        if _NEGATED.search(match.string[max(match.start() - 8, 0) : match.start()]):
            raise _TimeRefused(match[0])
        parts = match.groupdict()
        minute = parse_number(parts["minute"], self._locale) if parts.get("minute") else 0
        hour = self._in_half(hour, f"{whole}\n0{match.string[match.end() :]}")  # a digit in place of hours in words
        second = int(parts.get("second") or 0)
        if not isinstance(minute, int) or hour > 23 or minute > 59 or second > 59:
            raise _TimeRefused(match[0])
        total = hour * 60 + minute + minutes
        return time(total // 60 % 24, total % 60, second)

    def _in_half(self, hour: int, whole: str) -> int:
        """Return the hour of the day, by the words for its half."""
        am, pm, night = (bool(pattern.search(whole)) for pattern in (self._am, self._pm, self._night))
        if hour <= _MIDDAY_MAX and self._midday.search(whole):
            return hour + 12
        if hour > 12 or not (am or pm or night):
            return hour
        if night and not (am or pm):
            return hour % 12 if hour <= 5 or hour == 12 else hour + 12
        if am and pm:
            raise _TimeRefused(whole)
        return hour % 12 + (0 if am else 12)

    def _hour(self, text: str) -> int | None:
        if text.isdecimal():
            return int(text)
        number = small_number(text, self._code) if text[0] not in _HAN else parse_number(text, self._locale)
        return number if isinstance(number, int) else None

    def _spoken_minutes(self, text: str) -> int | None:
        """Return the minutes in words behind an hour, ``thirty``; None for other words and for ``two``."""
        minutes = small_number(text, self._code)
        return minutes if minutes is not None and 10 <= minutes <= 59 else None


_grammar = lru_cache(maxsize=LOCALES_CACHED_MAX)(_Grammar)


def _longest_first(words: TimeWords) -> list[tuple[str, int]]:
    return sorted(words.minutes.items(), key=lambda pair: -len(pair[0]))


def _template(pattern: str) -> re.Pattern[str]:
    before, after = (word_pattern(part.strip()) if part.strip() else "" for part in pattern.split("{}"))
    return re.compile(rf"{before}\s?{_HOUR}\s?{after}")


def _half(*words: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern for words of a half of the day; a short one of Latin letters counts only behind a number."""
    every = [fold(each) for some in words for each in some]
    short = [each for each in every if len(each) <= _SHORT and each[0].isascii() and " " not in each]
    behind = rf"[0-9]\s?{_either(tuple(short))}"
    return re.compile(rf"{behind}|{_either(tuple(set(every) - set(short)))}")


def _either(*words: tuple[str, ...]) -> str:
    every = sorted({fold(each) for some in words for each in some}, key=lambda each: (-len(each), each))
    return rf"(?:{'|'.join(map(word_pattern, every))})" if every else r"(?!)"
