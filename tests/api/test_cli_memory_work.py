"""``cuebook memory summarise|forget|reembed|jobs|status``: what is done to a memory, with and without a server."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from api.cli.memory.following import finished
from api.cli.reach import reach
from api.settings import Settings

ANA = ("--user", "ana")


@pytest.fixture
def said(remember: Callable[..., Any]) -> list[str]:
    """The ids of twelve units of a collection."""
    given = "".join(f"thought {number}\n" for number in range(12))
    return remember("add", *ANA, "--group", "diary", "-", input=given).stdout.split()  # type: ignore[no-any-return]


def test_a_memory_is_summed_up_and_only_what_is_new_again(
    remember: Callable[..., Any], table: Callable[..., Any], said: list[str]
) -> None:
    first = remember("summarise", *ANA)
    assert first.stderr == "2 summaries written\n"
    assert remember("summarise", *ANA).stderr == "0 summaries written\n"
    assert [row[:3] for row in table(remember("list", *ANA, "--rank", 1))] == [["diary", "diary", "1"]]
    remember("add", *ANA, "--group", "diary", "another thought")
    assert json.loads(remember("summarise", *ANA, "--group", "diary", "--json").stdout)["status"] == "done"
    statuses = {row[2]: row[3] for row in table(remember("jobs", *ANA))}
    assert statuses == {"summarise": "done"}


def test_what_would_be_forgotten_is_listed_and_then_forgotten(
    remember: Callable[..., Any], table: Callable[..., Any]
) -> None:
    given = "".join(f"thought {number}\n" for number in range(40))
    ids = remember("add", *ANA, "--group", "diary", "-", input=given).stdout.split()
    remember("pin", *ANA, ids[0])
    dry = remember("forget", *ANA, "--share", 0.1, "--dry-run")
    going = [row[0] for row in table(dry)]
    assert going == ids[1 : 1 + len(going)]
    assert dry.stderr == f"{len(going)} units would go\n"
    assert len(table(remember("list", *ANA, "--limit", 200))) == 40
    assert json.loads(remember("forget", *ANA, "--share", 0.1, "--dry-run", "--json").stdout)["total"] == len(going)
    assert "--yes" in remember("forget", *ANA, "--share", 0.1, code=2).stderr
    done = remember("forget", *ANA, "--share", 0.1, "--yes")
    assert done.stderr == f"{len(going)} units forgotten\n"
    left = [row[0] for row in table(remember("list", *ANA, "--limit", 200))]
    assert left == [unit_id for unit_id in ids if unit_id not in going]


def test_another_embedder_is_offered_and_sees_everything_when_it_is_asked_to(
    remember: Callable[..., Any], said: list[str]
) -> None:
    before = remember("status", *ANA)
    assert "units 12, summaries of groups 0, of all 0\n" in before.stdout
    assert "vectors 12 of hashed:64\n" in before.stdout
    assert before.stderr == ""
    changed = remember("status", *ANA, "--embedder", "hashed:32")
    assert "`cuebook memory reembed --user ana`" in changed.stderr
    done = remember("reembed", *ANA, "--embedder", "hashed:32")
    assert done.stderr == "12 units embedded\n"
    after = json.loads(remember("status", *ANA, "--embedder", "hashed:32", "--json").stdout)
    assert (after["vectors"], after["withoutVector"], after["offers"]) == ({"hashed:32": 12}, 0, [])


def test_an_embedder_that_cannot_be_had_is_told_of(remember: Callable[..., Any], said: list[str]) -> None:
    unknown = remember("reembed", *ANA, "--embedder", "wordlama", code=2)
    assert "there is no embedder 'wordlama'" in unknown.stderr
    nowhere = remember("status", *ANA, "--embedder", "openai:small", code=2)
    assert "set embedder_url or embedder_key" in nowhere.stderr


async def test_work_that_is_interrupted_stays_in_the_record_and_is_done_by_the_next_command(
    remember: Callable[..., Any],
    table: Callable[..., Any],
    said: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = Settings(data=tmp_path / "cuebook-data", embedder="hashed:64")
    async with reach(settings, writing=True) as api:  # in which nothing is worked on
        job = (await api.send("POST", "/api/memory/summarise", {"userId": "ana"}))["job"]
        waiting = asyncio.create_task(finished(api, "summing up", job))
        await asyncio.sleep(0.2)
        waiting.cancel()  # as Ctrl-C does
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
    told = capsys.readouterr().err
    assert f"interrupted; job {job['jobId']} stays in the record: the next command or server goes on with it" in told

    def rows() -> dict[str, str]:
        return {row[0]: row[3] for row in table(remember("jobs", *ANA))}

    assert await asyncio.to_thread(rows) == {job["jobId"]: "queued"}
    await asyncio.to_thread(remember, "summarise", *ANA)
    assert set((await asyncio.to_thread(rows)).values()) == {"done"}
    listed = await asyncio.to_thread(remember, "list", *ANA, "--rank", 1)
    assert len(table(listed)) == 1


async def test_while_a_server_runs_it_does_the_work(
    remember: Callable[..., Any], table: Callable[..., Any], serve: Callable[..., Any], tmp_path: Path
) -> None:
    server = serve(CUEBOOK_EMBEDDER="hashed:64")
    await server.ready()

    def command(*arguments: object, **more: Any) -> Any:
        return remember(*arguments, *(() if arguments[0] == "doctor" else ANA), "--data", tmp_path / "data", **more)

    def commands() -> None:
        command("add", "I moved to Lisbon.", "My cat is called Mo.", "--group", "diary")
        assert table(command("search", "cat", "-k", 1))[0][5] == "My cat is called Mo."
        assert command("summarise").stderr == "2 summaries written\n"
        assert command("reembed").stderr == "0 units embedded\n"
        assert len(table(command("forget", "--share", 1, "--dry-run"))) == 0  # all is in the context of the collection
        command("export", "ana.json")
        assert command("import", "ana.json", "--rename").stderr.startswith("3 units in 1 group imported")
        assert command("doctor").stderr == "0 damages found\n"
        assert command("show", "nobody", code=2).stderr == "error there is no such unit in this memory\n"

    await asyncio.to_thread(commands)
    assert await server.stop() == 0
