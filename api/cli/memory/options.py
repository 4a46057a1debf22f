"""Shared options and functions of the memory commands: user, filters, times, and tables of units."""

import re
from typing import Any

import click
import msgspec

from api.cli.backend import backend
from api.cli.options import moment_of
from api.cli.output import fail
from api.settings import Settings

UNITS = "/api/memory/units"
GROUPS = "/api/memory/groups"
TEXT_CHARS = 80
"""Characters shown of a unit's text in a table."""
UNIT_COLUMNS = ("unitId", "group", "rank", "time", "source", "visits", "pinned", "text")

of_user = click.option("--user", "user_id", required=True, help="The user whose memory is used.")


def filter_of(text: str | None) -> Any:
    """Parse a filter for the API; end the command if it is not valid JSON."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        fail(f"""--filter takes JSON, such as '{{"source": "ana"}}': {error}""")


def time_of(text: str | None, option: str) -> str | None:
    """Parse a time for the API, in UTC if it has no zone; end the command if it is invalid."""
    return None if text is None else moment_of(text, option).isoformat()


async def read(settings: Settings, path: str, **query: Any) -> Any:
    """Return the JSON answer of a GET request.

    The database is opened for writing, because a memory ingests new messages before every read.
    """
    async with backend(settings, writing=True) as api:
        return await api.get(path, **query)


def unit_row(unit: Any) -> dict[str, Any]:
    """Return the cells of a unit by UNIT_COLUMNS."""
    return {
        **unit,
        "group": unit["groupId"],
        "time": minute(unit["creationTime"]),
        "visits": unit["visitCount"],
        "pinned": "yes" if unit["neverDelete"] else "",
        "text": shorten_line(unit["content"]),
    }


def minute(time: str) -> str:
    """Format a time without its seconds: ``2026-01-31 09:30``."""
    return re.sub(r"T(\d\d:\d\d).*", r" \1", time)


def shorten_line(text: str) -> str:
    """Return the first TEXT_CHARS characters of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= TEXT_CHARS else line[: TEXT_CHARS - 1] + "…"
