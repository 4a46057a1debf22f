"""Tasks that run in the background as long as the server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import structlog

from store.interface.errors import StoreError

LOOK_S = 60.0  # between two checks whether something is due
TROUBLE_S = 2.0  # the least time until work is done again after the database failed

log = structlog.get_logger()

T = TypeVar("T")


@asynccontextmanager
async def background(work: Coroutine[None, None, None], stopped: str) -> AsyncIterator[None]:
    """Run work inside the context, and cancel it at the end. Log `stopped` if an error ends it earlier."""
    task = start_background(work, stopped)
    try:
        yield
    finally:
        await cancel_all(task)


def looking(look: Callable[[], Awaitable[None]], what: str) -> AbstractAsyncContextManager[None]:
    """Call `look`, which does what is due, every LOOK_S seconds inside the context; `what` names it in the log."""
    work = repeat(look, LOOK_S, f"scheduled {what} failed")
    return background(work, f"scheduled {what} have stopped until the server is restarted")


def is_due(last: datetime | None, now: datetime, every: timedelta) -> bool:
    """Return whether work that was last done at `last`, if ever, is due; the time of a clock that was ahead is none."""
    return last is None or not timedelta(0) <= now - last < every


async def repeat(work: Callable[[], Awaitable[object]], every_s: float, problem: str, *, first_s: float = 0.0) -> None:
    """Do work after `first_s`, and again every `every_s`. Log `problem` if the database fails, and wait longer then."""
    await asyncio.sleep(first_s)
    while True:
        pause_s = every_s
        try:
            await work()
        except StoreError as error:
            log.warning(problem, problem=str(error))
            pause_s = max(every_s, TROUBLE_S)
        await asyncio.sleep(pause_s)


def start_background(work: Coroutine[None, None, None], stopped: str) -> asyncio.Task[None]:
    """Start a task that ends with the server. Log `stopped` if an error ends it earlier."""
    task = asyncio.create_task(work)
    task.add_done_callback(partial(_log_end, stopped))
    return task


async def wait_started(task: asyncio.Task[None], started: asyncio.Event) -> None:
    """Wait until a task has set `started`; raise its error if it ends before."""
    waiting = asyncio.create_task(started.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if task.done():
        await task


def retain(tasks: set[asyncio.Task[T]], task: asyncio.Task[T]) -> asyncio.Task[T]:
    """Add a task to the set until it has ended: asyncio itself has no reference to it."""
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


async def wait_at_most(seconds: float, event: asyncio.Event) -> None:
    """Wait for an event, or until the time is over."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


@asynccontextmanager
async def within(seconds: float, error: Exception) -> AsyncIterator[None]:
    """Raise the error if the context takes longer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise error from None


async def cancel_all(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _log_end(stopped: str, task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error(stopped, exc_info=error)


def retrieve_exception(task: asyncio.Task[Any]) -> None:
    """Retrieve a failed task's exception, so that asyncio does not report it if no caller waits any more."""
    if not task.cancelled():
        task.exception()
