"""Days that a text names in the words of a language: ``3. Mai 1990``, ``gestern``, ``il y a deux jours``.

Names of months and weekdays come from CLDR, words relative to today from `runtime.answers.languages`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, timedelta
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


class _Spoken(Struct, frozen=True):
    """The patterns of words relative to today."""

    days: Mapping[str, int | None]
    day: re.Pattern[str]
    counted: tuple[tuple[int, re.Pattern[str]], ...]
    one: frozenset[str]
    week: re.Pattern[str]
    weekday: re.Pattern[str]
    this: re.Pattern[str]
    last: re.Pattern[str]


class _Grammar(Struct, frozen=True):
    """The patterns of a locale's dates; values by name."""

    code: str
    digraphs: Mapping[str, str]
    months: Mapping[str, int]
    weekdays: Mapping[str, int]
    ordinals: Mapping[str, int]
    named: tuple[re.Pattern[str], ...]
    negated: re.Pattern[str]
    other: re.Pattern[str]
    spoken: _Spoken | None


class NamedDays(Struct, frozen=True):
    """The days in a text, and the text without the words for them."""

    days: frozenset[date]
    rest: str


_Keep: TypeAlias = Callable[[re.Match[str], date | None], str]


def spoken_days(text: str, today: date, locale: Locale) -> NamedDays:
    """Return the days that a folded text names in a locale's language.

    Raises ValueError or OverflowError for a day that does not exist, for one that the text negates, and for one with a
    weekday as its alternative or the other end of a range.
    """
    grammar = _grammar(locale)
    days: set[date] = set()

    def keep(match: re.Match[str], day: date | None) -> str:
        if day is not None:
            if grammar.negated.search(match.string[: match.start()]):
                raise ValueError(match[0])
            days.add(day)
        return _TAKEN

    if _YEAR.search(text):
        for pattern in grammar.named:
            text = pattern.sub(lambda match: keep(match, _named_day(match, grammar)), text)
    if grammar.spoken is not None:
        text = _from_today(text, today, grammar, grammar.spoken, keep)
    if grammar.other.search(text):
        raise ValueError(text)  # tomorrow or Friday
    return NamedDays(frozenset(days), text)


def _from_today(text: str, today: date, grammar: _Grammar, words: _Spoken, keep: _Keep) -> str:
    for way, pattern in words.counted:
        for match in reversed(list(pattern.finditer(text))):
            count = 1 if match["count"] in words.one else small_number(match["count"], grammar.code)
            if count is not None:
                shift = timedelta(days=way * count * (7 if words.week.fullmatch(match["unit"]) else 1))
                text = text[: match.start()] + keep(match, today + shift) + text[match.end() :]
    text = words.weekday.sub(lambda match: keep(match, _weekday(match, words, grammar, today)), text)
    return words.day.sub(lambda match: keep(match, _shifted(match, words, grammar, today)), text)


def _named_day(match: re.Match[str], grammar: _Grammar) -> date:
    day = int(match["day"]) if match["day"].isdecimal() else grammar.ordinals[match["day"]]
    return date(int(match["year"]), grammar.months[match["month"]], day)


def _shifted(match: re.Match[str], words: _Spoken, grammar: _Grammar, today: date) -> date | None:
    shift = words.days[plain_key(match[0], grammar.digraphs)]
    return None if shift is None else today + timedelta(days=shift)


def _weekday(match: re.Match[str], words: _Spoken, grammar: _Grammar, today: date) -> date:
    """Return the weekday: `next` is the first after today, `this` may be today, `last` is the latest before it."""
    which = match["before"] or match["after"]
    weekday = grammar.weekdays[plain_key(match["first"] or match["second"], grammar.digraphs)]
    if words.last.fullmatch(which):
        return today - timedelta(days=(today.weekday() - weekday - 1) % 7 + 1)
    soonest = 0 if words.this.fullmatch(which) else 1
    return today + timedelta(days=(weekday - today.weekday() - soonest) % 7 + soonest)


# -- patterns ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=LOCALES_CACHED_MAX)
def _grammar(locale: Locale) -> _Grammar:
    code = language(locale.replace("_", "-"))
    own = LANGUAGES.get(code)
    used = conventions(locale)
    digraphs = own.digraphs if own is not None else {}
    no = own.yes_no.no if own is not None and own.yes_no is not None else ("not", "not on")
    choices = own.choices if own is not None else None
    ordinals = {fold(word): place for word, place in choices.ordinals.items() if place > 0} if choices else {}
    weekdays = {plain_key(name, digraphs): day for name, day in used.weekdays.items()} if used is not None else {}
    weekdays |= {name.partition("-")[0]: day for name, day in weekdays.items() if "-" in name}  # segunda-feira
    names = any_of((each for each in _weekday_names(used) if len(each) > ABBREVIATION_CHARS), digraphs=digraphs)
    other = any_of(between_words(code))
    months = _with_digraphs(used.months, digraphs) if used is not None else {}
    return _Grammar(
        code=code,
        digraphs=digraphs,
        months=months,
        weekdays=weekdays,
        ordinals=ordinals,
        named=_named(used, own, ordinals, months) if used is not None else (),
        negated=re.compile(rf"{any_of(no)} $"),
        other=re.compile(rf"{_TAKEN},? {other} (?:\w+ )?{names}|{names},? {other} {_TAKEN}"),
        spoken=_spoken(own, own.dates, _weekday_names(used)) if own is not None and own.dates is not None else None,
    )


def _named(
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


def _spoken(own: Language, words: DayWords, weekdays: Iterable[str]) -> _Spoken:
    def of(*phrases: str) -> str:
        return any_of(phrases, digraphs=own.digraphs)

    which, name = of(*words.next, *words.last, *words.this), of(*weekdays)
    unit = rf"(?P<unit>{of(*words.day_units, *words.week_units)})"
    templates = [(way, each) for way, all_ in ((-1, words.ago), (1, words.ahead)) for each in all_]
    return _Spoken(
        days={plain_key(phrase, own.digraphs): shift for phrase, shift in words.days.items()},
        day=re.compile(of(*words.days)),
        counted=tuple((way, _template(each, unit)) for way, each in sorted(templates, key=lambda pair: -len(pair[1]))),
        one=frozenset(map(fold, words.one)),
        week=re.compile(of(*words.week_units)),
        weekday=re.compile(rf"(?P<before>{which}) (?P<first>{name})|(?P<second>{name}) (?P<after>{which})"),
        this=re.compile(of(*words.this)),
        last=re.compile(of(*words.last)),
    )


def _template(pattern: str, unit: str) -> re.Pattern[str]:
    before, after = (any_of([each.strip()]) if each.strip() else "" for each in pattern.split("{}"))
    start = f"{before} " if before else r"(?<!\w)"
    return re.compile(f"{start}{_COUNT} {unit}" + (f" {after}" if after else ""))
