"""The current time, timestamps in the format of the API, and times in the names of files."""

from datetime import UTC, datetime
from functools import partial

from runtime.state.ports import Clock

utc_now: Clock = partial(datetime.now, UTC)
"""Returns the current time in UTC."""


def utc_text(moment: datetime) -> str:
    """Return an aware time as ISO 8601 text in UTC that ends in `Z`."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


_FILE_TIME = "%Y-%m-%dT%H%M%SZ"
FILE_TIME_PATTERN = r"\d{4}-\d\d-\d\dT\d{6}Z"
"""Matches a time in the name of a file or folder."""


def file_time(moment: datetime) -> str:
    """Return an aware time in UTC, in whole seconds, for the name of a file or folder."""
    return moment.astimezone(UTC).strftime(_FILE_TIME)


def read_file_time(text: str) -> datetime:
    """Return the time that `file_time` wrote. Raises ValueError."""
    return datetime.strptime(text, _FILE_TIME).replace(tzinfo=UTC)
