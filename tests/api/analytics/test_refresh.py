"""Analytics files that are refreshed in steps contain the same as files that are built at once."""

from pathlib import Path

import duckdb
import msgspec
import pytest

from api.errors import translate
from runtime.models.offline_model import OfflineModel
from runtime.state.ports import ModelReply, ModelRequest, OnReply, Verdict
from store.analytics.delta import KnownContent, write_delta
from store.analytics.file import Place, maker
from store.analytics.outlines import OUTLINES, Outline
from store.analytics.refresh import Masking, refresh
from store.duckdb.database import Database
from store.interface.errors import AnalyticsUnreadable, DiskFull
from store.interface.event_fields import EVENT_FIELDS
from tests.support import analytics_files, eventful_database
from tests.support.analytics_rules import problems
from tests.support.data_folders import database_file
from tests.support.fixture_types import OpenApp

GREETING = """\
script: greeting
phases:
  - phase: main
    topics:
      - topic: only
        actions: [{ai_say: Greet them., id: greet}, {ask: How are you?, id: ask}]
"""


def differing(one: Path, other: Path) -> list[str]:
    """Return the tables that differ between two files."""
    left, right = analytics_files.rows(one), analytics_files.rows(other)
    return [table for table in left if left[table] != right[table]]


@pytest.mark.slow
def test_many_small_deltas_come_to_the_same_as_one(made: Path, tmp_path: Path) -> None:
    whole, parts = Place(tmp_path / "whole.duckdb"), Place(tmp_path / "parts.duckdb")
    assert analytics_files.refresh_all(made, whole, is_masked=False) == 1
    assert analytics_files.refresh_all(made, parts, is_masked=False, turns_max=17) > 2
    assert differing(whole.path, parts.path) == []
    assert problems(parts.path) == []
    assert analytics_files.refresh_all(made, parts, is_masked=False) == 1  # once more
    assert differing(whole.path, parts.path) == []


@pytest.mark.slow
async def test_changes_during_a_refresh_are_refreshed_as_well(app: OpenApp, tmp_path: Path) -> None:
    store = tmp_path / "data"
    grown = {is_masked: Place(tmp_path / f"{is_masked}.duckdb") for is_masked in (True, False)}
    for seed in range(3):
        async with app(store, eventful_database.Moody(), embedder="none") as api:
            await api.publish_script(
                (eventful_database.TALK, eventful_database.RENAMED, eventful_database.MARKED)[seed],
                files=eventful_database.HOMES,
            )
            for each in (await api.read("/api/sessions", limit=100))["data"]:  # they change, and take no turn
                labels = {"metadata": {"round": seed}}
                assert (await api.patch(f"/api/sessions/{each['sessionId']}", json=labels)).status_code == 200
            await eventful_database.converse(api, seed, 30)
            if seed == 1:
                assert (await api.delete(f"/api/users/{eventful_database.WORD}")).status_code == 200
        for is_masked, place in grown.items():
            analytics_files.refresh_all(store, place, is_masked=is_masked, turns_max=25)
            fresh = Place(tmp_path / f"{is_masked}-{seed}.duckdb")
            analytics_files.refresh_all(store, fresh, is_masked=is_masked)
            assert differing(fresh.path, place.path) == []
            assert problems(place.path) == []


@pytest.mark.slow
def test_what_the_file_knows_is_believed_only_of_what_made_it(made: Path, tmp_path: Path) -> None:
    place, whole = Place(tmp_path / "a.duckdb"), Place(tmp_path / "b.duckdb")
    analytics_files.refresh_all(made, whole, is_masked=True)
    analytics_files.refresh_all(made, place, is_masked=True, turns_max=20, deltas_max=2)
    behind = place.known_rest.read_bytes()
    analytics_files.refresh_all(made, place, is_masked=True)
    place.known_rest.write_bytes(behind)  # as if what is known had not come onto the disk
    analytics_files.refresh_all(made, place, is_masked=True)
    assert differing(whole.path, place.path) == []
    place.known_rest.write_bytes(place.known_rest.read_bytes().replace(b'"made_by":"', b'"made_by":"0'))
    assert place.read_known().sessions is None
    analytics_files.refresh_all(made, place, is_masked=True)
    assert differing(whole.path, place.path) == []


def test_changes_are_not_all_rows_if_the_file_was_removed(made: Path, tmp_path: Path) -> None:
    place, folder = Place(tmp_path / "a.duckdb"), tmp_path / "delta"
    folder.mkdir()
    analytics_files.refresh_all(made, place, is_masked=True, turns_max=20, deltas_max=1)
    database = Database.open(database_file(made).parent, read_only=True)
    write_delta(database.cursor(), "default", folder, place.read_known(), units=False)
    database.close()
    (folder / OUTLINES).write_bytes(msgspec.json.encode(Outline([], [], [])))
    place.remove()  # an operator may delete the folder at any time
    with pytest.raises(AnalyticsUnreadable, match="removed"):
        refresh(place, folder, Masking(True, analytics_files.SALT))
    assert not place.path.exists()


@pytest.mark.gate
async def test_model_calls_stay_if_only_the_session_label_changes(app: OpenApp, tmp_path: Path) -> None:
    place, fresh = Place(tmp_path / "a.duckdb"), Place(tmp_path / "b.duckdb")
    async with app(tmp_path / "data", eventful_database.Moody()) as api:
        await api.publish_script(GREETING)
        session = await api.create_session("greeting")
    analytics_files.refresh_all(tmp_path / "data", place, is_masked=True)
    assert len(analytics_files.rows(place.path)["llm_calls"]) == 1
    async with app(tmp_path / "data", eventful_database.Moody()) as api:
        answer = await api.patch(f"/api/sessions/{session['sessionId']}", json={"metadata": {"channel": "web"}})
        assert answer.is_success
    analytics_files.refresh_all(tmp_path / "data", place, is_masked=True)
    analytics_files.refresh_all(tmp_path / "data", fresh, is_masked=True)
    assert differing(fresh.path, place.path) == []


RECALLING = """\
script: recalling
phases:
  - phase: main
    topics:
      - topic: only
        actions: [{recall: What is known?, id: recall, into: known}, {ask: How are you?, id: ask}]
"""


@pytest.mark.gate
async def test_names_of_units_that_an_application_chose_are_pseudonyms(app: OpenApp, tmp_path: Path) -> None:
    places = {is_masked: Place(tmp_path / f"{is_masked}.duckdb") for is_masked in (True, False)}
    async with app(tmp_path / "data", embedder="hashed:64") as api:
        await api.publish_script(RECALLING)
        units = [{"content": "What is known is little.", "unitId": eventful_database.WORD}]
        body = {"userId": "ana", "group": f"of {eventful_database.WORD}", "units": units}
        assert (await api.post("/api/memory/units", json=body)).status_code == 201
        summed = await api.post("/api/memory/summarise", json={"userId": "ana"}, headers={"Prefer": "wait=60"})
        assert summed.is_success
        await api.create_session("recalling", user="ana")
    for is_masked, place in places.items():
        analytics_files.refresh_all(tmp_path / "data", place, is_masked=is_masked)
        rows = analytics_files.rows(place.path)
        assert len(rows["memory_units"]) > 1
        text = repr((rows["memory_units"], rows["events"]))
        assert (eventful_database.WORD in text) != is_masked
        assert ("'ana'" in text) != is_masked
        with duckdb.connect(str(place.path), read_only=True) as connection:
            recalled = "SELECT unnest(data -> '$.units[*]') ->> '$.unit_id' AS unit_id FROM events"
            joined = f"SELECT count(*) FROM memory_units JOIN ({recalled}) USING (unit_id)"
            assert connection.execute(joined).fetchall()[0][0] > 0
        assert problems(place.path) == []


def test_rules_of_a_file_include_the_masked_parts_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    before = maker.__wrapped__()
    monkeypatch.setitem(EVENT_FIELDS, "ended", ("reason",))
    assert maker.__wrapped__() != before


def test_a_file_of_another_version_is_made_by_other_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    before = maker.__wrapped__()
    monkeypatch.setattr("store.analytics.file.version", lambda _: "0.0.9")
    assert maker.__wrapped__() != before


def test_a_full_disk_is_named(made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "delta"
    folder.mkdir()
    (folder / "turns.parquet").symlink_to("/dev/full")
    database = Database.open(database_file(made).parent, read_only=True)
    with pytest.raises(DiskFull, match="the disk has no space for") as caught:
        write_delta(database.cursor(), "default", folder, KnownContent(), units=False)
    database.close()
    answer = translate(caught.value)
    assert (answer.code, answer.message, answer.kind.status) == ("DISK_TOO_SMALL", str(caught.value), 507)


def test_a_row_that_cannot_be_read_is_reported_without_its_text(made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "delta"
    folder.mkdir()
    database = Database.open(database_file(made).parent, read_only=True)
    write_delta(database.cursor(), "default", folder, KnownContent(), units=False)
    database.close()
    (folder / OUTLINES).write_bytes(msgspec.json.encode(Outline([], [], [])))
    turns, repaired = folder / "turns.parquet", folder / "mended.parquet"
    bad = f'[{{"seq": 1, "kind": "variable", "data": {{"variable": "{eventful_database.WORD}"}}}}]'
    duckdb.execute(f"COPY (SELECT * REPLACE ('{bad}' AS events) FROM '{turns}') TO '{repaired}'")
    repaired.replace(turns)
    with pytest.raises(AnalyticsUnreadable) as caught:
        refresh(Place(tmp_path / "a.duckdb"), folder, Masking(True, "a salt"))
    assert eventful_database.WORD not in str(caught.value)


WATCHED = """\
script: watched
detectors:
  - {detector: trouble, define: Trouble., rules: [{words: [help], label: cry}], do: [{say: I am here., id: here}]}
phases:
  - phase: main
    topics:
      - topic: only
        actions: [{ask: What is it?, id: ask}, {ask: And now?, id: ask_more}, {ask: And then?, id: ask_on}]
"""


class Seeing(OfflineModel):
    """A model that detects trouble in every message, and labels it with its own words or with the given ones."""

    def __init__(self) -> None:
        self._labels = [f"of {eventful_database.WORD}", "cry"]

    def goes_to(self, request: ModelRequest) -> str:
        return "seeing"

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        if request.purpose != "detect":
            return await super().complete(request, hear)
        return ModelReply(detected={"trouble": Verdict(0.9, self._labels.pop(0))})


@pytest.mark.gate
async def test_a_model_s_own_words_for_what_it_sees_are_masked(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "data", Seeing()) as api:
        await api.publish_script(WATCHED)
        await api.send_texts(await api.create_session("watched"), "It is bad.", "It is worse.")
    labels = {}
    for is_masked in (True, False):
        place = Place(tmp_path / f"{is_masked}.duckdb")
        analytics_files.refresh_all(tmp_path / "data", place, is_masked=is_masked)
        with duckdb.connect(str(place.path), read_only=True) as connection:
            labels[is_masked] = connection.execute("SELECT label FROM detections ORDER BY seq").fetchall()
        assert problems(place.path) == []
    assert labels == {True: [("trouble",), ("cry",)], False: [(f"of {eventful_database.WORD}",), ("cry",)]}
