"""Extraction of one number from a free reply: in digits of the locale's notation (``1.234,5`` in German), in words
(text2num) or in Chinese numerals (cn2an).
"""

import math
import re
from functools import lru_cache
from unicodedata import numeric

from msgspec import Struct

from runtime.answers.languages import LANGUAGES
from runtime.answers.languages.cldr import LOCALES_CACHED_MAX, PLAIN, conventions
from runtime.answers.number_words import english_in_digits, numerals
from scripts.expressions.values import INTEGER_ABS_MAX, number_in
from scripts.model.script import Locale
from scripts.translations.localisation import language

# -- notation of a locale ---------------------------------------------------------------------------------------------


_SPACES = "\u00a0\u202f\u2009"
_ARABIC = str.maketrans("٫٬", ".,")
_TOKEN = re.compile(
    rf"(?<![\w.,])[0-9]{{1,40}}(?:(?:[.,'’{_SPACES}]| (?=[0-9]{{3}}(?![0-9])))[0-9]{{1,40}}){{1,40}}(?![0-9])"
)
# Not the locale's notation, but unambiguous.
_DOTS_GROUP = re.compile(r"[0-9]{1,3}(?:\.[0-9]{3})+,[0-9]+")
_COMMAS_GROUP = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+\.[0-9]+")
_NEITHER_GROUPS = re.compile(rf"[0-9]{{1,3}}(?:['’{_SPACES}][0-9]{{3}})+(?:[.,][0-9]+)?")
_COMMA = re.compile(r"[0-9]+,[0-9]+")
_NO_DIGIT = re.compile(r"[^0-9]")


class _Separators(Struct, frozen=True):
    decimal: str
    group: str
    grouped: re.Pattern[str]


@lru_cache(maxsize=LOCALES_CACHED_MAX)
def _separators(locale: Locale) -> _Separators:
    used = PLAIN if locale in {"en", "zh"} else conventions(locale) or PLAIN
    last, other = used.group_sizes
    mark = rf"[ {_SPACES}]" if used.group.isspace() else "['’]" if used.group in "'’" else re.escape(used.group)
    decimals = rf"(?:{re.escape(used.decimal)}[0-9]+)?"
    grouped = rf"[0-9]{{1,{other}}}(?:{mark}[0-9]{{{other}}})*{mark}[0-9]{{{last}}}{decimals}"
    return _Separators(used.decimal, used.group, re.compile(grouped))


def has_decimal_comma(locale: Locale) -> bool:
    """Return whether the decimal separator is a comma, so that a comma between digits does not separate items."""
    return _separators(locale).decimal == ","


def with_plain_digits(text: str, locale: Locale) -> str:
    """Return a text with its numbers in the notation of programs, for any digits of the locale.

    Besides the locale's notation, unambiguous ones are accepted: a decimal point (``27.5``), and two separators in the
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


# -- numbers ----------------------------------------------------------------------------------------------------------


CHARS_MAX = 2_000  # the number is expected near the start of a reply; the rest is ignored
HAN_NUMERAL_CHARS_MAX = 24

_FOLD = str.maketrans("０１２３４５６７８９．％－−＋兩萬億點歲個幾負○", "0123456789.%--+两万亿点岁个几负〇")
_FRACTION = re.compile(rf"(?:([0-9]{{1,15}})[ {_SPACES}]?)?([¼½¾⅐-⅞↉])")
_SCALES = {"k": 10**3, "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9}
_HAN_SCALES = {"百": 100, "千": 10**3, "万": 10**4, "亿": 10**8}
_COUNTED = (
    "个岁年月日天周次位名口只条张件块元角分秒点小时钟刻度米斤公里厘杯瓶支根包片粒颗顿餐碗遍回种项级楼层号间套辆台倍"
    "箱袋盒桶"
)

# "one" and a single Chinese digit are usually ordinary words, so they are numbers only in certain contexts.
_BEFORE_ONE = re.compile(
    r"\b(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|million|and|or|to|point|minus"
    r"|have|has|had|got|is|was|am|are|about|just|only|maybe|around|exactly|roughly|say|said|least|most|than|with|for"
    r"|take|took|drink|drank|smoke|want|need|number|level|score|answer) ?$|(?:^|[.,;:!?(~]) ?$"
)
_PRONOUN_ONE = re.compile(r" (?:of|on|day|should|could|must|can|would|might|by|another|thing|is|has|more)\b")
_BEFORE_LONE_HAN = frozenset("是有选约概到为就才要给打")
_NOT_A_COUNT_BEFORE = frozenset("第每另这那哪某同唯统专单初高老几")
_NOT_ONE = re.compile(r"一(?:天到晚|年到头|年四季|口气|个劲|部分|句话|个人|点|分钱)")
_NOT_EVEN_ONE = re.compile(
    rf"(?<![0-9零一二两三四五六七八九十百千每第周月年日天有])一[{_COUNTED.replace('点', '')}](?:都|也)[没不]"
)
# 二十来个 is about 20, as 大概二十个; 二十年来 counts years
_ABOUT = re.compile(rf"(?<=[十百千万0])来(?=[{_COUNTED}人])")
_IDIOMS = re.compile(
    r"(?<![零一二两三四五六七八九十百千万亿0-9])(?:万一|千万(?![元块])|万分|十足|十分(?=[^\W\d_]))"
    r"|三心二意|乱七八糟|七上八下|不三不四|百分之(?!百)|四川|三亚"
)
_WEEKDAY_BEFORE = frozenset("周期拜")  # 周三 is a day, 每周三次 is a count
_TIMES = frozenset("次个遍顿杯粒片包瓶小")
_NEGATED = re.compile(r"(?:\bnot|n't|不是|不到|没有?|没到) ?$")

_UNREADABLE = re.compile(
    rf"[一二两三四五六七八九十][到至或][一二两三四五六七八九十]{{1,2}}[{_COUNTED}]"
    r"|[0-9]\s?[:/]\s?[0-9]|[0-9一二三四五六七八九]折|[0-9]h[0-9]|[0-9]m[0-9]{2}|分之|点半|[一二两三四五六七八九]半|几[十百千万亿]|[数上][百千万亿]|数十"
    r"|[0-9零一二三四五六七八九十百千万亿](?:[几多余成来]|好几|出头|[米块斤尺][0-9一二三四五六七八九]|[岁年月天周个次块元]多)|\b(?:dozens?|half|halves|quarters?|(?:hundred|thousand|million)(?:s|ths?))\b"
)
_SCALED = re.compile(r"(?<![\w.,])([0-9]{1,15}(?:\.[0-9]{1,15})?) ?(k|hundred|thousand|million|billion)(?![a-z])")
_NUMERAL = re.compile(
    r"(?P<sign>(?<![\w-])[-+]|负|(?<![a-z])minus |(?<![a-z])negative )?"
    r"(?:(?P<digits>[0-9][0-9.,]*)(?P<scale>[百千万亿]*)|(?P<han>[零〇一二两三四五六七八九十百千万亿点廿壹贰叁肆伍陆柒捌玖拾佰仟]+))"
    r"(?P<half>[个年天岁块斤里尺]半| and a half\b)?"
)
_GROUPED = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_NO_COUNT_AFTER = re.compile(r"(?:st|nd|rd|th|s)(?![a-z])|e[0-9]")
_HAS_DIGIT = re.compile(r"[0-9]")
_SEVERAL_DIGITS = re.compile(r"[一二两三四五六七八九]{2}")


class _UnreadableError(ValueError):
    """A numeral in the reply without a single value; the whole reply then has no number."""


def parse_number(text: str, locale: Locale = "en") -> int | float | None:
    """Return the only number in a reply; None for none, for two different ones and for an approximation (``十几``).

    Digits are parsed in the locale's notation, words in its language, in Chinese and, if it is all words, in English.
    """
    folded = with_plain_digits(text[:CHARS_MAX].translate(_FOLD).casefold().strip(), locale)
    folded = _FRACTION.sub(lambda match: f"{int(match[1] or 0) + numeric(match[2]):.15g}", folded)
    plain = number_in(folded)
    if plain is not None:
        return _as_integer(plain)
    try:
        found = set(_numbers(_in_digits(folded, locale)))
    except ValueError:  # including _UnreadableError and WordsUnreadable
        return None
    return _as_integer(found.pop()) if len(found) == 1 else None


def _in_digits(text: str, locale: Locale) -> str:
    """Return a text with its number words in digits. Raises _UnreadableError, WordsUnreadable."""
    code = language(locale)
    if code in {"en", "zh"}:
        return _words_to_digits(text, english=True)
    known = LANGUAGES.get(code)
    if known is not None and known.numbers is not None:
        own = numerals(code).in_digits(text)
        if _HAS_DIGIT.search(own) or text.strip(" .,!") in known.collides:
            return _words_to_digits(own, english=False)
        return _words_to_digits(english_in_digits(text) or own, english=False)
    return _words_to_digits(english_in_digits(text) or text, english=False)


def _as_integer(number: int | float) -> int | float | None:
    if not math.isfinite(number) or abs(number) > INTEGER_ABS_MAX:
        return None
    return int(number) if number == int(number) else number


def _words_to_digits(text: str, *, english: bool) -> str:
    """Return English number words as digits; ``零下`` and ``百分之`` resolved, and false number words removed."""
    text = text.replace("百分百", "100").replace("百分之百", "100").replace("零下", "负")
    text = _ABOUT.sub("", _NOT_EVEN_ONE.sub("0", text))
    text = re.sub(r"(?<=[\u4e00-\u9fff])[ \t]+(?=[\u4e00-\u9fff])", "", _IDIOMS.sub("~", text))
    text = text.encode("utf-8", "replace").decode("utf-8")
    return _english_in_digits(text) if english else _readable(text)


def _readable(text: str) -> str:
    """Return the text. Raises _UnreadableError if a number in it has no single value."""
    if _UNREADABLE.search(re.sub(r"[个年天岁块斤里尺]半| and a half\b", "", text)):
        raise _UnreadableError
    return text


def _english_in_digits(text: str) -> str:
    from text_to_num import alpha2digit  # type: ignore[import-untyped]  # loaded on first use

    text = _SCALED.sub(lambda match: f"{float(match[1]) * _SCALES[match[2]]:.15g}", text)
    # text2num reads neither "twenty-eight-year-old" nor a word that touches Chinese, and joins across lines.
    text = re.sub(r"(?<=[a-z])-(?=[a-z])|(?<=[a-z])(?=[\u4e00-\u9fff])|(?<=[\u4e00-\u9fff])(?=[a-z])", " ", text)
    text = re.sub(r"\bone\b", _one, text.replace("\n", " ; "))
    return str(alpha2digit(_readable(text), "en", threshold=0))


def _one(match: re.Match[str]) -> str:
    start, end, text = match.start(), match.end(), match.string
    whole = text.strip(" .!").startswith("one") and text.count(" ") <= 1
    scales = re.match(r" (?:hundred|thousand|million|billion)", text[end : end + 10])
    counts = _BEFORE_ONE.search(text[max(start - 12, 0) : start]) and not _PRONOUN_ONE.match(text, end)
    return "one" if whole or scales or counts else "~"


def _numbers(text: str) -> list[int | float]:
    found: list[int | float] = []
    for match in _NUMERAL.finditer(text):
        if _NEGATED.search(text[max(match.start() - 5, 0) : match.start()]):
            raise _UnreadableError  # not 5, 不到一年
        parts = _digits(match) if match["digits"] else _han(match)
        sign = -1 if match["sign"] not in (None, "+") else 1
        half = 0.5 if match["half"] else 0
        found.extend(sign * (part + half) for part in parts)
    return found


def _digits(match: re.Match[str]) -> list[int | float]:
    start, end = match.start("digits"), match.end("digits")
    before = match.string[start - 1 : start]
    if before == "第" or before == "_" or (before.isascii() and before.isalpha()):
        return []  # 第3次, B12
    if _NO_COUNT_AFTER.match(match.string, end):
        return []  # 3rd, the 30s
    written = match["digits"].rstrip(".,")
    spelled = [written.replace(",", "")] if _GROUPED.fullmatch(written) else written.split(",")
    values = [number_in(number) for number in spelled if number]
    scale = math.prod(_HAN_SCALES[unit] for unit in match["scale"][:3])
    readable = [value * scale for value in values if value is not None]
    if len(readable) < len(values):
        raise _UnreadableError  # 1.2.3
    return readable


def _han(match: re.Match[str]) -> list[int | float]:
    numeral = match["han"].strip("点")
    start = match.start("han") + match["han"].find(numeral)
    opening = match.start() if match["sign"] else start
    before, after = match.string[max(opening - 1, 0) : opening], match.string[start + len(numeral) :][:1]
    if not re.search("[^百千万亿点佰仟]", numeral) or before in _NOT_A_COUNT_BEFORE:
        return []
    if before in _WEEKDAY_BEFORE and after not in _TIMES:
        return []
    if len(numeral) == 1 and not _lone_counts(match.string, start, before, after):
        return []
    if len(numeral) > HAN_NUMERAL_CHARS_MAX:
        raise _UnreadableError
    whole = numeral.partition("点")[0]
    several = _SEVERAL_DIGITS.search(whole)
    if several and (len(whole) < 4 or re.search("[十百千万亿]", whole)):
        raise _UnreadableError  # 三四个, 十七八岁: two numbers in one; 一九九零 is a year read out
    return [_han_value(numeral)]


def _lone_counts(text: str, start: int, before: str, after: str) -> bool:
    opens, closes = not before.isalnum(), not after.isalnum()
    if opens and closes:
        return True
    if _NOT_ONE.match(text, start) and not opens:
        return False
    if text.startswith("一", start) and (after == "点" or text[start - 1 : start + 2] in {"有一天", "有一次"}):
        return False
    return (bool(after) and after in _COUNTED) or (closes and before in _BEFORE_LONE_HAN)


def _han_value(numeral: str) -> int | float:
    import cn2an  # type: ignore[import-untyped]  # loaded on first use

    try:
        value = cn2an.cn2an(numeral, "normal")
    except (ValueError, KeyError) as error:  # KeyError: raised for unknown units
        raise _UnreadableError from error
    return value if isinstance(value, int) else float(value)
