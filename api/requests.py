"""What happens to every request beside its route: its id, a look at its body, and the one shape of failures."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.enums import ScopeType
from litestar.exceptions import HTTPException
from litestar.exceptions.http_exceptions import InternalServerException, RequestEntityTooLarge
from litestar.handlers import HTTPRouteHandler
from litestar.params import ParameterKwarg
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from api import errors
from api.access.pages import SAFE
from api.errors import ApiError
from api.metrics import Metrics
from api.routes.media import JSON, TAKES
from runtime.ports import Clock, Ids

REQUEST_ID = "x-request-id"
DRAINED_BYTES_MAX = 10_000_000
DRAIN_S = 5.0


def with_request_id(app: ASGIApp, ids: Ids, metrics: Metrics) -> ASGIApp:
    """Gives every request an id, which its answer and its log lines carry, and counts it."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        request_id = ids()
        scope["state"]["request_id"] = request_id

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (REQUEST_ID.encode(), request_id.encode())]
                _count(metrics, scope, message["status"])
            await send(message)

        await app(scope, receive, send_with_id)

    return call


def _count(metrics: Metrics, scope: Scope, status: int) -> None:
    """Counts a request by its route; what leads to none is one of a kind, whatever it was called."""
    if scope["type"] == ScopeType.HTTP and "path_template" in scope:
        metrics.count_request(scope["method"], scope["path_template"], status)
    else:
        metrics.count_request("", "", status)


async def _drain(receive: Receive) -> None:
    """Reads the rest of a body: a client that is cut off while it sends never sees the answer."""
    drained = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_S):
            while drained < DRAINED_BYTES_MAX:
                message = await receive()
                if message["type"] != "http.request" or not message["more_body"]:
                    return
                drained += len(message["body"])


async def check_body(request: Request[Any, Any, Any]) -> None:
    """Takes JSON alone, said to be JSON: a page in a browser can send any other kind here without asking first, also
    with no body at all.

    A route may take more kinds, of those that a page must ask for.
    """
    try:
        body = await request.body()
    except RequestEntityTooLarge:
        await _drain(request.receive)
        raise
    except InternalServerException as error:  # by which Litestar says that the client went away
        raise ApiError("REQUEST_INCOMPLETE", "the connection ended before the whole body was there") from error
    if not body and (request.method in SAFE or not _has_content_type(request.scope)):
        return
    media_type, takes = request.content_type[0], request.route_handler.opt.get(TAKES, (JSON,))
    if media_type not in takes:
        raise ApiError("UNSUPPORTED_MEDIA_TYPE", f"the body must be {' or '.join(takes)}")
    if not body or media_type != JSON:
        return
    try:
        body.decode()
        msgspec.json.decode(body, type=msgspec.Raw)
    except UnicodeDecodeError as error:
        raise ApiError("REQUEST_INVALID", f"the body is not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise ApiError("REQUEST_INVALID", "the body is nested too deeply") from error
    except msgspec.DecodeError as error:
        raise ApiError("REQUEST_INVALID", f"the body is no JSON: {error}") from error


def _has_content_type(scope: HTTPScope) -> bool:
    return any(name == b"content-type" for name, _ in scope["headers"])


def route_of(request: Request[Any, Any, Any]) -> str:
    """Return the route of a request for the log, without the ids that a client put into its path; empty for none."""
    return request.scope.get("path_template", "")


def exception_handlers(
    clock: Clock, metrics: Metrics
) -> dict[int | type[Exception], Callable[[Request[Any, Any, Any], Any], Response[Any]]]:
    """How every failure of a request is answered: in the one shape."""

    def handle(request: Request[Any, Any, Any], error: Exception) -> Response[errors.ErrorAnswer]:
        failure = errors.translate(error, _sent_names(request))
        request_id = request.scope["state"]["request_id"]
        errors.log_failure(failure, error, request_id, route_of(request))
        metrics.count_error(failure.code)
        body = errors.answer(failure, request_id, clock().isoformat())
        headers = errors.headers_of(failure, error)
        return Response(body, status_code=failure.kind.status, headers=headers, media_type="application/json")

    return {Exception: handle, HTTPException: handle}


def _sent_names(request: Request[Any, Any, Any]) -> dict[str, str]:
    """The parameters of the route that was asked for, as a client spells them: by their names in the code."""
    handler = request.scope.get("route_handler")
    if not isinstance(handler, HTTPRouteHandler):
        return {}
    kinds = {name: field.kwarg_definition for name, field in handler.parsed_fn_signature.parameters.items()}
    return {name: kind.name for name, kind in kinds.items() if isinstance(kind, ParameterKwarg) and kind.name}
