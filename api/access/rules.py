"""Which roles may use which route: one table. A route that is not in it is for `admin` alone."""

from collections.abc import Mapping

from msgspec import Struct

from api.caller import TENANT, Caller, Role
from api.errors import ApiError

_NOT_OTHERS = "this key is bound to another user"


class Rule(Struct, frozen=True):
    """Who may use a route."""

    roles: frozenset[Role] = frozenset()
    """One of these is enough; `admin` may do everything."""
    is_open: bool = False
    """It asks for no key."""
    keeps_to_user: bool = False
    """It has no `user_id` or `session_id` in its path, and minds by itself whom a caller is bound to (`user_for`)."""
    is_counted: bool = True
    """It counts against what a key or an address may ask for."""
    is_of_server: bool = False
    """It is about all tenants, so it is only for those who are of the tenant of the server itself."""


def _for(*roles: Role, keeps_to_user: bool = False) -> Rule:
    return Rule(frozenset({*roles, "admin"}), keeps_to_user=keeps_to_user)


OPEN = Rule(is_open=True)
WATCHED = Rule(
    is_open=True, is_counted=False
)  # by what restarts a server that does not answer, through a proxy perhaps
ADMIN = _for()
SERVER = Rule(ADMIN.roles, is_of_server=True)
TALKING = _for("app")
READING = _for("app", "reader")  # what was said, what variables hold, whose it is
COUNTING = _for("app", "analyst", "reader")  # without a word of it
WRITING = _for("author")
LOOKING_UP = _for("app", "author", "analyst", "reader")
FINDING = _for("app", "reader", keeps_to_user=True)
ANALYSING = _for("analyst", "reader")
REMEMBERING = _for("app", keeps_to_user=True)

RULES: Mapping[str, Rule] = {
    "POST /api/sessions": _for("app", keeps_to_user=True),
    "GET /api/sessions": FINDING,
    "GET /api/sessions/{session_id}": READING,
    "POST /api/sessions/{session_id}/messages": TALKING,
    "GET /api/sessions/{session_id}/messages": READING,
    "GET /api/sessions/{session_id}/variables": READING,
    "GET /api/sessions/{session_id}/events": READING,
    "GET /api/sessions/{session_id}/calls": _for("author", "reader"),
    "POST /api/sessions/{session_id}/migrate": WRITING,
    "POST /api/sessions/{session_id}/migrate/undo": WRITING,
    "DELETE /api/sessions/{session_id}": TALKING,
    "POST /api/sessions/by-key": TALKING,
    "GET /api/sessions/by-key": READING,
    "PATCH /api/sessions/{session_id}": TALKING,
    "PATCH /api/sessions/{session_id}/variables": TALKING,
    "POST /api/sessions/{session_id}/pause": TALKING,
    "POST /api/sessions/{session_id}/resume": TALKING,
    "POST /api/sessions/{session_id}/end": TALKING,
    "POST /api/sessions/{session_id}/clear": TALKING,
    "POST /api/sessions/{session_id}/rewind": TALKING,
    "POST /api/sessions/{session_id}/fork": TALKING,
    "POST /api/sessions/{session_id}/messages/append": TALKING,
    "GET /api/sessions/{session_id}/snapshots": READING,
    "GET /api/sessions/{session_id}/snapshots/{turn}": READING,
    "GET /api/sessions/search": FINDING,
    "GET /api/sessions/{session_id}/stats": COUNTING,
    "GET /api/sessions/{session_id}/context": READING,
    "GET /api/sessions/{session_id}/history": READING,
    "POST /api/sessions/{session_id}/compress": TALKING,
    "GET /api/sessions/{session_id}/export": _for("author", "reader"),  # it holds raw replies of models
    "POST /api/sessions/import": _for("author", keeps_to_user=True),
    "GET /api/users/{user_id}/sessions": READING,
    "GET /api/users/{user_id}/variables": READING,
    "PATCH /api/users/{user_id}/variables": TALKING,
    "GET /api/users/{user_id}/export": ADMIN,
    "DELETE /api/users/{user_id}": ADMIN,
    "POST /api/memory/units": REMEMBERING,
    "GET /api/memory/units": FINDING,
    "GET /api/memory/units/{unit_id}": FINDING,
    "PATCH /api/memory/units/{unit_id}": REMEMBERING,
    "DELETE /api/memory/units/{unit_id}": REMEMBERING,
    "POST /api/memory/search": REMEMBERING,  # it visits
    "POST /api/memory/groups": REMEMBERING,
    "GET /api/memory/groups": FINDING,
    "GET /api/memory/groups/{group_id}": FINDING,
    "DELETE /api/memory/groups/{group_id}": REMEMBERING,
    "GET /api/memory/groups/{group_id}/context": FINDING,
    "POST /api/memory/groups/{group_id}/restore": REMEMBERING,
    "POST /api/memory/summarise": REMEMBERING,
    "POST /api/memory/forget": REMEMBERING,
    "POST /api/memory/embed": REMEMBERING,
    "GET /api/memory/jobs": FINDING,
    "GET /api/memory/jobs/{job_id}": FINDING,
    "GET /api/memory/status": FINDING,
    "GET /api/memory/export": FINDING,
    "POST /api/memory/import": REMEMBERING,
    "GET /api/operations/memory": SERVER,
    "POST /api/operations/memory/repair": SERVER,
    "GET /api/operations/compact": SERVER,
    "POST /api/operations/compact": SERVER,
    "GET /api/operations/retention": SERVER,
    "POST /api/operations/retention": SERVER,
    "GET /api/operations/verify": SERVER,
    "POST /api/scripts": WRITING,
    "POST /api/scripts/import": WRITING,
    "GET /api/scripts": LOOKING_UP,
    "GET /api/scripts/{script_id}": LOOKING_UP,
    "PATCH /api/scripts/{script_id}": WRITING,
    "POST /api/scripts/{script_id}/publish": WRITING,
    "POST /api/scripts/{script_id}/archive": WRITING,
    "GET /api/scripts/{script_id}/versions": LOOKING_UP,
    "GET /api/scripts/{script_id}/versions/{version}": LOOKING_UP,
    "GET /api/scripts/{script_id}/diff": LOOKING_UP,
    "POST /api/scripts/validate": WRITING,
    "POST /api/scripts/{script_id}/validate": WRITING,
    "GET /api/webhooks": ADMIN,
    "POST /api/webhooks": ADMIN,
    "GET /api/webhooks/{webhook_id}": ADMIN,
    "PATCH /api/webhooks/{webhook_id}": ADMIN,
    "DELETE /api/webhooks/{webhook_id}": ADMIN,
    "GET /api/webhooks/{webhook_id}/deliveries": ADMIN,
    "GET /api/webhooks/{webhook_id}/deliveries/{delivery_id}": ADMIN,
    "POST /api/webhooks/{webhook_id}/deliveries/{delivery_id}/replay": ADMIN,
    "POST /api/webhooks/{webhook_id}/replay": ADMIN,
    "POST /api/webhooks/{webhook_id}/rotate-secret": ADMIN,
    "POST /api/webhooks/{webhook_id}/test": ADMIN,
    "POST /api/keys": ADMIN,
    "GET /api/keys": ADMIN,
    "DELETE /api/keys/{key_id}": ADMIN,
    "GET /api/analytics/model": ANALYSING,
    "GET /api/analytics/status": ANALYSING,
    "POST /api/analytics/query": ANALYSING,
    "GET /api/analytics/reports": ANALYSING,
    "GET /api/analytics/reports/{report}": ANALYSING,
    "GET /api/analytics/snapshot": ANALYSING,
    "GET /api/analytics/days": ANALYSING,
    "GET /api/analytics/tables/{table}": ANALYSING,
    "GET /api/analytics/archive": ANALYSING,
    "GET /health": WATCHED,
    "GET /ready": WATCHED,
    "GET /metrics": SERVER,
}
"""By method and path, as the path is described at /schema."""

DEBUGGING: frozenset[Role] = frozenset({"author", "admin"})
"""Who may see prompts and raw replies."""


def rule_of(method: str, path: str) -> Rule:
    """Who may use a route; the description of the API and questions about methods are open."""
    if method == "OPTIONS" or path.split("/")[1] == "schema":
        return OPEN
    return RULES.get(f"{method} {path}", ADMIN)


def check(rule: Rule, caller: Caller, path_parameters: Mapping[str, object]) -> None:
    """Whether a caller may use a route, as far as its path tells. Raises ApiError FORBIDDEN."""
    if rule.roles.isdisjoint(caller.roles):
        needed = " or ".join(sorted(rule.roles))
        raise ApiError("FORBIDDEN", f"this takes the role {needed}")
    if rule.is_of_server and caller.tenant != TENANT:
        raise ApiError("FORBIDDEN", f"this is for the tenant {TENANT} alone")
    if caller.user_id is None:
        return
    if "user_id" in path_parameters:
        if path_parameters["user_id"] != caller.user_id:
            raise ApiError("FORBIDDEN", _NOT_OTHERS)
    elif "session_id" not in path_parameters and not rule.keeps_to_user:
        raise ApiError("FORBIDDEN", "this is not for keys that are bound to a user")
