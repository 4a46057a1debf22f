"""Analytics files that are brought up to date bit by bit hold the same as ones that are made at once."""

from pathlib import Path
from typing import Any

import bringing
import eventful

from store.analytics.checks import check
from store.analytics.file import Place

GREETING = """\
script: greeting
phases:
  - phase: main
    topics:
      - topic: only
        actions: [{ai_say: Greet them., id: greet}, {ask: How are you?, id: ask}]
"""


def differing(one: Path, other: Path) -> list[str]:
    """Tables that are not the same in two files."""
    left, right = bringing.rows(one), bringing.rows(other)
    return [table for table in left if left[table] != right[table]]


def test_many_small_deltas_come_to_the_same_as_one(made: Path, tmp_path: Path) -> None:
    whole, parts = Place(tmp_path / "whole.duckdb"), Place(tmp_path / "parts.duckdb")
    assert bringing.brought(made, whole, is_masked=False) == 1
    assert bringing.brought(made, parts, is_masked=False, turns_max=17) > 2
    assert differing(whole.path, parts.path) == []
    assert check(parts.path).findings == []
    assert bringing.brought(made, parts, is_masked=False) == 1  # once more
    assert differing(whole.path, parts.path) == []


async def test_what_goes_on_meanwhile_is_brought_in_as_if_it_had_been_there(app: Any, tmp_path: Path) -> None:
    record = tmp_path / "data"
    grown = {is_masked: Place(tmp_path / f"{is_masked}.duckdb") for is_masked in (True, False)}
    for seed in range(3):
        async with app(record, eventful.Moody(), embedder="none") as api:
            await api.keep((eventful.TALK, eventful.RENAMED, eventful.MARKED)[seed], files=eventful.HOMES)
            for each in (await api.read("/api/sessions", limit=100))["data"]:  # they change, and take no turn
                labels = {"metadata": {"round": seed}}
                assert (await api.patch(f"/api/sessions/{each['sessionId']}", json=labels)).status_code == 200
            await eventful.converse(api, seed, 30)
            if seed == 1:
                assert (await api.delete(f"/api/users/{eventful.WORD}")).status_code == 200
        for is_masked, place in grown.items():
            bringing.brought(record, place, is_masked=is_masked, turns_max=25)
            fresh = Place(tmp_path / f"{is_masked}-{seed}.duckdb")
            bringing.brought(record, fresh, is_masked=is_masked)
            assert differing(fresh.path, place.path) == []
            assert check(place.path).findings == []


def test_what_the_file_knows_is_believed_only_of_what_made_it(made: Path, tmp_path: Path) -> None:
    place, whole = Place(tmp_path / "a.duckdb"), Place(tmp_path / "b.duckdb")
    bringing.brought(made, whole, is_masked=True)
    bringing.brought(made, place, is_masked=True, turns_max=20, deltas_max=2)
    behind = place.known_rest.read_bytes()
    bringing.brought(made, place, is_masked=True)
    place.known_rest.write_bytes(behind)  # as if what is known had not come onto the disk
    bringing.brought(made, place, is_masked=True)
    assert differing(whole.path, place.path) == []
    place.known_rest.write_bytes(place.known_rest.read_bytes().replace(b'"made_by":"', b'"made_by":"0'))
    assert place.known().sessions is None
    bringing.brought(made, place, is_masked=True)
    assert differing(whole.path, place.path) == []


async def test_calls_of_models_stay_when_only_the_session_got_another_label(app: Any, tmp_path: Path) -> None:
    place, fresh = Place(tmp_path / "a.duckdb"), Place(tmp_path / "b.duckdb")
    async with app(tmp_path / "data", eventful.Moody()) as api:
        await api.keep(GREETING)
        session = await api.begin("greeting")
    bringing.brought(tmp_path / "data", place, is_masked=True)
    assert len(bringing.rows(place.path)["llm_calls"]) == 1
    async with app(tmp_path / "data", eventful.Moody()) as api:
        answer = await api.patch(f"/api/sessions/{session['sessionId']}", json={"metadata": {"channel": "web"}})
        assert answer.is_success
    bringing.brought(tmp_path / "data", place, is_masked=True)
    bringing.brought(tmp_path / "data", fresh, is_masked=True)
    assert differing(fresh.path, place.path) == []
