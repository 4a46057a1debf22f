"""The ASGI application: routes registered once per process, the services of one database, and what every request needs.

Registering the routes takes 0.1 to 0.5 s, because Litestar builds a signature model and a parser for each handler.
Applications therefore share them; a request finds its services in a context variable that the application sets.
"""

import asyncio
import contextlib
import functools
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from types import ModuleType
from typing import Any, cast
from urllib.parse import unquote

import msgspec
from litestar import Litestar, Request, Router
from litestar.enums import ScopeType
from litestar.exceptions.http_exceptions import HTTPException, InternalServerException, RequestEntityTooLarge
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, HTTPResponseStartEvent, Message, Receive, Scope, Send

from api.auth.request_checks import SAFE, cors_of, header_of
from api.errors import ApiError, invalid_field
from api.http.error_responses import (
    NAME_CHARS_MAX,
    SENT_TWICE,
    SIZE_SETTING,
    answer_error,
    require_known_parameters,
)
from api.http.openapi import PolicyPlugin, complete, description, prepare
from api.http.request import JSON, TAKES, ApiRequest
from api.http.routes import (
    access,
    analytics,
    console,
    contexts,
    dashboards,
    lifecycle,
    memory,
    memory_files,
    memory_groups,
    memory_units,
    operations,
    participants,
    reviews,
    scripts,
    session_lists,
    sessions,
    transfers,
    users,
    webhooks,
)
from api.http.services import Services, current
from api.metrics import Metrics
from api.sessions.live_turns import LiveTurns
from api.settings import Settings
from runtime.state.ports import Ids

REQUEST_ID = "x-request-id"
_CLOSE = (b"connection", b"close")
_AS_DECLARED = (b"x-content-type-options", b"nosniff")  # browsers guess no other type from what people wrote
DRAINED_BYTES_MAX = 10_000_000
DRAIN_S = 5.0
_WAITING = {b"accept", b"prefer"}  # headers that make a GET a stream or let it wait
_SENT_ONCE = {b"idempotency-key": "Idempotency-Key", b"if-match": "If-Match"}
_SLASH = "\udc2f"
"""The placeholder of a slash within an id; no client input decodes to it."""
ROUTE_TABLES_MAX = 8
"""Cached route tables: one for each combination of the settings that Litestar reads when it registers routes."""


def _router(tag: str, *modules: ModuleType, path: str = "/api") -> Router:
    """Return a router of all handlers of these modules; a path can have only one router."""
    handlers = [each for module in modules for each in vars(module).values() if isinstance(each, HTTPRouteHandler)]
    return Router(path, route_handlers=handlers, tags=[tag])


ROUTERS = (
    _router("Sessions", sessions, session_lists, lifecycle, contexts),
    transfers.exports,
    _router("Analytics", analytics, dashboards, path="/api/analytics"),
    _router("Memory", memory_units, memory_groups, memory),
    memory_files.exports,
    _router("Scripts", scripts),
    _router("Reviews", reviews),
    _router("Access", access),
    _router("Participants", participants),
    _router("Webhooks", webhooks),
    _router("Users", users),
    _router("Operations", operations, path=""),
    _router("Console", console, path=""),
)


class Application:
    """An ASGI application over the services of one database."""

    def __init__(self, services: Services) -> None:
        settings = services.settings
        self._services = services
        self._routes = _routes(settings.body_bytes_max, settings.import_bytes_max, tuple(settings.cors_origins))
        self._handle = _wrap(self._routes, services.ids, services.metrics, services.live)

    def lifespan(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Return the context manager within which the application can be used."""
        return self._services.lifespan()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request or the lifespan of the server."""
        scope.setdefault("state", {})
        token = current.set(self._services)
        try:
            if scope["type"] == "lifespan":
                await self._routes(scope, receive, send)
            else:
                _mark_slashes(scope)
                await self._handle(scope, receive, send)
        finally:
            current.reset(token)


@functools.lru_cache(maxsize=ROUTE_TABLES_MAX)
def _routes(body_bytes_max: int, import_bytes_max: int, cors_origins: tuple[str, ...]) -> Litestar:
    imports = Router(
        "/",
        route_handlers=[transfers.imports, memory_files.imports],
        request_max_body_size=import_bytes_max,
        opt={SIZE_SETTING: "import_bytes_max"},
    )
    return Litestar(
        route_handlers=[*ROUTERS, imports],
        exception_handlers={Exception: answer_error, HTTPException: answer_error},
        middleware=[_guard],
        request_class=ApiRequest,
        plugins=[PolicyPlugin()],
        cors_config=cors_of(cors_origins),
        before_request=_check,
        lifespan=[_lifespan],
        openapi_config=description(),
        request_max_body_size=body_bytes_max,
        logging_config=None,
    )


def openapi_document(settings: Settings) -> dict[str, Any]:
    """Return the description of all routes, as a server with these settings has it at `/schema/openapi.json`."""
    routes = _routes(settings.body_bytes_max, settings.import_bytes_max, tuple(settings.cors_origins))
    return complete(routes.openapi_schema.to_schema())


def _guard(app: ASGIApp) -> ASGIApp:
    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.HTTP:
            _restore_slashes(scope)
        await current.get().guard.handle(app, scope, receive, send)

    return call


@contextlib.asynccontextmanager
async def _lifespan(_: Litestar) -> AsyncIterator[None]:
    async with current.get().lifespan():
        yield


def _wrap(app: Litestar, ids: Ids, metrics: Metrics, live: LiveTurns) -> ASGIApp:
    """Return the application with what every response has.

    Every request has an id, which its response and log lines contain, and is counted. There is HEAD for every GET route
    (RFC 9110, 9.3.2), and `Allow` has all methods of a path: Litestar itself lists only those of its first router.

    A server that is about to stop ends each connection with its response, before a client sends another request on it.
    """
    methods = {route.path_format: route.methods for route in app.routes}

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        request_id = ids()
        scope["state"]["request_id"] = request_id
        is_head = False
        if scope["type"] == ScopeType.HTTP and scope["method"] == "HEAD":
            is_head = True  # the server keeps its own scope, by which it expects no body
            headers = [each for each in scope["headers"] if each[0] not in _WAITING]
            scope = cast("Scope", {**scope, "method": "GET", "headers": headers})

        async def send_response(message: Message) -> None:
            if message["type"] == "http.response.start":
                if message["status"] in {204, 405}:
                    _correct_allow(message, scope, methods)
                own = (REQUEST_ID.encode(), request_id.encode())
                closing = [_CLOSE] if live.is_stopping else []
                message["headers"] = [*message["headers"], own, _AS_DECLARED, *closing]
                _count(metrics, scope, message["status"])
            elif message["type"] == "http.response.body" and is_head:
                message["body"] = b""
            await send(message)

        await app(scope, receive, send_response)

    return call


def _count(metrics: Metrics, scope: Scope, status: int) -> None:
    """Count a request by its route; all requests without a route share one label."""
    if scope["type"] == ScopeType.HTTP and "path_template" in scope:
        metrics.requests(scope["method"], scope["path_template"], status).inc()
    else:
        metrics.requests("", "", status).inc()


async def _drain(receive: Receive) -> None:
    """Read the rest of a body, because a client that is cut off while it sends never sees the response."""
    drained = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_S):
            while drained < DRAINED_BYTES_MAX:
                message = await receive()
                if message["type"] != "http.request" or not message["more_body"]:
                    return
                drained += len(message["body"])


async def _check(request: Request[Any, Any, Any]) -> None:
    """Check the names of the parameters, the headers that are sent once, and the body: accept only JSON that is
    declared as JSON, also for an empty body, because browsers send other content types from pages of other origins
    without a preflight request.

    A route may accept more content types, of those that need a preflight request.
    """
    if request.scope["query_string"]:
        require_known_parameters(request)
    if request.method not in SAFE:
        _require_sent_once(request.scope["headers"])
    if request.scope["path"].startswith("/schema"):
        await prepare(request.app)
    try:
        body = await request.body()
    except RequestEntityTooLarge:
        await _drain(request.receive)
        raise
    except InternalServerException as error:  # raised by Litestar if the client disconnects
        raise ApiError("REQUEST_INCOMPLETE", "the connection ended before the whole body was received") from error
    if not body and (request.method in SAFE or header_of(request.scope["headers"], b"content-type") is None):
        return
    media_type, takes = request.content_type[0], request.route_handler.opt.get(TAKES, (JSON,))
    if media_type not in takes:
        raise ApiError("UNSUPPORTED_MEDIA_TYPE", f"the body must be {' or '.join(takes)}")
    coding = header_of(request.scope["headers"], b"content-encoding")
    if coding is not None and coding.lower() != b"identity":
        raise ApiError("UNSUPPORTED_MEDIA_TYPE", "a compressed body is not read; send it without `Content-Encoding`")
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
        raise ApiError("REQUEST_INVALID", _json_problem(body, error)) from error
    if request.method not in SAFE and not _has_body(request.route_handler):
        _require_no_fields(body)


def _require_sent_once(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Refuse a second value of a header on which a change depends, because only one of them would be used."""
    seen = set[bytes]()
    for name, _ in headers:
        if name in _SENT_ONCE:
            if name in seen:
                raise invalid_field(_SENT_ONCE[name], SENT_TWICE)
            seen.add(name)


def _has_body(handler: HTTPRouteHandler) -> bool:
    return TAKES in handler.opt or "data" in handler.parsed_fn_signature.parameters


def _require_no_fields(body: bytes) -> None:
    """Refuse what a request asks for by its body, such as `dryRun`, if its route takes no body: it would be ignored.

    Raises ApiError REQUEST_INVALID.
    """
    try:
        sent = msgspec.json.decode(body, type=dict[str, msgspec.Raw] | None)
    except msgspec.ValidationError as error:
        raise ApiError("REQUEST_INVALID", "this request has no body") from error
    if sent:
        raise invalid_field(next(iter(sent))[:NAME_CHARS_MAX], "there is no such field; this request has no body")


def _json_problem(body: bytes, error: msgspec.DecodeError) -> str:
    """Describe why a body cannot be read; of half of a surrogate pair, msgspec says that the input was truncated."""
    with contextlib.suppress(ValueError, RecursionError):
        json.loads(body.decode(), parse_constant=int)  # NaN and Infinity are not JSON, and not int either
        return r"the body has half of a surrogate pair, such as \ud800, which is not a character"
    return f"the body is not JSON: {error}"


def _correct_allow(message: HTTPResponseStartEvent, scope: Scope, methods: Mapping[str, Iterable[str]]) -> None:
    """Correct the `Allow` header of a response, if it has one."""
    headers = dict(message["headers"])
    allowed = headers.get(b"allow")
    if allowed is not None:
        names = set(methods.get(scope.get("path_template", ""), allowed.decode().split(", ")))
        allow = names | ({"HEAD"} if "GET" in names else set())
        message["headers"] = [*(headers | {b"allow": ", ".join(sorted(allow)).encode()}).items()]


def _mark_slashes(scope: Scope) -> None:
    """Put placeholders for slashes within ids, sent as `%2F`, which the server has decoded."""
    raw = scope.get("raw_path") or b""
    if b"%2F" in raw or b"%2f" in raw:
        parts = raw.decode("latin-1").replace("%2f", "%2F").split("%2F")
        scope["path"] = _SLASH.join(map(unquote, parts))


def _restore_slashes(scope: Scope) -> None:
    """Replace the placeholders in the ids of a path by slashes, once the route is known."""
    if _SLASH in scope["path"]:
        parameters: dict[str, Any] = scope["path_params"]
        for name, value in parameters.items():
            if isinstance(value, str):
                parameters[name] = value.replace(_SLASH, "/")
        scope["path"] = scope["path"].replace(_SLASH, "/")
