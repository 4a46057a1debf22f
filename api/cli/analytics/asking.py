"""What the commands of analysts share: how they wait for the analytics to be made, and what becomes of an answer."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from api.cli.analytics.inline import can_show
from api.cli.output import errors, fail
from api.cli.reach import Answered
from api.files import writing_whole
from api.schemas.analytics import MAX_AGE_DEFAULT_S

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

READY_MAX_S = 3_600.0
LOOK_S = 0.5  # between two questions whether it is ready
ROOM_S = 120.0  # above what a query may take: others may be before it, and the file is brought up to date first
PATH = "/api/analytics"
FORMS = ("table", "csv", "json", "parquet", "svg", "png")
OF_FILE = frozenset({"parquet", "png"})  # not for a terminal

as_form = click.option("--format", "form", type=click.Choice(FORMS), default="table", help="[table]")
to_file = click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="File to write; its ending is the format."
)
unmasked = click.option(
    "--unmasked", is_flag=True, help="With what was said, personal values and users' own ids; needs the role `reader`."
)
from_file = click.option(
    "--file", "snapshot", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Ask a snapshot instead."
)


fresh = click.option("--fresh", is_flag=True, help="Look at the record first; else the answer is at most a minute old.")


def age_of(fresh: bool) -> float:
    """How many seconds old an answer may be."""
    return 0.0 if fresh else MAX_AGE_DEFAULT_S


def refuse_for_file(snapshot: Path | None, *, unmasked: bool, fresh: bool) -> None:
    """A snapshot has what it was made with: nothing of it can be unmasked, or newer."""
    if snapshot is not None and fresh:
        fail(f"--fresh is nothing for a file: {snapshot} is as it was made; cuebook snapshot makes another")
    if snapshot is not None and unmasked:
        fail(
            f"--unmasked is nothing for a file: {snapshot} is as it was made; cuebook snapshot --unmasked makes another"
        )


def form_of(form: str, output: Path | None) -> str:
    """The format that is meant: of a file its ending says it, unless it was named."""
    ending = "" if output is None else output.suffix.removeprefix(".").lower()
    given = click.get_current_context().get_parameter_source("form")
    if given is click.core.ParameterSource.DEFAULT and output is not None:
        if ending not in FORMS:
            fail(f"{output} has the ending of no format ({', '.join(FORMS[1:])}); say which with --format")
        return ending
    if form in OF_FILE and output is None and sys.stdout.isatty() and not (form == "png" and can_show()):
        fail(f"{form} is nothing for a terminal; name a file with -o")
    return form


async def patiently(work: Callable[[], Awaitable[T]]) -> T:
    """What the work comes to, once the analytics are made; shows how far they are. Raises Answered."""
    until = time.monotonic() + READY_MAX_S
    columns = (TextColumn("making the analytics"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        bar: Any = None
        while True:
            try:
                return await work()
            except Answered as refused:
                if refused.code != "ANALYTICS_NOT_READY" or time.monotonic() > until:
                    raise
                bar = progress.add_task("", total=None) if bar is None else bar
                progress.update(bar, completed=refused.details["turns"], total=refused.details["of"] or None)
                await asyncio.sleep(LOOK_S)


def put(content: bytes, output: Path | None) -> None:
    """Write a document, to a file or to standard output."""
    if output is None:
        sys.stdout.buffer.write(content)
        return
    try:
        with writing_whole(output) as file:
            file.write(content)
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror}")
    errors.print(f"{output} written, {len(content):,} bytes")
