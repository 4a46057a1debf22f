"""API keys and the roles that they grant."""

from datetime import datetime
from typing import Annotated, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta

from api.schemas.base import Body, Id, PageView, View

Role: TypeAlias = Literal["app", "author", "analyst", "reader", "admin"]
ROLES: frozenset[Role] = frozenset(get_args(Role))
AnyRole: TypeAlias = Role | Literal["participant"]
"""The role of participants is that of their tokens; no key has it."""


Roles: TypeAlias = Annotated[list[Role], Meta(min_length=1, max_length=len(ROLES))]


class NewKey(Body, frozen=True, kw_only=True):
    """A key to create."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    roles: Roles = msgspec.field(default_factory=lambda: ["app"])
    user_id: Id | None = None
    expires_days: Annotated[int, Meta(ge=1, le=36_500)] | None = None


class SignIn(Body, frozen=True, kw_only=True):
    """A key, or a token, to sign in with."""

    key: Annotated[str, Meta(min_length=1, max_length=4_000)]


class CallerView(View, frozen=True, kw_only=True):
    """The caller of the API: the holder of a key or token, or everybody on a server without keys."""

    tenant: str
    roles: list[AnyRole]
    user_id: str | None
    """The user that the key is bound to."""
    name: str
    """The name under which the caller rates and talks: that of the key."""
    keys_required: bool
    """Whether the server requires a key."""


class KeyView(View, frozen=True, kw_only=True):
    """A key, without its text."""

    key_id: str
    name: str
    roles: list[str]
    user_id: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class KeyWithText(KeyView, frozen=True, kw_only=True):
    """A new key with its text, which is not shown again."""

    key: str


class KeyList(PageView, frozen=True, kw_only=True):
    """A page of keys."""

    data: list[KeyView]
