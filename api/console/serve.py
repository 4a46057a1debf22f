"""Serves the built pages, of the console, the chat and the documentation: with ETags, compressed, under a strict
security policy.
"""

import gzip
import hashlib
import mimetypes
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from litestar import Response
from msgspec import Struct

INDEX: Final = "index.html"
CHAT: Final = "chat.html"
"""The page of the links for participants."""
CHATS: Final = "chat"
"""The first part of their addresses."""
WIDGET: Final = "widget.js"
"""The script by which pages of other sites show the chat page in a frame."""
WORKER: Final = "push.js"
"""The worker that shows reminders while the chat page is closed."""
ASSETS: Final = "assets"
"""The folder of files whose names contain a digest of their content."""
SCREENS: Final = (
    "analytics", "dashboards", "inbox", "memory", "operate", "play", "reference", "reviews", "sessions", "sign-in",
    "sql", "write",
)  # fmt: skip
"""The first part of the addresses of the console; the page itself decides what it shows there."""
OPEN_PATHS: Final = frozenset({"", ASSETS, CHATS, WIDGET, WORKER, *SCREENS})
"""The first parts of the paths that need no key: the pages contain no data."""

NOT_BUILT: Final = (
    "The pages of the console are not built.\n\n"
    "Run `make console` in the folder of Cuebook, then load this page again. It needs access to npm, and Node.js 20\n"
    "or later; without Node.js, it installs one from PyPI into .venv.\n\n"
    "The API is at /api, and its description at /schema.\n"
)
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": f"{_POLICY}; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept-Encoding",
}
DOCUMENTATION_HEADERS: Final = {
    # its pages have scripts of their own between their tags, and load nothing from other hosts
    "Content-Security-Policy": "default-src 'self'; script-src 'self' 'unsafe-inline'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Content-Disposition": "inline",
}
_COMPRESSED: Final = frozenset({".css", ".html", ".js", ".json", ".svg"})
FILES_MAX: Final = 256
"""Files that are cached in memory; the console has some dozens."""


class PageFile(Struct, frozen=True):
    """A file of the console; `gzipped` is empty for a kind that does not become smaller."""

    content: bytes
    gzipped: bytes
    etag: str
    media_type: str


def find_file(static: Path, name: str) -> PageFile | None:
    """Return a file by its path below `static`; None if there is none, or if it is outside the folder."""
    with suppress(OSError, ValueError):  # too long, or with a character that no file name has
        folder = static.resolve()
        path = (folder / name.lstrip("/")).resolve()
        if path.is_relative_to(folder) and path.is_file():
            return _read(path, path.stat().st_mtime_ns)
    return None


@lru_cache(FILES_MAX)
def _read(path: Path, _changed_ns: int) -> PageFile:
    """Read a file; it is read again once its time of change differs."""
    content = path.read_bytes()
    gzipped = gzip.compress(content, mtime=0) if path.suffix in _COMPRESSED else b""
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return PageFile(content, gzipped, etag, "text/javascript" if path.suffix == ".js" else media_type)


def file_response(file: PageFile, *, is_hashed: bool, if_none_match: str, accept_encoding: str) -> Response[bytes]:
    """Return the response with a file; 304 if the client has it. A hashed name is cached for a year."""
    cache = "public, max-age=31536000, immutable" if is_hashed else "no-cache"
    headers = {**_HEADERS, "Cache-Control": cache, "ETag": file.etag}
    if file.etag in {each.strip().removeprefix("W/") for each in if_none_match.split(",")}:
        return Response(b"", status_code=304, headers=headers)
    if file.gzipped and "gzip" in accept_encoding:
        headers["Content-Encoding"] = "gzip"
        return Response(file.gzipped, headers=headers, media_type=file.media_type)
    return Response(file.content, headers=headers, media_type=file.media_type)


def frame_header(origins: Sequence[str]) -> dict[str, str]:
    """Return the header that permits pages of these origins, and of our own, to show a page in a frame."""
    return {"Content-Security-Policy": " ".join([f"{_POLICY}; frame-ancestors 'self'", *origins])}


def not_built() -> Response[str]:
    """Return the response that says how to build the pages."""
    return Response(NOT_BUILT, status_code=503, headers={"Cache-Control": "no-store"}, media_type="text/plain")
