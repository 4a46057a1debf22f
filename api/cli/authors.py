"""``cuebook check`` and ``cuebook explain``: what is wrong with a script, and what a code means."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import click
from rich.markup import escape

from api.catalogue import problem_views
from api.cli.output import console, errors, fail, print_json
from api.sarif import sarif_log
from scripts.diagnostics import CODES, Problem
from scripts.folder import read_path, script_files, users_of
from scripts.parse import Mode, Reading, is_for_others, is_script
from scripts.suggest import suggest

_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


@click.command(epilog="Example: cuebook check my-scripts/ --strict")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--format", "style", type=click.Choice(["text", "json", "sarif"]), default="text", help="How to print [text]."
)
@click.option("--strict", is_flag=True, help="Older and unknown keys are errors, and warnings count as problems.")
def check(paths: Sequence[Path], style: Literal["text", "json", "sarif"], strict: bool) -> None:
    """Finds every problem of the scripts in files and folders.

    Exits with 1 where there is an error (with --strict: or a warning).
    """
    mode: Mode = "strict" if strict else "compat"
    found = {reading.source.file: reading for path in paths for reading in _readings(path, mode)}
    readings = list(found.values())
    if not readings:
        fail("there is no script (.yaml) here")
    problems = [problem for reading in readings for problem in reading.problems]
    if style == "json":
        views = list(problem_views(tuple(problems)))
        print_json({"files": [reading.source.file for reading in readings], "diagnostics": views})
    elif style == "sarif":
        print_json(sarif_log(readings, Path.cwd()))
    else:
        for reading in readings:
            _print_reading(reading)
        _print_summary(len(readings), problems)
    counted = {"error", "warning"} if strict else {"error"}
    sys.exit(1 if any(problem.severity in counted for problem in problems) else 0)


def _readings(path: Path, mode: Mode) -> list[Reading]:
    """The scripts under a path; a file that was named counts as one, or for the scripts that use it."""
    found = [read_path(each, mode) for each in script_files(path)]
    if path.is_file() and found and is_for_others(found[0].source):
        found = [read_path(each, mode) for each in _users_of(path)]
    return [reading for reading in found if path.is_file() or not reading.source.text or is_script(reading.source)]


def _users_of(side_file: Path) -> list[Path]:
    users = [_as_given(each) for each in users_of(side_file)]
    then = f"checking {', '.join(map(str, users))}" if users else "no script beside it has it in `use`"
    errors.print(f"{escape(str(side_file))} is a side file; {escape(then)}")
    return users


def _as_given(path: Path) -> Path:
    """As short as a path can be."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


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


def _print_summary(files: int, problems: list[Problem]) -> None:
    counts = {severity: sum(problem.severity == severity for problem in problems) for severity in _COLOURS}
    parts = [f"{count} {severity}{'s' * (count != 1)}" for severity, count in counts.items()]
    errors.print(f"{files} script{'s' * (files != 1)}: {', '.join(parts)}")


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
