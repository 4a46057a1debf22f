"""A module whose import takes long."""

import time

from cuebook import Tool

time.sleep(0.5)


@Tool
def lookup_order(order: str) -> dict[str, str]:
    """Return the state of an order."""
    return {"status": f"{order} sent"}
