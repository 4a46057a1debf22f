"""What analysts may not see is nowhere: in no table, no form of an answer, no snapshot and no refusal."""

from pathlib import Path
from typing import Any

import pytest

from api.analytics.formats.parquet import from_parquet
from store.analytics.file import described_tables
from store.analytics.query import query
from store.analytics.reporting import REPORTS
from store.interface.errors import QueryRefused
from tests.support import analytics_files, eventful_database
from tests.support.fixture_types import OpenApp

QUERY, SNAPSHOT = "/api/analytics/query", "/api/analytics/snapshot"
TABLES = [table.name for table in described_tables()]
WHOLE = " UNION ALL ".join(f"SELECT '{name}' AS name, to_json({name})::VARCHAR AS row FROM {name}" for name in TABLES)


def seen(text: str | bytes) -> bool:
    """Return whether it tells what somebody said, or who somebody is."""
    content = text.encode() if isinstance(text, str) else text
    return eventful_database.WORD.encode().lower() in content.lower()


async def test_an_analyst_finds_no_word_in_any_table_form_or_refusal(app: OpenApp, data: Path) -> None:
    async with app(data, embedder="none") as api:
        analyst = {"Authorization": await api.create_key("analyst")}
        reader = {"Authorization": await api.create_key("reader")}

        async def ask(sql: str, form: str = "json", **fields: Any) -> Any:
            return await api.post(QUERY, json={"sql": sql, "format": form, **fields}, headers=analyst)

        rows = (await ask(WHOLE, rowsMax=100_000)).json()["rows"]
        assert {row["name"] for row in rows} == {*TABLES}
        assert [row for row in rows if seen(row["row"])] == []
        for form in ("csv", "svg", "vega-lite", "parquet"):
            answer = await ask("SELECT user_id, count(*) AS n FROM messages GROUP BY ALL", form)
            assert answer.status_code == 200, answer.text
            assert not seen(answer.content)
            assert answer.headers["content-type"].count("charset") <= 1
            assert form != "parquet" or not seen(str(from_parquet(answer.content)))
        for sql in ("SELECT error(user_id) FROM users", "SELECT user_id::INT FROM users"):
            refused = await ask(sql)
            assert refused.json()["error"]["code"] == "QUERY_INVALID"
            assert not seen(refused.text)
        unmasked = {"masked": "false"}
        report = await api.get(
            "/api/analytics/reports/message_search", params={"words": eventful_database.WORD, **unmasked}
        )
        assert report.status_code in {400, 401}
        for refused in (
            await ask("FROM messages", masked=False),
            await api.get(SNAPSHOT, params=unmasked, headers=analyst),
            await api.get("/api/analytics/reports/activity", params=unmasked, headers=analyst),
            await api.get("/api/analytics/status", params=unmasked, headers=analyst),
        ):
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "FORBIDDEN")
        said = {"sql": "SELECT count(content) AS n FROM messages", "masked": False}
        assert (await api.post(QUERY, json=said, headers=reader)).json()["rows"][0]["n"] > 0


@pytest.mark.slow
async def test_masked_snapshot_has_no_text_and_reports_work_without_it(app: OpenApp, data: Path) -> None:
    async with app(data, embedder="none") as api:
        answer = await api.get(SNAPSHOT)
        assert answer.headers["content-length"] == str(len(answer.content))
        (data / "whole.duckdb").write_bytes((await api.get(SNAPSHOT, params={"masked": "false"})).content)
    assert not seen(answer.content)
    (data / "masked.duckdb").write_bytes(answer.content)
    assert not seen(str(analytics_files.rows(data / "masked.duckdb")))
    assert seen(str(analytics_files.rows(data / "whole.duckdb")))
    given = {"words": "'a'", "script": "'talk'", "session": "NULL", "experiment": "'greeting'"}
    for report in REPORTS:
        needed = ", ".join(f"{each.name} := {given[each.name]}" for each in report.parameters if each.needed)
        try:
            assert not seen(str(query(data / "masked.duckdb", f"FROM {report.name}({needed})")))
        except QueryRefused as error:
            assert report.reads_words or not seen(str(error))


async def test_pseudonyms_stay_and_are_others_in_another_tenant(app: OpenApp, tmp_path: Path) -> None:
    names: dict[str, list[set[str]]] = {"default": [], "school": []}
    for _ in range(2):
        async with app(tmp_path, embedder="none") as api:
            for tenant, found in names.items():
                admin = {"Authorization": await api.create_key("admin", tenant=tenant)}
                if not found:
                    text = {"yamlContent": eventful_database.TALK, "files": eventful_database.HOMES}
                    assert (await api.post("/api/scripts", json=text, headers=admin)).status_code == 201
                begun = {"userId": "ana", "scriptId": "talk"}
                assert (await api.post("/api/sessions", json=begun, headers=admin)).status_code == 200
                asked = await api.post(QUERY, json={"sql": "SELECT user_id FROM users"}, headers=admin)
                found.append({row["user_id"] for row in asked.json()["rows"]})
    assert names["default"][0] == names["default"][1]
    assert names["school"][0] == names["school"][1]
    assert len(names["school"][0]) == 1
    assert not names["school"][0] & names["default"][0]


async def test_later_marks_of_personal_data_mask_from_the_beginning(app: OpenApp, tmp_path: Path) -> None:
    plain = {"homes.yaml": eventful_database.HOMES["homes.yaml"].replace(", pii: true", "")}
    sql = "SELECT name, new_number, is_pii FROM variable_history WHERE name IN ('mood', 'home') ORDER BY name"
    async with app(tmp_path, embedder="none") as api:
        await api.publish_script(eventful_database.TALK, files=plain)
        session = await api.create_session("talk")
        path = f"/api/sessions/{session['sessionId']}"
        await api.patch(f"{path}/variables", json={"variables": {"mood": 3}})
        await api.patch("/api/users/ana/variables", json={"variables": {"home": 3}})
        before = (await api.post(QUERY, json={"sql": sql})).json()["rows"]
        assert before == [{"name": name, "new_number": 3.0, "is_pii": False} for name in ("home", "mood")]
        await api.publish_script(eventful_database.MARKED, files=eventful_database.HOMES)
        assert (await api.post(f"{path}/migrate", json={"version": 2})).status_code == 200
    async with app(tmp_path, embedder="none") as api:
        after = (await api.post(QUERY, json={"sql": sql})).json()["rows"]
        assert after == [{"name": name, "new_number": None, "is_pii": True} for name in ("home", "mood")]


async def test_questions_are_counted_and_files_weighed(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, embedder="none") as api:
        await api.create_session("visit")
        for sql in ("FROM turns", "FROM nothing"):
            await api.post(QUERY, json={"sql": sql})
        await api.post(
            QUERY, json={"sql": "SELECT sum(a.range) FROM range(100000000) a, range(1000) b", "timeoutS": 0.2}
        )
        counts = (await api.get("/metrics")).text.splitlines()
        for outcome in ("done", "refused", "stopped"):
            assert f'cuebook_analytics_queries_total{{outcome="{outcome}"}} 1.0' in counts
        values = dict(line.rsplit(" ", 1) for line in counts if line.startswith("cuebook_analytics_"))
        assert float(values["cuebook_analytics_refresh_seconds_total"]) > 0
        assert float(values["cuebook_analytics_bytes"]) > 10_000
