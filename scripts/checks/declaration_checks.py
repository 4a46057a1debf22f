"""Check declarations of variables, and the types, choices and values of declarations and outputs."""

from collections.abc import Iterable, Iterator

from scripts.checks.choice_checks import list_faults, reply_faults
from scripts.checks.identifier_checks import variable_faults
from scripts.expressions.values import Value, ValueRefused, coerce
from scripts.model.diagnostics import Fault
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


def value_faults(node: Declaration | Output, value: Value, key: str, *, is_native: bool) -> Iterator[Fault]:
    """Check the type and choices of a declaration or output, and the value under its `key`."""
    declared = node.kind
    chosen = node.choice_list if isinstance(node, Output) else node.choices
    if chosen and declared != "choice":
        message = f"`type: {declared}` accepts any {declared}, also one that is not among the `choices`"
        fix = "Write `min` and `max` instead." if declared == "number" else "Remove `type`, or write `type: choice`."
        yield Fault("KEY_IGNORED", message, node.mark("choices"), fix)
    yield from list_faults(node.choices, node.mark("choices"))
    yield from reply_faults(node.choices, node.mark("choices"), None if is_native else "warning")
    if declared == "choice" and not chosen:
        yield Fault("CHOICES_INVALID", "a choice needs `choices`", node.mark("type"), "Add `choices: [a, b]`.")
    elif len(set(node.choices)) < len(node.choices):
        yield Fault("CHOICES_INVALID", "a choice occurs twice", node.mark("choices"))
    elif declared is not None:
        try:
            coerce(value, declared, node.choices)
        except ValueRefused as refused:
            yield Fault("DEFAULT_MISMATCH", str(refused), node.mark(key), _VALUE_FIXES.get(declared, ""))
