"""``cuebook check`` and ``cuebook explain``: what is wrong with a script, and what a code means."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

import click
from rich.cells import cell_len
from rich.markup import escape

from api.cli.judging import judge
from api.cli.output import console, errors, fail, print_json
from api.problems import problem_views
from api.sarif import sarif_log
from scripts.diagnostics import CODES, Problem, code_groups
from scripts.explained import MARK, explanation
from scripts.parse import Mode, Reading
from scripts.suggest import suggest

_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}
LINE_CHARS_MAX = 160  # of a script's line that is shown


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
        from api.cli.against import compared

        readings = (compared(readings, against, against_data),)
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
            counted_files = {"script": judged.scripts, "case file": judged.cases, "side file": judged.side_files}
            _print_summary({what: len(found) for what, found in counted_files.items()}, problems)
    counted = {"error", "warning"} if strict else {"error"}
    sys.exit(1 if any(problem.severity in counted for problem in problems) else 0)


def _print_reading(reading: Reading) -> None:
    texts = {reading.source.file: reading.source.text, **reading.source.side_files}
    for problem in reading.problems:
        colour = _COLOURS[problem.severity]
        console.print(
            f"{escape(problem.file)}:{problem.line}:{problem.column} "
            f"[{colour}]{problem.severity}[/] [bold]{problem.code}[/] {escape(problem.message)}"
        )
        lines = texts.get(problem.file, "").splitlines()
        if problem.line <= len(lines):
            _print_line(lines[problem.line - 1], problem.column, colour)
        if problem.fix:
            console.print(f"    {escape(problem.fix)}")


def _print_line(line: str, column: int, colour: str) -> None:
    """A line of a script with a caret under a column; of a long line the part around it."""
    start = max(0, column - LINE_CHARS_MAX // 2) if len(line) > LINE_CHARS_MAX else 0
    shown = line[start : start + LINE_CHARS_MAX].replace("\t", " ")
    console.print(f"    {escape(shown)}", style="dim")
    wide = cell_len(shown[: column - 1 - start])  # a Chinese character takes two places
    console.print(" " * (4 + wide) + "^", style=colour)


def _print_summary(files: Mapping[str, int], problems: list[Problem]) -> None:
    kinds = [f"{count} {what}{'s' * (count != 1)}" for what, count in files.items() if count]
    counts = {severity: sum(problem.severity == severity for problem in problems) for severity in _COLOURS}
    parts = [f"{count} {severity}{'s' * (count != 1)}" for severity, count in counts.items()]
    errors.print(f"{' and '.join(kinds)}: {', '.join(parts)}")


@click.command(epilog="Example: cuebook explain VARIABLE_MAYBE_UNSET")
@click.argument("code", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain(code: str | None, as_json: bool) -> None:
    """Says what a code of `cuebook check` means, with an example broken and mended; without a code, lists them all."""
    wanted = list(CODES) if code is None else [code.upper()]
    if wanted[0] not in CODES:
        _fail_unknown(wanted[0])
    if as_json:
        described: list[Any] = [{"code": each, **_described(each)} for each in wanted]
        print_json(described if code is None else described[0])
    elif code is None:
        for title, codes in code_groups().items():
            console.print(f"[bold]{title}[/]")
            for each in codes:
                kind = CODES[each]
                mark = f"[{_COLOURS[kind.severity]}]{kind.severity:<8}[/]"
                console.print(f"  {mark}{each:<26}{escape(kind.meaning)}")
    else:
        _print_explanation(wanted[0])


def _print_explanation(code: str) -> None:
    kind, told = CODES[code], explanation(code)
    console.print(f"[bold]{code}[/] ([{_COLOURS[kind.severity]}]{kind.severity}[/])")
    for title, text in (("", kind.meaning), ("Cause: ", told.cause), ("Cure:  ", kind.fix)):
        console.print(f"    {title}{escape(text)}")
    for title, text, colour in (("Broken", told.broken, "red"), ("Mended", told.mended, "green")):
        console.print(f"\n[bold {colour}]{title}[/]")
        for line in text.rstrip("\n").splitlines():
            console.print(f"    {escape(line)}", style=colour if MARK in line else None)


def _fail_unknown(code: str) -> NoReturn:
    errors.print(
        f"[bold red]error[/] there is no code {escape(code)}. {escape(suggest(code, list(CODES), otherwise=''))}"
    )
    for title, codes in code_groups().items():
        errors.print(f"  {title}: {', '.join(codes)}")
    sys.exit(2)


def _described(code: str) -> dict[str, str]:
    kind, told = CODES[code], explanation(code)
    return {
        "severity": kind.severity,
        "meaning": kind.meaning,
        "cause": told.cause,
        "fix": kind.fix,
        "broken": told.broken,
        "mended": told.mended,
    }
