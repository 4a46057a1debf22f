"""A package with tools, as others write them; tests put its folder on the path."""

import asyncio
import time
from dataclasses import dataclass

from cuebook import Tool


@dataclass
class Order:
    """What the shop knows of an order."""

    status: str
    count: int = 1


@Tool
async def lookup_order(order: str, language: str = "en") -> Order:
    """Find an order."""
    return Order(f"{order} in {language}")


@Tool
def wait_in_thread(seconds: float) -> str:
    """Sleep, and do not let others run meanwhile."""
    time.sleep(seconds)
    return "awake"


@Tool
async def wait_forever() -> None:
    """Never return."""
    await asyncio.sleep(3_600)


@Tool
def fail(secret: str) -> None:
    """Raise an error whose text is personal."""
    raise RuntimeError(secret)
