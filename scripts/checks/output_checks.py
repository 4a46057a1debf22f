"""Check the limits and the pattern of an output, and the key of records."""

import time
from collections.abc import Iterator

import regex

from scripts.expressions.suggestions import suggest
from scripts.expressions.values import ISO_TYPES, Value, ValueRefused, coerce, compare
from scripts.model.base import Location
from scripts.model.diagnostics import Fault
from scripts.model.patterns import PatternInvalid, check_pattern, unclosed_repetition
from scripts.model.variables import Output, Records

SLOW_S = 0.02  # computing time of one match that is too long, as for the patterns of a turn
TRIED_S = 0.1  # for all matches that are tried with one pattern
REPEATED = 50  # times that a part occurs in a text; with two ways for each of them, a matcher tries 2 ** 50
BEGINNINGS_MAX = 8  # texts before the repeated part
PARTS_MAX = 20
_RUN = regex.compile(r"\w+")
_SLASHES = regex.compile(r"/(.+)/[a-z]*")  # as JavaScript writes a pattern
_SAMPLES = ("a", "1", "中", "ab")


def output_faults(output: Output) -> Iterator[Fault]:
    """Check the limits and the pattern of an output."""
    yield from _limit_faults(output)
    if output.pattern is not None:
        yield from _pattern_faults(output.pattern, output.mark("pattern"))


def ignored_pattern(output: Output) -> Iterator[Fault]:
    """Check that a value with a pattern is a text; fields of forms have an error of their own for this."""
    if output.pattern is not None and output.kind in {"number", "boolean", "list", "record", "timezone"}:
        message = f"`pattern` applies to texts only; `{output.get}` is a {output.kind}"
        yield Fault("KEY_IGNORED", message, output.mark("pattern"))


def ignored_fallback(output: Output) -> Iterator[Fault]:
    """Check that a value with a fallback is a text: a fixed question finds any other value in the reply itself."""
    if output.fallback is not None and (output.choices or output.kind not in {None, "text", "choice"}):
        message = f"`fallback` applies to texts only; `{output.get}` is a {output.kind}"
        yield Fault("KEY_IGNORED", message, output.mark("fallback"))


def record_faults(records: Records) -> Iterator[Fault]:
    """Check that records have fields, and that their key is one of these."""
    names = [each.get for each in records.fields]
    if not names:
        yield Fault("FIELDS_INVALID", "`fields` is empty", records.mark("fields"), "Write the names of the fields.")
        return
    if records.key and records.key not in names:
        fix = suggest(records.key, names) or f"Write one of the fields: {', '.join(names)}."
        yield Fault("ENUM_VALUE_INVALID", f"`{records.key}` is no field of these records", records.mark("key"), fix)


def _pattern_faults(pattern: str, at: Location) -> Iterator[Fault]:
    try:
        check_pattern(pattern)
    except PatternInvalid as error:
        yield Fault("PATTERN_INVALID", str(error), at, error.fix)
        return
    if (inside := _SLASHES.fullmatch(pattern)) is not None:
        fix = f"Write it without the slashes: `{inside[1]}`."
        yield Fault("PATTERN_INVALID", "only an answer between slashes matches", at, fix, "warning")
    if (braced := unclosed_repetition(pattern)) is not None:
        fix = f"Close it, as in `[0-9]{braced}}}`, or write `\\{braced}` for the characters."
        yield Fault("PATTERN_INVALID", f"`{braced}` has no `}}`, so it stands for these characters", at, fix, "warning")
    text = slow_text(pattern)
    if text is not None:
        yield Fault("PATTERN_BACKTRACKS", f"it takes too long to reject an answer such as `{text}`", at)


def slow_text(pattern: str) -> str | None:
    """Return a text that a pattern takes too long to reject, or None if none was found.

    The pattern is tried, not analysed, because the matcher guards most nested repetitions itself. The texts repeat the
    words and characters of the pattern, at its beginning and after what it matches there.
    """
    compiled = regex.compile(pattern)
    parts: list[str] = [*dict.fromkeys((*_SAMPLES, *_RUN.findall(pattern), *pattern))][:PARTS_MAX]
    rest = f"\0{pattern}"  # a character that hardly any pattern matches, and what it may require at the end
    beginning = ""
    began = time.process_time()
    for number in range(BEGINNINGS_MAX):
        for part in parts:
            if time.process_time() - began > TRIED_S:
                return None
            try:
                compiled.fullmatch(beginning + part * REPEATED + rest, timeout=SLOW_S, concurrent=True)
            except TimeoutError:
                return beginning + part * 3 + "…"
        further = (*parts[number:], *parts[:number])
        extended = (beginning + part for part in further if compiled.fullmatch(beginning + part, partial=True))
        if not (beginning := next(extended, "")):
            break
    return None


def _limit_faults(output: Output) -> Iterator[Fault]:
    """Check `min` and `max`: dates or times, else numbers (for the value, or the length of a text or list)."""
    wanted = output.limited_type
    bounds: list[Value] = []
    for key, limit in zip(("min", "max"), output.limits, strict=True):
        if limit is None:
            continue
        try:
            bounds.append(coerce(limit if wanted == "number" else str(limit), wanted))
        except ValueRefused as refused:
            kind = ISO_TYPES.get(wanted)
            noun, example = (kind.noun, kind.example) if kind is not None else ("a number", "10")
            fix = f"Write {noun}, such as `{key}: {example}`."
            yield Fault("RANGE_INVALID", f"`{key}`: {refused}", output.mark(key), fix)
            return
    if len(bounds) == 2 and compare("gt", *bounds):
        yield Fault("RANGE_INVALID", "`min` is greater than `max`", output.mark("min"))
