"""Words for days in languages of which Cuebook has no data, read by dateparser: Russian ``вчера``, Swedish ``igår``."""

import re
from datetime import date, datetime

from scripts.model import Locale
from scripts.strings import language

CHARS_MAX = 40  # a longer text says more than a day
_BASE = datetime(2001, 5, 16)  # noqa: DTZ001  # what is found is counted from here, whatever the time zone
_LETTER = re.compile(r"[^\W\d_]")
_DIGIT = re.compile(r"[0-9]")
_YEAR = re.compile(r"[0-9]{4}")


def relative_day(text: str, today: date, locale: Locale) -> date | None:
    """The day that a short text names by words that count from today, or None.

    Raises OverflowError for a day that is not in the calendar.
    """
    if len(text) > CHARS_MAX or not _LETTER.search(text) or _YEAR.search(text):
        return None
    from dateparser.date import DateDataParser  # slow to import, and few locales need it

    settings = {
        "RELATIVE_BASE": _BASE,  # the same for all, since dateparser keeps every settings it was given
        "REQUIRE_PARTS": ["day", "month", "year"],
        "TIMEZONE": "UTC",  # or it would ask the machine for its own
        "RETURN_AS_TIMEZONE_AWARE": False,
    }
    try:
        found = DateDataParser(languages=[language(locale)], settings=settings).get_date_data(text.strip(" .,!"))
    except ValueError:  # a language it does not know
        return None
    is_day = found.period == "day" or (found.period == "week" and _DIGIT.search(text) is not None)
    if found.date_obj is None or not is_day:
        return None
    return today + (found.date_obj.date() - _BASE.date())
