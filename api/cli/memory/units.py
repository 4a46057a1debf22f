"""``cuebook memory add|list|show|pin|remove|groups|restore``: the units, sessions and collections of a memory."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import click

from api.cli.backend import backend, send_each
from api.cli.memory.maintenance import wait_for_vectors
from api.cli.memory.options import GROUPS, UNIT_COLUMNS, UNITS, filter_of, minute, of_user, read, time_of, unit_row
from api.cli.options import in_json, json_option, page_options, skip_confirmation, value_of, with_settings
from api.cli.output import confirm, console, errors, fail, json_text, print_json, print_page, printable
from api.schemas.ids import in_path
from api.schemas.memory import COLLECTION, UNITS_MAX
from api.settings import Settings
from scripts.expressions.values import count_text

GROUP_COLUMNS = ("groupId", "kind", "createdAt", "units", "summaries", "context", "shortTerm")


@click.command(epilog="Example: cuebook memory add --user ana --source Ana 'I moved to Lisbon.'")
@click.argument("texts", metavar="TEXT...", nargs=-1, required=True)
@of_user
@click.option("--group", default=COLLECTION, help=f"The collection of the units, created if missing [{COLLECTION}].")
@click.option("--source", default="user", help="The speaker or origin of the text [user].")
@click.option("--time", "said_at", help="The time of the text, such as 2026-01-31T09:30 [now].")
@click.option("--metadata", multiple=True, metavar="NAME=VALUE", help="Metadata: JSON, else a text. May be repeated.")
@click.option(
    "--trust",
    type=click.Choice(["own", "conversation", "foreign"]),
    default="conversation",
    help="Trust level [conversation].",
)
@click.option("--pin", "neverDelete", is_flag=True, help="Protect the unit from `cuebook memory forget`.")
@click.option("--id", "unitId", help="Id of the unit; adding the same id again has no effect.")
@click.option("--supersedes", metavar="UNIT", help="The unit that this one replaces from its time on.")
@in_json
@with_settings("data", "embedder")
async def add(
    settings: Settings,
    texts: tuple[str, ...],
    user_id: str,
    group: str,
    said_at: str | None,
    metadata: tuple[str, ...],
    as_json: bool,
    **common: Any,
) -> None:
    """Add each TEXT as a unit to a collection of a user's memory, and print the ids of the units.

    Use it for facts that no session contains; messages of sessions are added automatically. `-` reads texts from
    standard input, one per line. Trust levels: `own` is text of the application, `conversation` is text of users and
    models, `foreign` is text from elsewhere.
    """
    contents = list(_texts(texts))
    if (common["unitId"] or common["supersedes"]) and len(contents) != 1:
        fail(f"--id and --supersedes are for one text, but there are {len(contents)}")
    if not contents:
        fail("there is no text to add")
    common["creationTime"] = time_of(said_at, "--time")
    common["metadata"] = dict(value_of(pair, "--metadata") for pair in metadata)

    added: list[Any] = []
    async with backend(settings, managing=True, working=True) as api:
        for start in range(0, len(contents), UNITS_MAX):
            units = [{"content": text, **common} for text in contents[start : start + UNITS_MAX]]
            answer = await api.send("POST", UNITS, {"userId": user_id, "group": group, "units": units})
            added += answer["data"]
        if not api.is_served:  # a server computes them in the background
            await wait_for_vectors(api, user_id)
    if as_json:
        print_json(added)
    else:
        for unit in added:
            click.echo(unit["unitId"])
    errors.print(f"{count_text(len(added), 'unit')} in {printable(group)} of {printable(user_id)}'s memory")


def _texts(arguments: Sequence[str]) -> Iterator[str]:
    for text in arguments:
        if text != "-":
            yield text
            continue
        try:
            yield from (line.strip() for line in sys.stdin if line.strip())
        except UnicodeDecodeError:
            fail("standard input is not UTF-8 text")


@click.command("list", epilog="""Example: cuebook memory list --user ana --filter '{"source": "Ana"}'""")
@of_user
@click.option("--group", help="Only units of this session or collection.")
@click.option(
    "--rank", type=click.IntRange(0, 2), help="0: messages and notes, 1: summaries of groups, 2: of the memory."
)
@click.option("--filter", "filters", metavar="JSON", help="Only units that match this filter.")
@page_options("units")
@json_option(lambda page: print_page(page, UNIT_COLUMNS, unit_row))
@with_settings("data")
async def list_units(settings: Settings, user_id: str, filters: str | None, **query: Any) -> Any:
    """List the units of a memory, oldest first."""
    filter_of(filters)
    return await read(settings, UNITS, userId=user_id, filters=filters, **query)


def _print_unit(unit: Any) -> None:
    console.print(printable(unit["content"]))
    for name, value in unit.items():
        if name != "content" and value not in (None, False, [], {}):
            console.print(f"[dim]{name}[/] {printable(value if isinstance(value, str) else json_text(value))}")


@click.command(epilog="Example: cuebook memory show --user ana 7109d623-8314-4cc4-b6a2-11c8d5b88e58:3")
@click.argument("unit_id", metavar="UNIT")
@of_user
@json_option(_print_unit)
@with_settings("data")
async def show(settings: Settings, unit_id: str, user_id: str) -> Any:
    """Show one unit: its text, position, links and metadata."""
    return (await read(settings, f"{UNITS}/{in_path(unit_id)}", userId=user_id))["unit"]


@click.command(epilog="Example: cuebook memory pin --user ana prefers-mornings")
@click.argument("unit_ids", nargs=-1, required=True, metavar="UNIT...")
@of_user
@click.option("--off", is_flag=True, help="Unpin the units.")
@with_settings("data")
async def pin(settings: Settings, unit_ids: tuple[str, ...], user_id: str, off: bool) -> None:
    """Pin units: `cuebook memory forget` never removes them."""
    done = "unpinned" if off else "pinned"
    await send_each(settings, "PATCH", UNITS, unit_ids, {"neverDelete": not off}, done, userId=user_id)


@click.command(epilog="Example: cuebook memory remove --user ana prefers-mornings --yes")
@click.argument("ids", nargs=-1, required=True, metavar="UNIT...")
@of_user
@click.option(
    "--group", "of_groups", is_flag=True, help="The arguments are sessions or collections: remove all units of each."
)
@skip_confirmation
@with_settings("data")
async def remove(settings: Settings, ids: tuple[str, ...], user_id: str, of_groups: bool, yes: bool) -> None:
    """Permanently remove units and their vectors from a memory; their summaries are rewritten.

    Messages stay in their sessions; `cuebook sessions delete` and `cuebook users erase` remove those too.
    """
    what = count_text(len(ids), "group" if of_groups else "unit")
    confirm(f"Permanently remove {what} from {user_id!r}'s memory?", yes=yes)
    folder = GROUPS if of_groups else UNITS
    await send_each(settings, "DELETE", folder, ids, None, "removed", userId=user_id)


# -- sessions and collections -----------------------------------------------------------------------------------------


@click.command(epilog="Example: cuebook memory groups --user ana")
@of_user
@page_options("groups")
@json_option(lambda page: print_page(page, GROUP_COLUMNS, _group_row))
@with_settings("data")
async def groups(settings: Settings, user_id: str, limit: int, cursor: str | None) -> Any:
    """List the sessions and collections of a memory, oldest first, with the number of units in each."""
    return await read(settings, GROUPS, userId=user_id, limit=limit, cursor=cursor)


def _group_row(group: Any) -> dict[str, Any]:
    kind = "collection" if group["sessionId"] is None else "session"
    return {**group, "kind": kind, "createdAt": minute(group["createdAt"])}


@click.command(epilog="Example: cuebook memory restore --user ana diary --from LATEST")
@click.argument("group")
@of_user
@click.option(
    "--from", "source", default="LATEST", help="The group to copy from [LATEST: the newest other group with units]."
)
@with_settings("data")
async def restore(settings: Settings, group: str, user_id: str, source: str) -> None:
    """Copy the latest units of another session or collection into the short-term memory of GROUP."""
    async with backend(settings, writing=True) as api:
        body = {"userId": user_id, "source": source}
        count = (await api.send("POST", f"{GROUPS}/{in_path(group)}/restore", body))["shortTerm"]
    errors.print(f"{printable(group)} has {count_text(count, 'unit')} in its short-term memory")
