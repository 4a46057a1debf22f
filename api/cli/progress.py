"""Progress of long work: a bar on standard error, if that is a terminal."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TaskID, TextColumn

from api.cli.output import errors

T = TypeVar("T")


class ProgressBar:
    """A bar on standard error; nothing if that is no terminal."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def __call__(self, done: int, total: int, /) -> None:
        """Show how much is done, of 0 while the total is unknown."""
        self.update(completed=done, total=total or None)

    def advance(self, count: int = 1) -> None:
        """Count further units as done."""
        self._progress.advance(self._task, count)

    def update(self, **fields: Any) -> None:
        """Change fields of the bar, such as its `description`."""
        self._progress.update(self._task, **fields)


@contextmanager
def progress_bar(
    what: str, *columns: ProgressColumn, total: int | None = None, hidden: bool = False, **fields: Any
) -> Iterator[ProgressBar]:
    """Show a bar with a description on a terminal, and the number of units unless there are other columns."""
    shown = (TextColumn("{task.description}"), BarColumn(), *(columns or (MofNCompleteColumn(),)))
    disable = hidden or not errors.is_terminal
    with Progress(*shown, console=errors, transient=True, disable=disable) as progress:
        yield ProgressBar(progress, progress.add_task(what, total=total, **fields))


def track(what: str, rows: Sequence[T], *columns: ProgressColumn) -> Iterator[T]:
    """Yield the rows and show a bar."""
    with progress_bar(what, *columns, total=len(rows), hidden=not rows) as bar:
        for row in rows:
            yield row
            bar.advance()
