"""``cuebook links``: a link is created, listed and revoked, with or without a server."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.support.fixture_types import Serve

Command = Callable[..., Result]


def test_a_link_is_created_listed_and_revoked(cuebook: Command, tmp_path: Path) -> None:
    made = cuebook("links", "create", "chat", "--expires", "30", "--max", "5", "--no-resume", "--var", "age=7")
    assert made.exit_code == 0, made.output
    link = made.stdout.strip()
    assert "anonymous" in made.stderr
    assert f"http://127.0.0.1:8000/chat/{link}" in made.stderr
    (row,) = json.loads(cuebook("links", "list", "--json").stdout)["data"]
    assert (row["linkId"], row["scriptId"], row["sessionsMax"], row["resumes"]) == (link, "chat", 5, False)
    assert row["expiresAt"] > row["createdAt"]
    assert row["initialVariables"] == {"age": 7}
    assert cuebook("links", "list").stdout.splitlines()[1].split("\t")[:2] == [link, "chat"]
    assert cuebook("links", "revoke", link).exit_code == 0
    again = cuebook("links", "revoke", link)
    assert (again.exit_code, "no such link" in again.stderr) == (2, True)


def test_a_public_script_has_a_link_with_a_name(cuebook: Command) -> None:
    made = json.loads(cuebook("links", "create", "chat", "--name", "try-it", "--named", "--json").stdout)
    assert (made["linkId"], made["users"], made["accessDays"]) == ("try-it", "named", 90)
    taken = cuebook("links", "create", "chat", "--name", "try-it")
    assert (taken.exit_code, "try-it" in taken.stderr) == (2, True)
    assert cuebook("links", "create", "chat").exit_code == 0
    first = cuebook("links", "list", "--limit", "1")
    cursor = first.stderr.removeprefix("more: --cursor ").strip()
    second = json.loads(cuebook("links", "list", "--cursor", cursor, "--json").stdout)
    assert ([row["linkId"] for row in second["data"]], second["nextCursor"]) == (["try-it"], None)


def test_a_link_that_cannot_be_is_refused(cuebook: Command) -> None:
    assert cuebook("links", "create", "chat").exit_code == 0
    unknown = cuebook("links", "create", "chta")
    assert (unknown.exit_code, "Did you mean `chat`?" in unknown.stderr) == (2, True)
    assert cuebook("links", "create", "chat", "--max", "0").exit_code == 2


@pytest.mark.database_file
async def test_address_of_a_link_is_that_of_the_server(cuebook: Command, serve: Serve) -> None:
    server = serve()
    await server.ready()
    made = await asyncio.to_thread(cuebook, "links", "create", "diary", "--data", "data")
    assert f"{server.url}/chat/{made.stdout.strip()}" in made.stderr
