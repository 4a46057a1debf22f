"""The principal of a request: its tenant, user and roles."""

from typing import Any, Final

from litestar import Request
from msgspec import Struct

from api.errors import ApiError
from api.schemas.ids import TENANT
from api.schemas.keys import ROLES, AnyRole, Role
from store.interface.participant_rows import ParticipantRow

READERS: frozenset[Role] = frozenset({"reader", "admin"})
"""Roles that may read all texts and values unmasked."""


CALLER: Final = "caller"
"""The name of the principal in the state of a request's scope."""
REVOCATION = "ending"
"""The key in the state of a request's scope of the event that ends its stream when the key is revoked."""


class Principal(Struct, frozen=True):
    """The sender of a request. Every read and write is limited to its tenant, and with a `user_id` to this user."""

    tenant: str = TENANT
    roles: frozenset[AnyRole] = ROLES
    user_id: str | None = None
    name: str = ""
    """The name of a key or token, for limits; empty for anonymous senders."""
    label: str = ""
    """The name that people gave the key, or the subject of a token that is bound to no user; empty for others."""
    participant: ParticipantRow | None = None
    """With the role `participant`: the person, and the one session that is accessible."""

    @property
    def person(self) -> str:
        """The name under which a person rates or talks: that of the key, which may be renewed under the same name."""
        return self.label or self.name or "anonymous"

    @property
    def may_read(self) -> bool:
        """Return whether it may read all texts and values, including those of `pii` variables."""
        return not self.roles.isdisjoint(READERS)


ANONYMOUS_ADMIN = Principal()
"""The principal of a server without keys."""

ANONYMOUS = Principal(roles=frozenset())
"""The principal of a request without a key to a server with keys."""


def principal_of(request: Request[Any, Any, Any]) -> Principal:
    """Return the principal of a request."""
    principal: Principal = request.scope["state"][CALLER]
    return principal


def participant_of(request: Request[Any, Any, Any]) -> ParticipantRow:
    """Return the participant that sent a request. Raises ApiError FORBIDDEN for another sender."""
    participant = principal_of(request).participant
    if participant is None:
        raise ApiError("FORBIDDEN", "this requires the token of a participant")
    return participant


def masks(principal: Principal, mask: bool | None) -> bool:
    """Return whether data is masked for a principal: by default not for a reader, and always for others.

    Raises ApiError FORBIDDEN if another role requests unmasked data.
    """
    if mask is False and not principal.may_read:
        raise ApiError("FORBIDDEN", f"unmasked data requires the role {' or '.join(sorted(READERS))}")
    return bool(mask) or not principal.may_read


def user_for(request: Request[Any, Any, Any], user_id: str | None) -> str | None:
    """Return the user of a list or a new session if the path names none: for a principal bound to a user always this
    user, else `user_id`. Raises ApiError FORBIDDEN for another user.
    """
    bound_to = principal_of(request).user_id
    if bound_to is not None and user_id not in {None, bound_to}:
        raise ApiError("FORBIDDEN", "this key is bound to another user")
    return user_id if bound_to is None else bound_to


def memory_of(request: Request[Any, Any, Any], user_id: str) -> tuple[str, str]:
    """Return the tenant and user of the memory of a request. Raises ApiError FORBIDDEN."""
    user_for(request, user_id)
    return principal_of(request).tenant, user_id


def check_trust_level(request: Request[Any, Any, Any]) -> None:
    """Raise ApiError FORBIDDEN if the principal may not set trust level `own`: a key that is bound to a user may be in
    any browser.
    """
    if principal_of(request).user_id is not None:
        raise ApiError("FORBIDDEN", "this key is bound to a user and cannot add units as the application's own")


def check_session_key(request: Request[Any, Any, Any], key: str | None) -> None:
    """Raise ApiError FORBIDDEN if a principal that is bound to a user names a session key. These are unique in the
    tenant, so a user could learn which ones exist, and take those that the application needs.
    """
    if key is not None and principal_of(request).user_id is not None:
        raise ApiError("FORBIDDEN", "a key or token that is bound to a user cannot set the key of a session")
