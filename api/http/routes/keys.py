"""Routes for API keys: create, list, revoke."""

from litestar import Response, delete, get, post
from litestar.params import JSONBody

from api.errors import ApiError
from api.http.request import ApiRequest, Cursor, KeyId, Limit, location
from api.schemas.keys import KeyList, KeyView, KeyWithText, NewKey


@post("/keys", status_code=201, summary="Create a key", response_headers=[location("The URL of the key.")])
async def make_key(data: JSONBody[NewKey], request: ApiRequest) -> Response[KeyWithText]:
    """Creates a key of the caller's tenant. Once the first key exists, every request needs a key."""
    created = await request.services.keys.make(request.tenant, data)
    headers = {"Cache-Control": "no-store", "Location": f"/api/keys/{created.row.key_id}"}
    return Response(KeyWithText.of(created.row, key=created.text), headers=headers)


@get("/keys", summary="List keys")
async def list_keys(request: ApiRequest, limit: Limit = 50, cursor: Cursor = None) -> KeyList:
    """Return a page of keys, including revoked ones, the newest first."""
    page = await request.services.store.keys.page(request.tenant, limit=limit, cursor=cursor)
    return KeyList(data=[KeyView.of(row) for row in page.rows], next_cursor=page.next)


@get("/keys/{keyId:str}", summary="Read a key")
async def get_key(key_id: KeyId, request: ApiRequest) -> KeyView:
    """Return a key without its text, also one that is revoked."""
    row = await request.services.store.keys.get(request.tenant, key_id)
    if row is None:
        raise ApiError("KEY_NOT_FOUND", "there is no such key")
    return KeyView.of(row)


@delete("/keys/{keyId:str}", summary="Revoke a key")
async def revoke_key(key_id: KeyId, request: ApiRequest) -> None:
    """Revoke a key at once."""
    await request.services.keys.revoke(request.tenant, key_id)
