"""Shared options and functions of the analytics commands: waiting for the analytics tables, and writing results."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec import Struct
from rich.progress import MofNCompleteColumn, TimeRemainingColumn

from api.cli.backend import RequestRefused
from api.cli.options import EXISTING_FILE, OUTPUT_FILE, Command
from api.cli.output import errors, fail, file_errors
from api.cli.progress import ProgressBar, progress_bar
from api.local_files.atomic_files import writing_whole
from api.schemas.analytics import MAX_AGE_DEFAULT_S

T = TypeVar("T")

READY_MAX_S = 3_600.0
LOOK_S = 0.5  # between two checks whether the tables are ready
EXTRA_TIMEOUT_S = 120.0  # on top of a query's own limit: it may wait for other queries and for a refresh of the tables
PATH = "/api/analytics"
FORMS = ("table", "csv", "json", "parquet", "vega-lite", "svg", "png")
ENDINGS = {"vl.json": "vega-lite"} | {form: form for form in FORMS[1:] if form != "vega-lite"}
BINARY = frozenset({"parquet", "png"})  # not for a terminal

_as_form = click.option("--format", "form", type=click.Choice(FORMS), help="Output format [table].")
_to_file = click.option("-o", "--output", type=OUTPUT_FILE, help="Output file; its suffix selects the format.")
unmasked = click.option(
    "--unmasked", is_flag=True, help="Include texts, personal values and original user ids; requires the role `reader`."
)
_from_file = click.option("--file", "snapshot", type=EXISTING_FILE, help="Query a snapshot instead.")


fresh = click.option("--fresh", is_flag=True, help="Refresh the tables first; else the data is up to a minute old.")


def age_of(fresh: bool) -> float:
    """Return the maximum age of the data in seconds."""
    return 0.0 if fresh else MAX_AGE_DEFAULT_S


class ResultOptions(Struct, frozen=True, kw_only=True):
    """Where the data of a result comes from, and how the result is written."""

    form: str
    output: Path | None
    masked: bool
    max_age_s: float
    snapshot: Path | None


def with_result(function: Command) -> Command:
    """Add the options of a result, and call the command with them as `result`; end it if they exclude each other."""

    @wraps(function)
    def command(
        form: str | None, output: Path | None, unmasked: bool, fresh: bool, snapshot: Path | None, **arguments: Any
    ) -> None:
        form = _form_of(form, output)
        _refuse_for_file(snapshot, unmasked=unmasked, fresh=fresh)
        result = ResultOptions(
            form=form, output=output, masked=not unmasked, max_age_s=age_of(fresh), snapshot=snapshot
        )
        function(result=result, **arguments)

    for option in (_from_file, fresh, unmasked, _to_file, _as_form):
        command = option(command)
    return command


def _refuse_for_file(snapshot: Path | None, *, unmasked: bool, fresh: bool) -> None:
    """End the command if an option does not apply to a snapshot, which can be neither refreshed nor unmasked."""
    if snapshot is not None and fresh:
        fail(f"--fresh cannot be used with a file: {snapshot} does not change; write a new one with `cuebook snapshot`")
    if snapshot is not None and unmasked:
        fail(
            f"--unmasked cannot be used with a file: {snapshot} does not change;"
            " write a new one with `cuebook snapshot --unmasked`"
        )


def _form_of(form: str | None, output: Path | None) -> str:
    """Return the output format: that of --format, else that of the suffix of the output file."""
    if form is None and output is not None:
        ending = next((each for each in ENDINGS if output.name.lower().endswith(f".{each}")), None)
        if ending is None:
            fail(f"{output}: the suffix is not that of a format ({', '.join(ENDINGS)}); name the format with --format")
        return ENDINGS[ending]
    if form in BINARY and output is None and sys.stdout.isatty():
        fail(f"{form} cannot be printed on a terminal; name a file with -o")
    return "csv" if form == "table" and output is not None else form or "table"


async def wait_until_ready(work: Callable[[], Awaitable[T]]) -> T:
    """Repeat `work` until the analytics tables are ready, at most READY_MAX_S, and return its result.

    Shows the progress of building the tables. Raises RequestRefused.
    """
    until = time.monotonic() + READY_MAX_S
    with ExitStack() as stack:
        bar: ProgressBar | None = None
        while True:
            try:
                return await work()
            except RequestRefused as refused:
                if refused.code != "ANALYTICS_NOT_READY" or time.monotonic() > until:
                    raise
                bar = bar or stack.enter_context(
                    progress_bar("building the tables", MofNCompleteColumn(), TimeRemainingColumn())
                )
                bar(refused.context["turns"], refused.context["of"])
                await asyncio.sleep(LOOK_S)


def write_document(content: bytes, output: Path | None) -> None:
    """Write a document to a file, or to standard output."""
    if output is None:
        sys.stdout.buffer.write(content)
        return
    with file_errors(output), writing_whole(output) as file:
        file.write(content)
    errors.print(f"wrote {output}, {len(content):,} bytes")
