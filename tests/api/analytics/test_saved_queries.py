"""Queries that analysts save by name over HTTP."""

from pathlib import Path
from typing import Any

import pytest

from store.analytics import analytics_repository
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp

PATH = "/api/analytics/queries"
QUERY = {"name": "By role", "sql": "SELECT role, count(*) AS messages FROM messages GROUP BY role"}


@pytest.fixture
async def api(app: OpenApp, tmp_path: Path) -> Any:
    async with app(tmp_path) as client:
        yield client


async def test_query_is_saved_changed_and_deleted(api: ApiClient):
    created = await api.post(PATH, json=QUERY)
    assert created.status_code == 201
    place = created.headers["location"]
    assert {name: created.json()[name] for name in QUERY} == QUERY
    changed = await api.put(place, json={"name": "By speaker", "sql": "SELECT 1"})
    assert (changed.status_code, changed.json()["createdAt"]) == (200, created.json()["createdAt"])
    assert (await api.read(place)) == changed.json()
    assert (await api.delete(place)).status_code == 204
    for answer in (await api.get(place), await api.delete(place), await api.put(place, json=QUERY)):
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "QUERY_NOT_FOUND")


async def test_queries_are_listed_by_pages_the_last_changed_first(api: ApiClient):
    places = [(await api.post(PATH, json=QUERY | {"name": name})).headers["location"] for name in ("a", "b", "c")]
    await api.put(places[0], json=QUERY | {"name": "a again"})
    first = await api.read(PATH, limit=2)
    rest = await api.read(PATH, limit=2, cursor=first["nextCursor"])
    assert [each["name"] for page in (first, rest) for each in page["data"]] == ["a again", "c", "b"]
    assert rest["nextCursor"] is None


async def test_number_of_queries_is_bounded(api: ApiClient, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(analytics_repository._QUERIES, "rows_max", 1)
    await api.post(PATH, json=QUERY)
    refused = await api.post(PATH, json=QUERY)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "QUERIES_FULL")


@pytest.mark.parametrize("body", [{"name": "", "sql": "SELECT 1"}, {"name": "x", "sql": ""}, {"name": "x"}])
async def test_query_without_a_name_or_a_text_is_refused(api: ApiClient, body: dict[str, str]):
    assert (await api.post(PATH, json=body)).status_code == 400


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELECT 1\nFRM messages", "LINE 2: FRM messages\n            ^"),
        ("SELECT (1", "syntax error"),
        ("DELETE FROM messages", "one SELECT"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("-- nothing yet", "one statement"),
    ],
)
async def test_text_that_is_not_one_select_is_not_saved(api: ApiClient, sql: str, problem: str):
    place = (await api.post(PATH, json=QUERY)).headers["location"]
    for refused in (await api.post(PATH, json=QUERY | {"sql": sql}), await api.put(place, json=QUERY | {"sql": sql})):
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "QUERY_INVALID")
        assert problem in refused.json()["error"]["message"]
    assert [each["sql"] for each in (await api.read(PATH))["data"]] == [QUERY["sql"]]
