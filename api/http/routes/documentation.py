"""Routes for the built documentation: the site that `make docs` writes, at `/docs`."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Final

from litestar import Response, get
from litestar.params import FromPath
from litestar.response import File, Redirect

from api.errors import ApiError
from api.http.request import ApiRequest

_INDEX: Final = "index.html"
_HEADERS: Final = {
    # the pages have scripts of their own between their tags, and load nothing from other hosts
    "Content-Security-Policy": "default-src 'self'; script-src 'self' 'unsafe-inline'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@get(["/docs", "/docs/{page:path}"], include_in_schema=False)
async def documentation(request: ApiRequest, page: FromPath[str] = "") -> Response[None] | File:
    """Return a file of the built documentation; the page of a folder is its `index.html`."""
    found = await asyncio.to_thread(_find, request.services.settings.docs, page)
    if found.name == _INDEX and not _address(request).endswith((b"/", _INDEX.encode())):
        # links of a page are relative to its folder, whose address ends in a slash
        return Redirect(f"{found.parent.name if page else 'docs'}/", status_code=307)
    return File(found, filename=found.name, content_disposition_type="inline", headers=_HEADERS)


def _address(request: ApiRequest) -> bytes:
    """Return the path of a request as it was sent; Litestar removes its last slash from `path`."""
    return request.scope["raw_path"].partition(b"?")[0]


def _find(site: Path, page: str) -> Path:
    """Return the file of a page. Raises ApiError NOT_FOUND if there is none, or if it is outside the site."""
    site = site.resolve()
    if not (site / _INDEX).is_file():
        raise ApiError("NOT_FOUND", "this server has no built documentation; `make docs` builds it")
    with suppress(OSError, ValueError):  # too long, or with a character that no file name has
        file = (site / page.lstrip("/")).resolve()
        file = file / _INDEX if file.is_dir() else file
        if file.is_relative_to(site) and file.is_file():
            return file
    raise ApiError("NOT_FOUND", "there is no such page in the documentation")
