"""Check the limits and the pattern of an output, and the key of records."""

from collections.abc import Iterator

import regex

from scripts.checks.backtracking import ambiguous_part
from scripts.expressions.suggestions import suggest
from scripts.expressions.values import EXAMPLES, NOUNS, Value, ValueRefused, coerce, compare
from scripts.model.base import Location
from scripts.model.diagnostics import Fault
from scripts.model.variables import Output, Records


def output_faults(output: Output) -> Iterator[Fault]:
    """Check the limits and the pattern of an output."""
    yield from _limit_faults(output)
    if output.pattern is not None:
        yield from _pattern_faults(output.pattern, output.mark("pattern"))


def record_faults(records: Records) -> Iterator[Fault]:
    """Check that the key of records is one of their fields."""
    names = [each.get for each in records.fields]
    if records.key and records.key not in names:
        fix = suggest(records.key, names) or f"Write one of the fields: {', '.join(names)}."
        yield Fault("ENUM_VALUE_INVALID", f"`{records.key}` is no field of these records", records.mark("key"), fix)


def _pattern_faults(pattern: str, at: Location) -> Iterator[Fault]:
    try:
        regex.compile(pattern)
    except regex.error as error:
        yield Fault("PATTERN_INVALID", str(error), at)
        return
    text = ambiguous_part(pattern)
    if text is not None:
        yield Fault("PATTERN_BACKTRACKS", f"a repetition in it matches `{text}` in more than one way", at)


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
            fix = f"Write {NOUNS.get(wanted, 'a number')}, such as `{key}: {EXAMPLES.get(wanted, '10')}`."
            yield Fault("RANGE_INVALID", f"`{key}`: {refused}", output.mark(key), fix)
            return
    if len(bounds) == 2 and compare("gt", *bounds):
        yield Fault("RANGE_INVALID", "`min` is greater than `max`", output.mark("min"))
