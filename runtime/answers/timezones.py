"""Extraction of one time zone from a free reply: its IANA name, a city in the locale's language, or an offset."""

import re
from functools import cache, lru_cache
from zoneinfo import available_timezones

from msgspec import Struct

from runtime.answers.languages.cldr import LOCALES_CACHED_MAX, zone_cities
from runtime.answers.languages.spelling import fold, strip_accents, word_pattern
from scripts.model.script import Locale
from scripts.translations.localisation import language

CHARS_MAX = 2_000
_REGIONS = {"Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific"}
_NAME = re.compile(r"(?<![a-z])[a-z]+(?:/[a-z0-9_+-]+)+")
_OFFSET = re.compile(r"(?<!\w)(?:utc|gmt)(?:\s?(?P<sign>[+−-])\s?(?P<hours>[0-9]{1,2})(?::?00)?)?(?![\w:+−-])")
_EASTMOST, _WESTMOST = 14, 12  # hours for which the IANA database has a zone


class _Cities(Struct, frozen=True):
    zones: dict[str, str]
    pattern: re.Pattern[str]


def parse_timezone(text: str, locale: Locale = "en") -> str | None:
    """Return the IANA name of the time zone in a reply; None for none, for two, and for an offset with minutes."""
    folded = fold(text[:CHARS_MAX])
    names = _names()
    alone = names.get(folded.strip(" .,!"))
    if alone is not None:
        return alone
    found = {names.get(match[0]) for match in _NAME.finditer(folded)}
    found |= {_at_offset(match) for match in _OFFSET.finditer(folded)}
    if not found:
        cities = _cities(language(locale))
        found |= {cities.zones[match[0]] for match in cities.pattern.finditer(strip_accents(folded))}
    return found.pop() if len(found) == 1 else None


def _at_offset(match: re.Match[str]) -> str | None:
    """Return the zone with a fixed offset. The signs in names of such zones are the opposite of those in ISO 8601."""
    hours = int(match["hours"] or 0)
    is_east = match["sign"] == "+"
    if hours == 0:
        return "UTC"
    return f"Etc/GMT{'-' if is_east else '+'}{hours}" if hours <= (_EASTMOST if is_east else _WESTMOST) else None


@cache
def _names() -> dict[str, str]:
    """Return all names of time zones by their folded spelling."""
    return {fold(name): name for name in sorted(available_timezones())}


@lru_cache(maxsize=LOCALES_CACHED_MAX)
def _cities(code: str) -> _Cities:
    """Return the zones by the names of their cities: those in IANA's names, and those of the language in CLDR.

    Of several zones with one city, the longest name is the current one (``America/Argentina/Buenos_Aires``).
    """
    every = available_timezones()
    ids = sorted((name for name in every if name.partition("/")[0] in _REGIONS), key=len)
    zones = {strip_accents(fold(city)): zone for zone, city in zone_cities(code) if zone in every}
    zones |= {strip_accents(fold(zone.rpartition("/")[2].replace("_", " "))): zone for zone in ids}
    longest_first = sorted(zones, key=lambda city: (-len(city), city))
    return _Cities(zones, re.compile("|".join(map(word_pattern, longest_first))))
