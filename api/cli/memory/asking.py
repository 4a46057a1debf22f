"""What the commands of memory have in common: whose it is, filters, and units as lines."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from api.cli.options import settings_of
from api.cli.output import errors, fail, print_table
from api.cli.reach import reach, run

UNITS = "/api/memory/units"
GROUPS = "/api/memory/groups"
TEXT_CHARS = 80
"""Of a unit's text in a table."""
UNIT_COLUMNS = ("unitId", "group", "rank", "time", "source", "visits", "pinned", "text")

of_user = click.option("--user", "user_id", required=True, help="Whose memory.")
in_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
sure = click.option("--yes", is_flag=True, help="Do not ask.")


def filter_of(text: str | None) -> Any:
    """A filter as it is sent. Ends the command where it is no JSON."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        fail(f"""--filter takes JSON, such as '{{"source": "ana"}}': {error}""")


def time_of(text: str | None, option: str) -> str | None:
    """A time as it is sent; without a zone it is UTC. Ends the command where it is none."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        fail(f"{option} takes a date or a time, such as 2026-01-31T09:30, not {text!r}")
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).isoformat()


def read(path: str, asked: dict[str, Any], config: Path | None, flags: dict[str, Any]) -> Any:
    """What a GET answers. Ends the command where it is refused.

    Memories take in what has been said before they tell of themselves: even this writes.
    """
    settings = settings_of(config, **flags)

    async def work() -> Any:
        async with reach(settings, writing=True) as api:
            return await api.get(path, **asked)

    return run(work())


def print_units(units: Iterable[Any]) -> None:
    """Units as a table."""
    print_table(UNIT_COLUMNS, [_line(unit) for unit in units])


def _line(unit: Any) -> list[Any]:
    return [
        unit["unitId"],
        unit["groupId"],
        unit["rank"],
        minute(unit["creationTime"]),
        unit["source"],
        unit["visitCount"],
        "yes" if unit["neverDelete"] else "",
        shortened(unit["content"]),
    ]


def minute(time: str) -> str:
    """A time without its seconds, as people write it."""
    return re.sub(r"T(\d\d:\d\d).*", r" \1", time)


def shortened(text: str) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= TEXT_CHARS else line[: TEXT_CHARS - 1] + "…"


def tell_more(page: Any) -> None:
    """How to see the next page, where there is one."""
    if page["nextCursor"]:
        errors.print(f"more: --cursor {page['nextCursor']}", markup=False)
