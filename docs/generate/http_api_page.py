"""The page of all routes, and the page of the objects that they take and return, from the OpenAPI document."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, TypeAlias

from texts import FieldMeanings, described_fields, one_line

from api import schemas
from api.auth.policy import ROUTE_POLICIES, RoutePolicy
from api.errors import CODES
from api.http.application import openapi_document
from api.settings import Settings

Json: TypeAlias = Mapping[str, Any]
"""A part of the OpenAPI document."""

GROUPS = {"Access": "Keys"}
"""Titles of groups that differ from their tags."""
ORDER = (
    "Sessions",
    "Users",
    "Memory",
    "Analytics",
    "Reviews",
    "Scripts",
    "Participants",
    "Webhooks",
    "Access",
    "Operations",
)
COMMON = {
    "REQUEST_INVALID",
    "UNAUTHENTICATED",
    "FORBIDDEN",
    "RATE_LIMITED",
    "REQUESTS_FULL",
    "REQUEST_TIMEOUT",
    "DATABASE_FILE_LOST",
    "DATABASE_STOPPED",
    "DATABASE_UNAVAILABLE",
    "UNSUPPORTED_MEDIA_TYPE",
    "PAYLOAD_TOO_LARGE",
}
"""Errors that belong to the conventions rather than to one route."""
_OBJECTS = "http-objects.md"
_REF = "#/components/schemas/"


_ROUTES = """\
# HTTP API

After reading this page you know every route: its parameters, body, answers and errors, and who may use it. The
[conventions](http-conventions.md) hold for all of them, and the [objects](http-objects.md) are described on a page of
their own. The [first application](../tutorials/first-app.md) shows how to use the API.

A server has the same description at `/schema`, for generators at `/schema/openapi.json`. Parameters in bold are
required. The errors of a route are those of its own; the [last table](#errors) lists all codes.

"""


def http_api() -> str:
    """Return the page of all routes by group, and of all error codes."""
    paths = openapi_document(Settings())["paths"]
    routes = [(path, method, route) for path, methods in paths.items() for method, route in methods.items()]
    parts = [
        *_ROUTES.splitlines(),
        "| group | routes |",
        "|---|---|",
    ]
    for tag in ORDER:
        shown = ", ".join(f"[{route['summary']}](#{_anchor(route['summary'])})" for _, _, route in _of(tag, routes))
        parts.append(f"| [{GROUPS.get(tag, tag)}](#{_anchor(GROUPS.get(tag, tag))}) | {shown} |")
    for tag in ORDER:
        parts += [*([] if parts[-1] == "" else [""]), f"## {GROUPS.get(tag, tag)}", ""]
        parts += [line for path, method, route in _of(tag, routes) for line in _route(path, method, route)]
    return "\n".join((*parts, "## Errors", "", *_errors(), ""))


def _of(tag: str, routes: Iterable[tuple[str, str, Json]]) -> list[tuple[str, str, Json]]:
    return [each for each in routes if each[2]["tags"] == [tag]]


def _anchor(heading: str) -> str:
    """Return the anchor of a heading, as forges derive it."""
    return "".join(each for each in heading.lower() if each.isalnum() or each in "-_ ").replace(" ", "-")


def _route(path: str, method: str, route: Json) -> Iterator[str]:
    """Yield the lines about one route."""
    policy = ROUTE_POLICIES[f"{method.upper()} {path}"]
    yield from (f"### {route['summary']}", "", f"`{method.upper()} {path.replace('{', ':').replace('}', '')}`", "")
    if route.get("description"):
        yield from (one_line(route["description"]), "")
    yield from _parameters(route.get("parameters", ()))
    if "requestBody" in route:
        label = "Body" if route["requestBody"]["required"] else "Body (optional)"
        yield f"- **{label}:** {_body(route['requestBody'])}"
    for status, answer in sorted(route["responses"].items()):
        if int(status) < HTTPStatus.BAD_REQUEST:
            yield f"- **{status}:** {_answer(answer)}"
    errors = [code for code in CODES if code in _codes(route) - COMMON]
    if errors:
        yield "- **Errors:** " + ", ".join(f"{CODES[code].status} `{code}`" for code in errors)
    yield from (f"- **Roles:** {_roles(policy, path)}", "")


def _codes(route: Json) -> set[str]:
    failed = [answer for status, answer in route["responses"].items() if int(status) >= HTTPStatus.BAD_REQUEST]
    return {code for answer in failed for code in answer["description"].split(", ")}


def _roles(policy: RoutePolicy, path: str) -> str:
    if policy.is_open:
        return "none; the route needs no key"
    named = ", ".join(f"`{role}`" for role in sorted(policy.roles))
    tenant = ", of the tenant `default` only" if policy.is_of_server else ""
    unbound = "" if policy.takes_bound(re.findall("{(.*?)}", path)) else "; not bound to a user"
    return f"{named}{tenant}{unbound}"


def _parameters(parameters: Iterable[Json]) -> Iterator[str]:
    rows = [each for each in parameters if each["in"] != "path"]
    if not rows:
        return
    yield "| parameter | in | type | default | meaning |"
    yield "|---|---|---|---|---|"
    for each in rows:
        name = f"**`{each['name']}`**" if each.get("required") else f"`{each['name']}`"
        kind = _type(each["schema"]).removeprefix("null or ").removesuffix(" or null").removesuffix(", null")
        limited = ", ".join(filter(None, (kind, _limits(each["schema"]))))
        meaning = one_line(each.get("description", ""))
        yield f"| {name} | {each['in']} | {limited} | {_default(each['schema'])} | {meaning} |"
    yield ""


def _body(body: Json) -> str:
    content = body["content"]
    example = next((of["schema"]["examples"][0] for of in content.values() if "examples" in of["schema"]), None)
    shown = ", ".join(_content(media_type, of["schema"]) for media_type, of in content.items())
    text = "" if example is None else json.dumps(example, ensure_ascii=False)
    # a long example, or one with a text of several lines, says less than the table of the object
    return f"{shown}, such as `{text}`" if text and len(text) < 160 and "`" not in text else shown


def _answer(answer: Json) -> str:
    content = answer.get("content", {})
    shown = ", ".join(_content(media_type, of["schema"]) for media_type, of in content.items()) or "no content"
    headers = [f"`{name}`" for name in sorted(answer.get("headers", ()))]
    return f"{shown}, with {', '.join(headers)}" if headers else shown


def _content(media_type: str, schema: Json) -> str:
    if media_type == "application/json":
        return _type(schema)
    return "a [stream](../how-to/streaming.md)" if media_type == "text/event-stream" else f"`{media_type}`"


def _type(schema: Json, page: str = _OBJECTS) -> str:
    """Return a type in words, with its limits; objects are links to `page`."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REF)
        return f"[`{name}`]({page}#{name.lower()})"
    several = schema.get("oneOf") or schema.get("anyOf") or schema.get("allOf")
    if several:
        return " or ".join(dict.fromkeys(_type(each, page) for each in several))
    if "enum" in schema:
        return ", ".join("null" if value is None else f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema.get("type", "any value")
    if isinstance(kind, list):
        return " or ".join(_type({**schema, "type": each}, page) for each in kind)
    if kind == "array":
        items = schema.get("items", {})
        return f"list of {_type(items, page)}" if items else "list"
    if kind == "object" and schema.get("additionalProperties"):
        return f"object of {_type(schema['additionalProperties'], page)}"
    if kind == "string":
        return {"date-time": "time", "uuid": "uuid"}.get(schema.get("format", ""), "text")
    return str(kind)


def _limits(schema: Json) -> str:
    """Return the limits of a number, a text or a list in words."""
    found = []
    low, high = schema.get("minimum", schema.get("minLength")), schema.get("maximum", schema.get("maxLength"))
    if "exclusiveMinimum" in schema:
        found.append(f"more than {schema['exclusiveMinimum']:g}")
    unit = " characters" if "maxLength" in schema or "minLength" in schema else ""
    if low is not None and high is not None:
        found.append(f"{low:.10g} to {high:.0f}{unit}")
    elif low is not None or high is not None:
        found.append(f"at least {low:.10g}{unit}" if high is None else f"at most {high:.0f}{unit}")
    if "maxItems" in schema:
        found.append(f"at most {schema['maxItems']}")
    return ", ".join(found)


def _default(schema: Json) -> str:
    value = schema.get("default")
    return "" if value is None or value == "" else f"`{json.dumps(value, ensure_ascii=False)}`".replace('"', "")


def _errors() -> Iterator[str]:
    yield "Each error names its code; the [conventions](http-conventions.md#errors) describe its other fields."
    yield ""
    yield "| code | status | type | what to do |"
    yield "|---|---|---|---|"
    for code, kind in CODES.items():
        retry = f" A retry is possible after {kind.retry_after_s} s." if kind.retry_after_s else ""
        yield f"| `{code}` | {kind.status} | {kind.type} | {kind.suggestion}{retry} |"


_SCHEMAS = """\
# Objects of the HTTP API

After reading this page you know the fields of every object that [routes](http-api.md) take and return. Fields in bold
are required in a body and always there in an answer; others may be absent.

"""


def http_objects() -> str:
    """Return the page of the objects in bodies and answers."""
    found = openapi_document(Settings())["components"]["schemas"]
    parts = [
        *_SCHEMAS.splitlines(),
    ]
    texts, common = described_fields(schemas), FieldMeanings.load()
    for name, schema in sorted(found.items()):
        about, meanings = texts.get(name, ("", {}))
        parts += [f"## {name}", "", *([about, ""] if about else [])]
        parts += ["| field | type | meaning |", "|---|---|---|"]
        for field, of in schema.get("properties", {}).items():
            shown = f"**`{field}`**" if field in schema.get("required", ()) else f"`{field}`"
            meaning = meanings.get(field) or of.get("description") or common.of(name, field)
            default = f"default {_default(of)}" if _default(of) else ""
            kind = ", ".join(filter(None, (_type(of, ""), _limits(of), default)))
            parts.append(f"| {shown} | {kind} | {one_line(meaning)} |")
        parts.append("")
    return "\n".join(parts)
