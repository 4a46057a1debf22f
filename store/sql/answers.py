"""Resolve the futures of a group of writes from the thread that wrote it."""

import asyncio
from collections.abc import Iterable
from typing import Any, TypeAlias

from store.interface.errors import StoreError

Outcome: TypeAlias = tuple[asyncio.Future[Any], object]
"""The future of a write, and its result or StoreError."""


def answer(outcomes: Iterable[Outcome]) -> None:
    """Resolve the futures, with one wake-up of each event loop for all of its callers in the group."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Outcome]] = {}
    for done, outcome in outcomes:
        by_loop.setdefault(done.get_loop(), []).append((done, outcome))
    for loop, answers in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, answers)
        except RuntimeError:  # the loop was closed, so no caller waits
            continue


def _resolve(answers: list[Outcome]) -> None:
    for done, outcome in answers:
        if done.done():  # its caller was cancelled
            continue
        if isinstance(outcome, StoreError):
            done.set_exception(outcome)
        else:
            done.set_result(outcome)
