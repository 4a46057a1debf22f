"""Coverage as one HTML page that needs nothing else: the source of each script, with what was reached and missed."""

from collections import defaultdict
from collections.abc import Iterator
from html import escape

from api.cases.coverage import KINDS, Count, Coverage, Item
from api.cases.model import Prepared
from api.cases.report import Report, file_of
from scripts.nodes import Location

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --dim: #6b7280; --paper: #fff; --line: #e5e7eb;
  --all: #d9f2e0; --some: #fdf0c4; --none: #fbdcdc; --all-edge: #2f9e57; --some-edge: #c98a00; --none-edge: #d13438; }
@media (prefers-color-scheme: dark) { :root { --ink: #e5e7eb; --dim: #9ca3af; --paper: #16181c; --line: #2c3038;
  --all: #17311f; --some: #3a3114; --none: #421d20; --none-edge: #ff7b7b; } }
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem; font: 15px/1.5 system-ui, sans-serif;
  color: var(--ink); background: var(--paper); }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2.5rem; overflow-wrap: anywhere; }
table { border-collapse: collapse; } .scroll { overflow-x: auto; }
th, td { padding: .3rem .8rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } thead th { color: var(--dim); font-weight: 500; }
td.all { color: var(--all-edge); } td.some { color: var(--some-edge); } td.none { color: var(--none-edge); }
a { color: inherit; } .key span { padding: .1rem .6rem; margin-right: .5rem; border-left: 4px solid; }
ol { margin: 0; padding: 0; list-style: none; border: 1px solid var(--line); border-radius: 6px; overflow-x: auto;
  font: 13px/1.55 ui-monospace, Menlo, Consolas, monospace; tab-size: 4; }
li { display: flex; min-width: max-content; border-left: 4px solid transparent; }
li > a { flex: none; width: 3.5rem; padding-right: 1rem; text-align: right; color: var(--dim); text-decoration: none;
  user-select: none; }
li > code { font: inherit; white-space: pre; padding-right: 2rem; }
li > em { color: var(--none-edge); font-style: normal; margin-left: auto; padding: 0 1rem; white-space: nowrap; }
.all { --back: var(--all); } .some { --back: var(--some); } .none { --back: var(--none); }
li.all, .key .all { background: var(--all); border-left-color: var(--all-edge); }
li.some, .key .some { background: var(--some); border-left-color: var(--some-edge); }
li.none, .key .none { background: var(--none); border-left-color: var(--none-edge); }
"""


def coverage_page(report: Report) -> str:
    """The page."""
    found = report.coverage or ()
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><title>Coverage of scripts</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_STYLE}</style></head><body>",
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
    """The lines of a file; one where nothing begins goes on with the shade of what began above it."""
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
    """How much of some items was reached; empty where there are none."""
    count = sum(item in reached for item in items)
    if not items:
        return ""
    return "all" if count == len(items) else "some" if count else "none"
