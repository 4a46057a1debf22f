"""Days that a text names in the words of a language: ``3. Mai 1990``, ``gestern``, ``il y a deux jours``.

Names of months and weekdays come from CLDR, words relative to today from `runtime.answers.languages`. For a language
without such data, dateparser reads a day relative to today: Russian ``вчера``, Swedish ``igår``.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

from runtime.answers.languages import ENGLISH, LANGUAGES, between_words
from runtime.answers.languages.cldr import LOCALES_CACHED_MAX, Conventions, conventions
from runtime.answers.languages.language import DayWords, Language
from runtime.answers.languages.spelling import any_of, fold, plain_key
from runtime.answers.number_words import small_number
from scripts.model.script import Locale
from scripts.translations.localisation import language

_YEAR = re.compile(r"(?<![0-9])[0-9]{4}(?![0-9])")
_TAKEN = "~"  # replaces a day that was found
ABBREVIATION_CHARS = 2  # a weekday of so few letters is often another word: German `so`
_COUNT = r"(?P<count>[0-9]{1,4}|[^\W\d_]{1,30})"


class NamedDays(Struct, frozen=True):
    """The days in a text, and the text without the words for them."""

    days: frozenset[date]
    rest: str


_Take: TypeAlias = Callable[[re.Match[str], date | None], str]


def spoken_days(text: str, today: date, locale: Locale) -> NamedDays:
    """Return the days that a folded text names in a locale's language.

    Raises ValueError or OverflowError for a day that does not exist, for one that the text negates, and for one with a
    weekday as its alternative or the other end of a range.
    """
    return _grammar(locale).days_in(text, today)


# -- days in a text ---------------------------------------------------------------------------------------------------


class _Grammar:
    """The patterns of a locale's dates, and the days in a text; values by name."""

    def __init__(self, locale: Locale) -> None:
        code = language(locale)
        own = LANGUAGES.get(code)
        used = conventions(locale)
        digraphs = own.digraphs if own is not None else {}
        no = own.yes_no.no if own is not None and own.yes_no is not None else ("not", "not on")
        choices = own.choices if own is not None else None
        weekdays = {plain_key(name, digraphs): day for name, day in used.weekdays.items()} if used is not None else {}
        weekdays |= {name.partition("-")[0]: day for name, day in weekdays.items() if "-" in name}  # segunda-feira
        names = any_of((each for each in _weekday_names(used) if len(each) > ABBREVIATION_CHARS), digraphs=digraphs)
        other = any_of(between_words(code))
        self._months = _with_digraphs(used.months, digraphs) if used is not None else {}
        self._ordinals = {fold(word): place for word, place in choices.ordinals.items() if place > 0} if choices else {}
        self._named = _patterns_by_name(used, own, self._ordinals, self._months) if used is not None else ()
        self._negated = re.compile(rf"{any_of(no)} $")
        self._other = re.compile(rf"{_TAKEN},? {other} (?:\w+ )?{names}|{names},? {other} {_TAKEN}")
        self._from_today: _FromToday | None = None
        if own is not None and own.dates is not None:
            self._from_today = _FromToday(own, own.dates, weekdays, _weekday_names(used))

    def days_in(self, text: str, today: date) -> NamedDays:
        """Return the days that a folded text names. Raises ValueError, OverflowError."""
        days: set[date] = set()

        def take(match: re.Match[str], day: date | None) -> str:
            if day is not None:
                if self._negated.search(match.string[: match.start()]):
                    raise ValueError(match[0])
                days.add(day)
            return _TAKEN

        if _YEAR.search(text):
            for pattern in self._named:
                text = pattern.sub(lambda match: take(match, self._named_day(match)), text)
        if self._from_today is not None:
            text = self._from_today.replace_days(text, today, take)
        if self._other.search(text):
            raise ValueError(text)  # tomorrow or Friday
        return NamedDays(frozenset(days), text)

    def _named_day(self, match: re.Match[str]) -> date:
        day = int(match["day"]) if match["day"].isdecimal() else self._ordinals[match["day"]]
        return date(int(match["year"]), self._months[match["month"]], day)


class _FromToday:
    """The patterns of words relative to today, and the days that they mean."""

    def __init__(self, own: Language, words: DayWords, weekdays: Mapping[str, int], names: Iterable[str]) -> None:
        def of(*phrases: str) -> str:
            return any_of(phrases, digraphs=own.digraphs)

        which, name = of(*words.next, *words.last, *words.this), of(*names)
        unit = rf"(?P<unit>{of(*words.day_units, *words.week_units)})"
        templates = [(way, each) for way, all_ in ((-1, words.ago), (1, words.ahead)) for each in all_]
        longest_first = sorted(templates, key=lambda pair: -len(pair[1]))
        self._own = own
        self._weekdays = weekdays
        self._days = {plain_key(phrase, own.digraphs): shift for phrase, shift in words.days.items()}
        self._day = re.compile(of(*words.days))
        self._counted = tuple((way, _template(each, unit)) for way, each in longest_first)
        self._one = frozenset(map(fold, words.one))
        self._week = re.compile(of(*words.week_units))
        self._weekday = re.compile(rf"(?P<before>{which}) (?P<first>{name})|(?P<second>{name}) (?P<after>{which})")
        self._this = re.compile(of(*words.this))
        self._last = re.compile(of(*words.last))

    def replace_days(self, text: str, today: date, take: _Take) -> str:
        """Return a text in which the result of `take` replaces each word for a day; it gets the match and the day."""
        for way, pattern in self._counted:
            for match in reversed(list(pattern.finditer(text))):
                count = 1 if match["count"] in self._one else small_number(match["count"], self._own.code)
                if count is not None:
                    shift = timedelta(days=way * count * (7 if self._week.fullmatch(match["unit"]) else 1))
                    text = text[: match.start()] + take(match, today + shift) + text[match.end() :]
        text = self._weekday.sub(lambda match: take(match, self._named_weekday(match, today)), text)
        return self._day.sub(lambda match: take(match, self._shift(match, today)), text)

    def _shift(self, match: re.Match[str], today: date) -> date | None:
        shift = self._days[plain_key(match[0], self._own.digraphs)]
        return None if shift is None else today + timedelta(days=shift)

    def _named_weekday(self, match: re.Match[str], today: date) -> date:
        """Return the weekday: `next` is the first after today, `this` may be today, `last` is the latest before it."""
        which = match["before"] or match["after"]
        weekday = self._weekdays[plain_key(match["first"] or match["second"], self._own.digraphs)]
        if self._last.fullmatch(which):
            return today - timedelta(days=(today.weekday() - weekday - 1) % 7 + 1)
        soonest = 0 if self._this.fullmatch(which) else 1
        return today + timedelta(days=(weekday - today.weekday() - soonest) % 7 + soonest)


_grammar = lru_cache(maxsize=LOCALES_CACHED_MAX)(_Grammar)


def _patterns_by_name(
    used: Conventions, own: Language | None, ordinals: Iterable[str], months: Iterable[str]
) -> tuple[re.Pattern[str], ...]:
    """Return patterns for a day, a month by name and a year, in each order that occurs in CLDR."""
    gap = rf"(?:[\s.,،/()-]|{_either(('of', 'del', *used.fillers))}){{1,8}}"
    suffix = _either((*ENGLISH.ordinal_suffixes, *(own.ordinal_suffixes if own is not None else ())))
    day = rf"(?<![\w.])(?P<day>[0-9]{{1,2}}|{_either(ordinals)})(?:{suffix})?(?![0-9])"
    month = rf"(?P<month>(?<![0-9])(?:{_either(months)}))(?![a-zà-ɏ0-9])"
    year = r"(?P<year>(?<![0-9])[0-9]{4})(?![0-9])"
    orders = ((day, month, year), (month, day, year), (year, month, day), (year, day, month))
    return tuple(re.compile(gap.join(order)) for order in orders)


def _weekday_names(used: Conventions | None) -> tuple[str, ...]:
    names = tuple(used.weekdays) if used is not None else ()
    return names + tuple(name.partition("-")[0] for name in names if "-" in name)


def _with_digraphs(names: Mapping[str, int], digraphs: Mapping[str, str]) -> dict[str, int]:
    spelled = dict(names)
    for letter, pair in digraphs.items():
        spelled |= {name.replace(letter, pair): number for name, number in names.items() if letter in name}
    return spelled


def _either(words: Iterable[str]) -> str:
    return "|".join(re.escape(each) for each in sorted(words, key=lambda each: (-len(each), each))) or r"(?!)"


def _template(pattern: str, unit: str) -> re.Pattern[str]:
    before, after = (any_of([each.strip()]) if each.strip() else "" for each in pattern.split("{}"))
    start = f"{before} " if before else r"(?<!\w)"
    return re.compile(f"{start}{_COUNT} {unit}" + (f" {after}" if after else ""))


# -- languages without data -------------------------------------------------------------------------------------------


CHARS_MAX = 40  # a longer text is not just a day
_BASE = datetime(2001, 5, 16)  # noqa: DTZ001  # the result is relative to this day, in any time zone
_LETTER = re.compile(r"[^\W\d_]")
_DIGIT = re.compile(r"[0-9]")


def relative_day(text: str, today: date, locale: Locale) -> date | None:
    """Return the day that a short text names relative to today, or None.

    Raises OverflowError for a day outside the calendar.
    """
    if len(text) > CHARS_MAX or not _LETTER.search(text) or re.search(r"[0-9]{4}", text):
        return None
    from dateparser.date import DateDataParser  # slow to import, and few locales need it

    settings = {
        "RELATIVE_BASE": _BASE,  # constant, because dateparser caches every distinct settings object
        "REQUIRE_PARTS": ["day", "month", "year"],
        "TIMEZONE": "UTC",  # otherwise it would use the machine's
        "RETURN_AS_TIMEZONE_AWARE": False,
    }
    try:
        found = DateDataParser(languages=[language(locale)], settings=settings).get_date_data(text.strip(" .,!"))
    except ValueError:  # an unknown language
        return None
    is_day = found.period == "day" or (found.period == "week" and _DIGIT.search(text) is not None)
    if found.date_obj is None or not is_day:
        return None
    return today + (found.date_obj.date() - _BASE.date())
