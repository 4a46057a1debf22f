"""``cuebook test --watch``: plays the cases that a change touches, again and again, until Ctrl-C."""

import asyncio
import time
from collections.abc import Sequence, Set
from datetime import datetime
from pathlib import Path

from rich.markup import escape
from watchfiles import watch

from api.cases.model import CaseReading
from api.cases.report import Report, case_lines
from api.cases.run import run_case
from api.cli.output import console
from api.cli.selection import how_to_begin, select
from api.watched import touches

LOOK_MS = 200  # how often Ctrl-C is looked for while nothing changes
STEP_MS = 50  # changes that follow one another this fast count as one


class Watcher:
    """Plays everything once, then what changes touch. `code` is the exit code of the last run."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.code = 0
        self._paths = paths
        self._roots = self._wanted(select(paths).readings)

    def run(self) -> None:
        """Watches until interrupted."""
        try:
            while self._watch():
                pass  # something to be watched lies elsewhere now
        except KeyboardInterrupt:
            pass

    def _watch(self) -> bool:
        """Watches one set of folders; true where another one is wanted, false when interrupted."""
        changed: Set[Path] | None = None  # everything: nothing was played yet, or something may have been missed
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
            wanted = self._play(changed)
            changed = frozenset()
            if wanted != self._roots:
                self._roots = wanted
                return True
        return False

    def _wanted(self, readings: Sequence[CaseReading]) -> tuple[Path, ...]:
        """The folders to be watched: those named, and those of every other file that a case depends on."""
        folders = {path.resolve() for path in self._paths if path.is_dir()}
        parents = {file.parent for reading in readings for file in reading.files}
        beside = {each for each in parents if each.is_dir() and not any(each.is_relative_to(one) for one in folders)}
        return tuple(sorted(folders | beside))

    def _play(self, changed: Set[Path] | None) -> tuple[Path, ...]:
        """Plays the case files that a change touches; those with problems may wait for any file."""
        began = time.perf_counter()
        there = [path for path in self._paths if path.exists()]
        selection = select(there)
        touched = [
            each for each in selection.readings if changed is None or each.problems or touches(changed, each.files)
        ]
        if touched:
            self._show(_report(touched), time.perf_counter() - began)
        elif selection.empty and changed is None:
            console.print(escape(how_to_begin(there)))
        return self._wanted(selection.readings)

    def _show(self, report: Report, took_s: float) -> None:
        """The verdict in one line, then everything else."""
        self.code = report.exit_code
        if console.is_terminal:
            console.clear()
        time_of_day = f"{datetime.now().astimezone():%H:%M:%S}"
        style = "bold red" if self.code else "bold green"
        console.print(f"[{style}]{time_of_day} {escape(_verdict(report))}[/] ({took_s:.1f} s)")
        for style, text in case_lines(report):
            console.print(escape(text), style=style)


def _report(touched: Sequence[CaseReading]) -> Report:
    problems = tuple(dict.fromkeys(problem for reading in touched for problem in reading.problems))

    async def played() -> Report:
        cases = [case for reading in touched for case in reading.cases]
        return Report(problems, tuple([await run_case(found) for found in cases]))

    return asyncio.run(played())


def _verdict(report: Report) -> str:
    failed = sum(not result.passed for result in report.results)
    cases = f"{len(report.results)} case{'s' * (len(report.results) != 1)}"
    broken = sum(problem.severity == "error" for problem in report.problems)
    if broken:
        return f"BROKEN: {broken} error{'s' * (broken != 1)} in the files; {cases} played, {failed} failed"
    return f"FAILED: {failed} of {cases}" if failed else f"passed: {cases}"
