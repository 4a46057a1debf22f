"""Who sends a request: whose data it may reach, and what it may do there."""

from typing import Any, Literal, TypeAlias, get_args

from litestar import Request
from msgspec import Struct

from api.errors import ApiError

Role: TypeAlias = Literal["app", "author", "analyst", "reader", "admin"]
ROLES: frozenset[Role] = frozenset(get_args(Role))

READERS: frozenset[Role] = frozenset({"reader", "admin"})
"""Who may see all that was said and kept as it is, and so may ask for what is masked to be unmasked."""

TENANT = "default"
"""Whose data it is where nothing says otherwise: for scripts of the folder, commands, a server without keys."""


class Caller(Struct, frozen=True):
    """Every read and write of a request is of this tenant; with a `user_id` of this user alone."""

    tenant: str = TENANT
    roles: frozenset[Role] = ROLES
    user_id: str | None = None
    name: str = ""
    """Who it is, for limits: a key or a token; empty where nobody says who asks."""

    @property
    def may_read(self) -> bool:
        """Whether it may see all that was said and kept, also the values of `pii` variables."""
        return not self.roles.isdisjoint(READERS)


ANYONE = Caller()
"""Who asks a server without keys."""

NOBODY = Caller(roles=frozenset())
"""Who asks a server with keys without one of them."""


def caller_of(request: Request[Any, Any, Any]) -> Caller:
    """Who sends this request."""
    caller: Caller = request.scope["state"]["caller"]
    return caller


def masks(caller: Caller, wanted: bool | None) -> bool:
    """Whether a caller gets something masked: whoever may read all of it only where that is `wanted`, anybody else
    always. Raises ApiError FORBIDDEN.
    """
    if wanted is False and not caller.may_read:
        raise ApiError("FORBIDDEN", f"unmasked takes the role {' or '.join(sorted(READERS))}")
    return bool(wanted) or not caller.may_read


def tenant_of(request: Request[Any, Any, Any]) -> str:
    """Whose data a request is about."""
    return caller_of(request).tenant


def user_for(request: Request[Any, Any, Any], wanted: str | None) -> str | None:
    """The user a list or a new session is for, where a path does not name one: a caller that is bound to a user gets
    this user's, and is refused any other's. Raises ApiError FORBIDDEN.
    """
    bound_to = caller_of(request).user_id
    if bound_to is not None and wanted not in {None, bound_to}:
        raise ApiError("FORBIDDEN", "this key is bound to another user")
    return wanted if bound_to is None else bound_to


def memory_of(request: Request[Any, Any, Any], wanted: str | None) -> tuple[str, str]:
    """Whose memory a request is about: its tenant and user. Raises ApiError FORBIDDEN, REQUEST_INVALID."""
    user_id = user_for(request, wanted)
    if not user_id:
        raise ApiError("REQUEST_INVALID", "userId: say whose memory it is")
    return tenant_of(request), user_id


def check_vouches(request: Request[Any, Any, Any]) -> None:
    """Whether who asks may say that words are the application's own: a key that is bound to a user may be in anybody's
    browser. Raises ApiError FORBIDDEN.
    """
    if caller_of(request).user_id is not None:
        raise ApiError(
            "FORBIDDEN", "this key is bound to a user: nothing it brings is trusted as the application's own"
        )
