"""``cuebook memory add|list|show|search|pin|remove|groups|restore``: a memory on the command line."""

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

ANA = ("--user", "ana")


@pytest.fixture
def moved(remember: Callable[..., Any]) -> list[str]:
    """The ids of three units that were said one after the other."""
    said = ("I moved to Lisbon in spring.", "My cat is called Mo.", "The bread here is good.")
    return remember("add", *ANA, "--group", "diary", "--source", "Ana", *said).stdout.split()  # type: ignore[no-any-return]


def test_what_is_added_is_listed_in_its_order(
    remember: Callable[..., Any], table: Callable[..., Any], moved: list[str]
) -> None:
    listed = remember("list", *ANA)
    assert listed.stdout.splitlines()[0].split("\t")[:3] == ["unitId", "group", "rank"]
    assert [(row[0], row[1], row[2], row[4], row[7]) for row in table(listed)] == [
        (moved[0], "diary", "0", "Ana", "I moved to Lisbon in spring."),
        (moved[1], "diary", "0", "Ana", "My cat is called Mo."),
        (moved[2], "diary", "0", "Ana", "The bread here is good."),
    ]
    assert table(remember("list", "--user", "ben")) == []


def test_a_list_comes_in_pages_and_only_of_what_is_wanted(
    remember: Callable[..., Any], table: Callable[..., Any], moved: list[str]
) -> None:
    remember("add", *ANA, "Water the plants.", "--source", "Ben")
    page = remember("list", *ANA, "--limit", 2)
    assert [row[0] for row in table(page)] == moved[:2]
    cursor = page.stderr.split("--cursor ")[1].strip()
    assert len(table(remember("list", *ANA, "--cursor", cursor))) == 2
    assert [row[4] for row in table(remember("list", *ANA, "--filter", '{"source": {"$ne": "Ana"}}'))] == ["Ben"]
    assert [row[7] for row in table(remember("list", *ANA, "--group", "notes"))] == ["Water the plants."]
    assert table(remember("list", *ANA, "--rank", 1)) == []


def test_units_are_read_from_standard_input_one_a_line(remember: Callable[..., Any], table: Callable[..., Any]) -> None:
    added = remember("add", *ANA, "first", "-", "last", input="second\n\n  third  \n")
    assert added.stderr == "4 units in notes of ana's memory\n"
    assert [row[7] for row in table(remember("list", *ANA))] == ["first", "second", "third", "last"]


def test_a_unit_has_what_is_said_of_it(remember: Callable[..., Any]) -> None:
    given = ("--id", "prefers", "--pin", "--trust", "own", "--time", "2026-01-31T09:30")
    asked = (*ANA, *given, "--metadata", "topic=day", "--metadata", "weight=2", "Ana prefers mornings.")
    unit = json.loads(remember("add", *asked, "--json").stdout)[0]
    expected = {
        "unitId": "prefers",
        "creationTime": "2026-01-31T09:30:00Z",
        "neverDelete": True,
        "trust": "own",
        "metadata": {"topic": "day", "weight": 2},
    }
    assert {name: unit[name] for name in expected} == expected
    assert json.loads(remember("add", *asked, "--json").stdout)[0]["sequence"] == unit["sequence"]
    taken = remember("add", *ANA, "--id", "prefers", "Something else.", code=2)
    assert taken.stderr == "error there is another unit with the id 'prefers'\n"
    shown = remember("show", *ANA, "prefers").stdout
    assert shown.splitlines()[0] == "Ana prefers mornings."
    assert "neverDelete true\n" in shown
    assert json.loads(remember("show", *ANA, "prefers", "--json").stdout)["content"] == "Ana prefers mornings."


def test_a_newer_unit_stands_in_the_place_of_an_older_one(
    remember: Callable[..., Any], table: Callable[..., Any]
) -> None:
    remember("add", *ANA, "--id", "old", "--time", "2025-01-01", "Ana lives in Bonn.")
    remember("add", *ANA, "--id", "new", "--time", "2026-01-01", "--supersedes", "old", "Ana lives in Lisbon.")
    assert [row[2] for row in table(remember("search", *ANA, "Where does Ana live?"))] == ["new"]
    then = remember("search", *ANA, "Where does Ana live?", "--as-of", "2025-06-01")
    assert [row[2] for row in table(then)] == ["old"]


def test_a_search_finds_by_words_the_best_first(
    remember: Callable[..., Any], table: Callable[..., Any], moved: list[str]
) -> None:
    rows = table(remember("search", *ANA, "the cat Mo"))
    assert (rows[0][0], rows[0][2], rows[0][4], rows[0][5]) == ("1", moved[1], "Ana", "My cat is called Mo.")
    assert [float(row[1]) for row in rows] == sorted((float(row[1]) for row in rows), reverse=True)
    assert len(table(remember("search", *ANA, "the cat Mo", "-k", 1))) == 1
    filtered = remember("search", *ANA, "the cat Mo", "--filter", '{"content": {"$contains": "bread"}}')
    assert [row[2] for row in table(filtered)] == [moved[2]]


def test_neighbours_come_with_a_hit_and_have_no_score(
    remember: Callable[..., Any], table: Callable[..., Any], moved: list[str]
) -> None:
    rows = table(remember("search", *ANA, "cat", "-k", 1, "--context", 1, "--strategy", "lexical"))
    assert [(row[2], bool(row[1])) for row in rows] == [(moved[0], False), (moved[1], True), (moved[2], False)]


def test_a_search_explains_what_speaks_for_a_hit(remember: Callable[..., Any], moved: list[str]) -> None:
    asked = ("search", *ANA, "cat", "-k", 1, "--context", 1, "--strategy", "lexical", "--explain")
    lines = remember(*asked).stdout.splitlines()
    assert [line.split()[1] for line in (lines[0], lines[3])] == ["beside", "beside"]
    assert "Ana: My cat is called Mo." in lines[1]
    shares = [float(reason.split()[-1]) for reason in lines[2].split(", ")]
    assert len(shares) > 1
    assert [abs(share) for share in shares] == sorted((abs(share) for share in shares), reverse=True)
    hit = json.loads(remember(*asked, "--json").stdout)["chains"][0]["units"][1]
    assert hit["signals"]


def test_nothing_that_comes_to_mind_is_told_by_the_exit_code(remember: Callable[..., Any], moved: list[str]) -> None:
    found = remember("search", "--user", "ben", "cat", code=1)
    assert found.stderr == "nothing comes to mind\n"
    assert json.loads(remember("search", "--user", "ben", "cat", "--json", code=1).stdout)["chains"] == []


def test_a_short_term_memory_is_filled_and_looked_at(
    remember: Callable[..., Any], table: Callable[..., Any], moved: list[str]
) -> None:
    remember("add", *ANA, "--group", "later", "Good morning.")
    restored = remember("restore", *ANA, "later", "--from", "diary")
    assert restored.stderr == "later has 3 units in its short-term memory\n"
    rows = table(remember("search", *ANA, "cat", "--group", "later", "--short-term", "-k", 1))
    assert [row[2] for row in rows] == [moved[1]]
    groups = {row[0]: row[1:2] + row[3:] for row in table(remember("groups", *ANA))}
    assert groups["diary"][:3] == ["collection", "3", "0"]
    assert groups["later"][-1] == "3"
    unknown = remember("restore", *ANA, "later", "--from", "nowhere", code=2)
    assert "there is no session or collection 'nowhere' in this memory" in unknown.stderr


def test_units_are_pinned_and_let_go(remember: Callable[..., Any], table: Callable[..., Any], moved: list[str]) -> None:
    assert remember("pin", *ANA, *moved[:2]).stderr == f"pinned {moved[0]}\npinned {moved[1]}\n"
    remember("pin", *ANA, moved[0], "--off")
    assert [row[6] for row in table(remember("list", *ANA))] == ["", "yes", ""]
    refused = remember("pin", *ANA, "nobody", moved[2], code=2)
    assert "error nobody: there is no such unit in this memory" in refused.stderr
    assert table(remember("list", *ANA))[2][6] == "yes"  # the others are pinned all the same


def test_units_and_groups_are_removed_for_good(
    remember: Callable[..., Any], table: Callable[..., Any], moved: list[str]
) -> None:
    unsure = remember("remove", *ANA, moved[0], code=2)
    assert "--yes" in unsure.stderr
    assert remember("remove", *ANA, moved[0], "--yes").stderr == f"removed {moved[0]}\n"
    assert [row[0] for row in table(remember("list", *ANA))] == moved[1:]
    remember("remove", *ANA, "--group", "diary", "--yes")
    assert table(remember("list", *ANA)) == table(remember("groups", *ANA)) == []
    again = remember("remove", *ANA, "--group", "diary", "--yes", code=2)
    assert "there is no such session or collection in this memory" in again.stderr


WRONG: Sequence[tuple[tuple[object, ...], str]] = (
    (("add", "text"), "Missing option '--user'"),
    (("add", *ANA), "Missing argument 'TEXT...'"),
    (("add", *ANA, "-"), "there is no text to add"),
    (("add", *ANA, "--id", "one", "a", "b"), "--id and --supersedes are for one text, these are 2"),
    (("add", *ANA, "--time", "yesterday", "a"), "--time takes a date or a time, such as 2026-01-31T09:30"),
    (("add", *ANA, "--metadata", "topic", "a"), "--metadata takes NAME=VALUE, not 'topic'"),
    (("add", *ANA, "--supersedes", "nobody", "a"), "there is no unit 'nobody' to be superseded"),
    (("list", *ANA, "--filter", "source=Ana"), """--filter takes JSON, such as '{"source": "ana"}'"""),
    (("list", *ANA, "--filter", '{"sorce": 1}'), "no field 'sorce'. Did you mean source?"),
    (("list", *ANA, "--rank", 3), "3 is not in the range 0<=x<=2"),
    (("show", *ANA, "nobody"), "there is no such unit in this memory"),
    (("search", *ANA, " "), "TEXT is empty"),
    (("search", *ANA, "a", "-k", 0), "0 is not in the range"),
    (("search", *ANA, "a", "--filter", '{"source": {"$is": 1}}'), "$is"),
    (("search", *ANA, "a", "--short-term"), "short-term memory is a session's"),
    (("search", *ANA, "a", "--short-term", "--long-term", "--group", "g"), "not both"),
    (("search", *ANA, "a", "--as-of", "once"), "--as-of takes a date or a time"),
)
"""What is asked for, and what is told."""


def test_wrong_use_is_told_with_what_would_be_right(remember: Callable[..., Any], moved: list[str]) -> None:
    for arguments, told in WRONG:
        assert told in remember(*arguments, code=2, input="").stderr


def test_without_a_record_nothing_is_read_and_none_is_made(remember: Callable[..., Any], tmp_path: Path) -> None:
    for arguments in (("list", *ANA), ("search", *ANA, "a"), ("status", *ANA), ("doctor",)):
        assert "there is no record in cuebook-data; name its folder with --data" in remember(*arguments, code=2).stderr
    assert list(tmp_path.iterdir()) == []


def test_what_people_say_gives_no_orders_to_a_terminal(remember: Callable[..., Any], table: Callable[..., Any]) -> None:
    remember("add", *ANA, "wiped \x1b[2J [bold]out[/]\nand more")
    shown = "wiped \ufffd[2J [bold]out[/]"
    assert table(remember("list", *ANA))[0][7] == f"{shown} and more"
    assert shown in remember("search", *ANA, "wiped", "--explain").stdout
    assert remember("show", *ANA, table(remember("list", *ANA))[0][0]).stdout.startswith(shown)


async def test_what_was_said_in_sessions_is_there_by_itself(
    app: Any, remember: Callable[..., Any], table: Callable[..., Any], tmp_path: Path
) -> None:
    async with app(tmp_path / "data") as api:
        session = await api.begin("diary", user="ana")
        await api.say(session, "Schmetterling")
    listed = await asyncio.to_thread(remember, "list", *ANA, "--data", "data")
    assert "Schmetterling" in [row[7] for row in table(listed)]
    group = (await asyncio.to_thread(lambda: table(remember("groups", *ANA, "--data", "data"))))[0]
    assert group[:2] == [session["sessionId"], "session"]
