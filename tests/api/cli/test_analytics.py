"""What analysts do on the command line: `query`, `report` and `snapshot`, with and without a server."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from click.testing import Result

from store.analytics.reporting import REPORTS
from tests.support.fixture_types import OpenApp, Serve

COUNT = "SELECT role, count(*) AS n FROM messages GROUP BY role ORDER BY role"
Cuebook = Callable[..., Result]


@pytest.fixture(scope="module")
def talked(app: OpenApp, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder whose record is not changed by anybody."""
    folder = tmp_path_factory.mktemp("talked")

    async def talk() -> None:
        async with app(folder / "cuebook-data", embedder="none") as api:
            await api.send_texts(await api.create_session("visit"), "Zanzibar", "34")

    asyncio.run(talk())
    return folder


@pytest.fixture
def analyst(cuebook: Cuebook, talked: Path, monkeypatch: pytest.MonkeyPatch) -> Cuebook:
    """Run a command beside that record: ``analyst("query", "FROM turns", code=2)``."""
    monkeypatch.chdir(talked)
    monkeypatch.setenv("CUEBOOK_EMBEDDER", "none")

    def run(*arguments: object, code: int = 0) -> Result:
        result = cuebook(*arguments)
        assert result.exit_code == code, result.output
        return result

    return run


def test_a_query_may_begin_with_a_comment(analyst: Cuebook) -> None:
    for comment in ("-- who = role\n", "--how many\n"):
        assert analyst("query", comment + COUNT, "--format", "csv").stdout.startswith("role,n\nassistant,")
    misspelt = analyst("query", COUNT, "--fromat", "csv", code=2).stderr
    assert "No such option" in misspelt
    assert "--fromat" in misspelt


@pytest.mark.slow
def test_an_answer_comes_in_the_format_that_is_asked_for(analyst: Cuebook, tmp_path: Path) -> None:
    rows = [["role", "n"], ["assistant", "5"], ["user", "2"]]
    assert [line.split("\t") for line in analyst("query", COUNT).stdout.splitlines()] == rows
    assert json.loads(analyst("query", COUNT, "--format", "json").stdout) == [
        {"role": "assistant", "n": 5}, {"role": "user", "n": 2},
    ]  # fmt: skip
    written = analyst("query", COUNT, "-o", tmp_path / "n.CSV")
    assert (tmp_path / "n.CSV").read_bytes() == b"role,n\r\nassistant,5\r\nuser,2\r\n"
    assert (written.stdout, "n.CSV, 29 bytes" in written.stderr) == ("", True)
    analyst("query", COUNT, "-o", tmp_path / "n.parquet")
    assert duckdb.sql(f"FROM '{tmp_path}/n.parquet'").fetchall() == [("assistant", 5), ("user", 2)]
    analyst("query", COUNT, "--title", "Who says how much", "-o", tmp_path / "n.svg")
    assert "Who says how much" in (tmp_path / "n.svg").read_text()
    analyst("query", COUNT, "-o", tmp_path / "n.png")
    assert (tmp_path / "n.png").read_bytes().startswith(b"\x89PNG")
    analyst("query", COUNT, "--title", "Who says how much", "-o", tmp_path / "n.vl.json")
    chart = json.loads((tmp_path / "n.vl.json").read_bytes())
    assert chart["title"] == {"text": ["Who says how much"]}
    assert chart == json.loads(analyst("query", COUNT, "--title", "Who says how much", "--format", "vega-lite").stdout)
    assert "there are more rows: raise --rows" in analyst("query", COUNT, "--rows", "1").stderr


@pytest.mark.slow
def test_what_is_wrong_with_a_question_is_reported(analyst: Cuebook, tmp_path: Path) -> None:
    for arguments, why in (
        (["query"], "the query is missing"),
        (["query", "FROM mesages"], "messages"),
        (["query", "DELETE FROM turns"], "SELECT"),
        (["query", "FROM turns", "--describe"], "no table"),
        (["query", "mesages", "--describe"], "did you mean messages?"),
        (["query", "funnel", "--describe"], "`cuebook report funnel --describe`"),
        (["query", COUNT, "--file", __file__], "not a readable database"),
        (["query", COUNT, "--file", __file__, "--unmasked"], "does not change"),
        (["report", "completion", "--file", __file__, "--unmasked"], "does not change"),
        (["query", COUNT, "-o", tmp_path / "n.pdf"], "name the format with --format"),
        (["query", "FROM range(3)", "--format", "svg"], "beside the numbers"),
        (["report", "funel"], "did you mean `funnel`?"),
        (["report", "funnel"], "needs `script`"),
        (["report", "funnel", "visit"], "NAME=VALUE"),
        (["report", "funnel", "script=visit", "levl=topic"], "did you mean `level`?"),
        (["report", "funnel", "script=vist"], "there is no script `vist`; did you mean `visit`?"),
        (["query", "FROM funnel('visit', level := 'topics')"], "`level` is one of phase, topic, action"),
        (["query", "FROM completion(idle_days := -1)"], "a number from 0, not -1"),
        (["report", "completion", "--file", __file__, "--fresh"], "--fresh cannot be used with a file"),
        (["snapshot", tmp_path / "none" / "a.duckdb"], "No such file or directory"),
    ):
        result = analyst(*arguments, code=2)
        assert why in result.stderr, arguments
        assert result.stdout == ""


def test_tables_and_reports_are_described(analyst: Cuebook) -> None:
    assert "waits\tOne row per wait of a session for its user or for a moment." in analyst("query", "--describe").stdout
    assert "answered_turn\tINTEGER\t" in analyst("query", "--describe", "waits").stdout
    assert json.loads(analyst("query", "--describe", "waits", "--format", "json").stdout)["name"] == "waits"
    listed = analyst("report").stdout.splitlines()[1:]
    assert [line.split("\t")[0] for line in listed] == [report.name for report in REPORTS]
    description = analyst("report", "funnel", "--describe").stdout
    assert "script\t" in description
    assert "required" in description
    assert "share_of_started: reached / selected sessions" in description


@pytest.mark.slow
def test_a_report_of_the_database_equals_that_of_a_snapshot(analyst: Cuebook, tmp_path: Path) -> None:
    asked = ("report", "funnel", "script=visit", "level=action", "--format", "csv")
    file = tmp_path / "monday.duckdb"
    made = analyst("snapshot", file)
    assert f"wrote {file}" in made.stderr.replace("\n", "")
    assert analyst(*asked).stdout == analyst(*asked, "--file", file).stdout
    assert analyst(*asked).stdout == analyst(*asked, "--fresh").stdout
    assert "already exists" in analyst("snapshot", file, code=2).stderr
    analyst("snapshot", tmp_path / "older.duckdb", "--storage-version", "v1.0.0", "--fresh")
    assert (tmp_path / "older.duckdb").read_bytes()[12] == 64  # what DuckDB 1.0 reads
    assert analyst(*asked).stdout == analyst(*asked, "--file", tmp_path / "older.duckdb").stdout
    analyst("snapshot", file, "--force", "--unmasked")
    said = "SELECT content FROM messages WHERE role = 'user' ORDER BY seq"
    assert analyst("query", said, "--file", file).stdout.splitlines() == ["content", "Zanzibar", "34"]
    assert analyst("query", said).stdout.splitlines() == ["content", "", ""]


def test_a_command_waits_until_the_analytics_are_made(
    analyst: Cuebook, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("api.analytics.files.WAIT_S", 0.0)  # a client that waits asks again
    monkeypatch.setattr("api.cli.analytics.options.LOOK_S", 0.05)
    assert analyst("query", COUNT, "--unmasked").stdout.count("\n") == 3
    analyst("snapshot", tmp_path / "a.duckdb")
    assert duckdb.connect(str(tmp_path / "a.duckdb")).execute("SELECT turns FROM about").fetchall() == [(3,)]


def test_a_record_that_is_not_there_is_reported(cuebook: Cuebook) -> None:
    for arguments in (["query", COUNT], ["report", "activity"], ["snapshot", "a.duckdb"]):
        result = cuebook(*arguments)
        assert (result.exit_code, "no database" in result.stderr) == (2, True), result.output


@pytest.mark.gate
async def test_all_commands_go_through_the_server_with_the_database(
    serve: Serve, cuebook: Cuebook, tmp_path: Path
) -> None:
    server = serve(CUEBOOK_EMBEDDER="none")
    await server.ready()
    async with server.client() as api:
        await api.send_texts(await api.create_session("visit"), "Ana")

        def asked(*arguments: object) -> Result:
            result = cuebook(*arguments, "--data", tmp_path / "data")
            assert result.exit_code == 0, result.output
            return result

        assert (await asyncio.to_thread(asked, "query", COUNT)).stdout.splitlines()[1:] == ["assistant\t4", "user\t1"]
        steps = (await asyncio.to_thread(asked, "report", "funnel", "script=visit")).stdout
        assert steps.count("\n") > 1
        await asyncio.to_thread(asked, "snapshot", tmp_path / "a.duckdb")
        assert duckdb.connect(str(tmp_path / "a.duckdb")).execute("SELECT turns FROM about").fetchall() == [(2,)]
        mine = {"sql": COUNT, "format": "json"}
        assert (await api.post("/api/analytics/query", json=mine)).status_code == 200
