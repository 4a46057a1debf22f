"""``cuebook test --watch``: run the cases that a changed file affects, until Ctrl-C."""

import asyncio
import time
from collections.abc import Sequence, Set
from datetime import datetime
from pathlib import Path

from rich.markup import escape
from watchfiles import watch

from api.catalog.reload import touches
from api.cli.case_selection import how_to_begin, select
from api.cli.output import console
from api.testing.cases.case_model import CaseReading
from api.testing.cases.case_report import Report, case_lines
from api.testing.cases.case_run import run_case
from scripts.expressions.values import count_text

LOOK_MS = 200  # between two checks for Ctrl-C while nothing changes
STEP_MS = 50  # changes within this time count as one


class Watcher:
    """Runs all cases once, then those affected by changes. `code` is the exit code of the last run."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.code = 0
        self._paths = paths
        self._roots = self._folders(select(paths).readings)

    def run(self) -> None:
        """Watch until interrupted."""
        try:
            while self._watch():
                pass  # the set of folders to watch has changed
        except KeyboardInterrupt:
            pass

    def _watch(self) -> bool:
        """Watch one set of folders; return true if another set is needed, false if interrupted."""
        changed: Set[Path] | None = None  # everything: nothing ran yet, or a change may have been missed
        for found in watch(
            *self._roots,
            step=STEP_MS,
            rust_timeout=LOOK_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
            recursive=any(path.is_dir() for path in self._paths),
            ignore_permission_denied=True,
        ):
            if changed is not None and not found:
                continue
            changed = None if changed is None else {Path(path) for _, path in found}
            roots = self._play(changed)
            changed = frozenset()
            if roots != self._roots:
                self._roots = roots
                return True
        return False

    def _folders(self, readings: Sequence[CaseReading]) -> tuple[Path, ...]:
        """Return the folders to watch: the folders among the paths, and those of all other files that cases use."""
        folders = {path.resolve() for path in self._paths if path.is_dir()}
        parents = {file.parent for reading in readings for file in reading.files}
        beside = {each for each in parents if each.is_dir() and not any(each.is_relative_to(one) for one in folders)}
        return tuple(sorted(folders | beside))

    def _play(self, changed: Set[Path] | None) -> tuple[Path, ...]:
        """Run the case files that a change affects, and those with problems, which any file may fix.

        Return the folders to watch from now on.
        """
        began = time.perf_counter()
        there = [path for path in self._paths if path.exists()]
        selection = select(there)
        touched = [
            each for each in selection.readings if changed is None or each.problems or touches(changed, each.files)
        ]
        if touched:
            self._show(asyncio.run(_report(touched)), time.perf_counter() - began)
        elif changed is None and not (selection.problems or selection.examples):
            console.print(escape(how_to_begin(there)))
        return self._folders(selection.readings)

    def _show(self, report: Report, took_s: float) -> None:
        """Print the result in one line, then the details."""
        self.code = report.exit_code
        if console.is_terminal:
            console.clear()
        time_of_day = f"{datetime.now().astimezone():%H:%M:%S}"
        style = "bold red" if self.code else "bold green"
        console.print(f"[{style}]{time_of_day} {escape(_verdict(report))}[/] ({took_s:.1f} s)")
        for style, text in case_lines(report):
            console.print(escape(text), style=style)


async def _report(touched: Sequence[CaseReading]) -> Report:
    problems = tuple(dict.fromkeys(problem for reading in touched for problem in reading.problems))
    results = [await run_case(found) for reading in touched for found in reading.cases]
    return Report(problems, tuple(results))


def _verdict(report: Report) -> str:
    failed = sum(not result.passed for result in report.results)
    cases = count_text(len(report.results), "case")
    broken = sum(problem.severity == "error" for problem in report.problems)
    if broken:
        return f"BROKEN: {count_text(broken, 'error')} in the files; {cases} played, {failed} failed"
    return f"FAILED: {failed} of {cases}" if failed else f"passed: {cases}"
