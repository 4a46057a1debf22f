"""Routes by which a browser signs in with a key, signs out, and learns what it may do."""

from typing import Final

from litestar import Response, get, post
from litestar.datastructures import Cookie
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody

from api.auth.authenticator import COOKIE
from api.auth.principal import Principal
from api.http.request import ApiRequest
from api.schemas.keys import CallerView, SignIn

COOKIE_S: Final = 7 * 86_400
"""How long a browser keeps the key, in seconds."""


@post("/sign-in", status_code=200, summary="Sign in with a key")
async def sign_in(data: JSONBody[SignIn], request: ApiRequest) -> Response[CallerView]:
    """Checks a key and keeps it in a cookie that scripts of pages cannot read.

    Later requests of the browser need no `Authorization`. A request with the cookie that changes something must come
    from a page of this server.
    """
    principal = request.services.authenticator.identify(data.key)
    return Response(
        _caller(request, principal), headers={"Cache-Control": "no-store"}, cookies=[_cookie(request, data.key)]
    )


@post(
    "/sign-out",
    status_code=204,
    responses={204: ResponseSpec(None, description="The cookie is deleted.")},  # else it would have a body of null
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
    return CallerView(
        tenant=principal.tenant,
        roles=sorted(principal.roles),
        user_id=principal.user_id,
        name=principal.person,
        keys_required=request.services.authenticator.is_required,
    )


def _cookie(request: ApiRequest, key: str, seconds: int = COOKIE_S) -> Cookie:
    """Return the cookie with a key. The page's own origin says whether TLS is used, also behind a proxy."""
    is_secure = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")
    return Cookie(COOKIE, path="/api", value=key, max_age=seconds, secure=is_secure, httponly=True, samesite="strict")
