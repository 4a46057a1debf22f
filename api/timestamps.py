"""The current time, and timestamps in the format of the API."""

from datetime import UTC, datetime
from functools import partial

from runtime.state.ports import Clock

utc_now: Clock = partial(datetime.now, UTC)
"""Returns the current time in UTC."""


def utc_text(moment: datetime) -> str:
    """Return an aware time as ISO 8601 text in UTC that ends in `Z`."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
