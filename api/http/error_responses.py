"""Error responses: every failure of a request in the one error format."""

from collections.abc import Callable
from typing import Any

from litestar import Request, Response
from litestar.exceptions import HTTPException, NotFoundException

from api import errors
from api.auth.principal import ANONYMOUS, CALLER
from api.http.invalid_requests import describe_refusal
from api.metrics import Metrics
from api.participants.views import visible_error
from api.timestamps import utc_text
from runtime.state.ports import Clock


def route_of(request: Request[Any, Any, Any]) -> str:
    """Return the route template of a request for the log, without ids; empty if there is no route."""
    return request.scope.get("path_template", "")


def exception_handlers(
    clock: Clock,
    metrics_of: Callable[[], Metrics],
    page_of: Callable[[Request[Any, Any, Any]], Response[bytes] | None],
) -> dict[int | type[Exception], Callable[[Request[Any, Any, Any], Any], Response[Any]]]:
    """Return the handlers that answer every failure with the one error format.

    An address that no route has is answered with its page from `page_of`, if it has one for the request.
    """

    def handle(request: Request[Any, Any, Any], error: Exception) -> Response[errors.ErrorAnswer] | Response[bytes]:
        failure = describe_refusal(error, request) if isinstance(error, HTTPException) else errors.translate(error)
        request_id = request.scope["state"]["request_id"]
        errors.log_failure(failure, error, request_id, route_of(request))
        metrics_of().errors.labels(failure.code).inc()
        if isinstance(error, NotFoundException) and (page := page_of(request)) is not None:
            return page
        participant = request.scope["state"].get(CALLER, ANONYMOUS).participant
        shown = failure if participant is None else visible_error(failure)
        body = errors.answer(shown, request_id, utc_text(clock()))
        headers = errors.headers_of(failure, error)
        return Response(body, status_code=failure.kind.status, headers=headers, media_type="application/json")

    return {Exception: handle, HTTPException: handle}
