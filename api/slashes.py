"""Ids in paths that hold a slash, sent as `%2F`: servers decode it before the path is taken apart, so it is kept out of
sight until then.
"""

from typing import Any
from urllib.parse import unquote

from litestar.types import ASGIApp, Receive, Scope, Send

_SLASH = "\udc2f"
"""Stands for a slash within an id; nothing a client sends is decoded to it."""


def with_slashes(app: ASGIApp) -> ASGIApp:
    """An application whose paths are taken apart at the slashes that were sent as such alone."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        raw = scope.get("raw_path") or b""
        if b"%2F" in raw or b"%2f" in raw:
            parts = raw.decode("latin-1").replace("%2f", "%2F").split("%2F")
            scope["path"] = _SLASH.join(map(unquote, parts))
        await app(scope, receive, send)

    return call


def restore_slashes(scope: Scope) -> None:
    """Gives the ids of a path their slashes back, once it is known which they are."""
    if _SLASH in scope["path"]:
        given: dict[str, Any] = scope["path_params"]
        for name, value in given.items():
            if isinstance(value, str):
                given[name] = value.replace(_SLASH, "/")
        scope["path"] = scope["path"].replace(_SLASH, "/")
