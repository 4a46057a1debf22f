"""Renders coverage as one self-contained HTML page: the source of each script with reached and missed parts."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from api.console.page_templates import page_template
from api.testing.cases.case_model import PreparedScript
from api.testing.cases.case_report import Report, file_of
from api.testing.cases.coverage import KINDS, Coverage, Item
from scripts.model.base import Location


class _Line(Struct, frozen=True):
    """A line of a file, the shade for what was reached of it, and what was missed."""

    text: str
    shade: str
    missed: list[str]


class _File(Struct, frozen=True):
    """A file of a script, and the name of its place on the page."""

    anchor: str
    name: str
    lines: list[_Line]


def coverage_page(report: Report) -> str:
    """Return the HTML page."""
    scripts = report.coverage or ()
    files = [file for number, found in enumerate(scripts) for file in _files(f"s{number}", *found)]
    template = page_template(Path(__file__).with_suffix(".html"))
    return f"{template.render(scripts=scripts, kinds=KINDS, shade=_shade, files=files)}\n"


def _files(anchor: str, script: PreparedScript, coverage: Coverage) -> Iterator[_File]:
    source = script.reading.source
    by_file: dict[str, list[tuple[Item, Location]]] = defaultdict(list)
    for item, at in coverage.items.items():
        by_file["" if at.file == source.file else at.file].append((item, at))
    for index, (file, items) in enumerate(sorted(by_file.items())):
        text = source.side_files.get(file, "") if file else source.text
        name = file_of(script, Location(file=file))
        yield _File(f"{anchor}-{index}" if index else anchor, name, list(_lines(text, items, coverage.reached)))


def _lines(text: str, items: list[tuple[Item, Location]], reached: frozenset[Item]) -> Iterator[_Line]:
    """Yield the lines of a file; a line on which no item begins has the shade of the item above it."""
    at_line: dict[int, list[Item]] = defaultdict(list)
    for item, at in items:
        at_line[at.line].append(item)
    above = ""
    for number, line in enumerate(text.splitlines(), 1):
        here = at_line[number]
        above = _shade_of([item for item in here if item.kind != "condition"], reached) or above
        shade = "" if not line.strip() or line.lstrip().startswith("#") else _shade_of(here, reached) or above
        yield _Line(line, shade, [item.arm or item.kind for item in here if item not in reached])


def _shade_of(items: list[Item], reached: frozenset[Item]) -> str:
    """Return the shade for the reached share of items; empty if there are none."""
    return _shade(sum(item in reached for item in items), len(items)) if items else ""


def _shade(covered: int, total: int) -> str:
    return "all" if covered == total else "some" if covered else "none"
