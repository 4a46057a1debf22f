"""Pages of lists, and the cursors that clients send back to read the next page."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Generic, TypeVar

import msgspec

from store.interface.errors import CursorInvalid

R = TypeVar("R", bound=msgspec.Struct)
T = TypeVar("T")
PAGE_MAX = 1_000
"""Maximum number of rows in one result, whatever limit was requested."""


class Page(msgspec.Struct, Generic[R], frozen=True):
    """A page of a list, and the cursor of the next page; null on the last page."""

    rows: list[R]
    next: str | None


def clamp_limit(limit: int) -> int:
    """Return `limit`, but at least 1 and at most PAGE_MAX."""
    return max(1, min(limit, PAGE_MAX))


def cursor_of(position: object) -> str:
    """Encode a position in a list as a cursor, which clients send back."""
    return urlsafe_b64encode(msgspec.json.encode(position)).decode()


def position_of(cursor: str, kind: type[T]) -> T:
    """Decode the position from a cursor; `kind` is the type of the sort key. Raises CursorInvalid."""
    try:
        return msgspec.json.decode(urlsafe_b64decode(cursor), type=kind)
    except ValueError as error:  # the base class of msgspec's and base64's errors
        raise CursorInvalid(f"{cursor!r} is not a cursor of this list") from error


async def all_pages(read: Callable[..., Awaitable[Page[R]]], limit: int) -> AsyncIterator[list[R]]:
    """Yield the rows of a list, page by page; `read` takes a limit and a cursor."""
    cursor: str | None = None
    while True:
        page = await read(limit=limit, cursor=cursor)
        yield page.rows
        cursor = page.next
        if cursor is None:
            return
