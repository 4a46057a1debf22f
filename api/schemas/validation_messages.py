"""msgspec's validation messages in plain words."""

import re
from collections.abc import Iterable
from typing import Any

from msgspec import inspect

from api.schemas.ids import ID_PATTERN
from scripts.model.script import LOCALE

TIME_EXPECTED = "expected a time such as 2026-01-31T09:00:00Z (in an address, + is %2B)"
_NOT_A_TIME = re.compile("Invalid RFC3339 encoded datetime|Expected `datetime` with a timezone component")
_NOT_AN_ID = f"Expected `str` matching regex {ID_PATTERN!r}"
_NOT_A_TAG = f"Expected `str` matching regex {LOCALE.pattern!r}"  # in msgspec's words
_NOT_AMONG = re.compile(r"Invalid enum value (.*?)(?= - at `\$|\Z)", re.DOTALL)
_EXPECTED = re.compile(
    r"Expected `(?P<kinds>[a-z]+(?: \| [a-z]+)*)`"
    r"(?:(?P<length> of length)? (?P<sign>[<>]=?) (?P<bound>[-+.\de]+))?(?:, got `(?P<got>[a-z]+)`)?"
)
_KINDS = {
    "array": "a list",
    "bool": "true or false",
    "datetime": "a time",
    "float": "a number",
    "int": "a whole number",
    "object": "an object",
    "str": "a text",
}
"""What msgspec's names of types mean to a client in any language."""
_UNITS = {"array": "items", "str": "characters", "object": "names"}
_COUNTS = {">=": "more", "<=": "fewer"}
_SIGNS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_STEP = re.compile(r"[^.\[\]]+")


def humanize_validation_error(problem: str) -> str:
    """Replace what a message of msgspec says about a type, its bounds, a time, an id or a language tag."""
    problem = _NOT_A_TIME.sub(TIME_EXPECTED, problem)
    problem = problem.replace(_NOT_A_TAG, "expected a language tag such as en, de or pt-BR")
    problem = problem.replace(_NOT_AN_ID, "expected an id without control characters and line breaks")
    return _EXPECTED.sub(_expectation, problem)


def _expectation(found: re.Match[str]) -> str:
    kinds = found["kinds"].split(" | ")
    words = f"expected {' or '.join(_KINDS.get(kind, kind) for kind in kinds)}"
    if found["length"]:
        words += f" of {found['bound']} or {_COUNTS[found['sign']]} {_UNITS[kinds[0]]}"
    elif found["sign"]:
        words += f" of {_SIGNS[found['sign']]} {found['bound'].removesuffix('.0')}"
    sent = "a decimal number" if found["got"] == "float" else _KINDS.get(found["got"], found["got"])
    return f"{words}, not {sent}" if sent else words


def name_choices(problem: str, types: Iterable[inspect.Type]) -> str:
    """Add the possible values to a message of msgspec that a value is none of them."""
    values = [str(value) for kind in types if isinstance(kind, inspect.LiteralType) for value in kind.values]
    found = _NOT_AMONG.match(problem)
    if not values or found is None:
        return problem
    return f"{found[1]} is not one of {', '.join(values)}{problem[found.end() :]}"


def types_at(annotation: Any, path: str) -> list[inspect.Type]:
    """Return the types that the part of a value at a path such as `units[0].kind` can have."""
    types = _alternatives(inspect.type_info(annotation))
    for step in _STEP.findall(path):
        types = [found for kind in types for found in _alternatives(_part(kind, step))]
    return types


def _part(kind: inspect.Type, step: str) -> inspect.Type:
    """Return the type of a part of a value, given a field's name or an item's number."""
    match kind:
        case inspect.StructType():
            return next((each.type for each in kind.fields if each.encode_name == step), inspect.AnyType())
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType():
            return kind.item_type
        case inspect.DictType():
            return kind.value_type
    return inspect.AnyType()


def _alternatives(kind: inspect.Type) -> list[inspect.Type]:
    """Return the types of a union, without what only describes them."""
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    return (
        [each for part in kind.types for each in _alternatives(part)] if isinstance(kind, inspect.UnionType) else [kind]
    )
