"""Keys of the API: make, list, revoke."""

from typing import Annotated, Any

from litestar import Request, Response, Router, delete, get, post
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg, FromPath

from api.access.keys import Keys
from api.caller import tenant_of
from api.errors import described
from api.parameters import Cursor, Limit
from api.schemas.keys import KeyList, KeyMade, KeyView, NewKey
from store.rows import KeyRow

_EXAMPLES = [
    Example(summary="For an application", value={"name": "our app"}),
    Example(summary="For one user, for a day", value={"name": "ana's browser", "userId": "ana", "expiresDays": 1}),
]


@post(
    "/keys",
    status_code=201,
    summary="Make a key",
    description="Of the tenant of the key that asks. With the first key the server asks everybody for one.",
    responses=described("REQUEST_INVALID", "PAYLOAD_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE", "SERVER_BUSY"),
)
async def make_key(
    data: Annotated[NewKey, BodyKwarg(examples=_EXAMPLES)],
    keys: NamedDependency[Keys],
    request: Request[Any, Any, Any],
) -> Response[KeyMade]:
    """Makes a key, and shows its text this once."""
    made = await keys.make(tenant_of(request), data)
    return Response(KeyMade(**_fields(made.row), key=made.text), headers={"Cache-Control": "no-store"})


@get("/keys", summary="List keys", responses=described("REQUEST_INVALID"))
async def list_keys(
    keys: NamedDependency[Keys], request: Request[Any, Any, Any], limit: Limit = 50, cursor: Cursor = None
) -> KeyList:
    """A page of keys, the newest first, also those that were revoked."""
    page = await keys.page(tenant_of(request), limit, cursor)
    return KeyList(data=[KeyView(**_fields(row)) for row in page.rows], next_cursor=page.next)


@delete(
    "/keys/{key_id:str}", summary="Revoke a key", responses=described("REQUEST_INVALID", "KEY_NOT_FOUND", "SERVER_BUSY")
)
async def revoke_key(key_id: FromPath[str], keys: NamedDependency[Keys], request: Request[Any, Any, Any]) -> None:
    """Revokes a key at once."""
    await keys.revoke(tenant_of(request), key_id)


def _fields(row: KeyRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in KeyView.__struct_fields__}


router = Router("/api", route_handlers=[make_key, list_keys, revoke_key], tags=["Access"])
