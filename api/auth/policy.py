"""The table of the roles that may use each route. A route that is not in it is for `admin` only."""

from collections.abc import Mapping

from msgspec import Struct

from api.schemas.keys import Role


class RoutePolicy(Struct, frozen=True):
    """The access policy of a route."""

    roles: frozenset[Role] = frozenset()
    """One of these is enough; `admin` may use every route."""
    is_open: bool = False
    """The route needs no key."""
    checks_user: bool = False
    """The route has no `userId` or `sessionId` in its path and checks the bound user itself (`user_for`)."""
    is_counted: bool = True
    """The route counts against the rate limit of a key or an address."""
    is_of_server: bool = False
    """The route concerns all tenants, so it is only for the tenant of the server itself."""


def _for(*roles: Role, checks_user: bool = False) -> RoutePolicy:
    return RoutePolicy(frozenset({*roles, "admin"}), checks_user=checks_user)


OPEN = RoutePolicy(is_open=True)
PROBE = RoutePolicy(is_open=True, is_counted=False)  # health checks, perhaps through a proxy
ADMIN = _for()
SERVER = RoutePolicy(ADMIN.roles, is_of_server=True)
APP = _for("app")
APP_READER = _for("app", "reader")  # messages, values of variables, user ids
APP_ANALYST_READER = _for("app", "analyst", "reader")  # no texts or values
AUTHOR = _for("author")
ALL_ROLES = _for("app", "author", "analyst", "reader")
OWN_APP_READER = _for("app", "reader", checks_user=True)
ANALYST_READER = _for("analyst", "reader")
OWN_APP = _for("app", checks_user=True)

ROUTE_POLICIES: Mapping[str, RoutePolicy] = {
    "POST /api/sessions": _for("app", checks_user=True),
    "GET /api/sessions": OWN_APP_READER,
    "GET /api/sessions/{sessionId}": APP_READER,
    "POST /api/sessions/{sessionId}/messages": APP,
    "GET /api/sessions/{sessionId}/messages": APP_READER,
    "GET /api/sessions/{sessionId}/variables": APP_READER,
    "GET /api/sessions/{sessionId}/events": APP_READER,
    "GET /api/sessions/{sessionId}/calls": _for("author", "reader"),
    "POST /api/sessions/{sessionId}/migrate": AUTHOR,
    "POST /api/sessions/{sessionId}/migrate/undo": AUTHOR,
    "DELETE /api/sessions/{sessionId}": APP,
    "POST /api/sessions/by-key": APP,
    "GET /api/sessions/by-key": APP_READER,
    "PATCH /api/sessions/{sessionId}": APP,
    "PATCH /api/sessions/{sessionId}/variables": APP,
    "POST /api/sessions/{sessionId}/pause": APP,
    "POST /api/sessions/{sessionId}/resume": APP,
    "POST /api/sessions/{sessionId}/end": APP,
    "POST /api/sessions/{sessionId}/clear": APP,
    "POST /api/sessions/{sessionId}/rewind": APP,
    "POST /api/sessions/{sessionId}/fork": APP,
    "POST /api/sessions/{sessionId}/messages/append": APP,
    "GET /api/sessions/{sessionId}/snapshots": APP_READER,
    "GET /api/sessions/{sessionId}/snapshots/{turn}": APP_READER,
    "GET /api/sessions/search": OWN_APP_READER,
    "GET /api/sessions/{sessionId}/stats": APP_ANALYST_READER,
    "GET /api/sessions/{sessionId}/context": APP_READER,
    "GET /api/sessions/{sessionId}/history": APP_READER,
    "POST /api/sessions/{sessionId}/compress": APP,
    "GET /api/sessions/{sessionId}/export": _for("author", "reader"),  # contains raw replies of models
    "POST /api/sessions/import": _for("author", checks_user=True),
    "GET /api/users/{userId}/sessions": APP_READER,
    "GET /api/users/{userId}/variables": APP_READER,
    "PATCH /api/users/{userId}/variables": APP,
    "GET /api/users/{userId}/export": ADMIN,
    "DELETE /api/users/{userId}": ADMIN,
    "POST /api/memory/units": OWN_APP,
    "GET /api/memory/units": OWN_APP_READER,
    "GET /api/memory/units/{unitId}": OWN_APP_READER,
    "PATCH /api/memory/units/{unitId}": OWN_APP,
    "DELETE /api/memory/units/{unitId}": OWN_APP,
    "POST /api/memory/search": OWN_APP,  # counts visits
    "POST /api/memory/groups": OWN_APP,
    "GET /api/memory/groups": OWN_APP_READER,
    "GET /api/memory/groups/{groupId}": OWN_APP_READER,
    "DELETE /api/memory/groups/{groupId}": OWN_APP,
    "GET /api/memory/groups/{groupId}/context": OWN_APP_READER,
    "POST /api/memory/groups/{groupId}/restore": OWN_APP,
    "POST /api/memory/summarise": OWN_APP,
    "POST /api/memory/forget": OWN_APP,
    "POST /api/memory/embed": OWN_APP,
    "GET /api/memory/jobs": OWN_APP_READER,
    "GET /api/memory/jobs/{jobId}": OWN_APP_READER,
    "GET /api/memory/status": OWN_APP_READER,
    "GET /api/memory/export": OWN_APP_READER,
    "POST /api/memory/import": OWN_APP,
    "GET /api/operations/compact": SERVER,
    "POST /api/operations/compact": SERVER,
    "GET /api/operations/retention": SERVER,
    "POST /api/operations/retention": SERVER,
    "GET /api/operations/verify": SERVER,
    "POST /api/operations/verify/fix": SERVER,
    "POST /api/scripts": AUTHOR,
    "POST /api/scripts/import": AUTHOR,
    "GET /api/scripts": ALL_ROLES,
    "GET /api/scripts/{scriptId}": ALL_ROLES,
    "PATCH /api/scripts/{scriptId}": AUTHOR,
    "POST /api/scripts/{scriptId}/publish": AUTHOR,
    "POST /api/scripts/{scriptId}/archive": AUTHOR,
    "GET /api/scripts/{scriptId}/versions": ALL_ROLES,
    "GET /api/scripts/{scriptId}/versions/{version}": ALL_ROLES,
    "GET /api/scripts/{scriptId}/diff": ALL_ROLES,
    "POST /api/scripts/validate": AUTHOR,
    "POST /api/scripts/{scriptId}/validate": AUTHOR,
    "GET /api/webhooks": ADMIN,
    "POST /api/webhooks": ADMIN,
    "GET /api/webhooks/{webhookId}": ADMIN,
    "PATCH /api/webhooks/{webhookId}": ADMIN,
    "DELETE /api/webhooks/{webhookId}": ADMIN,
    "GET /api/webhooks/{webhookId}/deliveries": ADMIN,
    "GET /api/webhooks/{webhookId}/deliveries/{deliveryId}": ADMIN,
    "POST /api/webhooks/{webhookId}/deliveries/{deliveryId}/replay": ADMIN,
    "POST /api/webhooks/{webhookId}/replay": ADMIN,
    "POST /api/webhooks/{webhookId}/rotate-secret": ADMIN,
    "POST /api/webhooks/{webhookId}/test": ADMIN,
    "POST /api/keys": ADMIN,
    "GET /api/keys": ADMIN,
    "DELETE /api/keys/{keyId}": ADMIN,
    "GET /api/analytics/model": ANALYST_READER,
    "GET /api/analytics/status": ANALYST_READER,
    "POST /api/analytics/query": ANALYST_READER,
    "GET /api/analytics/reports": ANALYST_READER,
    "GET /api/analytics/reports/{report}": ANALYST_READER,
    "GET /api/analytics/snapshot": ANALYST_READER,
    "GET /health": PROBE,
    "GET /ready": PROBE,
    "GET /metrics": SERVER,
}
"""By method and path; the path is spelt as at /schema."""

DEBUGGING: frozenset[Role] = frozenset({"author", "admin"})
"""Roles that may read prompts and raw replies."""


def policy_of(method: str, path: str) -> RoutePolicy:
    """Return the policy of a route; the OpenAPI description, the documentation and OPTIONS are open."""
    if method == "OPTIONS" or path.split("/")[1] in {"schema", "docs"}:
        return OPEN
    return ROUTE_POLICIES.get(f"{method} {path}", ADMIN)
