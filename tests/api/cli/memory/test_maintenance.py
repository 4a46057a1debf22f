"""``cuebook memory summarise|forget|reembed|jobs|status``: what is done to a memory, with and without a server."""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from api.cli.backend import backend
from api.cli.memory.maintenance import wait_for_job
from api.settings import Settings
from tests.support.fixture_types import RunCommand, Serve, Table

ANA = ("--user", "ana")


@pytest.fixture
def said(memory_command: RunCommand) -> list[str]:
    """Return the ids of twelve units of a collection."""
    given = "".join(f"thought {number}\n" for number in range(12))
    return memory_command("add", *ANA, "--group", "diary", "-", input=given).stdout.split()


@pytest.mark.gate
def test_a_memory_is_summed_up_and_only_what_is_new_again(
    memory_command: RunCommand, table: Table, said: list[str]
) -> None:
    first = memory_command("summarise", *ANA)
    assert first.stderr == "2 summaries written\n"
    assert memory_command("summarise", *ANA).stderr == "0 summaries written\n"
    assert [row[:3] for row in table(memory_command("list", *ANA, "--rank", 1))] == [["diary", "diary", "1"]]
    memory_command("add", *ANA, "--group", "diary", "another thought")
    assert json.loads(memory_command("summarise", *ANA, "--group", "diary", "--json").stdout)["status"] == "done"
    statuses = {row[2]: row[3] for row in table(memory_command("jobs", *ANA))}
    assert statuses == {"summarise": "done"}


@pytest.mark.gate
def test_what_would_be_forgotten_is_listed_and_then_forgotten(memory_command: RunCommand, table: Table) -> None:
    given = "".join(f"thought {number}\n" for number in range(40))
    ids = memory_command("add", *ANA, "--group", "diary", "-", input=given).stdout.split()
    memory_command("pin", *ANA, ids[0])
    dry = memory_command("forget", *ANA, "--share", 0.1, "--dry-run")
    going = [row[0] for row in table(dry)]
    assert going == ids[1 : 1 + len(going)]
    assert dry.stderr == f"{len(going)} units would be removed\n"
    assert len(table(memory_command("list", *ANA, "--limit", 200))) == 40
    assert json.loads(memory_command("forget", *ANA, "--share", 0.1, "--dry-run", "--json").stdout)["total"] == len(
        going
    )
    assert "--yes" in memory_command("forget", *ANA, "--share", 0.1, code=2).stderr
    done = memory_command("forget", *ANA, "--share", 0.1, "--yes")
    assert done.stderr == f"{len(going)} units removed\n"
    left = [row[0] for row in table(memory_command("list", *ANA, "--limit", 200))]
    assert left == [unit_id for unit_id in ids if unit_id not in going]


def test_another_embedder_reads_everything_on_request(memory_command: RunCommand, said: list[str]) -> None:
    before = memory_command("status", *ANA)
    assert "units 12, summaries of groups 0, of all 0\n" in before.stdout
    assert "vectors 12 of hashed:64\n" in before.stdout
    assert before.stderr == ""
    changed = memory_command("status", *ANA, "--embedder", "hashed:32")
    assert "`cuebook memory reembed --user ana`" in changed.stderr
    done = memory_command("reembed", *ANA, "--embedder", "hashed:32")
    assert done.stderr == "12 units embedded\n"
    after = json.loads(memory_command("status", *ANA, "--embedder", "hashed:32", "--json").stdout)
    assert (after["vectors"], after["withoutVector"], after["offers"]) == ({"hashed:32": 12}, 0, [])


def test_an_unavailable_embedder_is_reported(memory_command: RunCommand, said: list[str]) -> None:
    unknown = memory_command("reembed", *ANA, "--embedder", "wordlama", code=2)
    assert "there is no embedder 'wordlama'" in unknown.stderr
    nowhere = memory_command("status", *ANA, "--embedder", "openai:small", code=2)
    assert "set embedder_url or embedder_key" in nowhere.stderr


async def test_interrupted_work_stays_stored_for_the_next_command(
    memory_command: RunCommand,
    table: Table,
    said: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = Settings(data=tmp_path / "cuebook-data", embedder="hashed:64")
    async with backend(settings, writing=True) as api:  # in which nothing is worked on
        job = (await api.send("POST", "/api/memory/summarise", {"userId": "ana"}))["job"]
        waiting = asyncio.create_task(wait_for_job(api, "summarising", job))
        await asyncio.sleep(0.2)
        waiting.cancel()  # as Ctrl-C does
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
    log = capsys.readouterr().err
    assert f"interrupted; job {job['jobId']} stays in the database: the next command or server continues it" in log

    def rows() -> dict[str, str]:
        return {row[0]: row[3] for row in table(memory_command("jobs", *ANA))}

    assert await asyncio.to_thread(rows) == {job["jobId"]: "queued"}
    await asyncio.to_thread(memory_command, "summarise", *ANA)
    assert set((await asyncio.to_thread(rows)).values()) == {"done"}
    listed = await asyncio.to_thread(memory_command, "list", *ANA, "--rank", 1)
    assert len(table(listed)) == 1


@pytest.mark.gate
async def test_while_a_server_runs_it_does_the_work(
    memory_command: RunCommand, table: Table, serve: Serve, tmp_path: Path
) -> None:
    server = serve(CUEBOOK_EMBEDDER="hashed:64")
    await server.ready()

    def command(*arguments: object, **more: Any) -> Any:
        return memory_command(*arguments, *ANA, "--data", tmp_path / "data", **more)

    def commands() -> None:
        command("add", "I moved to Lisbon.", "My cat is called Mo.", "--group", "diary")
        assert table(command("search", "cat", "-k", 1))[0][5] == "My cat is called Mo."
        assert command("summarise").stderr == "2 summaries written\n"
        assert command("reembed").stderr == "0 units embedded\n"
        assert len(table(command("forget", "--share", 1, "--dry-run"))) == 0  # all is in the context of the collection
        given = "".join(f"thought {number}\n" for number in range(900))
        memory_command("add", "-", "--user", "eve", "--data", tmp_path / "data", input=given)
        memory_command("export", "eve.json", "--vectors", "--user", "eve", "--data", tmp_path / "data")
        tried = memory_command("import", "eve.json", "--dry-run", "--user", "ben", "--data", tmp_path / "data")
        assert tried.stderr.endswith("900 with a vector\n")
        command("export", "ana.json")
        imported = memory_command("import", "ana.json", "--user", "ben", "--data", tmp_path / "data")
        assert imported.stderr.startswith("4 units in 1 group imported")
        assert command("show", "nobody", code=2).stderr == "error there is no such unit in this memory\n"

    await asyncio.to_thread(commands)
    assert await server.stop() == 0
