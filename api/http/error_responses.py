"""Error responses: every failure of a request in the one error format. Requests that the HTTP framework refuses, and
parameters that it would ignore, are described with what is possible.
"""

import re
from collections.abc import Collection, Mapping
from datetime import datetime
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

from litestar import Request, Response
from litestar.exceptions import HTTPException, NotFoundException
from litestar.handlers import HTTPRouteHandler
from litestar.params import ParameterKwarg, QueryParameter
from litestar.typing import FieldDefinition
from msgspec import UNSET, inspect

from api import errors
from api.auth.principal import ANONYMOUS, CALLER
from api.console.serve import INDEX, file_response, find_file
from api.errors import ApiError, invalid_field
from api.http.services import current
from api.participants.views import visible_error
from api.schemas.errors import ErrorAnswer, ErrorDetail
from api.schemas.timestamps import utc_text
from api.schemas.validation_messages import TIME_EXPECTED, humanize_validation_error, name_choices, types_at
from scripts.expressions.values import number_in

ANY_PARAMETERS = "any_parameters"
"""The key of `opt` that marks a handler which reads parameters of any name."""
SIZE_SETTING = "size_setting"
"""The key of `opt` for the name of the setting that limits bodies, where it is not `body_bytes_max`."""
NAMES_MAX = 12
"""The names that a message lists if none of them is close to the one that was sent."""
NAME_CHARS_MAX = 100
"""The characters that a message repeats of a name that was sent."""
SENT_TWICE = "sent twice"
HANDLERS_MAX = 2_000
"""Handlers whose parameters are cached: those of all route tables of a process."""

_API = "/api/"
_NO_BODY = "'data'"  # what the HTTP framework says about a body that is missing
_MISSING = re.compile(r"Missing required (?P<kind>query parameter|header parameter) '(?P<name>[^']*)'")
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING_FIELD = re.compile(r"Object missing required field `(.*)`")


def require_known_parameters(request: Request[Any, Any, Any]) -> None:
    """Check the names of a request's query parameters, because a filter that is misspelt would select everything, and
    that each is sent once, unless it is a list, because only one of two values would be used.

    Pages ignore parameters that they do not know, and so does OPTIONS, whose answer depends on none. Raises ApiError
    REQUEST_INVALID.
    """
    handler = request.route_handler
    if not isinstance(handler, HTTPRouteHandler) or ANY_PARAMETERS in handler.opt:
        return
    if not request.scope["path"].startswith(_API) or request.method == "OPTIONS":
        return
    known, seen = _query_parameters(handler), set[str]()
    for name, value in request.query_params.multi_items():
        if name not in known:
            raise invalid_field(name[:NAME_CHARS_MAX], f"there is no such parameter{_instead_of(name, known)}")
        if name in seen and list not in known[name]:
            raise invalid_field(name, SENT_TWICE)
        seen.add(name)
        if datetime in known[name] and number_in(value) is not None:  # Litestar would read it as the seconds since 1970
            raise invalid_field(name, TIME_EXPECTED)


def describe_refusal(error: HTTPException, request: Request[Any, Any, Any]) -> ApiError:
    """Return the error for a route, method, body or parameter that the HTTP framework refuses."""
    if error.status_code == 413:
        return _too_large(request.route_handler)
    if error.status_code == 404:
        return ApiError("NOT_FOUND", "no route has this path")
    if error.status_code == 405:
        return ApiError("METHOD_NOT_ALLOWED", f"the route does not take {request.method}; `Allow` lists what it takes")
    if error.status_code >= 500:
        return ApiError("INTERNAL_ERROR", "internal error; see the log for this request id")
    if missing := _MISSING.match(error.detail):
        return invalid_field(missing["name"], f"this {missing['kind']} is missing")
    if not isinstance(error.extra, list):
        return ApiError("REQUEST_INVALID", error.detail)
    fields = _fields(request.scope.get("route_handler"))
    details = [_detail(each, error.detail, fields) for each in error.extra]
    return ApiError("REQUEST_INVALID", _message(details[0]) if details else error.detail, details=details)


def _too_large(handler: object) -> ApiError:
    """Return the error of a body that exceeds the limit of its route, with the setting of the limit."""
    if not isinstance(handler, HTTPRouteHandler):
        return ApiError("PAYLOAD_TOO_LARGE", "the body is too large")
    limit, setting = handler.resolve_request_max_body_size(), handler.opt.get(SIZE_SETTING, "body_bytes_max")
    return ApiError(
        "PAYLOAD_TOO_LARGE", f"the body is larger than {limit:,} bytes, the setting `{setting}` of the server"
    )


def _detail(found: Mapping[str, Any], otherwise: str, fields: Mapping[str, FieldDefinition]) -> ErrorDetail:
    """Translate one problem that the HTTP framework found in a body, a parameter or a header."""
    key = str(found.get("key", "data"))
    is_in_body = found.get("source") not in {"query", "header", "cookie"}
    field = fields.get("data" if is_in_body else key)
    if not is_in_body and field is not None:
        key = _sent_name(key, field)
    path = "" if key == "data" else key
    problem = found.get("message", otherwise)
    if not path and problem == _NO_BODY:
        return ErrorDetail(message="the body is empty")
    types = types_at(field.annotation, path if is_in_body else "") if field is not None else []
    if unknown := _UNKNOWN_FIELD.fullmatch(problem):
        names = [each.encode_name for kind in types if isinstance(kind, inspect.StructType) for each in kind.fields]
        where = _below(path, unknown[1][:NAME_CHARS_MAX])
        return ErrorDetail(message=f"there is no such field{_instead_of(unknown[1], names)}", field=where)
    if is_in_body and (missing := _MISSING_FIELD.fullmatch(problem)):
        return ErrorDetail(message="this field is missing", field=_below(path, missing[1]))
    return ErrorDetail(message=humanize_validation_error(name_choices(problem, types)), field=path or UNSET)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _message(detail: ErrorDetail) -> str:
    where = "the body" if detail.field is UNSET else detail.field
    return detail.message if detail.message.startswith("the body") else f"{where}: {detail.message}"


def _instead_of(name: str, known: Collection[str]) -> str:
    """Return the name that was probably meant, or else all of a few."""
    by_lower_case = {each.lower(): each for each in known}
    close = get_close_matches(name.lower(), by_lower_case, 1)
    if close:
        return f"; did you mean `{by_lower_case[close[0]]}`?"
    return f"; there are {', '.join(sorted(known))}" if 0 < len(known) <= NAMES_MAX else ""


@lru_cache(maxsize=HANDLERS_MAX)
def _query_parameters(handler: HTTPRouteHandler) -> Mapping[str, set[object]]:
    """Return the names of the query parameters, each with its types, such as list or datetime."""
    return {
        _sent_name(name, field): {each.origin or each.annotation for each in (field, *field.inner_types)}
        for name, field in _fields(handler).items()
        if isinstance(field.kwarg_definition, QueryParameter)
    }


def _fields(handler: object) -> dict[str, FieldDefinition]:
    """Return the parameters of a handler and of its dependencies, by their names in the code."""
    if not isinstance(handler, HTTPRouteHandler):
        return {}
    providers = handler.resolve_dependencies().values()
    signatures = [handler.parsed_fn_signature, *(each.parsed_fn_signature for each in providers)]
    return {name: field for each in signatures for name, field in each.parameters.items()}


def _sent_name(name: str, field: FieldDefinition) -> str:
    """Return the name of a parameter as clients spell it."""
    definition = field.kwarg_definition
    return definition.name if isinstance(definition, ParameterKwarg) and definition.name else name


def route_of(request: Request[Any, Any, Any]) -> str:
    """Return the route template of a request for the log, without ids; empty if there is no route."""
    return request.scope.get("path_template", "")


def answer_error(request: Request[Any, Any, Any], error: Exception) -> Response[ErrorAnswer] | Response[bytes]:
    """Answer a failure with the one error format; a browser gets the page of the console for an unknown address."""
    services, scope = current.get(), request.scope
    failure = describe_refusal(error, request) if isinstance(error, HTTPException) else errors.translate(error)
    request_id = scope["state"]["request_id"]
    errors.log_failure(failure, error, request_id, route_of(request))
    services.metrics.errors.labels(failure.code).inc()
    if isinstance(error, NotFoundException) and (page := _missing_page(request, services.settings.console)) is not None:
        return page
    participant = scope["state"].get(CALLER, ANONYMOUS).participant
    shown = failure if participant is None else visible_error(failure)
    body = errors.answer(shown, request_id, utc_text(services.clock()))
    headers = errors.headers_of(failure, error)
    return Response(body, status_code=failure.kind.status, headers=headers, media_type="application/json")


def _missing_page(request: Request[Any, Any, Any], static: Path) -> Response[bytes] | None:
    """Return the page of the console, which says that there is no such page, if a browser shows the answer; else None.

    Programs, and pages that call the API, do not accept HTML.
    """
    if request.url.path.startswith("/api/") or "text/html" not in request.headers.get("accept", ""):
        return None
    file = find_file(static, INDEX)
    if file is None:
        return None
    encoding = request.headers.get("accept-encoding", "")
    response = file_response(file, is_hashed=False, if_none_match="", accept_encoding=encoding)
    response.status_code = 404
    return response
