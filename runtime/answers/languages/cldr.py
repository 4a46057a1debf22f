"""The conventions of locales from CLDR, through Babel, which is imported on first use."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from runtime.answers.languages.spelling import fold, strip_accents
from scripts.model.script import Locale
from scripts.translations.localisation import language

if TYPE_CHECKING:
    from babel import Locale as Known

LOCALES_CACHED_MAX = 256
PREFIX_CHARS = 3  # minimum length of abbreviated months and weekdays, if unambiguous


class Conventions(Struct, frozen=True):
    """A locale's notation of numbers and dates, in the Gregorian calendar. Names are folded; weeks start on Monday."""

    decimal: str
    group: str
    group_sizes: tuple[int, int]
    month_first: bool
    months: Mapping[str, int]
    weekdays: Mapping[str, int]
    fillers: tuple[str, ...]


PLAIN = Conventions(".", ",", (3, 3), month_first=False, months={}, weekdays={}, fillers=())


@lru_cache(maxsize=LOCALES_CACHED_MAX)
def conventions(locale: Locale) -> Conventions | None:
    """Return the conventions of a locale, or of its language; None if CLDR does not have the language."""
    known = _locale_data(locale)
    if known is None:
        return None
    symbols = known.number_symbols["latn"]
    primary, secondary = known.decimal_formats[None].grouping
    month_day = str(known.datetime_skeletons["Md"].pattern)
    patterns = [str(each.pattern) for each in known.date_formats.values()]
    eras = [str(each[1]) for each in known.eras.values() if 1 in each]
    return Conventions(
        decimal=str(symbols["decimal"]),
        group=str(symbols["group"]),
        group_sizes=(primary, secondary),
        month_first=month_day.index("M") < month_day.index("d"),
        months=_names(known.months),
        weekdays=_names(known.days),
        fillers=_fillers(patterns, eras),
    )


def halves_of_day(locale: Locale) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words of a locale's language for the hours before and after noon: ``오전`` and ``오후``."""
    known = _locale_data(language(locale))
    periods = known.day_periods["format"] if known is not None else {}
    am, pm = (tuple(str(of[half]) for of in periods.values() if half in of) for half in ("am", "pm"))
    return am, pm


def zone_cities(code: str) -> tuple[tuple[str, str], ...]:
    """Return the names of time zones, each with its city in a language, where that differs from the name."""
    known = _locale_data(code)
    zones = known.time_zones if known is not None else {}
    return tuple((str(zone), str(names["city"])) for zone, names in zones.items() if "city" in names)


def _locale_data(locale: Locale) -> "Known | None":
    """Return Babel's data of a locale, or of its language; None if CLDR does not have the language."""
    from babel import Locale as Known
    from babel import UnknownLocaleError

    tag = locale.replace("_", "-")
    while tag:
        try:
            return Known.parse(tag, sep="-")
        except (UnknownLocaleError, ValueError):
            tag = tag.rpartition("-")[0]
    return None


def _fillers(patterns: Iterable[str], eras: Iterable[str]) -> tuple[str, ...]:
    """Return the words between the parts of a date: ``de`` in Spanish."""
    quoted = (part for pattern in patterns for part in re.findall(r"'([^']+)'", pattern))
    others = (part for pattern in patterns for part in re.findall(r"[^\W\da-zA-Z]+", pattern))
    return tuple(sorted({fold(each) for each in (*quoted, *others, *eras)} - {""}, key=len, reverse=True))


def _names(widths: Mapping[str, Mapping[str, Mapping[int, str]]]) -> dict[str, int]:
    """Return the values by name, also without accents and abbreviated; an ambiguous name is left out."""
    written: dict[str, set[int]] = {}
    shortened: dict[str, set[int]] = {}
    for context in ("format", "stand-alone"):
        for width in ("wide", "abbreviated"):
            for number, name in widths[context][width].items():
                for each in (fold(str(name)), strip_accents(fold(str(name)))):
                    written.setdefault(each.rstrip("."), set()).add(number)
                    if each[:PREFIX_CHARS].isalpha():
                        shortened.setdefault(each[:PREFIX_CHARS], set()).add(number)
    return {name: next(iter(of)) for name, of in (shortened | written).items() if len(of) == 1 and name}
