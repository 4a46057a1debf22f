"""``cuebook memory add|list|show|pin|remove``: units of a memory."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from api.cli.memory.asking import (
    GROUPS,
    UNITS,
    filter_of,
    in_json,
    of_user,
    print_units,
    read,
    sure,
    tell_more,
    time_of,
)
from api.cli.memory.following import embedded
from api.cli.options import settings_of, with_settings
from api.cli.output import confirm, console, errors, fail, json_text, print_json, told
from api.cli.reach import Answered, reach, run
from api.cli.variables import value_of
from api.paths import in_path
from api.schemas.memory import COLLECTION, UNITS_MAX


@click.command(epilog="Example: cuebook memory add --user ana --source Ana 'I moved to Lisbon.'")
@click.argument("texts", metavar="TEXT...", nargs=-1, required=True)
@of_user
@click.option(
    "--group", default=COLLECTION, help=f"The collection it goes to, made where there is none [{COLLECTION}]."
)
@click.option("--source", default="user", help="Who said it, or where it is from [user].")
@click.option("--time", "said_at", help="When that was, such as 2026-01-31T09:30 [now].")
@click.option("--metadata", multiple=True, metavar="NAME=VALUE", help="JSON, else a text. May be repeated.")
@click.option("--trust", type=click.Choice(["own", "told", "foreign"]), default="told", help="[told]")
@click.option("--pin", "pinned", is_flag=True, help="Never forget it.")
@click.option("--id", "unit_id", help="An id of its own: what is added again under it is added once.")
@click.option("--supersedes", metavar="UNIT", help="The unit in whose place it holds from then on.")
@in_json
@with_settings("data", "host", "port", "embedder")
def add(
    texts: tuple[str, ...],
    user_id: str,
    group: str,
    source: str,
    said_at: str | None,
    metadata: tuple[str, ...],
    trust: str,
    pinned: bool,
    unit_id: str | None,
    supersedes: str | None,
    as_json: bool,
    config: Path | None,
    **flags: Any,
) -> None:
    """Adds each TEXT to a collection of a user's memory, and prints the ids of the units; `-` reads one a line.

    What is said in sessions is remembered by itself. How far something can be trusted: `own` are the application's own
    words, `told` those of users and models, `foreign` what comes from elsewhere.
    """
    given = list(_texts(texts))
    if (unit_id or supersedes) and len(given) != 1:
        fail(f"--id and --supersedes are for one text, these are {len(given)}")
    if not given:
        fail("there is no text to add")
    common = {
        "source": source,
        "creationTime": time_of(said_at, "--time"),
        "metadata": dict(value_of(pair, "--metadata") for pair in metadata),
        "trust": trust,
        "neverDelete": pinned,
        "unitId": unit_id,
        "supersedes": supersedes,
    }
    settings = settings_of(config, **flags)

    async def work() -> list[Any]:
        added: list[Any] = []
        async with reach(settings, managing=True, working=True) as api:
            for start in range(0, len(given), UNITS_MAX):
                units = [{"content": text, **common} for text in given[start : start + UNITS_MAX]]
                answer = await api.send("POST", UNITS, {"userId": user_id, "group": group, "units": units})
                added += answer["data"]
            await embedded(api, user_id)
        return added

    added = run(work())
    if as_json:
        print_json(added)
    else:
        for unit in added:
            click.echo(unit["unitId"])
    errors.print(f"{len(added)} unit{'s' * (len(added) != 1)} in {told(group)} of {told(user_id)}'s memory")


def _texts(given: Sequence[str]) -> Iterator[str]:
    for text in given:
        if text != "-":
            yield text
            continue
        try:
            yield from (line.strip() for line in sys.stdin if line.strip())
        except UnicodeDecodeError:
            fail("standard input is no text in UTF-8")


@click.command("list", epilog="""Example: cuebook memory list --user ana --filter '{"source": "Ana"}'""")
@of_user
@click.option("--group", help="Only of this session or collection.")
@click.option("--rank", type=click.IntRange(0, 2), help="0: said or noted, 1: summaries of groups, 2: of all of it.")
@click.option("--filter", "filters", metavar="JSON", help="Only those of which it is true.")
@click.option("--limit", type=click.IntRange(1, 200), default=50, help="How many at most [50].")
@click.option("--cursor", help="`nextCursor` of the page before.")
@in_json
@with_settings("data", "host", "port")
def list_units(
    user_id: str,
    group: str | None,
    rank: int | None,
    filters: str | None,
    limit: int,
    cursor: str | None,
    as_json: bool,
    config: Path | None,
    **flags: Any,
) -> None:
    """Lists what is in a memory, the oldest first."""
    filter_of(filters)
    asked = {"userId": user_id, "group": group, "rank": rank, "filters": filters, "limit": limit, "cursor": cursor}
    page = read(UNITS, asked, config, flags)
    if as_json:
        print_json(page)
        return
    print_units(page["data"])
    tell_more(page)


@click.command(epilog="Example: cuebook memory show --user ana 7109d623-8314-4cc4-b6a2-11c8d5b88e58:3")
@click.argument("unit_id", metavar="UNIT")
@of_user
@in_json
@with_settings("data", "host", "port")
def show(unit_id: str, user_id: str, as_json: bool, config: Path | None, **flags: Any) -> None:
    """Shows one unit: its words, where it stands, and what it sums up."""
    unit = read(f"{UNITS}/{in_path(unit_id)}", {"userId": user_id}, config, flags)["unit"]
    if as_json:
        print_json(unit)
        return
    console.print(told(unit["content"]))
    for name, value in unit.items():
        if name != "content" and value not in (None, False, [], {}):
            console.print(f"[dim]{name}[/] {told(value if isinstance(value, str) else json_text(value))}")


@click.command(epilog="Example: cuebook memory pin --user ana prefers-mornings")
@click.argument("unit_ids", nargs=-1, required=True, metavar="UNIT...")
@of_user
@click.option("--off", is_flag=True, help="Let go of it again.")
@with_settings("data", "host", "port")
def pin(unit_ids: tuple[str, ...], user_id: str, off: bool, config: Path | None, **flags: Any) -> None:
    """Keeps units from being forgotten."""
    done = "let go" if off else "pinned"
    _each(unit_ids, UNITS, ("PATCH", {"neverDelete": not off}), user_id, done, config, flags)


@click.command(epilog="Example: cuebook memory remove --user ana prefers-mornings --yes")
@click.argument("ids", nargs=-1, required=True, metavar="UNIT...")
@of_user
@click.option("--group", "of_groups", is_flag=True, help="These are sessions or collections: all of each goes.")
@sure
@with_settings("data", "host", "port")
def remove(ids: tuple[str, ...], user_id: str, of_groups: bool, yes: bool, config: Path | None, **flags: Any) -> None:
    """Removes units from a memory for good, with their vectors; what sums them up is made anew.

    Messages stay in their sessions; `cuebook sessions delete` and `cuebook users erase` remove those as well.
    """
    what = f"{len(ids)} {'group' if of_groups else 'unit'}{'s' * (len(ids) != 1)}"
    confirm(f"Remove {what} from {user_id!r}'s memory for good?", yes=yes)
    _each(ids, GROUPS if of_groups else UNITS, ("DELETE", None), user_id, "removed", config, flags)


def _each(
    ids: tuple[str, ...],
    where: str,
    request: tuple[str, dict[str, object] | None],
    user_id: str,
    done: str,
    config: Path | None,
    flags: dict[str, Any],
) -> None:
    """Does one thing to each of them. Ends the command with those of which it was refused."""
    settings, (method, body) = settings_of(config, **flags), request

    async def work() -> list[str]:
        refused = []
        async with reach(settings, writing=True) as api:
            for each in ids:
                try:
                    await api.send(method, f"{where}/{in_path(each)}", body, userId=user_id)
                    errors.print(f"{done} {escape(each)}")
                except Answered as error:
                    refused.append(f"{each}: {error}")
        return refused

    if refused := run(work()):
        fail("; ".join(refused))


COMMANDS = (add, list_units, show, pin, remove)
