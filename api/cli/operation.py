"""Long work on the database by one request, with its progress on a terminal."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec import Struct
from rich.progress import ProgressColumn

from api.cli.backend import RequestRefused, backend
from api.cli.output import errors
from api.cli.progress import progress_bar
from api.settings import Settings

LOOK_S = 0.2  # between two requests for the progress of work on the server
PATH = "/api/operations"


class Operation(Struct, frozen=True):
    """A route whose POST request does the work; GET returns a preview, and reports the running work as `running`.

    `progress_of` turns that report into the name of the step, the units done, and the least number of units in all.
    """

    name: str
    timeout_s: float
    what: str
    counted: ProgressColumn
    progress_of: Callable[[Any], tuple[str, int, int]]

    async def run(self, settings: Settings, *, dry_run: bool) -> Any:
        """Return the JSON answer, or with `dry_run` the preview; show a bar on a terminal."""
        path = f"{PATH}/{self.name}"
        async with backend(settings, writing=not dry_run) as api:
            if dry_run:
                return await api.get(path)
            work = asyncio.create_task(api.send("POST", path, timeout_s=self.timeout_s))
            with progress_bar(self.what, self.counted) as bar:
                while errors.is_terminal and not (await asyncio.wait({work}, timeout=LOOK_S))[0]:
                    found: Any = None
                    with suppress(RequestRefused):  # a failed request for progress does not matter: the work continues
                        found = await api.get(path)
                    if found and found["running"] is not None:
                        step, done, total = self.progress_of(found["running"])
                        bar.update(description=step, completed=done, total=max(done, total))
                return await work


def copy_progress(running: Any) -> tuple[str, int, int]:
    """Return step, bytes written and bytes expected of a compaction or backup."""
    return running["step"], running["bytesWritten"], running["bytesExpected"]


def megabytes(count: int) -> str:
    """Return a number of bytes as a text."""
    return f"{count / 1e6:.1f} MB"
