"""``cuebook test``: run test cases and random walks over scripts, and report their coverage."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NoReturn

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import MofNCompleteColumn, TimeRemainingColumn

from api.cli.case_selection import Selection, how_to_begin, select
from api.cli.file_watcher import Watcher
from api.cli.models import check_recording, model_of, write_recording
from api.cli.options import EXISTING_PATH, OUTPUT_FILE, SEED, with_settings
from api.cli.output import console, end, errors, fail, json_text, print_json, print_table, write_text
from api.cli.progress import progress_bar, track
from api.models.server_model import close_model
from api.settings import OFFLINE, Settings
from api.testing.cases.case_model import FoundCase, PreparedScript
from api.testing.cases.case_report import (
    Line,
    Report,
    case_lines,
    coverage_document,
    coverage_rows,
    document,
    missed_lines,
    walk_lines,
)
from api.testing.cases.case_run import CaseResult, run_case
from api.testing.cases.coverage import Coverage, Item, cover, items_reached
from api.testing.cases.coverage_page import coverage_page
from api.testing.cases.random_walk import RandomWalks, walk_script
from runtime.models.recorded_models import RecordingModel
from runtime.state.ports import Model

WALKS_MAX = 1_000_000
WALK_S_MAX = 600.0
STYLES = ("text", "json", "html")

Style = Literal["text", "json", "html"]


class _TestCommand(click.Command):
    """Accept ``--coverage`` with or without its format, also before a path."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        expanded: list[str] = []
        for index, each in enumerate(args):
            following = args[index + 1] if index + 1 < len(args) else ""
            expanded.append("--coverage=text" if each == "--coverage" and following not in STYLES else each)
        return super().parse_args(ctx, expanded)


@click.command(
    cls=_TestCommand,
    epilog="Examples:\n\n  cuebook test my-scripts/ --coverage\n\n  cuebook test intake.yaml --walk 300",
)
@click.argument("paths", nargs=-1, type=EXISTING_PATH)
@click.option("--coverage", type=click.Choice(STYLES), help="Report which parts of the scripts are reached [text].")
@click.option("--coverage-file", type=OUTPUT_FILE, help="Write the coverage to a file.")
@click.option("--walk", "walks", type=click.IntRange(1, WALKS_MAX), help="Number of random conversations per script.")
@click.option("--seed", type=SEED, default=0, help="Seed of the random conversations [0].")
@click.option("--record", is_flag=True, help="Call the model and write its replies to the files that cases name.")
@click.option("--watch", is_flag=True, help="Run affected cases again after every change, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON document.")
@with_settings("model")
def test(
    settings: Settings,
    paths: Sequence[Path],
    coverage: Style | None,
    coverage_file: Path | None,
    walks: int | None,
    seed: int,
    record: bool,
    watch: bool,
    as_json: bool,
) -> None:
    """Run test cases (*.case.yaml) and the examples of detectors.

    A case is a conversation with its expected messages. PATH is a folder [the working folder], a case file, a file
    with detectors, whose examples are run too, or, with --walk, a script. A walk is a random conversation: if a script
    or an expression fails or the conversation gets stuck, a small case that reproduces it is printed.

    With --record, a case that names a file of replies (`model: FILE`) runs with the configured model, and the model's
    replies are written to that file.

    Exits with 1 if a case fails or a walk finds a problem, with 2 if a file has errors.
    """
    if watch:
        _watch(paths, others=bool(coverage or coverage_file or walks or record or as_json))
    coverage = coverage or (_style_of(coverage_file) if coverage_file is not None else None)
    if as_json and coverage == "html" and coverage_file is None:
        fail("--json and --coverage html both write to standard output; add --coverage-file FILE")
    selected = select(paths or [Path()], walking=walks is not None, covering=coverage is not None, recording=record)
    if not (selected.cases or selected.problems or selected.examples) and not (walks and selected.scripts):
        fail(how_to_begin(paths or [Path()]))
    model = _model_to_record(selected, settings) if record else None
    report = asyncio.run(_run(selected, model, coverage is not None, walks or 0, seed))
    _print(report, coverage, coverage_file, as_json=as_json)
    end(report.exit_code)


def _watch(paths: Sequence[Path], *, others: bool) -> NoReturn:
    if others:
        fail("--watch only runs cases; it cannot be combined with --coverage, --walk, --record or --json")
    watcher = Watcher(paths or [Path()])
    watcher.run()
    end(watcher.code)


def _style_of(file: Path) -> Style:
    return "html" if file.suffix in {".html", ".htm"} else "json" if file.suffix == ".json" else "text"


# -- recording ---------------------------------------------------------------------------------------------------------


def _model_to_record(selected: Selection, settings: Settings) -> Model:
    """Return the model that cases are recorded with; end the command if nothing can be recorded."""
    _check_recordable(selected.cases)
    saved_cases = next(
        (each.cassette for each in selected.cases if each.cassette is not None and each.cassette.exists()), None
    )
    if settings.model == OFFLINE and saved_cases is not None:
        fail(f"{saved_cases} would be overwritten with the offline model's replies; use --model, or delete it")
    return model_of(settings)


async def _record(found: FoundCase, model: Model) -> CaseResult:
    """Run a case with the model and write its file if all of its turns ran; a case that names no file runs as usual."""
    if found.cassette is None:
        return await run_case(found)
    recording = RecordingModel(model)
    result = await run_case(found, model=recording, to_the_end=True)
    if result.whole:
        write_recording(found.cassette, recording, tools=found.tools)
    else:
        message = f"{found.cassette}: the conversation did not reach its end ({found})"
        errors.print(f"[yellow]not written[/] {escape(message)}")
    return result


def _check_recordable(cases: Sequence[FoundCase]) -> None:
    """End the command, before any model call, if there is nothing to record or two cases share a file."""
    for found in cases:
        if found.case.replies:
            message = f"{found.file}:{found.line('replies')} {found}: its replies are written in the case itself."
            errors.print(f"[yellow]not recorded[/] {escape(message)} To record them, write `model: FILE` instead.")
    by_file: dict[Path, list[FoundCase]] = defaultdict(list)
    for found in cases:
        if found.cassette is not None:
            by_file[found.cassette.resolve()].append(found)
    if not by_file:
        fail("no case names a file to record to; add e.g. `model: replies.yaml` to a case, relative to the case file")
    for same in by_file.values():
        if len(same) > 1:
            places = " and ".join(f"{each.file}:{each.line('model')}" for each in same)
            fail(f"{places} name the same file, {same[0].cassette}; for recording each case needs its own file")
        check_recording(same[0].cassette)


# -- running it -------------------------------------------------------------------------------------------------------


async def _run(selected: Selection, model: Model | None, covering: bool, walks: int, seed: int) -> Report:
    play = run_case if model is None else partial(_record, model=model)
    columns = (MofNCompleteColumn(), TimeRemainingColumn())
    results = [await play(found) for found in track("cases", selected.cases, *columns)]
    if model is not None:
        await close_model(model)
    until = time.monotonic() + WALK_S_MAX
    scripts = selected.scripts if walks else ()
    with progress_bar("walks", *columns, total=walks * len(scripts), hidden=not scripts) as bar:
        walked = [await walk_script(script, walks, seed, until=until, tick=bar.advance) for script in scripts]
    coverage = _coverage(selected, results, walked) if covering else None
    return Report(selected.problems, tuple(results), tuple(walked), coverage, selected.examples)


def _coverage(
    selected: Selection, results: Sequence[CaseResult], walked: Sequence[RandomWalks]
) -> tuple[tuple[PreparedScript, Coverage], ...]:
    """Return the coverage of each script by cases and walks; empty for a script that was not run."""
    scripts = {script.path: script for script in (*selected.scripts, *(result.found.script for result in results))}
    reached: dict[Path, list[frozenset[Item]]] = defaultdict(list)
    for result in results:
        script = result.found.script
        reached[script.path].append(items_reached(script.program, result.turns))
    for walks in walked:
        reached[walks.script.path].append(walks.reached)
    return tuple((script, cover(script.program, reached[path])) for path, script in scripts.items())


# -- printing the results ---------------------------------------------------------------------------------------------


def _print(report: Report, style: Style | None, file: Path | None, *, as_json: bool) -> None:
    if as_json:
        print_json(document(report))
    else:
        document_only = style in {"json", "html"} and file is None  # on standard output
        stream = errors if document_only else console
        _print_lines(stream, [*case_lines(report), *walk_lines(report)])
    if style is not None and file is not None:
        write_text(_coverage_text(report, style), file)
        errors.print(escape(f"wrote the coverage to {file}"), style="dim")
    elif style == "text" and not as_json:
        print_table(*coverage_rows(report))
        _print_lines(console, [*missed_lines(report)])
    elif style is not None and not as_json:
        write_text(_coverage_text(report, style), None)


def _print_lines(where: Console, lines: Sequence[Line]) -> None:
    for style, text in lines:
        where.print(escape(text), style=style)


def _coverage_text(report: Report, style: Style) -> str:
    if style == "html":
        return coverage_page(report)
    if style == "json":
        return json_text(coverage_document(report)) + "\n"
    columns, rows = coverage_rows(report)
    lines = ["\t".join(row) for row in (columns, *rows)] + [text for _, text in missed_lines(report)]
    return "\n".join([*lines, ""])
