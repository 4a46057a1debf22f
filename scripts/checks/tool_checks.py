"""Check the declarations of tools, and the actions that call them, against their JSON Schemas."""

import re
from collections.abc import Callable, Iterator, Mapping, Set

from scripts.checks.call_checks import parameter_faults
from scripts.expressions.condition_algebra import Unknown
from scripts.expressions.sandbox import ExpressionInvalid
from scripts.expressions.suggestions import suggest
from scripts.expressions.values import DeclaredType, shorten
from scripts.model.actions import CallTool, Into, ModelTool
from scripts.model.base import Location, Template
from scripts.model.diagnostics import Fault
from scripts.model.json_schemas import SchemaInvalid, check_schema, schema_problem
from scripts.model.tools import TIMEOUT_S_MAX, Given, HttpRequest, JsonSchema, ToolDefinition, seconds_of
from scripts.model.variables import Declaration

SECRET = "secret"  # noqa: S105  (the name of a function in headers)
FIXED_HOST = re.compile(
    r"https?://[A-Za-z0-9.\-]+(:\d{1,5})?(?=[/?]|$)|https?://\[[0-9A-Fa-f:.]+\](:\d{1,5})?(?=[/?]|$)"
)
"""The beginning of a URL whose host no parameter can change."""
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~\-]+")
_SET_BY_SERVER = frozenset({"host", "content-length", "transfer-encoding", "connection", "idempotency-key"})
_NAME = re.compile(r"[^\W\d]\w*")
_TYPES: Mapping[DeclaredType, frozenset[str]] = {
    "text": frozenset({"string", "number", "integer", "boolean"}),  # the conversion to text is lossless
    "number": frozenset({"number", "integer"}),
    "boolean": frozenset({"boolean"}),
    **dict.fromkeys(("date", "time", "datetime", "timezone", "choice"), frozenset({"string"})),
    "list": frozenset({"array"}),
    "record": frozenset({"object"}),
}
"""The types of JSON Schema whose values a variable of a declared type can store."""
_PASSED: Mapping[DeclaredType, frozenset[str]] = {**_TYPES, "text": frozenset({"string"})}
"""The types of JSON Schema that a value of a declared type has."""

FindDeclaration = Callable[[str], Declaration | None]


# -- declarations ----------------------------------------------------------------------------------------------------


def faults(tool: ToolDefinition) -> Iterator[Fault]:
    """Yield every problem of a declaration."""
    for name, schema in tool.params.items():
        if not _NAME.fullmatch(name):
            yield Fault("TOOL_INVALID", f"{name!r} is not a valid name of a parameter", tool.mark("params"))
        yield from _schema_faults(schema, f"the parameter `{name}`", tool.mark("params"))
    yield from _schema_faults(tool.result, "`result`", tool.mark("result"))
    if tool.timeout is not None and not 0 < seconds_of(tool.timeout) <= TIMEOUT_S_MAX:
        yield _too_long(tool.mark("timeout"))
    if tool.has_example and (problem := _problem(tool.result, tool.example)):
        yield Fault("TOOL_VALUE_MISMATCH", f"`example` does not match `result`: {problem}", tool.mark("example"))
    if tool.http is not None:
        yield from _http_faults(tool, tool.http)


def _schema_faults(schema: JsonSchema, what: str, at: Location) -> Iterator[Fault]:
    try:
        check_schema(schema)
    except SchemaInvalid as invalid:
        yield Fault("TOOL_INVALID", f"{what} is not a valid JSON Schema: {invalid}", at, invalid.fix)


def _problem(schema: JsonSchema, value: object) -> str:
    """Return why a value does not match a schema; empty if it matches, or if the schema is invalid."""
    try:
        return schema_problem(schema, value)
    except SchemaInvalid:
        return ""


def _http_faults(tool: ToolDefinition, request: HttpRequest) -> Iterator[Fault]:
    names = frozenset(tool.params)
    if not FIXED_HOST.match(request.url.source):
        message = "the URL must begin with https:// or http:// and a host without placeholders"
        yield Fault("TOOL_INVALID", message, request.mark("url"))
    yield from _source_faults(request.url, names)
    for name, value in request.headers.items():
        if not _HEADER.fullmatch(name):
            yield Fault("TOOL_INVALID", f"{name!r} is not a valid name of a header", value.at)
        if name.lower() in _SET_BY_SERVER:
            yield Fault("TOOL_INVALID", f"the server sets the header `{name}` itself", value.at, "Remove it.")
        yield from _source_faults(value, names | {SECRET})
    if request.body is not None:
        if request.method == "GET":
            yield Fault("TOOL_INVALID", "a GET request has no body", request.mark("body"), "Remove `body`.")
        yield from _source_faults(request.body, names)


def _source_faults(source: Given, names: frozenset[str]) -> Iterator[Fault]:
    """Yield the problems of a text or expression that may read only these names."""
    try:
        compiled = source.compiled
    except ExpressionInvalid as error:
        code = "TEMPLATE_INVALID" if isinstance(source, Template) else "EXPRESSION_INVALID"
        yield Fault(code, str(error), source.line_at(error.line))
        return
    for name in sorted(compiled.names - names):
        if name == SECRET:
            fix = "Write the secret in a header."
            yield Fault("TOOL_INVALID", "`secret` exists in headers only", source.at, fix)
        else:
            yield Fault("TOOL_INVALID", f"the tool has no parameter `{name}`", source.at, suggest(name, sorted(names)))


def _too_long(at: Location) -> Fault:
    return Fault("CONSTRAINT_VIOLATION", f"a timeout is longer than 0 s and at most {TIMEOUT_S_MAX:g} s", at)


# -- calls -----------------------------------------------------------------------------------------------------------


def call_faults(action: CallTool, tool: ToolDefinition, declared: FindDeclaration) -> Iterator[Fault]:
    """Yield every problem of an action that calls a tool; `declared` finds the declaration of a variable."""
    yield from parameter_faults(f"the tool {tool.id}", action.given, tool.params, tool.required, action.mark("tool"))
    for name, value in action.given.items():
        if name in tool.params:
            yield from _value_faults(name, value, tool.params[name], declared, is_required=name in tool.required)
    if action.timeout is not None and not 0 < seconds_of(action.timeout) <= TIMEOUT_S_MAX:
        yield _too_long(action.mark("timeout"))
    if action.into is not None:
        yield from _result_faults(action.into, tool, declared)


def offer_faults(offer: ModelTool, tool: ToolDefinition, declared: FindDeclaration) -> Iterator[Fault]:
    """Yield every problem of a tool that the model of an action may call."""
    at = offer.mark("tool")
    if tool.makes_changes:
        message = f"a model calls no tool that changes something, as {tool.id} does"
        yield Fault("TOOL_NOT_FOR_MODELS", message, at)
    if not tool.define.strip():
        message = f"the tool {tool.id} has no `define`, so a model cannot know its purpose"
        yield Fault("TOOL_NOT_DESCRIBED", message, at)
    if offer.into is not None:
        yield from _result_faults(offer.into, tool, declared)


def _value_faults(
    name: str, value: Given, schema: JsonSchema, declared: FindDeclaration, *, is_required: bool
) -> Iterator[Fault]:
    if isinstance(value, Template):
        if not _allows(schema, {"string"}):
            message = f"`{name}` takes {_words(schema)}, not a text"
            yield Fault("TOOL_VALUE_MISMATCH", message, value.at, "Write `=` and an expression.")
        return
    known = value.facts.value
    if known is None and not is_required:
        return  # the parameter is left out
    if not isinstance(known, Unknown):
        if problem := _problem(schema, known):
            yield Fault("TOOL_VALUE_MISMATCH", f"`{name}`: {problem}", value.at)
        return
    variable = declared(value.source.strip())
    if variable is not None and variable.kind is not None and not _allows(schema, _PASSED[variable.kind]):
        message = f"`{name}` takes {_words(schema)}, and `{variable.var}` is declared as {variable.kind}"
        yield Fault("TOOL_VALUE_MISMATCH", message, value.at)


def _result_faults(into: Into, tool: ToolDefinition, declared: FindDeclaration) -> Iterator[Fault]:
    fields = tool.result_fields
    for name, part in into.variables.items():
        at = into.mark(name)
        if part and tool.result and not _allows(tool.result, {"object"}):
            message, fix = f"the result of {tool.id} has no fields", f"Write `into: {name}`."
            yield Fault("RETURN_UNKNOWN", message, at, fix)
            continue
        if part and fields is not None and part not in fields and not _is_open(tool.result):
            fix = suggest(part, list(fields))
            yield Fault("RETURN_UNKNOWN", f"the result of {tool.id} has no field `{part}`", at, fix)
            continue
        schema = (fields or {}).get(part, {}) if part else tool.result
        variable = declared(name)
        if variable is not None and variable.kind is not None and not _allows(schema, _TYPES[variable.kind]):
            message = f"`{name}` is declared as {variable.kind}, and the result is {_words(schema)}"
            yield Fault("TOOL_VALUE_MISMATCH", message, at)


def _is_open(schema: JsonSchema) -> bool:
    """Return whether a result may have fields that its schema does not list, so that a name may still be right."""
    return "additionalProperties" in schema and schema["additionalProperties"] is not False


def _allows(schema: JsonSchema, types: Set[str]) -> bool:
    """Return whether a schema allows one of these types; one that lists no types allows all."""
    return not isinstance(schema.get("type"), str | list) or not types.isdisjoint(_types_of(schema))


def _types_of(schema: JsonSchema) -> list[str]:
    """Return the types that a schema lists."""
    types = schema.get("type")
    return list(map(str, types)) if isinstance(types, list) else [types] if isinstance(types, str) else []


_TYPE_WORDS = {
    "string": "a text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a record",
    "null": "null",
}


def _words(schema: JsonSchema) -> str:
    found = sorted(set(_types_of(schema)))
    return " or ".join(_TYPE_WORDS.get(each, shorten(each)) for each in found)
