"""``cuebook test``: scripts tested by conversations, what these reach, and random walks that look for more."""

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NoReturn

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from api.cases.coverage import Coverage, Item, cover, reached_by
from api.cases.model import Prepared
from api.cases.page import coverage_page
from api.cases.report import (
    Line,
    Report,
    case_lines,
    coverage_document,
    coverage_rows,
    document,
    missed_lines,
    walk_lines,
)
from api.cases.run import Result, run_case
from api.cases.walk import Walks, walk_script
from api.cli.options import settings_of, with_settings
from api.cli.output import console, errors, fail, json_text, print_json, print_table
from api.cli.recording import Recorder, check_recordable
from api.cli.selection import Selection, how_to_begin, select
from api.cli.watching import Watcher
from api.models import ModelUnknown, close_model, make_model
from api.settings import OFFLINE, Settings
from runtime.models.cassette import ScriptedFileInvalid

WALKS_MAX = 1_000_000
WALK_S_MAX = 600.0
STYLES = ("text", "json", "html")

Style = Literal["text", "json", "html"]


class _TestCommand(click.Command):
    """Takes ``--coverage`` with or without its style, also before a path."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        spelled: list[str] = []
        for index, each in enumerate(args):
            follows = args[index + 1] if index + 1 < len(args) else ""
            spelled.append("--coverage=text" if each == "--coverage" and follows not in STYLES else each)
        return super().parse_args(ctx, spelled)


@click.command(
    cls=_TestCommand,
    epilog="Examples:\n\n  cuebook test my-scripts/ --coverage\n\n  cuebook test intake.yaml --walk 300",
)
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--coverage", type=click.Choice(STYLES), help="What the conversations reach [text].")
@click.option("--coverage-file", type=click.Path(dir_okay=False, path_type=Path), help="Where to write the coverage.")
@click.option("--walk", "walks", type=click.IntRange(1, WALKS_MAX), help="Random conversations with each script.")
@click.option("--seed", type=click.IntRange(0, 2**53), default=0, help="Decides what random visitors say [0].")
@click.option("--record", is_flag=True, help="Ask the model, and write what it says to the files that cases name.")
@click.option("--watch", is_flag=True, help="Play again what a change touches, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON document.")
@with_settings("model")
def test(
    paths: Sequence[Path],
    coverage: Style | None,
    coverage_file: Path | None,
    walks: int | None,
    seed: int,
    record: bool,
    watch: bool,
    as_json: bool,
    config: Path | None,
    model: str | None,
) -> None:
    """Plays the conversations of *.case.yaml files and compares them with what they expect.

    PATH is a folder [the working folder], a case file, a file with detectors, whose examples are run too, or, with
    --walk, a script. A walk is a random conversation; a script that fails or gets stuck in one is reported with a small
    case that shows it.

    With --record, a case that names a file of replies (`model: FILE`) is played with the model that is set, and the
    file becomes what that says.

    Exits with 1 where a case fails or a walk finds something, with 2 where a file is broken.
    """
    if watch:
        _watch(paths, others=bool(coverage or coverage_file or walks or record or as_json))
    coverage = coverage or (_style_of(coverage_file) if coverage_file is not None else None)
    if as_json and coverage == "html" and coverage_file is None:
        fail("--json and --coverage html both want standard output; give --coverage-file")
    selected = select(paths or [Path()], walking=walks is not None, covering=coverage is not None, recording=record)
    if not (selected.cases or selected.problems or selected.examples) and not (walks and selected.scripts):
        fail(how_to_begin(paths or [Path()]))
    recorder = _recorder(selected, settings_of(config, model=model)) if record else None
    report = asyncio.run(_run(selected, recorder, coverage is not None, walks or 0, seed))
    _print(report, coverage, coverage_file, as_json=as_json)
    sys.exit(report.exit_code)


def _watch(paths: Sequence[Path], *, others: bool) -> NoReturn:
    if others:
        fail("--watch tells whether cases pass; --coverage, --walk, --record and --json go without it")
    watcher = Watcher(paths or [Path()])
    watcher.run()
    sys.exit(watcher.code)


def _recorder(selected: Selection, settings: Settings) -> Recorder:
    check_recordable(selected.cases)
    kept = next(
        (each.cassette for each in selected.cases if each.cassette is not None and each.cassette.exists()), None
    )
    if settings.model == OFFLINE and kept is not None:
        fail(f"this would put what the offline model says over {kept}; name a model with --model, or delete the file")
    try:
        return Recorder(make_model(settings))
    except (ModelUnknown, ScriptedFileInvalid) as error:
        fail(str(error))


def _style_of(file: Path) -> Style:
    return "html" if file.suffix in {".html", ".htm"} else "json" if file.suffix == ".json" else "text"


# -- running it -------------------------------------------------------------------------------------------------------


async def _run(selected: Selection, recorder: Recorder | None, covering: bool, walks: int, seed: int) -> Report:
    play = run_case if recorder is None else recorder.run
    with _progress(len(selected.cases), "cases") as tick:
        results = [await play(found) for found in selected.cases if tick() is None]
    if recorder is not None:
        await close_model(recorder.model)
    until = time.monotonic() + WALK_S_MAX
    walked = []
    with _progress(walks * len(selected.scripts), "walks") as tick:
        for script in selected.scripts if walks else ():
            walked.append(await walk_script(script, walks, seed, until=until, tick=tick))
    coverage = _coverage(selected, results, walked) if covering else None
    return Report(selected.problems, tuple(results), tuple(walked), coverage, selected.examples)


def _coverage(
    selected: Selection, results: Sequence[Result], walked: Sequence[Walks]
) -> tuple[tuple[Prepared, Coverage], ...]:
    """What cases and walks reached of each script; nothing, of one that nothing was played of."""
    scripts = [*selected.scripts, *(result.found.script for result in results)]
    reached: dict[Path, list[frozenset[Item]]] = {script.path: [] for script in scripts}
    for result in results:
        script = result.found.script
        reached[script.path].append(reached_by(script.program, result.turns))
    for walks in walked:
        reached[walks.script.path].append(walks.reached)
    by_path = {script.path: script for script in scripts}
    return tuple((script, cover(script.program, reached[path])) for path, script in by_path.items())


@contextmanager
def _progress(total: int, what: str) -> Iterator[Callable[[], None]]:
    """A bar on standard error, where a person looks; gives what moves it on by one."""
    columns = [TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal or not total) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)


# -- saying what came of it -------------------------------------------------------------------------------------------


def _print(report: Report, style: Style | None, file: Path | None, *, as_json: bool) -> None:
    to_stdout = style is not None and file is None
    if as_json:
        print_json(document(report))
    else:
        listed = errors if to_stdout and style != "text" else console  # a document has standard output for itself
        _print_lines(listed, [*case_lines(report), *walk_lines(report)])
    if style == "text" and to_stdout and not as_json:
        print_table(*coverage_rows(report))
        _print_lines(console, [*missed_lines(report)])
    elif style is not None and not (to_stdout and as_json):
        _write(_coverage_text(report, style), file)


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


def _write(text: str, file: Path | None) -> None:
    if file is None:
        click.echo(text, nl=False)
        return
    try:
        file.write_text(text, "utf-8")
    except OSError as error:
        fail(f"{file}: {error.strerror}")
    errors.print(escape(f"coverage is in {file}"), style="dim")
