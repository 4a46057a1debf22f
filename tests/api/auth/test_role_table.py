"""Who may use which route: a table written by hand, and every route tried with every kind of key.

Nothing here is read from the rules of the server: a changed rule or a new route fails until the table has it.
"""

import re
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from api.schemas.keys import ROLES
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp
from tests.support.query_parameters import QueryParameters

TABLE = """\
route                                                         none app author analyst reader admin tenant own other part
GET /health                                                     yes  yes yes    yes     yes    yes   yes    yes yes yes
GET /ready                                                      yes  yes yes    yes     yes    yes   yes    yes yes yes
GET /schema/script.json                                         yes  yes yes    yes     yes    yes   yes    yes yes yes
GET /metrics                                                    401  403 403    403     403    yes   403    403 403 403
GET /api/me                                                     401  yes yes    yes     yes    yes   yes    yes yes 403
POST /api/sign-in                                               yes  yes yes    yes     yes    yes   yes    yes yes yes
POST /api/sign-out                                              yes  yes yes    yes     yes    yes   yes    yes yes yes
GET /api/sessions                                               401  yes 403    403     yes    yes   yes    yes 403 403
POST /api/sessions                                              401  yes 403    403     403    yes   yes    yes 403 403
GET /api/sessions/{sessionId}/messages                         401  yes 403    403     yes    yes   yes    yes 404 403
POST /api/sessions/{sessionId}/messages                        401  yes 403    403     403    yes   yes    yes 404 403
GET /api/sessions/{sessionId}                                  401  yes 403    403     yes    yes   yes    yes 404 403
DELETE /api/sessions/{sessionId}                               401  yes 403    403     403    yes   yes    yes 404 403
PATCH /api/sessions/{sessionId}                                401  yes 403    403     403    yes   yes    yes 404 403
GET /api/sessions/{sessionId}/variables                        401  yes 403    403     yes    yes   yes    yes 404 403
PATCH /api/sessions/{sessionId}/variables                      401  yes 403    403     403    yes   yes    yes 404 403
GET /api/sessions/{sessionId}/calls                            401  403 yes    403     yes    yes   yes    yes 404 403
GET /api/sessions/search                                        401  yes 403    403     yes    yes   yes    yes 403 403
GET /api/sessions/{sessionId}/stats                            401  yes 403    yes     yes    yes   yes    yes 404 403
GET /api/sessions/by-key                                        401  yes 403    403     yes    yes   yes    403 403 403
POST /api/sessions/by-key                                       401  yes 403    403     403    yes   yes    403 403 403
POST /api/sessions/{sessionId}/pause                           401  yes 403    403     403    yes   yes    yes 404 403
POST /api/sessions/{sessionId}/resume                          401  yes 403    403     403    yes   yes    yes 404 403
POST /api/sessions/{sessionId}/end                             401  yes 403    403     403    yes   yes    yes 404 403
POST /api/sessions/{sessionId}/rewind                          401  yes 403    403     403    yes   yes    yes 404 403
POST /api/sessions/{sessionId}/clear                           401  yes 403    403     403    yes   yes    yes 404 403
POST /api/sessions/{sessionId}/messages/append                 401  yes 403    403     403    yes   yes    yes 404 403
POST /api/sessions/{sessionId}/fork                            401  yes 403    403     403    yes   yes    yes 404 403
GET /api/timers                                                 401  yes 403    403     yes    yes   yes    yes 403 403
POST /api/sessions/{sessionId}/timers/fire                     401  yes 403    403     403    yes   yes    yes 404 403
POST /api/sessions/{sessionId}/timers/arm                      401  yes 403    403     403    yes   yes    yes 404 403
POST /api/sessions/{sessionId}/take-over                       401  yes 403    403     403    yes   yes    403 403 403
POST /api/sessions/{sessionId}/speak                           401  yes 403    403     403    yes   yes    403 403 403
POST /api/sessions/{sessionId}/give-back                       401  yes 403    403     403    yes   yes    403 403 403
POST /api/sessions/{sessionId}/model                           401  yes 403    403     403    yes   yes    403 403 403
GET /api/models                                                 401  yes yes    403     yes    yes   yes    yes yes 403
GET /api/hand-overs                                             401  yes 403    403     yes    yes   yes    yes 403 403
GET /api/sessions/{sessionId}/snapshots                        401  yes 403    403     yes    yes   yes    yes 404 403
GET /api/sessions/{sessionId}/snapshots/{turn}                 401  yes 403    403     yes    yes   yes    yes 404 403
GET /api/sessions/{sessionId}/case                             401  403 403    403     yes    yes   yes    yes 404 403
GET /api/sessions/{sessionId}/export                           401  403 yes    403     yes    yes   yes    yes 404 403
POST /api/sessions/{sessionId}/compress                        401  yes 403    403     403    yes   yes    yes 404 403
GET /api/sessions/{sessionId}/context                          401  yes 403    403     yes    yes   yes    yes 404 403
GET /api/sessions/{sessionId}/history                          401  yes 403    403     yes    yes   yes    yes 404 403
GET /api/sessions/{sessionId}/events                           401  yes 403    403     yes    yes   yes    yes 404 403
POST /api/sessions/{sessionId}/migrate                         401  403 yes    403     403    yes   yes    yes 404 403
POST /api/sessions/{sessionId}/migrate/undo                    401  403 yes    403     403    yes   yes    yes 404 403
POST /api/sessions/import                                       401  403 yes    403     403    yes   yes    yes - 403
GET /api/users/{userId}/sessions                               401  yes 403    403     yes    yes   yes    yes 403 403
DELETE /api/users/{userId}                                     401  403 403    403     403    yes   yes    yes 403 403
GET /api/users/{userId}/variables                              401  yes 403    403     yes    yes   yes    yes 403 403
PATCH /api/users/{userId}/variables                            401  yes 403    403     403    yes   yes    yes 403 403
GET /api/users/{userId}/export                                 401  403 403    403     403    yes   yes    yes 403 403
GET /api/memory/units                                           401  yes 403    403     yes    yes   yes    yes 403 403
POST /api/memory/units                                          401  yes 403    403     403    yes   yes    yes 403 403
GET /api/memory/units/{unitId}                                 401  yes 403    403     yes    yes   yes    yes 403 403
DELETE /api/memory/units/{unitId}                              401  yes 403    403     403    yes   yes    yes 403 403
PATCH /api/memory/units/{unitId}                               401  yes 403    403     403    yes   yes    yes 403 403
POST /api/memory/search                                         401  yes 403    403     403    yes   yes    yes 403 403
GET /api/memory/groups                                          401  yes 403    403     yes    yes   yes    yes 403 403
POST /api/memory/groups                                         401  yes 403    403     403    yes   yes    yes 403 403
GET /api/memory/groups/{groupId}                               401  yes 403    403     yes    yes   yes    yes 403 403
DELETE /api/memory/groups/{groupId}                            401  yes 403    403     403    yes   yes    yes 403 403
GET /api/memory/groups/{groupId}/context                       401  yes 403    403     yes    yes   yes    yes 403 403
POST /api/memory/groups/{groupId}/restore                      401  yes 403    403     403    yes   yes    yes 403 403
POST /api/memory/summarise                                      401  yes 403    403     403    yes   yes    yes 403 403
POST /api/memory/forget                                         401  yes 403    403     403    yes   yes    yes 403 403
POST /api/memory/embed                                          401  yes 403    403     403    yes   yes    yes 403 403
GET /api/memory/jobs                                            401  yes 403    403     yes    yes   yes    yes 403 403
GET /api/memory/jobs/{jobId}                                   401  yes 403    403     yes    yes   yes    yes - 403
GET /api/memory/status                                          401  yes 403    403     yes    yes   yes    yes 403 403
GET /api/memory/export                                          401  yes 403    403     yes    yes   yes    yes 403 403
POST /api/memory/import                                         401  yes 403    403     403    yes   yes    yes 403 403
GET /api/scripts                                                401  yes yes    yes     yes    yes   yes    403 403 403
POST /api/scripts                                               401  403 yes    403     403    yes   yes    403 403 403
POST /api/scripts/import                                        401  403 yes    403     403    yes   yes    403 403 403
GET /api/scripts/{scriptId}                                    401  yes yes    yes     yes    yes   yes    403 403 403
PATCH /api/scripts/{scriptId}                                  401  403 yes    403     403    yes   yes    403 403 403
POST /api/scripts/validate                                      401  403 yes    403     403    yes   yes    403 403 403
POST /api/scripts/test                                          401  403 yes    403     403    yes   yes    403 403 403
POST /api/scripts/outline                                       401  403 yes    403     403    yes   yes    403 403 403
GET /api/drafts                                                 401  403 yes    403     403    yes   yes    403 403 403
GET /api/drafts/{draftId}                                       401  403 yes    403     403    yes   yes    403 403 403
PUT /api/drafts/{draftId}                                       401  403 yes    403     403    yes   yes    403 403 403
DELETE /api/drafts/{draftId}                                    401  403 yes    403     403    yes   yes    403 403 403
POST /api/scripts/{scriptId}/validate                          401  403 yes    403     403    yes   yes    403 403 403
GET /api/scripts/{scriptId}/versions                           401  yes yes    yes     yes    yes   yes    403 403 403
GET /api/scripts/{scriptId}/versions/{version}                 401  yes yes    yes     yes    yes   yes    403 403 403
GET /api/scripts/{scriptId}/diff                               401  yes yes    yes     yes    yes   yes    403 403 403
POST /api/scripts/{scriptId}/publish                           401  403 yes    403     403    yes   yes    403 403 403
POST /api/scripts/{scriptId}/archive                           401  403 yes    403     403    yes   yes    403 403 403
GET /api/analytics/model                                        401  403 403    yes     yes    yes   yes    403 403 403
GET /api/analytics/status                                       401  403 403    yes     yes    yes   yes    403 403 403
POST /api/analytics/query                                       401  403 403    yes     yes    yes   yes    403 403 403
GET /api/analytics/reports                                      401  403 403    yes     yes    yes   yes    403 403 403
GET /api/analytics/dashboards                                   401  403 403    yes     yes    yes   yes    403 403 403
POST /api/analytics/dashboards                                  401  403 403    yes     yes    yes   yes    403 403 403
GET /api/analytics/dashboards/{dashboardId}                     401  403 403    yes     yes    yes   yes    403 403 403
PUT /api/analytics/dashboards/{dashboardId}                     401  403 403    yes     yes    yes   yes    403 403 403
DELETE /api/analytics/dashboards/{dashboardId}                  401  403 403    yes     yes    yes   yes    403 403 403
GET /api/analytics/dashboards/{dashboardId}/page                401  403 403    yes     yes    yes   yes    403 403 403
GET /api/analytics/dashboards/{dashboardId}/files               401  403 403    yes     yes    yes   yes    403 403 403
GET /api/analytics/dashboards/{dashboardId}/files/{fileName}    401  403 403    yes     yes    yes   yes    403 403 403
GET /api/analytics/queries                                      401  403 403    yes     yes    yes   yes    403 403 403
POST /api/analytics/queries                                     401  403 403    yes     yes    yes   yes    403 403 403
GET /api/analytics/queries/{queryId}                            401  403 403    yes     yes    yes   yes    403 403 403
PUT /api/analytics/queries/{queryId}                            401  403 403    yes     yes    yes   yes    403 403 403
DELETE /api/analytics/queries/{queryId}                         401  403 403    yes     yes    yes   yes    403 403 403
GET /api/analytics/reports/{report}                             401  403 403    yes     yes    yes   yes    403 403 403
GET /api/analytics/snapshot                                     401  403 403    yes     yes    yes   yes    403 403 403
GET /api/reviews                                                401  403 403    yes     yes    yes   yes    403 403 403
POST /api/reviews                                               401  403 403    403     yes    yes   yes    403 403 403
GET /api/reviews/{reviewId}                                     401  403 403    yes     yes    yes   yes    403 403 403
POST /api/reviews/{reviewId}/close                              401  403 403    403     yes    yes   yes    403 403 403
DELETE /api/reviews/{reviewId}                                  401  403 403    403     yes    yes   yes    403 403 403
GET /api/reviews/{reviewId}/targets                             401  403 403    403     yes    yes   yes    403 403 403
PUT /api/reviews/{reviewId}/ratings                             401  403 403    403     yes    yes   yes    403 403 403
GET /api/reviews/{reviewId}/ratings                             401  403 403    403     yes    yes   yes    403 403 403
GET /api/reviews/{reviewId}/agreement                           401  403 403    yes     yes    yes   yes    403 403 403
GET /api/reviews/{reviewId}/export                              401  403 403    403     yes    yes   yes    403 403 403
GET /api/operations/budgets                                     401  403 403    403     yes    yes   yes    403 403 403
GET /api/operations/backups                                     401  403 403    403     403    yes   403    403 403 403
POST /api/operations/backups                                    401  403 403    403     403    yes   403    403 403 403
DELETE /api/operations/backups/{backupId}                       401  403 403    403     403    yes   403    403 403 403
GET /api/operations/compact                                     401  403 403    403     403    yes   403    403 403 403
POST /api/operations/compact                                    401  403 403    403     403    yes   403    403 403 403
GET /api/operations/retention                                   401  403 403    403     403    yes   403    403 403 403
POST /api/operations/retention                                  401  403 403    403     403    yes   403    403 403 403
GET /api/operations/verify                                      401  403 403    403     403    yes   403    403 403 403
POST /api/operations/verify/fix                                 401  403 403    403     403    yes   403    403 403 403
GET /api/webhooks                                               401  403 403    403     403    yes   yes    403 403 403
POST /api/webhooks                                              401  403 403    403     403    yes   yes    403 403 403
GET /api/webhooks/{webhookId}                                  401  403 403    403     403    yes   yes    403 403 403
DELETE /api/webhooks/{webhookId}                               401  403 403    403     403    yes   yes    403 403 403
PATCH /api/webhooks/{webhookId}                                401  403 403    403     403    yes   yes    403 403 403
POST /api/webhooks/{webhookId}/rotate-secret                   401  403 403    403     403    yes   yes    403 403 403
POST /api/webhooks/{webhookId}/test                            401  403 403    403     403    yes   yes    403 403 403
GET /api/webhooks/{webhookId}/deliveries                       401  403 403    403     403    yes   yes    403 403 403
GET /api/webhooks/{webhookId}/deliveries/{deliveryId}         401  403 403    403     403    yes   yes    403 403 403
POST /api/webhooks/{webhookId}/deliveries/{deliveryId}/replay 401  403 403    403     403    yes   yes    403 403 403
POST /api/webhooks/{webhookId}/replay                          401  403 403    403     403    yes   yes    403 403 403
GET /api/keys                                                   401  403 403    403     403    yes   yes    403 403 403
POST /api/keys                                                  401  403 403    403     403    yes   yes    403 403 403
GET /api/keys/{keyId}                                          401  403 403    403     403    yes   yes    403 403 403
DELETE /api/keys/{keyId}                                       401  403 403    403     403    yes   yes    403 403 403
POST /api/links                                                401 yes yes 403 403 yes yes 403 403 403
GET /api/links                                                 401 yes yes 403 403 yes yes 403 403 403
GET /api/links/{linkId}                                        401 yes yes 403 403 yes yes 403 403 403
DELETE /api/links/{linkId}                                     401 yes yes 403 403 yes yes 403 403 403
GET /api/links/{linkId}/page                                   yes yes yes yes yes yes yes yes yes yes
POST /api/links/{linkId}/sessions                              yes yes yes yes yes yes yes yes yes yes
POST /api/participants/tokens                                  401 yes 403 403 403 yes yes 403 403 403
GET /api/participants                                          401 yes 403 403 yes yes yes 403 403 403
GET /api/participants/{participantId}                          401 yes 403 403 yes yes yes 403 403 403
DELETE /api/participants/{participantId}                       401 yes 403 403 403 yes yes 403 403 403
POST /api/participants/renew                                   401 403 403 403 403 403 403 403 403 yes
POST /api/participants/session                                 401 403 403 403 403 403 403 403 403 yes
GET /api/participants/session                                  401 403 403 403 403 403 403 403 403 yes
POST /api/participants/session/messages                        401 403 403 403 403 403 403 403 403 yes
GET /api/participants/session/messages                         401 403 403 403 403 403 403 403 403 yes
PUT /api/participants/session/push                             401 403 403 403 403 403 403 403 403 yes
DELETE /api/participants/session/push                          401 403 403 403 403 403 403 403 403 yes
GET /api/participants/session/events                           401 403 403 403 403 403 403 403 403 yes
"""
"""What comes of a request by its route and by who sends it.

`none` has no key; `app` to `admin` are keys of one role; `tenant` is an admin of another tenant. `own` is a key with
all roles, bound to the user ana, that asks for what is hers; `other` is the same key and asks for what is ben's: by the
path, by `?userId=ben` or by the body. `yes`: neither 401 nor 403. The ids of a path exist for sessions and users alone.
`part` is
the token of a participant.
`404`: as a session that does not exist. `-`: a request has no place in which to name another user.
"""

BODIES: dict[str, Any] = {
    "POST /api/sessions": {"userId": "ben", "scriptId": "visit"},
    "POST /api/sessions/by-key": {"userId": "ben", "scriptId": "visit", "key": "telegram:42"},
    "POST /api/memory/units": {"userId": "ben", "units": [{"content": "a dog"}]},
    "PATCH /api/memory/units/{unitId}": {"neverDelete": True},
    "POST /api/memory/search": {"userId": "ben", "text": "a dog"},
}
"""What names ben in a valid body; for all other routes it is `{"userId": "ben"}`."""

IDS = {
    "scriptId": "nothing",
    "keyId": "0" * 16,
    "webhookId": str(uuid.UUID(int=1)),
    "deliveryId": str(uuid.UUID(int=2)),
    "unitId": "nothing",
    "groupId": "nothing",
    "jobId": str(uuid.UUID(int=3)),
    "draftId": "nothing",
    "linkId": "nothing",
    "queryId": "nothing",
    "backupId": "nothing",
    "dashboardId": "nothing",
    "fileName": "nothing",
    "reviewId": "nothing",
    "participantId": "0" * 32,
    "report": "nothing",
    "table": "nothing",
    "turn": "0",
    "version": "1",
}
"""Of what does not exist; a new parameter of a path needs one."""
NOBODY = {"userId": "nobody", "sessionId": str(uuid.UUID(int=4))}


async def routes(api: ApiClient) -> list[str]:
    paths = (await api.read("/schema/openapi.json"))["paths"]
    return [f"{method.upper()} {path}" for path, item in paths.items() for method in item if method != "parameters"]


def rows(table: str) -> dict[str, dict[str, str]]:
    """Return the outcomes by route and by who asks."""
    (_, *who), *lines = [line.split() for line in table.splitlines()]
    return {f"{method} {path}": dict(zip(who, outcomes, strict=True)) for method, path, *outcomes in lines}


async def outcome(
    api: ApiClient,
    route: str,
    key: str | None,
    ids: dict[str, str],
    query: dict[str, str] | None = None,
    body: Any = None,
) -> str:
    """Send a request; return `yes` or the status of its refusal."""
    method, path = route.split(" ")
    content = (body or {}) if method in {"POST", "PATCH", "PUT"} else None
    headers = {} if key is None else {"Authorization": key}
    answer = await api.request(method, path.format(**(IDS | ids)), params=query, json=content, headers=headers)
    if answer.status_code == 404 and answer.json()["error"]["code"] == "SESSION_NOT_FOUND":
        return "404"
    return str(answer.status_code) if answer.status_code in {401, 403} else "yes"


class Bound:
    """A key with all roles that is bound to ana, beside ben."""

    def __init__(self, api: ApiClient, app_key: str, parameters: QueryParameters) -> None:
        self._api = api
        self._parameters = parameters
        self._app_key = {"Authorization": app_key}
        self._key = ""

    async def try_route(self, route: str) -> dict[str, str]:
        """Return the outcomes of `own` and `other`, which is first, as deleting ana ends the key."""
        key = self._key = self._key or await self._api.create_key(*ROLES, user="ana")
        ana, ben = await self._ids_of("ana", route), await self._ids_of("ben", route)
        named_by_path = re.search("{(user|session)Id}", route)
        method, path = route.split(" ")
        query = {} if named_by_path else self._parameters.select(method, path, {"userId": "ben", "q": "dog"})
        other = await outcome(self._api, route, key, ben, query, BODIES.get(route, {"userId": "ben"}))
        if "{userId}" in route:
            self._key = ""  # it ends with the user
        return {"own": await outcome(self._api, route, key, ana), "other": other}

    async def _ids_of(self, user: str, route: str) -> dict[str, str]:
        """Return a user, with a new session where the route is about one."""
        if "{sessionId}" not in route:
            return NOBODY | {"userId": user}
        body = {"userId": user, "scriptId": "visit"}
        answer = await self._api.post("/api/sessions", json=body, headers=self._app_key)
        return {"userId": user, "sessionId": answer.json()["sessionId"]}


@pytest.fixture
async def unlimited(app: OpenApp, tmp_path: Path) -> AsyncIterator[ApiClient]:
    """Open the application for more requests than a participant may send in a minute."""
    async with app(tmp_path, participant_requests_per_minute=10_000) as api:
        yield api


@pytest.mark.gate
@pytest.mark.timeout(600)
async def test_every_route_answers_as_the_table_says(unlimited: ApiClient) -> None:
    api = unlimited
    app_key, clinic_key = await api.create_key("app"), await api.create_key("admin", tenant="clinic")
    keys = {"none": None, "app": app_key, "tenant": clinic_key} | {
        role: await api.create_key(role) for role in ROLES - {"app"}
    }
    new = {"userId": "eva", "scriptId": "visit"}
    admitted = await api.post("/api/participants/tokens", json=new, headers={"Authorization": app_key})
    keys["part"] = f"Bearer {admitted.json()['token']}"
    await api.post("/api/participants/session", headers={"Authorization": keys["part"]})
    bound = Bound(api, app_key, await QueryParameters.of(api))
    expected = rows(TABLE)
    seen: dict[str, dict[str, str]] = {}
    for route in await routes(api):
        seen[route] = {who: await outcome(api, route, key, NOBODY) for who, key in keys.items()}
        if "{sessionId}" in route:  # whose it is, is a matter of `own` and `other`
            seen[route] = {who: "yes" if each == "404" else each for who, each in seen[route].items()}
        seen[route] |= await bound.try_route(route)
        if expected.get(route, {}).get("other") == "-":
            seen[route]["other"] = "-"
    wrong = [f"{route}: {seen.get(route)}" for route in seen | expected if seen.get(route) != expected.get(route)]
    assert wrong == [], "TABLE says otherwise; this is what the server does:\n" + "\n".join(wrong)
