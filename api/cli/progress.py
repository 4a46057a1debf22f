"""Progress of long work on standard error: a bar on a terminal, lines elsewhere."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Protocol

from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn

from api.cli.output import errors
from api.cli.reach import Answered, Reach

LOOK_S = 0.2  # between two requests for the progress of work on the server
LINE_S = 5.0  # between two lines, where there is no bar


class OnProgress(Protocol):
    """Receives the progress of work: units done and in all; 0 of 0 while the total is unknown."""

    def __call__(self, done: int, total: int, /) -> None: ...


@contextmanager
def counted_progress(what: str) -> Iterator[OnProgress]:
    """Show a bar on a terminal; elsewhere print a line on standard error every few seconds."""
    with _bar(what, MofNCompleteColumn()) if errors.is_terminal else nullcontext(_Lines(what)) as tell:
        yield tell


@contextmanager
def byte_progress(what: str) -> Iterator[OnProgress]:
    """Show a bar of bytes on a terminal; elsewhere nothing."""
    with _bar(what, DownloadColumn()) if errors.is_terminal else nullcontext(_nothing) as tell:
        yield tell


async def follow(
    api: Reach,
    path: str,
    work: asyncio.Task[Any],
    what: str,
    counted: ProgressColumn,
    stand: Callable[[Any], tuple[str, int, int]],
) -> None:
    """Draw a bar on a terminal until `work` ends; elsewhere nothing.

    `path` is the route that reports the running work under `running`; `stand` turns that report into the step's name,
    the units done, and the least number of units in all.
    """
    if not errors.is_terminal:
        return
    columns = (TextColumn("{task.description}"), BarColumn(), counted)
    with Progress(*columns, console=errors, transient=True) as progress:
        bar = progress.add_task(what, total=None)
        while not (await asyncio.wait({work}, timeout=LOOK_S))[0]:
            found: Any = None
            with suppress(Answered):  # a failed look does not matter: the work continues
                found = await api.get(path)
            running = found and found["running"]
            if running is not None:
                step, done, total = stand(running)
                progress.update(bar, description=step, completed=done, total=max(done, total))


@contextmanager
def _bar(what: str, counted: ProgressColumn) -> Iterator[OnProgress]:
    columns = (TextColumn("{task.description}"), BarColumn(), counted)
    with Progress(*columns, console=errors, transient=True) as progress:
        bar = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total or None)


def _nothing(done: int, total: int, /) -> None:
    """Ignore progress where there is no terminal."""


class _Lines:
    """Prints progress as lines for a log."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._printed_at = time.monotonic()
        self._printed = 0

    def __call__(self, done: int, total: int, /) -> None:
        if done != self._printed and time.monotonic() - self._printed_at >= LINE_S:
            self._printed, self._printed_at = done, time.monotonic()
            errors.print(f"{self._what}: {done:,}{f' of {total:,}' * bool(total)}")
