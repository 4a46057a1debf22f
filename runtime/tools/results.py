"""Whether arguments and results match the declaration of a tool."""

from collections.abc import Mapping

import msgspec

from runtime.state.tool_ports import ToolCallFailed
from scripts.expressions.values import Value, ValueRefused, to_value
from scripts.model.json_schemas import SchemaInvalid, schema_problem
from scripts.model.tools import JsonSchema, ToolDefinition

ARGUMENT_BYTES_MAX = 100_000


def check_arguments(tool: ToolDefinition, arguments: Mapping[str, Value]) -> None:
    """Raise ToolCallFailed for arguments that do not match the declaration."""
    if len(msgspec.json.encode(arguments)) > ARGUMENT_BYTES_MAX:
        raise ToolCallFailed("arguments", f"the parameters have more than {ARGUMENT_BYTES_MAX:,} bytes")
    problem = _problem(tool.arguments_schema, dict(arguments))
    if problem:
        raise ToolCallFailed("arguments", f"the parameters do not match the declaration: {problem}")


def parse_if_declared(tool: ToolDefinition, result: object) -> object:
    """Return the JSON in a text, or the value in `{result: value}`, if the declared result is not the result itself.

    MCP servers without structured results answer with a text; the official SDK for Python puts a result that is no
    object under `result`.
    """
    if not tool.result or not _problem(tool.result, result):
        return result
    if isinstance(result, dict) and result.keys() == {"result"}:
        result = result["result"]
    if not isinstance(result, str) or not _problem(tool.result, result):
        return result
    try:
        return msgspec.json.decode(result)
    except (msgspec.DecodeError, RecursionError):
        return result


def checked_result(tool: ToolDefinition, result: object) -> Value:
    """Return a result within the limits of values that matches the declaration. Raises ToolCallFailed."""
    try:
        value = to_value(result)
    except ValueRefused as refused:
        raise ToolCallFailed("result", f"the result cannot be used: {refused}") from refused
    problem = _problem(tool.result, value) if tool.result else ""
    if problem:
        raise ToolCallFailed("result", f"the result does not match the declaration: {problem}")
    return value


def _problem(schema: JsonSchema, value: object) -> str:
    try:
        return schema_problem(schema, value)
    except SchemaInvalid as invalid:
        return f"the schema is invalid: {invalid}"
