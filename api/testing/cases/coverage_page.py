"""Renders coverage as one self-contained HTML page: the source of each script with reached and missed parts."""

from collections import defaultdict
from collections.abc import Iterator
from html import escape
from pathlib import Path

from api.testing.cases.case_model import Prepared
from api.testing.cases.case_report import Report, file_of
from api.testing.cases.coverage import KINDS, Count, Coverage, Item
from scripts.model.base import Location

_STYLE = Path(__file__).with_suffix(".css")


def coverage_page(report: Report) -> str:
    """Return the HTML page."""
    found = report.coverage or ()
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><title>Coverage of scripts</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>\n{_STYLE.read_text('utf-8')}</style></head><body>",
        "<h1>What the conversations reached</h1>",
        '<p class="key"><span class="all">reached</span><span class="some">in part</span>'
        '<span class="none">missed</span></p>',
        *_table(found),
    ]
    for number, (script, coverage) in enumerate(found):
        parts += _script(number, script, coverage)
    return "\n".join([*parts, "</body></html>", ""])


def _table(found: tuple[tuple[Prepared, Coverage], ...]) -> Iterator[str]:
    yield '<div class="scroll"><table><thead><tr><th>script</th>'
    yield "".join(f"<th>{name}</th>" for name in KINDS.values()) + "</tr></thead><tbody>"
    for number, (script, coverage) in enumerate(found):
        cells = "".join(_cell(coverage.count(kind)) for kind in KINDS)
        yield f'<tr><td><a href="#s{number}">{escape(str(script.path))}</a></td>{cells}</tr>'
    yield "</tbody></table></div>"


def _cell(count: Count) -> str:
    if not count.total:
        return "<td>–</td>"
    shade = "all" if count.covered == count.total else "some" if count.covered else "none"
    return f'<td class="{shade}">{count.covered}/{count.total}</td>'


def _script(number: int, script: Prepared, coverage: Coverage) -> Iterator[str]:
    source = script.reading.source
    by_file: dict[str, list[tuple[Item, Location]]] = defaultdict(list)
    for item, at in coverage.items.items():
        by_file["" if at.file == source.file else at.file].append((item, at))
    for index, (file, items) in enumerate(sorted(by_file.items())):
        text = source.side_files.get(file, "") if file else source.text
        anchor = f"s{number}" if index == 0 else f"s{number}-{index}"
        yield f'<h2 id="{anchor}">{escape(file_of(script, Location(file=file)))}</h2><ol>'
        yield from _lines(anchor, text, items, coverage.reached)
        yield "</ol>"


def _lines(anchor: str, text: str, items: list[tuple[Item, Location]], reached: frozenset[Item]) -> Iterator[str]:
    """Yield the lines of a file; a line on which no item begins has the shade of the item above it."""
    at_line: dict[int, list[Item]] = defaultdict(list)
    for item, at in items:
        at_line[at.line].append(item)
    above = ""
    for number, line in enumerate(text.splitlines(), 1):
        here = at_line[number]
        above = _shade([item for item in here if item.kind != "condition"], reached) or above
        shade = _shade(here, reached) or above
        if not line.strip() or line.lstrip().startswith("#"):
            shade = ""
        missed = [item.arm or item.kind for item in here if item not in reached]
        note = f"<em>missed: {escape(', '.join(missed))}</em>" if missed else ""
        link = f'<a href="#{anchor}-{number}">{number}</a>'
        yield f'<li id="{anchor}-{number}" class="{shade}">{link}<code>{escape(line) or " "}</code>{note}</li>'


def _shade(items: list[Item], reached: frozenset[Item]) -> str:
    """Return the shade for the reached share of items; empty if there are none."""
    count = sum(item in reached for item in items)
    if not items:
        return ""
    return "all" if count == len(items) else "some" if count else "none"
