"""``cuebook check --against``: what changed in a script since an earlier version, for the sessions that run it."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from api.against import NothingToCompare, against_file, against_record
from api.app import utc_now
from api.cli.output import errors, fail
from api.errors import ApiError
from scripts.parse import Reading
from store.errors import StoreError


def compared(readings: Sequence[Reading], earlier: Path | None, data: Path | None) -> Reading:
    """The one script, with what changed since an earlier version of it."""
    if len(readings) != 1 or (earlier is not None and data is not None):
        fail("name one script, and one of --against and --against-data")
    try:
        if earlier is not None:
            return against_file(readings[0], earlier).reading
        found = asyncio.run(against_record(readings[0], data or Path(), utc_now))
    except (NothingToCompare, StoreError, ApiError) as error:
        fail(str(error))
    if found.running is not None:
        errors.print(f"{found.running} running session{'s' * (found.running != 1)}")
    return found.reading
