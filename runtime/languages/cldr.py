"""What CLDR knows of a locale, through Babel, which is loaded on first use."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec import Struct

from runtime.languages.spelling import fold, unaccented
from scripts.model import Locale

LOCALES_KEPT = 256
PREFIX_CHARS = 3  # months and weekdays may be shortened to so many letters, where that leaves no doubt


class Conventions(Struct, frozen=True):
    """How a locale writes numbers and dates, by the Gregorian calendar. Names are folded; weekdays begin on Monday."""

    decimal: str
    group: str
    group_sizes: tuple[int, int]
    month_first: bool
    months: Mapping[str, int]
    weekdays: Mapping[str, int]
    fillers: tuple[str, ...]


PLAIN = Conventions(".", ",", (3, 3), month_first=False, months={}, weekdays={}, fillers=())


@lru_cache(maxsize=LOCALES_KEPT)
def conventions(locale: Locale) -> Conventions | None:
    """The conventions of a locale, or of the language it belongs to; None where CLDR has no such language."""
    from babel import Locale as Known
    from babel import UnknownLocaleError

    tag = locale.replace("_", "-")
    while tag:
        try:
            known = Known.parse(tag, sep="-")
        except (UnknownLocaleError, ValueError):
            tag = tag.rpartition("-")[0]
            continue
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
    return None


def _fillers(patterns: Iterable[str], eras: Iterable[str]) -> tuple[str, ...]:
    """The words that stand between the parts of a date: ``de`` in Spanish."""
    quoted = (part for pattern in patterns for part in re.findall(r"'([^']+)'", pattern))
    others = (part for pattern in patterns for part in re.findall(r"[^\W\da-zA-Z]+", pattern))
    return tuple(sorted({fold(each) for each in (*quoted, *others, *eras)} - {""}, key=len, reverse=True))


def _names(widths: Mapping[str, Mapping[str, Mapping[int, str]]]) -> dict[str, int]:
    """Names by what they stand for, also without accents and shortened; a name for two of them stands for none."""
    written: dict[str, set[int]] = {}
    shortened: dict[str, set[int]] = {}
    for context in ("format", "stand-alone"):
        for width in ("wide", "abbreviated"):
            for number, name in widths[context][width].items():
                for each in (fold(str(name)), unaccented(fold(str(name)))):
                    written.setdefault(each.rstrip("."), set()).add(number)
                    if each[:PREFIX_CHARS].isalpha():
                        shortened.setdefault(each[:PREFIX_CHARS], set()).add(number)
    return {name: next(iter(of)) for name, of in (shortened | written).items() if len(of) == 1 and name}
