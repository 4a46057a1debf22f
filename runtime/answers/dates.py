"""One calendar day out of a free reply: absolute dates through dateparser, relative ones counted from ``today``."""

import re
from datetime import date, datetime, time, timedelta

from runtime.answers.numbers import parse_number

CHARS_MAX = 2_000
MONTH_FIRST = frozenset({"en", "en-us", "zh"})  # 03/04/2020 is 4 March there and 3 April in every other locale

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_DAY = r"[0-9]{1,2}(?:st|nd|rd|th)?"
_HAN = "零〇一二三四五六七八九十"
_COUNT = r"(?:an?|[0-9]{1,4}|one|two|three|four|five|six|seven|eight|nine|ten)"
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_HAN_OFFSETS = {
    "大前天": -3,
    "前天": -2,
    "昨天": -1,
    "昨日": -1,
    "今天": 0,
    "今日": 0,
    "明天": 1,
    "明日": 1,
    "后天": 2,
    "大后天": 3,
}

_DATE = re.compile(
    r"(?<![0-9.])(?P<year>[0-9]{4})(?P<gap>[-/.])(?P<month>[0-9]{1,2})(?P=gap)(?P<day>[0-9]{1,2})(?![0-9])"
    rf"|(?P<han_year>[0-9]{{4}}|[{_HAN}]{{4}})\s?年\s?(?P<han_month>[0-9]{{1,2}}|[{_HAN}]{{1,3}})\s?月\s?"
    rf"(?P<han_day>[0-9]{{1,2}}|[{_HAN}]{{1,3}})\s?[日号]?"
    r"|(?<![0-9./-])(?P<first>[0-9]{1,2})(?P<sep>[-/.])(?P<second>[0-9]{1,2})(?P=sep)(?P<last>[0-9]{4})(?![0-9])"
    rf"|(?<![0-9a-z])(?P<named>{_DAY}[ -](?:of )?{_MONTH},?[ -][0-9]{{4}}|{_MONTH} {_DAY},? [0-9]{{4}})(?![0-9])"
    rf"|\b(?P<relative>(?:the )?day (?:after tomorrow|before yesterday)|today|tomorrow|yesterday"
    rf"|in {_COUNT} (?:day|week)s?|{_COUNT} (?:day|week)s? ago)\b"
    rf"|\b(?P<which>next|this|coming|last|past) (?P<weekday>{'|'.join(_WEEKDAYS)})\b"
    rf"|(?P<han_word>{'|'.join(sorted(_HAN_OFFSETS, key=len, reverse=True))})"
    rf"|(?P<han_count>[0-9]{{1,4}}|[{_HAN}两]{{1,5}})\s?(?P<han_unit>天|周|个?星期)(?:以|之)?(?P<han_way>前|后)"
    r"|(?P<han_week>上|下|这|本)个?(?:周|星期|礼拜)(?P<han_weekday>[一二三四五六日天])"
)

_NEGATED = re.compile(r"(?:\bnot(?: on)?|不是) ?$")


def parse_date(text: str, today: date, locale: str = "en") -> str | None:
    """The ISO day a reply names, or None; a day that does not exist or lacks its year is none, as are two days.

    ``next Friday`` is the first Friday after today, ``下周五`` the Friday of the next Monday-to-Sunday week.
    """
    folded = re.sub(r"[ \t]+", " ", text[:CHARS_MAX].casefold().replace("後", "后"))
    try:
        days = {_day(match, today, locale) for match in _DATE.finditer(folded)}
    except (ValueError, OverflowError):  # 2023-02-30, or before year 1
        return None
    return days.pop().isoformat() if len(days) == 1 else None


def _day(match: re.Match[str], today: date, locale: str) -> date:
    """The day one match stands for; raises ValueError where it names none."""
    if _NEGATED.search(match.string[max(match.start() - 8, 0) : match.start()]):
        raise ValueError(match[0])
    part = match.groupdict()
    if part["year"]:
        return date(int(part["year"]), int(part["month"]), int(part["day"]))
    if part["han_year"]:
        return date(*(_count(part[name]) for name in ("han_year", "han_month", "han_day")))
    if part["last"]:
        month_first = part["sep"] != "." and _month_first(locale)  # dots are written day first everywhere
        return _year_last(int(part["first"]), int(part["second"]), int(part["last"]), month_first)
    if part["named"] or part["relative"]:
        return _by_library(match[0], today)
    if part["weekday"]:
        return _weekday(part["which"], _WEEKDAYS.index(part["weekday"]), today)
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


def _month_first(locale: str) -> bool:
    tag = locale.casefold().replace("_", "-")
    return tag in MONTH_FIRST or tag.startswith("zh-")


def _year_last(first: int, second: int, year: int, month_first: bool) -> date:
    if (month_first and first <= 12) or second > 12:
        return date(year, first, second)
    return date(year, second, first)


def _weekday(which: str, weekday: int, today: date) -> date:
    if which in ("last", "past"):
        return today - timedelta(days=(today.weekday() - weekday - 1) % 7 + 1)
    soonest = 0 if which == "this" else 1
    return today + timedelta(days=(weekday - today.weekday() - soonest) % 7 + soonest)


def _by_library(text: str, today: date) -> date:
    import dateparser  # slow to import, and most scripts ask for no date

    found = dateparser.parse(
        text,
        languages=["en"],
        settings={
            "RELATIVE_BASE": datetime.combine(today, time.min),
            "REQUIRE_PARTS": ["day", "month", "year"],
            "TIMEZONE": "UTC",  # or it would ask the machine for its own
            "RETURN_AS_TIMEZONE_AWARE": False,
        },
    )
    if found is None:
        raise ValueError(text)
    return found.date()
