"""``cuebook check`` and ``cuebook explain``: what is wrong with a script, and what a code means."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import click
from rich.markup import escape

from api.against import NothingToCompare, against_file, against_record
from api.app import utc_now
from api.catalogue import problem_views
from api.cli.judging import judge
from api.cli.output import console, errors, fail, print_json
from api.errors import ApiError
from api.sarif import sarif_log
from scripts.diagnostics import CODES, Problem
from scripts.parse import Mode, Reading
from scripts.suggest import suggest
from store.errors import StoreError

_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


@click.command(epilog="Example: cuebook check my-scripts/ --strict")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--format", "style", type=click.Choice(["text", "json", "sarif"]), default="text", help="How to print [text]."
)
@click.option("--strict", is_flag=True, help="Older and unknown keys are errors, and warnings count as problems.")
@click.option(
    "--against",
    metavar="OLD.yaml",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Also what changed since this version of the one script, for sessions that run it.",
)
@click.option(
    "--against-data",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The same since the version published in this record, and how many sessions it touches.",
)
def check(
    paths: Sequence[Path],
    style: Literal["text", "json", "sarif"],
    strict: bool,
    against: Path | None,
    against_data: Path | None,
) -> None:
    """Finds every problem of the scripts in files and folders, and of the cases (*.case.yaml) that test them.

    Exits with 1 where there is an error (with --strict: or a warning).
    """
    mode: Mode = "strict" if strict else "compat"
    judged = judge(paths, mode)
    readings = judged.readings
    for note in judged.notes:
        errors.print(f"[cyan]note[/] {escape(note)}")
    if not readings:
        fail("there is no script (.yaml) here")
    if against is not None or against_data is not None:
        readings = (_compared(readings, against, against_data),)
    problems = [problem for reading in readings for problem in reading.problems]
    if style == "json":
        views = list(problem_views(tuple(problems)))
        print_json({"files": [reading.source.file for reading in readings], "diagnostics": views})
    elif style == "sarif":
        print_json(sarif_log(readings, Path.cwd()))
    else:
        for reading in readings:
            _print_reading(reading)
        if readings:
            _print_summary(len(judged.scripts), len(judged.cases), problems)
    counted = {"error", "warning"} if strict else {"error"}
    sys.exit(1 if any(problem.severity in counted for problem in problems) else 0)


def _compared(readings: tuple[Reading, ...], earlier: Path | None, data: Path | None) -> Reading:
    """The one script, with what changed since an earlier version of it."""
    if len(readings) != 1 or (earlier is not None and data is not None):
        fail("name one script, and one of --against and --against-data")
    try:
        if earlier is not None:
            return against_file(readings[0], earlier).reading
        compared = asyncio.run(against_record(readings[0], data or Path(), utc_now))
    except (NothingToCompare, StoreError, ApiError) as error:
        fail(str(error))
    if compared.running is not None:
        errors.print(f"{compared.running} running session{'s' * (compared.running != 1)}")
    return compared.reading


def _print_reading(reading: Reading) -> None:
    lines = reading.source.text.splitlines()
    for problem in reading.problems:
        colour = _COLOURS[problem.severity]
        console.print(
            f"{escape(problem.file)}:{problem.line}:{problem.column} "
            f"[{colour}]{problem.severity}[/] [bold]{problem.code}[/] {escape(problem.message)}"
        )
        if problem.file == reading.source.file and problem.line <= len(lines):
            console.print(f"    {escape(lines[problem.line - 1])}", style="dim")
            console.print(" " * (3 + problem.column) + "^", style=colour)
        if problem.fix:
            console.print(f"    {escape(problem.fix)}")


def _print_summary(scripts: int, cases: int, problems: list[Problem]) -> None:
    kinds = [
        f"{count} {what}{'s' * (count != 1)}" for count, what in ((scripts, "script"), (cases, "case file")) if count
    ]
    counts = {severity: sum(problem.severity == severity for problem in problems) for severity in _COLOURS}
    parts = [f"{count} {severity}{'s' * (count != 1)}" for severity, count in counts.items()]
    errors.print(f"{' and '.join(kinds)}: {', '.join(parts)}")


@click.command(epilog="Example: cuebook explain VARIABLE_NEVER_SET")
@click.argument("code", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain(code: str | None, as_json: bool) -> None:
    """Says what a code of `cuebook check` means and how to mend it; without a code, all of them."""
    wanted = list(CODES) if code is None else [code.upper()]
    if wanted[0] not in CODES:
        fail(f"there is no code {code}. {suggest(wanted[0], list(CODES), otherwise='`cuebook explain` lists them.')}")
    if as_json:
        described: list[Any] = [{"code": each, **_described(each)} for each in wanted]
        print_json(described if code is None else described[0])
        return
    for each in wanted:
        kind = CODES[each]
        console.print(f"[bold]{each}[/] ([{_COLOURS[kind.severity]}]{kind.severity}[/])")
        console.print(f"    {escape(kind.meaning)}\n    {escape(kind.fix)}")


def _described(code: str) -> dict[str, str]:
    kind = CODES[code]
    return {"severity": kind.severity, "meaning": kind.meaning, "fix": kind.fix}
