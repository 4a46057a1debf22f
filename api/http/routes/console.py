"""Routes for pages: `/` and the screens of the console, the chat page of a link, the files that these load, and the
built documentation at `/docs`.
"""

import asyncio
from pathlib import Path
from typing import Any

from litestar import Response, get
from litestar.params import FromPath
from litestar.response import Redirect

from api.console.serve import (
    ASSETS,
    CHAT,
    CHATS,
    DOCUMENTATION_HEADERS,
    INDEX,
    SCREENS,
    WIDGET,
    WORKER,
    PageFile,
    file_response,
    find_file,
    frame_header,
    not_built,
)
from api.errors import ApiError
from api.http.request import ApiRequest

_SCREENS = ["/", *(path for screen in SCREENS for path in (f"/{screen}", f"/{screen}/{{place:path}}"))]


@get(_SCREENS, include_in_schema=False)
async def console(request: ApiRequest) -> Response[bytes] | Response[str]:
    """Return the page of the console, which shows the screen of its address."""
    return await _page(request, INDEX)


@get(f"/{CHATS}/{{link:str}}", include_in_schema=False)
async def chat_page(request: ApiRequest) -> Response[bytes] | Response[str]:
    """Return the page for participants; it reads the link from its address."""
    response = await _page(request, CHAT)
    response.headers.update(frame_header(request.services.settings.cors_origins))
    return response


@get(f"/{WIDGET}", include_in_schema=False)
async def widget(request: ApiRequest) -> Response[bytes] | Response[str]:
    """Return the script that shows the chat page in a page of another site."""
    return await _page(request, WIDGET)


@get(f"/{WORKER}", include_in_schema=False)
async def worker(request: ApiRequest) -> Response[bytes] | Response[str]:
    """Return the script that shows reminders while the chat page is closed."""
    return await _page(request, WORKER)


@get(f"/{ASSETS}/{{name:path}}", include_in_schema=False)
async def console_file(request: ApiRequest, name: FromPath[str]) -> Response[bytes]:
    """Return a script, a style sheet or an image of the console."""
    folder = request.services.settings.console / ASSETS
    file = await asyncio.to_thread(find_file, folder, name)
    if file is None:
        raise ApiError("NOT_FOUND", "the console has no such file; reload the page")
    return _response(request, file, is_hashed=True)


@get(["/docs", "/docs/{page:path}"], include_in_schema=False)
async def documentation(request: ApiRequest, page: FromPath[str] = "") -> Response[Any]:
    """Return a file of the site that `make docs` writes; the page of a folder is its `index.html`."""
    site = request.services.settings.docs
    file = await asyncio.to_thread(find_file, site, page)
    if file is None:
        file = await asyncio.to_thread(find_file, site, f"{page}/{INDEX}")
        # links of a page are relative to its folder, whose address ends in a slash; Litestar removes it from `path`
        if file is not None and not request.scope["raw_path"].partition(b"?")[0].endswith(b"/"):
            return Redirect(f"{Path(page).name or 'docs'}/", status_code=307)
    if file is None:
        if await asyncio.to_thread(find_file, site, INDEX) is None:
            raise ApiError("NOT_FOUND", "this server has no built documentation; `make docs` builds it")
        raise ApiError("NOT_FOUND", "there is no such page in the documentation")
    response = _response(request, file, is_hashed=False)
    response.headers.update(DOCUMENTATION_HEADERS)
    return response


async def _page(request: ApiRequest, name: str) -> Response[bytes] | Response[str]:
    file = await asyncio.to_thread(find_file, request.services.settings.console, name)
    return not_built() if file is None else _response(request, file, is_hashed=False)


def _response(request: ApiRequest, file: PageFile, *, is_hashed: bool) -> Response[bytes]:
    headers = request.headers
    return file_response(
        file,
        is_hashed=is_hashed,
        if_none_match=headers.get("if-none-match", ""),
        accept_encoding=headers.get("accept-encoding", ""),
    )
