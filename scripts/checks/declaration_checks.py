"""Check declarations of variables, and the types, choices and values of declarations and outputs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from scripts.checks.choice_checks import list_faults, reply_faults
from scripts.checks.identifier_checks import variable_faults
from scripts.detectors.words import fold
from scripts.expressions.suggestions import stands_for
from scripts.expressions.values import Value, number_in, refusal, shorten, text_of
from scripts.model.diagnostics import Fault, Severity
from scripts.model.variables import Declaration, Output

_VALUE_FIXES = {
    "boolean": "Write true or false.",
    "number": "Write a number in digits, such as 10, or change the type.",
    "list": "Write a list in brackets, such as `[a, b]`, or change the type.",
    "record": "Write a mapping in braces, such as `{name: Ana}`, or change the type.",
}
"""By type, the fix for a value of another type; the messages about other types name an example."""


def declaration_faults(declared: Iterable[Declaration], *, is_native: bool) -> Iterator[Fault]:
    """Check the declarations of a node."""
    seen: set[str] = set()
    for each in declared:
        yield from variable_faults(each.var, each.mark("var"), is_native=is_native)
        if each.var in seen:
            yield Fault("DUPLICATE_DECLARATION", f"{each.var} is declared twice here", each.mark("var"))
        seen.add(each.var)
        yield from value_faults(each, each.value, "value", is_native=is_native)
        if is_native and isinstance(each.value, list):
            yield from _record_faults(each, each.value)


def _record_faults(node: Declaration, items: Sequence[Value]) -> Iterator[Fault]:
    """Report a key of one record of a list that is probably a key which all its other records have."""
    records = [each for each in items if isinstance(each, dict)]
    counts = Counter(key for each in records for key in each)
    for number, record in enumerate(records, 1) if len(records) == len(items) > 2 else ():
        missing = [key for key, count in counts.items() if count == len(records) - 1 and key not in record]
        for key in (key for key in record if counts[key] == 1):
            for meant in (each for each in missing if stands_for(key, each)):
                message = f"record {number} of `{node.var}` has no `{meant}`, but `{key}`"
                yield Fault("UNKNOWN_KEY", message, node.mark("value"), f"Write `{meant}:`.", "warning")


def value_faults(node: Declaration | Output, value: Value, key: str, *, is_native: bool) -> Iterator[Fault]:
    """Check the type and choices of a declaration or output, and the value under its `key`."""
    declared = node.kind
    chosen = node.choice_list if isinstance(node, Output) else node.choices
    if chosen and declared not in {"choice", "number"}:
        message = f"`type: {declared}` accepts any {declared}, also one that is not among the `choices`"
        fix = "Remove `type`, or write `type: choice`."
        yield Fault("KEY_IGNORED", message, node.mark("choices"), fix)
    yield from list_faults(node.choices, node.mark("choices"))
    severity: Severity | None = None if is_native else "warning"
    yield from reply_faults(node.choices, node.mark("choices"), severity)
    if len({fold(each) for each in node.labels.values()}) < len(node.labels):
        yield Fault("CHOICES_INVALID", "two choices have the same text", node.mark("choices"), severity=severity)
    if declared == "choice" and not chosen:
        yield Fault("CHOICES_INVALID", "a choice needs `choices`", node.mark("type"), "Add `choices: [a, b]`.")
    elif len(set(node.choices)) < len(node.choices):
        yield Fault("CHOICES_INVALID", "a choice occurs twice", node.mark("choices"))
    elif declared == "number" and (words := [each for each in node.choices if text_of(number_in(each)) != each]):
        message = f"the choice {shorten(words[0])} is not a number as it is stored"
        fix = "Write numbers such as 0 or 0.5, each with its text: `{0: Never}`; or remove `type`."
        yield Fault("CHOICES_INVALID", message, node.mark("choices"), fix)
    elif declared is not None and (reason := refusal(value, declared, node.choices)):
        yield Fault("DEFAULT_MISMATCH", reason, node.mark(key), _VALUE_FIXES.get(declared, ""))
