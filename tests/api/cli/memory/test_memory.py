"""``cuebook memory add|list|show|search|pin|remove|groups|restore``: a memory on the command line."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.fixture_types import OpenApp, RunCommand, Table

ANA = ("--user", "ana")


@pytest.fixture
def moved(memory_command: RunCommand) -> list[str]:
    """Return the ids of three units that were said one after the other."""
    said = ("I moved to Lisbon in spring.", "My cat is called Mo.", "The bread here is good.")
    return memory_command("add", *ANA, "--group", "diary", "--source", "Ana", *said).stdout.split()


def test_what_is_added_is_listed_in_its_order(memory_command: RunCommand, table: Table, moved: list[str]) -> None:
    listed = memory_command("list", *ANA)
    assert listed.stdout.splitlines()[0].split("\t")[:3] == ["unitId", "group", "rank"]
    assert [(row[0], row[1], row[2], row[4], row[7]) for row in table(listed)] == [
        (moved[0], "diary", "0", "Ana", "I moved to Lisbon in spring."),
        (moved[1], "diary", "0", "Ana", "My cat is called Mo."),
        (moved[2], "diary", "0", "Ana", "The bread here is good."),
    ]
    assert table(memory_command("list", "--user", "ben")) == []


@pytest.mark.gate
def test_a_list_comes_in_pages_and_only_of_what_is_wanted(
    memory_command: RunCommand, table: Table, moved: list[str]
) -> None:
    memory_command("add", *ANA, "Water the plants.", "--source", "Ben")
    page = memory_command("list", *ANA, "--limit", 2)
    assert [row[0] for row in table(page)] == moved[:2]
    cursor = page.stderr.split("--cursor ")[1].strip()
    assert len(table(memory_command("list", *ANA, "--cursor", cursor))) == 2
    assert [row[4] for row in table(memory_command("list", *ANA, "--filter", '{"source": {"$ne": "Ana"}}'))] == ["Ben"]
    assert [row[7] for row in table(memory_command("list", *ANA, "--group", "notes"))] == ["Water the plants."]
    assert table(memory_command("list", *ANA, "--rank", 1)) == []


def test_units_are_read_from_standard_input_one_a_line(memory_command: RunCommand, table: Table) -> None:
    added = memory_command("add", *ANA, "first", "-", "last", input="second\n\n  third  \n")
    assert added.stderr == "4 units in notes of ana's memory\n"
    assert [row[7] for row in table(memory_command("list", *ANA))] == ["first", "second", "third", "last"]


def test_a_unit_has_what_is_said_of_it(memory_command: RunCommand) -> None:
    given = ("--id", "prefers", "--pin", "--trust", "own", "--time", "2026-01-31T09:30")
    asked = (*ANA, *given, "--metadata", "topic=day", "--metadata", "weight=2", "Ana prefers mornings.")
    unit = json.loads(memory_command("add", *asked, "--json").stdout)[0]
    expected = {
        "unitId": "prefers",
        "creationTime": "2026-01-31T09:30:00Z",
        "neverDelete": True,
        "trust": "own",
        "metadata": {"topic": "day", "weight": 2},
    }
    assert {name: unit[name] for name in expected} == expected
    assert json.loads(memory_command("add", *asked, "--json").stdout)[0]["sequence"] == unit["sequence"]
    taken = memory_command("add", *ANA, "--id", "prefers", "Something else.", code=2)
    assert taken.stderr == "error there is another unit with the id 'prefers'\n"
    shown = memory_command("show", *ANA, "prefers").stdout
    assert shown.splitlines()[0] == "Ana prefers mornings."
    assert "neverDelete true\n" in shown
    assert json.loads(memory_command("show", *ANA, "prefers", "--json").stdout)["content"] == "Ana prefers mornings."


def test_a_newer_unit_stands_in_the_place_of_an_older_one(memory_command: RunCommand, table: Table) -> None:
    memory_command("add", *ANA, "--id", "old", "--time", "2025-01-01", "Ana lives in Bonn.")
    memory_command("add", *ANA, "--id", "new", "--time", "2026-01-01", "--supersedes", "old", "Ana lives in Lisbon.")
    assert [row[2] for row in table(memory_command("search", *ANA, "Where does Ana live?"))] == ["new"]
    then = memory_command("search", *ANA, "Where does Ana live?", "--as-of", "2025-06-01")
    assert [row[2] for row in table(then)] == ["old"]


def test_a_search_finds_by_words_the_best_first(memory_command: RunCommand, table: Table, moved: list[str]) -> None:
    rows = table(memory_command("search", *ANA, "the cat Mo"))
    assert (rows[0][0], rows[0][2], rows[0][4], rows[0][5]) == ("1", moved[1], "Ana", "My cat is called Mo.")
    assert [float(row[1]) for row in rows] == sorted((float(row[1]) for row in rows), reverse=True)
    assert len(table(memory_command("search", *ANA, "the cat Mo", "-k", 1))) == 1
    filtered = memory_command("search", *ANA, "the cat Mo", "--filter", '{"content": {"$contains": "bread"}}')
    assert [row[2] for row in table(filtered)] == [moved[2]]


def test_neighbours_come_with_a_hit_and_have_no_score(
    memory_command: RunCommand, table: Table, moved: list[str]
) -> None:
    rows = table(memory_command("search", *ANA, "cat", "-k", 1, "--context", 1, "--strategy", "lexical"))
    assert [(row[2], bool(row[1])) for row in rows] == [(moved[0], False), (moved[1], True), (moved[2], False)]


def test_a_search_explains_what_speaks_for_a_hit(memory_command: RunCommand, moved: list[str]) -> None:
    asked = ("search", *ANA, "cat", "-k", 1, "--context", 1, "--strategy", "lexical", "--explain")
    lines = memory_command(*asked).stdout.splitlines()
    assert [line.split()[1] for line in (lines[0], lines[3])] == ["neighbour", "neighbour"]
    assert "Ana: My cat is called Mo." in lines[1]
    shares = [float(reason.split()[-1]) for reason in lines[2].split(", ")]
    assert len(shares) > 1
    assert [abs(share) for share in shares] == sorted((abs(share) for share in shares), reverse=True)
    hit = json.loads(memory_command(*asked, "--json").stdout)["chains"][0]["units"][1]
    assert hit["signals"]


def test_search_without_hits_succeeds_and_says_so(memory_command: RunCommand, moved: list[str]) -> None:
    found = memory_command("search", "--user", "ben", "cat")
    assert found.stderr == "nothing found\n"
    assert json.loads(memory_command("search", "--user", "ben", "cat", "--json").stdout)["chains"] == []


@pytest.mark.gate
def test_a_short_term_memory_is_filled_and_looked_at(
    memory_command: RunCommand, table: Table, moved: list[str]
) -> None:
    memory_command("add", *ANA, "--group", "later", "Good morning.")
    restored = memory_command("restore", *ANA, "later", "--from", "diary")
    assert restored.stderr == "later has 3 units in its short-term memory\n"
    rows = table(memory_command("search", *ANA, "cat", "--group", "later", "--short-term", "-k", 1))
    assert [row[2] for row in rows] == [moved[1]]
    groups = {row[0]: row[1:2] + row[3:] for row in table(memory_command("groups", *ANA))}
    assert groups["diary"][:3] == ["collection", "3", "0"]
    assert groups["later"][-1] == "3"
    unknown = memory_command("restore", *ANA, "later", "--from", "nowhere", code=2)
    assert "there is no session or collection 'nowhere' in this memory" in unknown.stderr


@pytest.mark.gate
def test_units_are_pinned_and_let_go(memory_command: RunCommand, table: Table, moved: list[str]) -> None:
    assert memory_command("pin", *ANA, *moved[:2]).stderr == f"pinned {moved[0]}\npinned {moved[1]}\n"
    memory_command("pin", *ANA, moved[0], "--off")
    assert [row[6] for row in table(memory_command("list", *ANA))] == ["", "yes", ""]
    refused = memory_command("pin", *ANA, "nobody", moved[2], code=2)
    assert "error nobody: there is no such unit in this memory" in refused.stderr
    assert table(memory_command("list", *ANA))[2][6] == "yes"  # the others are pinned all the same


def test_units_and_groups_are_removed_for_good(memory_command: RunCommand, table: Table, moved: list[str]) -> None:
    unsure = memory_command("remove", *ANA, moved[0], code=2)
    assert "--yes" in unsure.stderr
    assert memory_command("remove", *ANA, moved[0], "--yes").stderr == f"removed {moved[0]}\n"
    assert [row[0] for row in table(memory_command("list", *ANA))] == moved[1:]
    memory_command("remove", *ANA, "--group", "diary", "--yes")
    assert table(memory_command("list", *ANA)) == table(memory_command("groups", *ANA)) == []
    again = memory_command("remove", *ANA, "--group", "diary", "--yes", code=2)
    assert "there is no such session or collection in this memory" in again.stderr


WRONG: Sequence[tuple[tuple[object, ...], str]] = (
    (("add", "text"), "Missing option '--user'"),
    (("add", *ANA), "Missing argument 'TEXT...'"),
    (("add", *ANA, "-"), "there is no text to add"),
    (("add", *ANA, "--id", "one", "a", "b"), "--id and --supersedes are for one text, but there are 2"),
    (("add", *ANA, "--time", "yesterday", "a"), "--time takes a date or a time, such as 2026-01-31T09:30"),
    (("add", *ANA, "--metadata", "topic", "a"), "--metadata takes NAME=VALUE, not 'topic'"),
    (("add", *ANA, "--supersedes", "nobody", "a"), "there is no unit 'nobody' to be superseded"),
    (("list", *ANA, "--filter", "source=Ana"), """--filter takes JSON, such as '{"source": "ana"}'"""),
    (("list", *ANA, "--filter", '{"sorce": 1}'), "no field 'sorce'. Did you mean source?"),
    (("list", *ANA, "--rank", 3), "3 is not in the range 0<=x<=2"),
    (("show", *ANA, "nobody"), "there is no such unit in this memory"),
    (("search", *ANA, " "), "the search text is empty"),
    (("search", *ANA, "a", "-k", 0), "0 is not in the range"),
    (("search", *ANA, "a", "--filter", '{"source": {"$is": 1}}'), "$is"),
    (("search", *ANA, "a", "--short-term"), "a short-term memory belongs to a session"),
    (("search", *ANA, "a", "--short-term", "--long-term", "--group", "g"), "not both"),
    (("search", *ANA, "a", "--as-of", "once"), "--as-of takes a date or a time"),
)
"""Arguments of the command, and what it prints."""


def test_wrong_use_is_reported_with_its_fix(memory_command: RunCommand, moved: list[str]) -> None:
    for arguments, message in WRONG:
        assert message in memory_command(*arguments, code=2, input="").stderr


def test_without_a_record_nothing_is_read_and_none_is_made(memory_command: RunCommand, tmp_path: Path) -> None:
    for arguments in (("list", *ANA), ("search", *ANA, "a"), ("status", *ANA)):
        assert (
            "there is no database in cuebook-data; name its folder with --data"
            in memory_command(*arguments, code=2).stderr
        )
    assert list(tmp_path.iterdir()) == []


def test_what_people_say_gives_no_orders_to_a_terminal(memory_command: RunCommand, table: Table) -> None:
    memory_command("add", *ANA, "wiped \x1b[2J [bold]out[/]\nand more")
    shown = "wiped \ufffd[2J [bold]out[/]"
    assert table(memory_command("list", *ANA))[0][7] == f"{shown} and more"
    assert shown in memory_command("search", *ANA, "wiped", "--explain").stdout
    assert memory_command("show", *ANA, table(memory_command("list", *ANA))[0][0]).stdout.startswith(shown)


async def test_what_was_said_in_sessions_is_there_by_itself(
    app: OpenApp, memory_command: RunCommand, table: Table, tmp_path: Path
) -> None:
    async with app(tmp_path / "data") as api:
        session = await api.create_session("diary", user="ana")
        await api.send_texts(session, "Schmetterling")
    listed = await asyncio.to_thread(memory_command, "list", *ANA, "--data", "data")
    assert "Schmetterling" in [row[7] for row in table(listed)]
    group = (await asyncio.to_thread(lambda: table(memory_command("groups", *ANA, "--data", "data"))))[0]
    assert group[:2] == [session["sessionId"], "session"]
