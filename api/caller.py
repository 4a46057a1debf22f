"""Who sends a request: whose data it may reach, and what it may do there."""

from typing import Any, Literal, TypeAlias

from litestar import Request
from msgspec import Struct

Role: TypeAlias = Literal["app", "author", "analyst", "admin"]

TENANT = "default"
"""Whose data it is where nothing says otherwise: for scripts of the folder, commands, a server without keys."""


class Caller(Struct, frozen=True):
    """Every read and write of a request is of this tenant; with a `user_id` of this user alone."""

    tenant: str = TENANT
    roles: frozenset[Role] = frozenset({"app", "author", "analyst", "admin"})
    user_id: str | None = None


ANYONE = Caller()
"""Who asks a server without keys."""


def caller_of(request: Request[Any, Any, Any]) -> Caller:
    """Who sends this request."""
    caller: Caller = request.scope["state"].get("caller", ANYONE)
    return caller


def tenant_of(request: Request[Any, Any, Any]) -> str:
    """Whose data a request is about."""
    return caller_of(request).tenant
