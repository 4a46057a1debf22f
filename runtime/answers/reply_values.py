"""The values of outputs in a reply: the parsers find them, by type or by the labelled parts of the reply, and
`check_value` tests a value against its output. Used with and without a language model.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

import msgspec
from msgspec import Struct

from runtime.answers.booleans import parse_boolean
from runtime.answers.choices import match_choice
from runtime.answers.clock_times import is_bare_hour, parse_datetime, parse_time
from runtime.answers.dates import parse_date
from runtime.answers.languages import ENGLISH, language_of
from runtime.answers.languages.spelling import strip_accents
from runtime.answers.lists import parse_list
from runtime.answers.numbers import parse_number
from runtime.answers.patterns import PatternGivenUp, is_match, search
from runtime.answers.timezones import parse_timezone
from runtime.state.state import Choice
from scripts.expressions.values import (
    TIMES,
    DeclaredType,
    Value,
    ValueRefused,
    coerce,
    compare,
    is_given,
    number_in,
    text_of,
    to_value,
)
from scripts.model.base import Expression, Template
from scripts.model.script import FormField, Locale
from scripts.model.variables import Output, constant
from scripts.translations.localisation import Phrase

CERTAIN_TYPES = frozenset({"number", "boolean", "date", "time", "datetime", "timezone", "choice"})
"""The types whose values are recognised within a reply; any reply may be a text, and many are lists."""
LABEL_CHARS_MAX = 20  # a longer `define` is a sentence, not a label


# what keyboards and dictation send without any visible character: marks without width, and the place of an object
_UNSEEN = re.compile(r"[\s\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufffc]*")


def is_blank(reply: str) -> bool:
    """Return whether a reply has no visible character."""
    return _UNSEEN.fullmatch(reply) is not None


class ParsedReply(Struct, frozen=True):
    """Values by name, and the reasons why the others are missing."""

    values: Mapping[str, Value]
    reasons: Mapping[str, str]


def choices_of(output: Output | FormField) -> tuple[Choice, ...]:
    """Return the choices of an output or a field, each with its label."""
    return tuple(Choice(value, output.labels.get(value, value)) for value in output.choices)


def read_outputs(
    outputs: tuple[Output, ...], reply: str, today: date, locale: Locale, others: tuple[Output, ...] = ()
) -> ParsedReply:
    """Return the values of outputs in a reply. A single output gets the value of its type in the whole reply. One of
    several gets the value of its labelled part, the only match of its pattern, or, if no other output has its type, the
    value of that type in the whole reply, without the values that name another output, also one of `others`.
    """
    parts, rest = split_labelled(reply, [label for output in (*outputs, *others) for label in _labels(output)], locale)
    values: dict[str, Value] = {}
    reasons: dict[str, str] = {}
    for output in outputs:
        part = _part_of(output, parts)
        whole = len(outputs) == 1 or _stands_alone(output, outputs, rest, locale)
        text = rest if output.kind in CERTAIN_TYPES else reply
        value = _read(output, part if part is not None else text if whole else None, reply, today, locale)
        may_be_time = output.kind == "number" and part is None
        if is_given(value) and not (may_be_time and _has_time_by_digits(outputs, parts, rest, today, locale)):
            values[output.get] = value
        else:
            reasons[output.get] = _reason(output, part, whole)
    if parts and any(output.get in values and _part_of(output, parts) is None for output in outputs):
        for output in [each for each in outputs if each.get in reasons]:
            part = before_comma(_part_of(output, parts) or "")  # what follows is the value of another output
            if part and is_given(value := _read(output, part, reply, today, locale)):
                values[output.get] = value
                del reasons[output.get]
    return ParsedReply(values, reasons)


def _part_of(output: Output, parts: Mapping[str, str]) -> str | None:
    return next((parts[label] for label in _labels(output) if label in parts), None)


def read_further(
    outputs: tuple[Output, ...], known: Collection[str], reply: str, today: date, locale: Locale
) -> ParsedReply:
    """Return the values in a further reply: missing outputs as in `read_outputs`; a known output changes only by a part
    that names it.
    """
    if not known:
        return read_outputs(outputs, reply, today, locale)
    missing = tuple(output for output in outputs if output.get not in known)
    known_outputs = tuple(output for output in outputs if output.get in known)
    parsed = read_outputs(missing, reply, today, locale, known_outputs)
    return ParsedReply({**parsed.values, **read_labelled(known_outputs, reply, today, locale)}, parsed.reasons)


def read_labelled(outputs: tuple[Output, ...], reply: str, today: date, locale: Locale) -> dict[str, Value]:
    """Return the values of the parts of a reply that name an output."""
    parts = labelled_parts(reply, [label for output in outputs for label in _labels(output)], locale)
    named = ((output, label) for output in outputs for label in _labels(output) if label in parts)
    values = {output.get: _read(output, parts[label], reply, today, locale) for output, label in named}
    return {name: value for name, value in values.items() if is_given(value)}


def read_records(fields: tuple[Output, ...], reply: str, today: date, locale: Locale) -> list[Value]:
    """Return the records of a reply that repeats the labels of their fields: ``name: Ana, age: 3; name: Ben``.

    Any other reply has none.
    """
    label_at, _ = _labels_at(tuple(label for field in fields for label in _labels(field)), locale)
    reply = reply[:CHARS_MAX]
    starts, seen = [0], set[str]()
    for match in label_at.finditer(reply):
        label = _fold(match["label"])
        if label in seen:
            starts.append(match.start())
            seen.clear()
        seen.add(label)
    parts = (reply[start:end] for start, end in pairwise([*starts, len(reply)]))
    found: list[Value] = [dict(record) for part in parts if (record := read_labelled(fields, part, today, locale))]
    return found if len(found) > 1 else []


def label_of(output: Output) -> str:
    """Return what a reply may call an output: its description if that is short, else its name."""
    return _labels(output)[-1]


def _labels(output: Output) -> tuple[str, ...]:
    return (output.get, output.define) if 0 < len(output.define) <= LABEL_CHARS_MAX else (output.get,)


def _stands_alone(output: Output, outputs: tuple[Output, ...], reply: str, locale: Locale) -> bool:
    """Return whether a whole reply can only mean this output: its type is unambiguous and no other output has it."""
    if output.kind == "time" and is_bare_hour(reply, locale):  # a time only if nothing else is asked for
        return False
    return output.kind in CERTAIN_TYPES and sum(other.kind == output.kind for other in outputs) == 1


def _has_time_by_digits(
    outputs: tuple[Output, ...], parts: Mapping[str, str], rest: str, today: date, locale: Locale
) -> bool:
    """Return whether the digits of a reply are those of another output's date or time: "at 5 pm" is no number."""
    words = _DIGITS.sub(" ", rest)
    return words != rest and any(
        _part_of(other, parts) is None
        and _stands_alone(other, outputs, rest, locale)
        and is_given(_read(other, rest, rest, today, locale))
        and not is_given(_read(other, words, words, today, locale))
        for other in outputs
        if other.kind in TIMES
    )


_DIGITS = re.compile(r"\d+")


def _read(output: Output, text: str | None, reply: str, today: date, locale: Locale) -> Value:
    if output.pattern is not None and output.kind in {None, "text"}:
        found = _match(output.pattern, reply if text is None else text)
        if found is not None or text is None:
            return found
    if text is None:
        return None
    choices = choices_of(output) if output.choices else ()
    text = _without_scale(text, output) if output.kind == "number" else text
    return parse_answer(text, output.kind, choices=choices, today=today, locale=locale)


_SCALE = re.compile(
    r"\s?(?:/|\bout of\b|\bof\b)\s?(?P<most>\d+)(?!\d)|满分(?:是|为)?(?P<full>\d+)分?|(?P<score>\d+)分?满分", re.I
)


def _without_scale(text: str, output: Output) -> str:
    """Return a reply without the highest number that the output may have: 7 for ``7/10`` and ``7 out of 10``."""
    return _SCALE.sub(lambda found: " " if number_in(found[found.lastgroup or 0]) == output.max else found[0], text)


def _match(pattern: str, text: str) -> str | None:
    try:
        return search(pattern, text.strip())
    except PatternGivenUp:  # the turn records a warning
        return None


def _reason(output: Output, part: str | None, whole: bool) -> str:
    wanted = output.kind or "text"
    if part is not None or whole:
        return f"the reply gives no {wanted}"
    return f"the reply has no part labelled {output.get}"


# -- one value --------------------------------------------------------------------------------------------------------


def parse_answer(
    text: str, declared: DeclaredType | None, *, choices: Sequence[Choice | str], today: date, locale: Locale
) -> Value:
    """Return the value of the declared type in a reply, or None; for untyped and text, the stripped reply itself."""
    try:
        return to_value(_parse(text.strip(), declared, choices, today, locale))
    except ValueRefused:
        return None


def _parse(
    text: str, declared: DeclaredType | None, choices: Sequence[Choice | str], today: date, locale: Locale
) -> object:
    match declared:
        case None | "text":
            return text or None
        case "date":
            return parse_date(text, today, locale)
        case "datetime":
            return parse_datetime(text, today, locale)
        case "choice":
            return match_choice(text, choices, locale)
        case "number" if choices and (found := match_choice(text, choices, locale)) is not None:
            return number_in(found)
        case "record":
            return _record(text)
        case _:
            return _PARSERS[declared](text, locale)


_PARSERS: Mapping[DeclaredType, Callable[[str, Locale], object]] = {
    "number": parse_number,
    "boolean": parse_boolean,
    "time": parse_time,
    "timezone": parse_timezone,
    "list": parse_list,
}


def _record(text: str) -> object:
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):  # invalid JSON, lone surrogates, nested too deep
        return None
    return value if isinstance(value, dict) else None


# -- labelled parts ---------------------------------------------------------------------------------------------------


CHARS_MAX = 20_000

_BORDER = r"(?:^|(?<=[\s,，;；。、.!！?？(（【|/]))(?:(?:%s)[ ']|而且|我的|我|和){0,3}"
_SAYS = r"\s{0,3}(?:[:：=]|(?<=\s)(?:%s)\b|是|为)"
# An unknown label also ends the value before it: "age: 25, height: 180" gives the age 25.
_UNKNOWN = re.compile(r"[,，;；]\s{0,3}[^\W\d]\w{0,29}(?: [^\W\d]\w{0,19}){0,2}\s{0,3}[:：=](?!//)")
_TRAILING = " \t,，;；。、.|/"
_VALUE_END = re.compile(r"[;，；、]|,(?!\d)")


def labelled_parts(text: str, labels: Sequence[str], locale: Locale = "en") -> dict[str, str]:
    """Return the values of the known labels in a reply, by label as passed; the last value of a repeated label counts.

    A value ends at the next label, known or not, or at the end of its line. The words around a label are those of the
    locale's language (``mein Alter ist``), of English and of Chinese.
    """
    return split_labelled(text, labels, locale)[0]


def split_labelled(
    text: str, labels: Sequence[str], locale: Locale, texts: Collection[str] = ()
) -> tuple[dict[str, str], str]:
    """Return the labelled parts of a reply and the rest, without labels and their values: no number in ``at: 5 pm``.

    In the rest is also what follows a value after a comma, unless its label is one of `texts`.
    """
    parts: dict[str, str] = {}
    rest: list[str] = []
    label_at, known = _labels_at(tuple(labels), locale)
    start = end = 0
    for line in text[:CHARS_MAX].splitlines(keepends=True) if known else ():
        found = list(label_at.finditer(line))
        ends = [after.start() for _, after in pairwise(found)] + [len(line)] * bool(found)
        for match, until in zip(found, ends, strict=True):
            value = _value(line[match.end() : until])
            label = known.get(_fold(match["label"])) or known.get(strip_accents(_fold(match["label"])))
            if value and label is not None:
                parts[label] = value
                rest.append(text[end : start + match.start()])
                taken = value if label in texts else before_comma(value)
                end = start + line.index(value, match.end()) + len(taken)
        start += len(line)
    return parts, " ".join([*rest, text[end:]])


def without_labels(text: str, labels: Sequence[str], locale: Locale) -> str:
    """Return a text without known labels that a colon follows; ``my age is`` may be the user's own words."""
    label_at, known = _labels_at(tuple(labels), locale)
    return label_at.sub(lambda found: " " if found[0][-1] in ":：=" else found[0], text) if known else text


def before_comma(part: str) -> str:
    """Return a labelled part up to the first comma or semicolon that is not within a number."""
    return _VALUE_END.split(part, maxsplit=1)[0]


@lru_cache(maxsize=1_000)
def _labels_at(labels: tuple[str, ...], locale: Locale) -> tuple[re.Pattern[str], Mapping[str, str]]:
    """Return the pattern of some labels, and the labels by their folded spellings, with and without accents."""
    named = {_fold(label): label for label in reversed(labels) if label.strip("_ \t")}
    known = {strip_accents(folded): label for folded, label in named.items()} | named
    spelled = "|".join(_pattern(label) for label in sorted(known, key=len, reverse=True))
    own = language_of(locale)
    before = "|".join(sorted({*own.before_labels, *ENGLISH.before_labels}, key=len, reverse=True))
    says = "|".join(sorted({*own.is_words, *ENGLISH.is_words}, key=len, reverse=True))
    return re.compile(rf"{_BORDER % before}(?P<label>{spelled}){_SAYS % says}", re.IGNORECASE), known


def _fold(label: str) -> str:
    return " ".join(label.casefold().replace("_", " ").split())


def _pattern(folded: str) -> str:
    return r"[ _]{1,3}".join(re.escape(word) for word in folded.split())


def _value(text: str) -> str:
    unknown = _UNKNOWN.search(text)
    return text[: unknown.start() if unknown else len(text)].strip().rstrip(_TRAILING).strip()


# -- validation -------------------------------------------------------------------------------------------------------


Holds: TypeAlias = Callable[[Expression, Mapping[str, Value]], bool]
"""Returns whether a condition holds, with additional names."""


class AnswerRefused(Struct, frozen=True):
    """Why a value is refused, and the default text that says so."""

    reason: str
    phrase: Phrase
    say: Template | None = None
    """The script's own text for this reason, if it has one."""
    value: Value = None
    """The value, if it has the type that is wanted; the text may contain it."""


def check_value(output: Output, value: object, values: Mapping[str, Value], holds: Holds) -> Value | AnswerRefused:
    """Return the value as the output requires it, None if it is empty, or why it is refused.

    `holds` evaluates the output's `validate`, which sees the other `values`.
    """
    declared = output.kind
    try:
        plain = to_value(value)
        if not is_given(plain):
            return None
        if declared is not None:
            plain = coerce(plain, declared, output.choices)
    except ValueRefused as refused:
        return AnswerRefused(str(refused), "choice" if output.choices else declared or "invalid")
    if reason := _mismatch(output, plain):
        return AnswerRefused(reason, "invalid", value=plain)
    if reason := _limits(output, plain):
        is_size = output.limited_type == "number" and isinstance(plain, str | list | dict)
        return AnswerRefused(reason, "invalid" if is_size else "range", value=plain)
    for each in output.validate:
        if not holds(each.unless, {**values, output.get: plain}):
            return AnswerRefused(f"`{each.unless.source}` does not hold", "invalid", each.say, plain)
    return plain


def texts_for(phrase: Phrase, wanted: Output | FormField) -> tuple[str, ...]:
    """Return what a default text about a value lists: the range that it is outside of, else the choices."""
    if phrase != "range":
        return tuple(choice.text for choice in choices_of(wanted))
    low, high = constant(wanted.min), constant(wanted.max)
    if low is None or high is None:
        return (f"≥ {text_of(low)}" if high is None else f"≤ {text_of(high)}",)
    return (f"{text_of(low)} – {text_of(high)}",)


def _mismatch(output: Output, value: Value) -> str:
    if output.pattern is None or not isinstance(value, str):
        return ""
    try:
        return "" if is_match(output.pattern, value) else "does not match the pattern"
    except PatternGivenUp as given_up:
        return str(given_up)


def _limits(output: Output, value: Value) -> str:
    if output.min is None and output.max is None:
        return ""
    if output.type is not None and output.type in TIMES:
        for limit, sign, word in zip(output.limits, ("lt", "gt"), ("before", "after"), strict=True):
            if limit is not None and compare(sign, value, coerce(str(limit), output.type)):
                return f"{value} is {word} {limit}"
        return ""
    size = len(value) if isinstance(value, str | list | dict) else (value or 0)
    low, high = (_number(limit) for limit in output.limits)
    if low is not None and size < low:
        return f"{size} is below {low}"
    if high is not None and size > high:
        return f"{size} is above {high}"
    return ""


def _number(limit: int | float | str | None) -> int | float | None:
    return number_in(limit) if isinstance(limit, str) else limit
