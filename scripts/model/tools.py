"""Tools: what a script may call outside the conversation, with their parameters, results and how they are reached."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, field

from scripts.expressions.values import Value
from scripts.model.base import Expression, Node, Template

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
JsonSchema: TypeAlias = Mapping[str, Value]
"""A JSON Schema, draft 2020-12."""
ANYTHING: JsonSchema = {}
"""The schema that every value matches."""

Given: TypeAlias = Template | Expression
"""A value as written: a text with placeholders, or an expression, which also stands for any literal."""

TIMEOUT_S = 10.0
TIMEOUT_S_MAX = 120.0
_UNITS: Mapping[str, float] = {"ms": 0.001, "s": 1.0, "min": 60.0, "second": 1.0, "minute": 60.0}

Timeout: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^\d{1,6}(\.\d{1,3})? ?(ms|s|min|seconds?|minutes?)$",
        description="A time with its unit: 500 ms, 10 s, 1 min.",
        extra={
            "code": "CONSTRAINT_VIOLATION",
            "kind": "a time with its unit, such as 10 s",
            "fix": "Write a number and its unit, such as `5 s` or `500 ms`.",
        },
    ),
]


def seconds_of(timeout: Timeout) -> float:
    """Return the seconds of a timeout as written."""
    unit = timeout.lstrip("0123456789. ")
    return float(timeout.removesuffix(unit)) * _UNITS[unit if unit in _UNITS else unit.removesuffix("s")]


class HttpRequest(Node, frozen=True, kw_only=True):
    """A request over HTTP.

    Values in the URL are percent-encoded, and its host is fixed. Only headers may contain `secret('NAME')`. Without a
    `body`, every method but GET and DELETE sends the parameters as a JSON object.
    """

    url: Template
    method: Method = "GET"
    headers: Mapping[str, Template] = {}
    body: Given | None = None


class ToolDefinition(Node, frozen=True, kw_only=True):
    """A tool. Without `http` the server's settings say how it is called.

    Each parameter has a JSON Schema; one with a `default` is optional. `example` is the result without a network.
    """

    id: str = field(name="tool")
    define: str = ""  # its purpose, for models
    params: Mapping[str, JsonSchema] = {}
    result: JsonSchema = ANYTHING
    http: HttpRequest | None = None
    example: Value = None
    timeout: Timeout | None = None
    changes: bool | None = None

    @property
    def makes_changes(self) -> bool:
        """Whether a call changes something, so that it is never repeated: all but GET, unless declared otherwise."""
        if self.changes is not None:
            return self.changes
        return self.http is None or self.http.method != "GET"

    @property
    def has_example(self) -> bool:
        """Whether an example is declared, which may be null."""
        return "example" in self.marks

    @property
    def timeout_s(self) -> float:
        """The longest time of a call, in seconds."""
        return TIMEOUT_S if self.timeout is None else seconds_of(self.timeout)

    @property
    def arguments_schema(self) -> JsonSchema:
        """The JSON Schema of the arguments as one object."""
        return {
            "type": "object",
            "properties": {name: dict(schema) for name, schema in self.params.items()},
            "required": list(self.required),
            "additionalProperties": False,
        }

    def with_defaults(self, arguments: Mapping[str, Value]) -> dict[str, Value]:
        """Return the arguments of a call with the declared defaults; one that is null is left out."""
        defaults = {name: schema["default"] for name, schema in self.params.items() if "default" in schema}
        return {name: value for name, value in (defaults | dict(arguments)).items() if value is not None}

    @property
    def required(self) -> tuple[str, ...]:
        """The parameters without a default."""
        return tuple(name for name, schema in self.params.items() if "default" not in schema)

    @property
    def result_fields(self) -> Mapping[str, JsonSchema] | None:
        """The declared fields of a result that is an object; None if any field may exist."""
        properties = self.result.get("properties")
        if not isinstance(properties, dict):
            return None
        return {name: schema if isinstance(schema, dict) else {} for name, schema in properties.items()}
