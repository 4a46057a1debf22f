"""Keys of the API, as clients send and get them."""

from datetime import datetime
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from api.caller import ROLES, Role
from api.schemas.base import Body, Id, View

Roles: TypeAlias = Annotated[list[Role], Meta(min_length=1, max_length=len(ROLES))]


class NewKey(Body, frozen=True, kw_only=True):
    """A key to be made."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    roles: Annotated[list[Role], Meta(min_length=1, max_length=len(ROLES))] = msgspec.field(
        default_factory=lambda: ["app"]
    )
    user_id: Id | None = None
    expires_days: Annotated[int, Meta(ge=1, le=36_500)] | None = None


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


class KeyMade(KeyView, frozen=True, kw_only=True):
    """A new key. Its text is shown here and never again."""

    key: str


class KeyList(View, frozen=True, kw_only=True):
    """A page of keys."""

    data: list[KeyView]
    next_cursor: str | None
