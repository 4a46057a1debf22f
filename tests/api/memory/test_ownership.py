"""No route about memories gives or does anything to those who are somebody else, whatever they name."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from api.auth.policy import ROUTE_POLICIES
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp

WORD = "bassoon"
ROUTES = sorted(route for route in ROUTE_POLICIES if "/api/memory" in route)
STRANGERS = {
    "a user of the same tenant": {"user": "ben"},
    "the same user of another tenant": {"tenant": "clinic", "user": "ana"},
    "an application of another tenant": {"tenant": "clinic"},
}


async def things_of(api: ApiClient) -> dict[str, str]:
    """Return what Ana has, by the names that paths have for it."""
    body = {"userId": "ana", "group": "diary", "units": [{"content": f"I play the {WORD}"}, {"content": "and sing"}]}
    added = await api.post("/api/memory/units", json=body)
    job = await api.post("/api/memory/summarise", json={"userId": "ana"}, headers={"Prefer": "wait=30"})
    return {
        "unitId": added.json()["data"][0]["unitId"],
        "groupId": "diary",
        "jobId": job.json()["job"]["jobId"],
        "userId": "ana",
    }


def bodies_of(route: str, unit_id: str, user: str | None) -> list[dict[str, Any]]:
    """Return what a stranger may send: as Ana, as the user the key is bound to, or as a user of its own tenant."""
    given = {
        "text": WORD,
        "group": "diary",
        "source": "diary",
        "units": [{"content": "x", "supersedes": unit_id}],
        "neverDelete": True,
        "shortTerm": 5,
        "share": 1.0,
    }
    wanted = {
        "POST /api/memory/units": ("group", "units"),
        "PATCH /api/memory/units/{unitId}": ("neverDelete",),
        "POST /api/memory/search": ("text", "group"),
        "POST /api/memory/groups": ("group", "shortTerm"),
        "POST /api/memory/groups/{groupId}/restore": ("source",),
        "POST /api/memory/summarise": ("group",),
        "POST /api/memory/forget": ("share",),
        "POST /api/memory/embed": (),
    }.get(route, ())
    body = {name: given[name] for name in wanted}
    if route.startswith("PATCH"):
        return [body]
    return [body | {"userId": named} for named in ("ana", "ben")] + [body] * (user is not None)


@pytest.mark.gate
@pytest.mark.parametrize("stranger", STRANGERS)
async def test_no_route_leaks_or_spoils_what_is_somebody_elses(app: OpenApp, tmp_path: Path, stranger: str) -> None:
    async with app(tmp_path, embedder="hashed:64") as api:
        things = await things_of(api)
        own = {"Authorization": await api.create_key("app")}
        before = await api.get("/api/memory/export", params={"userId": "ana"}, headers=own)
        assert WORD in before.text
        given = STRANGERS[stranger]
        headers = {"Authorization": await api.create_key("app", "reader", **given)}
        for route in ROUTES:
            method, path = route.split(" ")
            path = path.format(**things)
            for body in bodies_of(route, things["unitId"], given.get("user")):
                whose = {} if "userId" not in body else {"userId": body["userId"]}
                content = {} if method in {"GET", "DELETE"} else {"content": msgspec.json.encode(body)}
                kind = {"Content-Type": "application/json"} if content else {}
                answer = await api.request(method, path, params=whose, headers=headers | kind, **content)
                assert WORD not in answer.text, route
                assert things["unitId"] not in answer.text or answer.status_code >= 400, route
                assert answer.status_code < 500, route
        after = await api.get("/api/memory/export", params={"userId": "ana"}, headers=own)
        assert after.content == before.content
        jobs = await api.get("/api/memory/jobs", params={"userId": "ana"}, headers=own)
        assert [job["jobId"] for job in jobs.json()["data"]] == [things["jobId"]]
