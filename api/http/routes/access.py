"""Routes for API keys, and by which a browser signs in with a key, signs out, and learns what it may do."""

from typing import Final

from litestar import Response, delete, get, post
from litestar.datastructures import Cookie
from litestar.params import JSONBody

from api.auth.authenticator import COOKIE
from api.auth.principal import Principal
from api.errors import require_found
from api.http.request import ApiRequest, Cursor, KeyId, Limit, also, creating
from api.schemas.keys import CallerView, KeyList, KeyView, KeyWithText, NewKey, SignIn

COOKIE_S: Final = 7 * 86_400
"""How long a browser keeps the key, in seconds."""


@creating("/keys", "Create a key", "the key")
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
    return KeyView.of(require_found(row, "KEY_NOT_FOUND", "there is no such key"))


@delete("/keys/{keyId:str}", summary="Revoke a key")
async def revoke_key(key_id: KeyId, request: ApiRequest) -> None:
    """Revoke a key at once."""
    await request.services.keys.revoke(request.tenant, key_id)


@post("/sign-in", status_code=200, summary="Sign in with a key")
async def sign_in(data: JSONBody[SignIn], request: ApiRequest) -> Response[CallerView]:
    """Checks a key and keeps it in a cookie that scripts of pages cannot read.

    Later requests of the browser need no `Authorization`. A request with the cookie that changes something must come
    from a page of this server.
    """
    authenticator = request.services.authenticator
    caller = _caller(request, authenticator.identify(data.key))
    # a server without keys has checked nothing: any text may stand there, also one that no header can contain
    cookies = [_cookie(request, data.key)] if authenticator.is_required else []
    return Response(caller, headers={"Cache-Control": "no-store"}, cookies=cookies)


@post(
    "/sign-out",
    status_code=204,
    responses=also(204, None, "The cookie is deleted."),  # else it would have a body of null
    summary="Sign out",
)
async def sign_out(request: ApiRequest) -> Response[None]:
    """Deletes the cookie. The key stays valid; revoke it if others may know it."""
    return Response(None, headers={"Cache-Control": "no-store"}, cookies=[_cookie(request, "", seconds=0)])


@get("/me", summary="Read the caller")
async def get_caller(request: ApiRequest) -> Response[CallerView]:
    """Return the tenant, roles and user of the caller."""
    return Response(_caller(request, request.principal), headers={"Cache-Control": "no-store"})


def _caller(request: ApiRequest, principal: Principal) -> CallerView:
    is_required = request.services.authenticator.is_required
    return CallerView.of(principal, roles=sorted(principal.roles), name=principal.person, keys_required=is_required)


def _cookie(request: ApiRequest, key: str, seconds: int = COOKIE_S) -> Cookie:
    """Return the cookie with a key. The page's own origin says whether TLS is used, also behind a proxy."""
    is_secure = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")
    return Cookie(COOKIE, path="/api", value=key, max_age=seconds, secure=is_secure, httponly=True, samesite="strict")
