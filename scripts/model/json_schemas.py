"""JSON Schemas (draft 2020-12) of tools: whether a schema is valid, and whether a value matches it.

The library is imported on first use, because it is slow to import and only scripts with tools need it. Schemas are
never loaded from the network, and their patterns cannot take long.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import regex

from scripts.expressions.suggestions import suggest
from scripts.expressions.values import Value, shorten
from scripts.model.patterns import PatternInvalid, check_pattern

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

PATTERN_S = 0.1  # the longest time to match one pattern
SCHEMA_NODES_MAX = 1_000
JSON_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_FAULTY = frozenset({"$dynamicRef", "$recursiveRef"})


class SchemaInvalid(ValueError):
    """A schema that is not valid; the message says why. `fix` may say how it becomes valid."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.fix = fix


def check_schema(schema: Mapping[str, Value]) -> None:
    """Check a schema. Raises SchemaInvalid."""
    from jsonschema.exceptions import SchemaError

    _check_parts(schema)
    try:
        _validator_type().check_schema(dict(schema))
    except SchemaError as error:
        if error.absolute_path and error.absolute_path[-1] == "type" and isinstance(error.instance, str):
            fix = suggest(error.instance, JSON_TYPES)
            raise SchemaInvalid(f"it has no type {shorten(error.instance)}", fix) from error
        raise SchemaInvalid(shorten(error.message, 200)) from error


def schema_problem(schema: Mapping[str, Value], value: object) -> str:
    """Return why a value does not match a schema, without the value; empty if it does. Raises SchemaInvalid."""
    from referencing.exceptions import Unresolvable

    check_schema(schema)
    try:
        error = next(_validator_type()(dict(schema)).iter_errors(value), None)
    except RecursionError as deep:
        raise SchemaInvalid("it refers to itself without end") from deep
    except Unresolvable as missing:
        raise SchemaInvalid(f"it has no part {shorten(missing.ref)}") from missing
    if error is None:
        return ""
    path = "/".join(map(str, error.absolute_path))
    return f"{path}: {_reason(error)}" if path else _reason(error)


def _reason(error: Any) -> str:
    """Describe an error by the schema alone, because a value may be personal."""
    match error.validator:
        case "type":
            return f"expected {error.validator_value}"
        case "required":
            missing = sorted(set(error.validator_value) - set(error.instance))
            return f"`{missing[0]}` is missing" if missing else "a field is missing"
        case "additionalProperties":
            return "it has a field that is not declared"
        case "enum" | "const":
            return f"expected one of {shorten(error.validator_value)}"
        case _:
            return f"it does not match `{error.validator}: {shorten(error.validator_value)}`"


@cache
def _validator_type() -> "type[Validator]":
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError
    from jsonschema.validators import extend

    def pattern(validator: Any, written: str, instance: object, schema: object) -> Iterator[ValidationError]:
        if not isinstance(instance, str):
            return
        try:
            found = regex.search(written, instance, timeout=PATTERN_S)
        except TimeoutError:
            found = None
        if found is None:
            yield ValidationError("the pattern does not match")

    made: type[Validator] = extend(Draft202012Validator, {"pattern": pattern})
    return made


def _check_parts(schema: Mapping[str, Value]) -> None:
    """Raise SchemaInvalid for references to other documents, unusable patterns, and a schema that is large."""
    waiting: list[object] = [schema]
    count = 0
    while waiting:
        node, count = waiting.pop(), count + 1
        if count > SCHEMA_NODES_MAX:
            raise SchemaInvalid(f"it has more than {SCHEMA_NODES_MAX:,} parts")
        if isinstance(node, Mapping):
            reference, pattern = node.get("$ref", ""), node.get("pattern")
            if _FAULTY & node.keys() or (isinstance(reference, str) and reference and not reference.startswith("#/")):
                raise SchemaInvalid("it may refer only to its own parts, such as `#/$defs/address`")
            if "patternProperties" in node:
                raise SchemaInvalid("`patternProperties` is not supported")
            if isinstance(pattern, str):
                _check_pattern(pattern)
            waiting += node.values()
        elif isinstance(node, list | tuple):
            waiting += node


def _check_pattern(pattern: str) -> None:
    try:
        check_pattern(pattern)
    except PatternInvalid as error:
        raise SchemaInvalid(f"the pattern {shorten(pattern)}: {error}") from error
