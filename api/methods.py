"""HEAD and OPTIONS: every GET without its body (RFC 9110, 9.3.2), and which methods there are, all of them."""

from collections.abc import Iterable, Mapping

from litestar import Litestar
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPResponseStartEvent, HTTPScope, Message, Receive, Scope, Send

_WAITING = {b"accept", b"prefer"}  # by which a GET would be a stream, or be long in coming


def with_all_methods(app: Litestar) -> ASGIApp:
    """The application, with HEAD wherever it knows GET. Litestar itself tells of a path that has several methods only
    the first when it is asked.
    """
    inner = app.asgi_handler
    methods = {route.path_format: route.methods for route in app.routes}

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.WEBSOCKET or scope["method"] == "GET":
            await inner(scope, receive, send)
            return
        is_head = scope["method"] == "HEAD"
        if is_head:
            scope["method"] = "GET"
            scope["headers"] = [each for each in scope["headers"] if each[0] not in _WAITING]

        async def send_so(message: Message) -> None:
            if message["type"] == "http.response.body" and is_head:
                message["body"] = b""
            if message["type"] == "http.response.start" and message["status"] in {204, 405}:
                _tell_methods(message, scope, methods)
            await send(message)

        await inner(scope, receive, send_so)

    return call


def _tell_methods(message: HTTPResponseStartEvent, scope: HTTPScope, methods: Mapping[str, Iterable[str]]) -> None:
    """Mends what an answer tells of methods, if it does."""
    headers = dict(message["headers"])
    allowed = headers.get(b"allow")
    if allowed is not None:
        found = set(methods.get(scope.get("path_template", ""), allowed.decode().split(", ")))
        told = found | ({"HEAD"} if "GET" in found else set())
        message["headers"] = [*(headers | {b"allow": ", ".join(sorted(told)).encode()}).items()]
