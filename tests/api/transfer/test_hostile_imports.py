"""Documents that were changed by hand, or made up: what is imported can be used, and everything else is refused."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.api_client import ApiClient
from tests.support.effort import repeats
from tests.support.fixture_types import OpenApp
from tests.support.paths import LIBRARY

STRANGE: list[Any] = [
    None, True, -1, 0, 1, 2**31, 2**53 + 1, 10**30, -0.5, 1e308, "", "x", "active", "waiting_input", "form",
    "completed",
    "2026-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "2026-01-01", "../..", "\x00", "\u2028", "字" * 300, [], {},
    [[]], [None], {"": None}, {"kind": "form"}, {"a": {"b": [1]}}, [1, 2, 3], "user", "tool", "9" * 400,
]  # fmt: skip


async def documents(api: ApiClient) -> list[Any]:
    """Return sessions at different kinds of positions."""
    found = []
    for script, said in (
        ("intake", ["Ana", "34", "no"]),
        ("sign_up", []),
        ("moving_abroad", ["hello", "yes", "Lisbon", "how much is it?"]),
        ("chat", ["hello"]),
    ):
        session = await api.create_session(script, seed=1)
        for each in said:
            await api.send_message(session, {"content": each})
        found.append((await api.get(f"/api/sessions/{session['sessionId']}/export")).json())
    return found


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return where something could be changed."""
    yield path
    if path[:1] == ("scripts",) and len(path) > 2:
        return
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in pairs:
        yield from places(each, (*path, key))


def changed(document: Any, path: tuple[Any, ...], how: str, value: Any) -> Any:
    document = copy.deepcopy(document)
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    match how:
        case "set":
            holder[path[-1]] = value
        case "remove":
            del holder[path[-1]]
        case "double" if isinstance(holder, list):
            holder.insert(path[-1], copy.deepcopy(holder[path[-1]]))
        case "double":
            holder[f"{path[-1]}_"] = value
        case "empty":
            old = holder[path[-1]]
            holder[path[-1]] = type(old)() if isinstance(old, list | dict | str) else value
    return document


@pytest.mark.gate
@pytest.mark.timeout(600)
async def test_no_document_makes_a_session_that_breaks_the_server(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, scripts=LIBRARY) as api:
        known = await documents(api)
        where = [list(places(each))[1:] for each in known]
        taken = 0

        @settings(max_examples=repeats(400), deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(
            which=st.integers(0, len(known) - 1),
            at=st.lists(
                st.tuples(st.floats(0, 0.999999), st.sampled_from(HOWS), st.sampled_from(STRANGE)),
                min_size=1,
                max_size=2,
            ),
        )
        def change(which: int, at: list[tuple[float, str, Any]]) -> None:
            document = known[which]
            for share, how, value in at:
                path = where[which][int(share * len(where[which]))]
                try:
                    document = changed(document, path, how, value)
                except (KeyError, IndexError, TypeError, AttributeError):
                    continue
            tried.append(document)

        tried: list[Any] = []
        change()
        for document in tried:
            taken += await tried_out(api, document)
        assert len(tried) // 20 < taken < len(tried)


HOWS = ["set", "set", "set", "remove", "double", "empty"]


async def tried_out(api: ApiClient, document: Any) -> bool:
    """Import a document and uses the session, if it becomes one; whether it did."""
    content = json.dumps(document).encode()
    headers = {"Content-Type": "application/json"}
    answer = await api.post("/api/sessions/import", content=content, headers=headers, params={"copy": True})
    reported = answer.text[:500]
    assert answer.status_code in {201, 422}, (reported, document)
    if answer.status_code == 422:
        assert answer.json()["error"]["code"] == "DOCUMENT_INVALID"
        return False
    path = f"/api/sessions/{answer.json()['sessionId']}"
    for read in (
        "",
        "/messages",
        "/variables?scoped=true",
        "/events",
        "/calls?debug=true",
        "/export",
        "/export?format=jsonl",
    ):
        seen = await api.get(path + read)
        assert seen.status_code == 200, (read, seen.text[:500], document)
    for message in ({"content": "yes"}, {"content": "2"}):
        went_on = await api.post(f"{path}/messages", json=message)
        said = went_on.json().get("error", {}).get("code")
        assert said in {None, "SESSION_ENDED", "SESSION_PAUSED", "REQUEST_INVALID"}, (went_on.text[:500], document)
    return True
