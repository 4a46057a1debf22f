"""The table of the roles that may use each route. A route that is not in it is for `admin` only."""

from collections.abc import Container, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from api.console.serve import OPEN_PATHS
from api.schemas.keys import AnyRole, Role


class RoutePolicy(Struct, frozen=True, forbid_unknown_fields=True):
    """The access policy of a route."""

    roles: frozenset[AnyRole] = frozenset()
    """One of these is enough; `admin` may use every route but those of participants."""
    is_open: bool = False
    """The route needs no key."""
    checks_user: bool = False
    """The route has no `userId` or `sessionId` in its path and checks the bound user itself (`user_for`)."""
    allows_bound: bool = True
    """A key that is bound to a user may use it."""
    is_counted: bool = True
    """The route counts against the rate limit of a key or an address."""
    has_ids: bool = True
    """What its path and query name are ids of rows, not files of pages."""
    is_of_server: bool = False
    """The route concerns all tenants, so it is only for the tenant of the server itself."""

    def takes_bound(self, path_parameters: Container[str]) -> bool:
        """Return whether a key that is bound to a user may use the route with these parameters in its path."""
        return self.allows_bound and (self.checks_user or "userId" in path_parameters or "sessionId" in path_parameters)


FILES = RoutePolicy(is_open=True, has_ids=False)
ADMIN = RoutePolicy(frozenset({"admin"}))
PARTICIPANT: frozenset[AnyRole] = frozenset({"participant"})


def _read(table: bytes) -> Mapping[str, RoutePolicy]:
    found = msgspec.yaml.decode(table, type=dict[str, RoutePolicy])
    without_admin = {route for route, policy in found.items() if policy.is_open or policy.roles == PARTICIPANT}
    return found | {
        route: replace(policy, roles=policy.roles | ADMIN.roles)
        for route, policy in found.items()
        if route not in without_admin
    }


ROUTE_POLICIES = _read(Path(__file__).with_name("route_policies.yaml").read_bytes())
"""By method and path; the path is spelt as at /schema."""

DEBUGGING: frozenset[Role] = frozenset({"author", "admin"})
"""Roles that may read prompts and raw replies."""


_FILES = OPEN_PATHS | {"schema", "docs"}


def policy_of(method: str, path: str) -> RoutePolicy:
    """Return the policy of a route; the OpenAPI description, the documentation, the pages and OPTIONS are open."""
    if method == "OPTIONS" or path.split("/")[1] in _FILES:
        return FILES
    return ROUTE_POLICIES.get(f"{method} {path}", ADMIN)
