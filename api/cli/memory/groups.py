"""``cuebook memory groups|restore``: sessions and collections of a memory."""

from pathlib import Path
from typing import Any

import click

from api.cli.memory.asking import GROUPS, in_json, minute, of_user, read, tell_more
from api.cli.options import settings_of, with_settings
from api.cli.output import errors, print_json, print_table, told
from api.cli.reach import reach, run
from api.paths import in_path

COLUMNS = ("groupId", "kind", "createdAt", "units", "summaries", "context", "shortTerm")


@click.command(epilog="Example: cuebook memory groups --user ana")
@of_user
@click.option("--limit", type=click.IntRange(1, 200), default=50, help="How many at most [50].")
@click.option("--cursor", help="`nextCursor` of the page before.")
@in_json
@with_settings("data", "host", "port")
def groups(user_id: str, limit: int, cursor: str | None, as_json: bool, config: Path | None, **flags: Any) -> None:
    """Lists the sessions and collections of a memory, the oldest first: how much is in them, and in their mind."""
    page = read(GROUPS, {"userId": user_id, "limit": limit, "cursor": cursor}, config, flags)
    if as_json:
        print_json(page)
        return
    rows = [group | {"kind": _kind(group), "createdAt": minute(group["createdAt"])} for group in page["data"]]
    print_table(COLUMNS, [[row[column] for column in COLUMNS] for row in rows])
    tell_more(page)


def _kind(group: Any) -> str:
    return "collection" if group["sessionId"] is None else "session"


@click.command(epilog="Example: cuebook memory restore --user ana diary --from LATEST")
@click.argument("group")
@of_user
@click.option(
    "--from", "source", default="LATEST", help="The one whose last units it gets [LATEST: begun last besides]."
)
@with_settings("data", "host", "port")
def restore(group: str, user_id: str, source: str, config: Path | None, **flags: Any) -> None:
    """Fills the short-term memory of a session or collection with what was said last in another."""
    settings = settings_of(config, **flags)

    async def work() -> Any:
        async with reach(settings, writing=True) as api:
            body = {"userId": user_id, "source": source}
            return await api.send("POST", f"{GROUPS}/{in_path(group)}/restore", body)

    count = run(work())["shortTerm"]
    errors.print(f"{told(group)} has {count} unit{'s' * (count != 1)} in its short-term memory")


COMMANDS = (groups, restore)
