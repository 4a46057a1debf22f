"""``cuebook check`` and ``cuebook explain``: the problems of scripts, and the meaning of diagnostic codes."""

import gc
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

import click
from msgspec import Struct
from msgspec.structs import asdict
from rich.cells import cell_len
from rich.markup import escape

from api.catalog.script_views import problem_views
from api.cli.options import EXISTING_FILE, EXISTING_FOLDER, EXISTING_PATH, in_json
from api.cli.output import console, end, errors, fail, failing, print_json
from api.cli.sarif import sarif_log
from scripts.checks.examples import MARK, explanation
from scripts.expressions.suggestions import suggest
from scripts.expressions.values import count_text
from scripts.model.diagnostics import CODES, Problem, code_groups
from scripts.parse.folder import CASE_SUFFIX, read_path, script_files, users_of
from scripts.parse.includes import BRINGS
from scripts.parse.read_script import Mode, Reading, Source, is_for_others, is_script, read_file, read_include_file
from scripts.yaml.text_file import FileUnreadable

_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}
LINE_CHARS_MAX = 160  # characters shown of a line of a script


@click.command(epilog="Example: cuebook check my-scripts/ --strict")
@click.argument("paths", nargs=-1, required=True, type=EXISTING_PATH)
@click.option(
    "--format", "style", type=click.Choice(["text", "json", "sarif"]), default="text", help="Output format [text]."
)
@click.option(
    "--strict", is_flag=True, help="Report deprecated and unknown keys as errors; exit with 1 for warnings too."
)
@click.option(
    "--against",
    metavar="OLD.yaml",
    type=EXISTING_FILE,
    help="Also report changes since this earlier version of the script that affect running sessions.",
)
@click.option(
    "--against-data",
    metavar="DIR",
    type=EXISTING_FOLDER,
    help="Like --against, with the version published in the database of this folder; also count its running sessions.",
)
def check(
    paths: Sequence[Path],
    style: Literal["text", "json", "sarif"],
    strict: bool,
    against: Path | None,
    against_data: Path | None,
) -> None:
    """Check scripts and test cases (*.case.yaml) in files and folders, and report each problem with its fix.

    Use it before publishing a script. Every problem is printed with its file, line, code and fix; `cuebook explain
    CODE` explains a code. Exits with 1 if there is an error (with --strict: or a warning).
    """
    mode: Mode = "strict" if strict else "compat"
    gc.disable()  # the process ends with the check, and what scripts are read into has no cycles
    results = check_paths(paths, mode)
    readings = results.readings
    for note in results.notes:
        errors.print(f"[cyan]note[/] {escape(note)}")
    if not readings:
        fail("there is no script (.yaml) here")
    if against is not None or against_data is not None:
        readings = (_compare(readings, against, against_data),)
    problems = [problem for reading in readings for problem in reading.problems]
    if style == "json":
        views = [view for reading in readings for view in problem_views(reading.problems, reading.source)]
        print_json({"files": [reading.source.file for reading in readings], "diagnostics": views})
    elif style == "sarif":
        print_json(sarif_log(readings, Path.cwd()))
    else:
        for reading in readings:
            _print_reading(reading)
        if readings:
            counted_files = {"script": results.scripts, "case file": results.cases, "include file": results.side_files}
            _print_summary({what: len(found) for what, found in counted_files.items()}, problems)
    counted = {"error", "warning"} if strict else {"error"}
    end(1 if any(problem.severity in counted for problem in problems) else 0)


def _compare(readings: Sequence[Reading], earlier: Path | None, data: Path | None) -> Reading:
    """Return the reading of the one script, with the changes since an earlier version among its problems."""
    import asyncio

    from api.catalog.compatibility import NothingToCompare, compare_with_database, compare_with_file
    from api.errors import ApiError
    from api.logs.configuration import configure_logging
    from api.schemas.timestamps import utc_now  # not needed without an earlier version
    from store.interface.errors import StoreError

    if len(readings) != 1 or (earlier is not None and data is not None):
        fail("name one script, and one of --against and --against-data")
    with failing(NothingToCompare, StoreError, ApiError):
        if earlier is not None:
            return compare_with_file(readings[0], earlier)
        configure_logging("error")  # standard output is for problems, so also while the database is opened
        reading, running = asyncio.run(compare_with_database(readings[0], data or Path(), utc_now))
    if running is not None:
        errors.print(count_text(running, "running session"))
    return reading


# -- printing ---------------------------------------------------------------------------------------------------------


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
    """Print a line of a script with a caret under a column; of a long line only the part around the column."""
    start = max(0, column - LINE_CHARS_MAX // 2) if len(line) > LINE_CHARS_MAX else 0
    shown = line[start : start + LINE_CHARS_MAX].replace("\t", " ")
    console.print(f"    {escape(shown)}", style="dim")
    wide = cell_len(shown[: column - 1 - start])  # a Chinese character is two columns wide
    console.print(" " * (4 + wide) + "^", style=colour)


def _print_summary(files: Mapping[str, int], problems: list[Problem]) -> None:
    kinds = [count_text(count, what) for what, count in files.items() if count]
    counts = {severity: sum(problem.severity == severity for problem in problems) for severity in _COLOURS}
    parts = [count_text(count, severity) for severity, count in counts.items()]
    errors.print(f"{' and '.join(kinds)}: {', '.join(parts)}")


@click.command(epilog="Example: cuebook explain VARIABLE_MAYBE_UNSET")
@click.argument("code", required=False)
@in_json
def explain(code: str | None, as_json: bool) -> None:
    """Explain a code of `cuebook check`, with an example before and after the fix; without a code, list all codes."""
    selected = list(CODES) if code is None else [code.upper()]
    if selected[0] not in CODES:
        _fail_unknown(selected[0])
    if as_json:
        described: list[Any] = [{"code": each, **asdict(CODES[each]), **asdict(explanation(each))} for each in selected]
        print_json(described if code is None else described[0])
    elif code is None:
        for title, codes in code_groups().items():
            console.print(f"[bold]{title}[/]")
            for each in codes:
                kind = CODES[each]
                mark = f"[{_COLOURS[kind.severity]}]{kind.severity:<8}[/]"
                console.print(f"  {mark}{each:<26}{escape(kind.meaning)}")
    else:
        _print_explanation(selected[0])


def _print_explanation(code: str) -> None:
    kind, explained = CODES[code], explanation(code)
    console.print(f"[bold]{code}[/] ([{_COLOURS[kind.severity]}]{kind.severity}[/])")
    for title, text in (("", kind.meaning), ("Cause: ", explained.cause), ("Fix:   ", kind.fix)):
        console.print(f"    {title}{escape(text)}")
    for title, text, colour in (("Before", explained.broken, "red"), ("After", explained.fixed, "green")):
        console.print(f"\n[bold {colour}]{title}[/]")
        for line in text.rstrip("\n").splitlines():
            console.print(f"    {escape(line)}", style=colour if MARK in line else None)


def _fail_unknown(code: str) -> NoReturn:
    errors.print(
        f"[bold red]error[/] there is no code {escape(code)}. {escape(suggest(code, list(CODES), otherwise=''))}"
    )
    for title, codes in code_groups().items():
        errors.print(f"  {title}: {', '.join(codes)}")
    end(2)


# -- reading the paths: scripts, case files, and for an include file the scripts that use it --------------------------


class CheckResults(Struct, frozen=True):
    """The readings of scripts and case files (a case file has no script), and notes on include files."""

    scripts: tuple[Reading, ...]
    cases: tuple[Reading, ...]
    side_files: tuple[Reading, ...]  # those that no script uses
    notes: tuple[str, ...]

    @property
    def readings(self) -> tuple[Reading, ...]:
        """Return all readings."""
        return (*self.scripts, *self.cases, *self.side_files)


def check_paths(paths: Sequence[Path], mode: Mode) -> CheckResults:
    """Read every path as a script, a case file or an include file."""
    scripts: list[Reading] = []
    cases: list[Reading] = []
    side_files: list[Reading] = []
    notes: list[str] = []
    for path in paths:
        is_case = path.name.endswith(CASE_SUFFIX)
        if path.is_file() and not is_case and _is_side_file(path):
            here = Path.cwd()
            users = [each.relative_to(here) if each.is_relative_to(here) else each for each in users_of(path)]
            scripts += [read_path(each, mode) for each in users]
            side_files += [] if users else [read_include_file(read_file(path), mode)]
            note = f"checking {', '.join(map(str, users))}" if users else _unused_note(side_files[-1])
            notes.append(f"{path} is an include file; {note}")
            continue
        scripts += [] if path.is_file() and is_case else _scripts(path, mode)
        cases += _cases(path) if is_case or path.is_dir() else []
    each_once = {reading.source.file: reading for reading in scripts}
    return CheckResults(tuple(each_once.values()), tuple(cases), tuple(side_files), tuple(notes))


def _unused_note(side_file: Reading) -> str:
    """Return the note on an include file that no script uses."""
    script = side_file.script
    sizes = [(name, len(getattr(script, name))) for name in BRINGS] if script is not None else []
    counts = [f"{count} {name if count != 1 else name.removesuffix('s')}" for name, count in sizes if count]
    return f"no script in its folder lists it in `use`; it defines {', '.join(counts) or 'nothing'}"


def _scripts(path: Path, mode: Mode) -> Iterator[Reading]:
    """Yield the scripts under a path; a file that is named explicitly counts as a script whatever it contains."""
    for each in script_files(path):
        reading = read_path(each, mode)
        if path.is_file() or not reading.source.text or is_script(reading.source):
            yield reading


def _cases(path: Path) -> list[Reading]:
    """Return the case files under a path, each as a reading without a script."""
    from api.testing.cases.case_model import PreparedScript
    from api.testing.cases.case_reader import case_files, read_cases

    prepared: dict[Path, PreparedScript | Reading] = {}
    found = [read_cases(file, prepared) for file in case_files(path)]
    return [Reading(Source(each.text, each.file), None, each.problems) for each in found]


def _is_side_file(path: Path) -> bool:
    try:
        return is_for_others(read_file(path))
    except FileUnreadable:
        return False
