"""The OpenAPI description of the API at `/schema`, with the errors that any route of a kind can cause."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from litestar import Litestar, Request
from litestar._openapi.plugin import OpenAPIPlugin
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, Example, SecurityScheme
from litestar.params import BodyKwarg
from litestar.plugins.base import ReceiveRoutePlugin
from litestar.routes import BaseRoute, HTTPRoute
from msgspec import Struct

from api.auth.middleware import RULE
from api.auth.policy import RoutePolicy, policy_of
from api.errors import CODES
from api.schemas.base import Body, View
from api.schemas.errors import ErrorAnswer

T = TypeVar("T", bound=Struct)


class _RouteErrors(Struct, frozen=True):
    """The errors of routes by handler; a group in a list stands for its items."""

    groups: dict[str, list[str]]
    not_found: dict[str, str]
    """The errors of path parameters that name nothing."""
    routes: dict[str, list[str | list[str]]]


_TABLE = msgspec.yaml.decode(Path(__file__).with_name("route_errors.yaml").read_bytes(), type=_RouteErrors)
ERRORS: Mapping[str, tuple[str, ...]] = {
    handler: tuple(code for item in items for code in ([item] if isinstance(item, str) else item))
    for handler, items in _TABLE.routes.items()
}
"""The codes of the errors of a route by its handler, besides those that its path, parameters and policy can cause."""

_RETRY_AFTER = {
    "description": "Seconds after which the same request may succeed, if it may.",
    "schema": {"type": "integer"},
}
_LIMITS = frozenset({
    "minimum", "maximum", "minLength", "maxLength", "pattern", "minItems", "maxItems", "minProperties", "maxProperties",
})  # fmt: skip

EXAMPLES = msgspec.yaml.decode(
    Path(__file__).with_name("request_examples.yaml").read_bytes(), type=dict[str, list[Any]]
)
"""Examples of request bodies by handler."""

_KEYS_DESCRIBED = Components(
    security_schemes={
        "key": SecurityScheme(
            type="http",
            scheme="bearer",
            description="A key of `cuebook keys create`, or a token (JWT) of the issuer in the server's settings. "
            "A server on localhost requires one as soon as a key exists. Pages of participants send the token of a "
            "participant, for the routes of the role `participant` alone.",
        ),
        "apiKey": SecurityScheme(type="apiKey", name="X-API-Key", security_scheme_in="header", description="The same."),
    }
)


class PolicyPlugin(ReceiveRoutePlugin):
    """Attaches the policy to each route, and documents the errors that its policy, its path and its body can cause."""

    def receive_route(self, route: BaseRoute) -> None:
        """Attach the policy to a route and document its error responses."""
        if isinstance(route, HTTPRoute):
            for handler in route.route_handlers:
                rule = policy_of(sorted(handler.http_methods)[0], route.path_format)
                handler.opt[RULE] = rule
                handler.security = [{}] if rule.is_open else [{"key": []}, {"apiKey": []}]
                _document_errors(handler, rule, route)
                _add_examples(handler)


def _document_errors(handler: HTTPRouteHandler, rule: RoutePolicy, route: HTTPRoute) -> None:
    """Document the errors of a route by status: those of its path, parameters and body first, of its policy last.

    Every route of the API refuses parameters that it does not have. All that may change data refuse pages of other
    origins and bodies that are too large or no JSON, also those that take none.
    """
    is_read = "GET" in handler.http_methods
    before = ["REQUEST_INVALID"] if route.path.startswith("/api/") else []
    before += [_TABLE.not_found[name] for name in route.path_parameters if name in _TABLE.not_found]
    before += [] if is_read else ["UNSUPPORTED_MEDIA_TYPE", "PAYLOAD_TOO_LARGE"]
    after = [] if rule.is_open else ["UNAUTHENTICATED"]
    after += [] if rule.is_open and is_read else ["FORBIDDEN"]
    after += ["RATE_LIMITED", "REQUESTS_FULL"] if rule.is_counted else []
    if not is_read:
        after += ["REQUEST_TIMEOUT", "DATABASE_FILE_LOST", "DATABASE_UNAVAILABLE"]
    after += [] if rule.is_open else ["DATABASE_STOPPED"]
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys((*before, *ERRORS.get(handler.handler_name, ()), *after)):
        by_status.setdefault(CODES[code].status, []).append(code)
    handler.responses = dict(handler.responses or {}) | {
        status: ResponseSpec(ErrorAnswer, generate_examples=False, description=", ".join(names))
        for status, names in by_status.items()
    }


def _add_examples(handler: HTTPRouteHandler) -> None:
    """Add the examples of a request body."""
    parameters, values = handler.parsed_fn_signature.parameters, EXAMPLES.get(handler.handler_name)
    if values is not None:
        body = BodyKwarg(examples=[Example(value=value) for value in values])
        parameters["data"] = replace(parameters["data"], kwarg_definition=body)


def description() -> OpenAPIConfig:
    """Return the description of all routes."""
    return OpenAPIConfig(
        title="Cuebook",
        version=version("cuebook"),
        path="/schema",
        render_plugins=[_CompleteJson()],
        components=_KEYS_DESCRIBED,
        operation_id_creator=_operation_id,
        use_handler_docstrings=True,
    )


class _CompleteJson(JsonRenderPlugin):
    _json: bytes = b""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        self._json = self._json or super().render(request, complete(openapi_schema))
        return self._json


async def prepare(app: Litestar) -> None:
    """Describe the routes of an application, unless they are described: half a second of CPU, which a thread spends, so
    that other requests do not wait.
    """
    await asyncio.to_thread(app.plugins.get(OpenAPIPlugin).provide_openapi_schema)


def complete(document: dict[str, Any]) -> dict[str, Any]:
    """Add what Litestar leaves out: the limits of bodies that are 0 or in lists, mappings and nullable values, that
    bodies have no other fields, that some requests need no body, that responses have fields with defaults too, and that
    errors say when to try again.
    """
    shown = document["components"]["schemas"]
    for name, own in msgspec.json.schema_components(_kinds(Body))[1].items():
        for field, part in own.get("properties", {}).items() if name in shown else ():
            _add_limits(shown[name]["properties"][field], part)
        if name in shown and own.get("additionalProperties") is False:
            shown[name]["additionalProperties"] = False
    for view in _kinds(View):
        if view.__name__ in shown:
            _require_defaults(shown[view.__name__], view)
    for path in document["paths"].values():
        for operation in path.values():
            _permit_absence(operation.get("requestBody"))
            _add_retries(operation["responses"])
            _add_locations(operation["responses"])
    return document


def _kinds(base: type[T]) -> Iterator[type[T]]:
    for each in base.__subclasses__():
        yield each
        yield from _kinds(each)


def _permit_absence(body: dict[str, Any] | None) -> None:
    """Describe a body that may be null as one that may be absent: generators then leave it out."""
    described = {} if body is None else body["content"].get("application/json", {})
    match described.get("schema"):
        case {"oneOf": [schema, {"type": "null"}], **others} if body is not None:
            body["required"] = False
            described["schema"] = {**schema, **others}
        case _:
            pass


def _add_retries(responses: dict[str, Any]) -> None:
    """Describe the header `Retry-After` of the errors that have it; their description lists their codes."""
    for response in responses.values():
        kinds = [CODES[code] for code in response["description"].split(", ") if code in CODES]
        if any(kind.retry_after_s for kind in kinds):
            response.setdefault("headers", {})["Retry-After"] = _RETRY_AFTER


def _add_locations(responses: dict[str, Any]) -> None:
    """Describe `Location` for the other success of a route too: its `ResponseSpec` has no headers."""
    for status in ("201", "202"):
        headers = responses.get(status, {}).get("headers", {})
        if "Location" in headers and "200" in responses:
            responses["200"].setdefault("headers", {"Location": headers["Location"]})


def _require_defaults(shown: dict[str, Any], view: type[View]) -> None:
    """List the fields of a response that it always has, with a value or null."""
    always = [each.encode_name for each in msgspec.structs.fields(view) if each.default is not msgspec.UNSET]
    shown["required"] = sorted(always)
    for name in always:
        shown["properties"][name].pop("default", None)


def _add_limits(shown: dict[str, Any], own: dict[str, Any]) -> None:
    for part in own.get("anyOf", [own]):
        for each in shown.get("oneOf", [shown]):
            if "type" in part and each.get("type") == part["type"]:
                each |= {key: part[key] for key in _LIMITS & part.keys() - each.keys() - shown.keys()}
                for inner in ("items", "additionalProperties"):
                    if isinstance(part.get(inner), dict) and isinstance(each.get(inner), dict):
                        _add_limits(each[inner], part[inner])


def _operation_id(handler: HTTPRouteHandler, *_: object) -> str:
    """Name an operation as its handler, in camelCase: generators make function names of it."""
    first, *others = handler.handler_name.split("_")
    return first + "".join(word.title() for word in others)
