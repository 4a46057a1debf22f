"""Numbers in digits as a locale writes them (``1.234,5`` in German), rewritten as programs do: ``1234.5``."""

import re
from functools import lru_cache

from msgspec import Struct

from runtime.languages.cldr import LOCALES_KEPT, PLAIN, conventions
from scripts.model import Locale

_SPACES = "\u00a0\u202f\u2009"
_ARABIC = str.maketrans("٫٬", ".,")
_TOKEN = re.compile(
    rf"(?<![\w.,])[0-9]{{1,40}}(?:(?:[.,'’{_SPACES}]| (?=[0-9]{{3}}(?![0-9])))[0-9]{{1,40}}){{1,40}}(?![0-9])"
)
# Written otherwise than the locale does, and yet without doubt.
_DOTS_GROUP = re.compile(r"[0-9]{1,3}(?:\.[0-9]{3})+,[0-9]+")
_COMMAS_GROUP = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+\.[0-9]+")
_NEITHER_GROUPS = re.compile(rf"[0-9]{{1,3}}(?:['’{_SPACES}][0-9]{{3}})+(?:[.,][0-9]+)?")
_COMMA = re.compile(r"[0-9]+,[0-9]+")
_NO_DIGIT = re.compile(r"[^0-9]")


class _Separators(Struct, frozen=True):
    decimal: str
    group: str
    grouped: re.Pattern[str]


@lru_cache(maxsize=LOCALES_KEPT)
def _separators(locale: Locale) -> _Separators:
    used = PLAIN if locale in {"en", "zh"} else conventions(locale) or PLAIN
    last, other = used.group_sizes
    mark = rf"[ {_SPACES}]" if used.group.isspace() else "['’]" if used.group in "'’" else re.escape(used.group)
    decimals = rf"(?:{re.escape(used.decimal)}[0-9]+)?"
    grouped = rf"[0-9]{{1,{other}}}(?:{mark}[0-9]{{{other}}})*{mark}[0-9]{{{last}}}{decimals}"
    return _Separators(used.decimal, used.group, re.compile(grouped))


def has_decimal_comma(locale: Locale) -> bool:
    """Whether a comma stands before the decimals, so that none sets items apart between two digits."""
    return _separators(locale).decimal == ","


def with_plain_digits(text: str, locale: Locale) -> str:
    """A text with its numbers in digits as programs write them, whatever digits the locale has.

    Beside the locale's way those are read that leave no doubt: a decimal point (``27.5``), and two separators in the
    order of another locale (``1,234.5`` in German).
    """
    if not text.isascii():
        text = "".join(str(int(char)) if char.isdecimal() else char for char in text).translate(_ARABIC)
    used = _separators(locale)
    return _TOKEN.sub(lambda match: _plain(match[0], used), text)


def _plain(written: str, used: _Separators) -> str:
    if used.grouped.fullmatch(written):
        whole, _, decimals = written.partition(used.decimal)
        return f"{_NO_DIGIT.sub('', whole)}.{decimals}" if decimals else _NO_DIGIT.sub("", whole)
    if _DOTS_GROUP.fullmatch(written):
        return written.replace(".", "").replace(",", ".")
    if _COMMAS_GROUP.fullmatch(written):
        return written.replace(",", "")
    if _NEITHER_GROUPS.fullmatch(written):
        return re.sub(r"[^0-9.]", "", written.replace(",", "."))
    if used.group != "," and _COMMA.fullmatch(written):
        return written.replace(",", ".")
    return written
