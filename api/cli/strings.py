"""``cuebook strings``: what a script says in another language, as a table that a translator fills in."""

import csv
import io
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import click
import msgspec
from rich.markup import escape

from api.cli.output import errors, fail, write_file
from scripts.diagnostics import Problem, Problems
from scripts.model import LOCALE, Locale, Script, StringTable
from scripts.parse import FileUnreadable, Source, read_file, read_script
from scripts.reader import Reader
from scripts.source import Mapping as MappingTree
from scripts.source import Scalar, read_tree
from scripts.string_tables import Sent, Update, read_table, table_yaml, updated, with_sent
from scripts.strings import lines_of

COLUMNS = ("line", "was", "of", "text")
NOTHING = "globals: []\n"


@click.command(
    epilog="Examples:\n\n  cuebook strings intake.yaml --locale de\n\n"
    "  cuebook strings intake.yaml --locale de --csv -o german.csv\n\n"
    "  cuebook strings intake.yaml --locale de --from german.csv"
)
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--locale", required=True, metavar="TAG", help="The language, such as `de` or `pt-BR`.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write [the table that the script uses, else NAME.TAG.yaml beside it].",
)
@click.option("--csv", "as_csv", is_flag=True, help="Write a spreadsheet instead [standard output].")
@click.option(
    "--from",
    "sheet",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Take translations from such a spreadsheet.",
)
def strings(script: Path, locale: str, output: Path | None, as_csv: bool, sheet: Path | None) -> None:
    """Writes the string table of a script for a language, or brings it up to date.

    New lines come empty, changed ones show what they `was`, and what the script no longer has goes to `unused`: no
    translation is ever lost. Exits with 2 where the script has errors.
    """
    if not LOCALE.search(locale):
        fail(f"{locale!r} is no language tag; write e.g. de or pt-BR")
    read, tables = _read(script)
    used = next((name for name, text in tables.items() if _locale_of(text) == locale.casefold()), None)
    table_path = script.parent / (used or f"{script.stem}.{locale}.yaml")
    if output is not None and not as_csv:
        table_path = output
    before = _text(table_path) if table_path.is_file() else tables.get(used or "", "")
    lines = lines_of(read)
    update = updated(_table(before, table_path, locale) if before else None, lines, locale)
    if sheet is not None:
        update = msgspec.structs.replace(update, table=_with_sheet(update.table, sheet))
    if as_csv:
        _write_sheet(update.table, output)
    else:
        title = f"What {script.name} says in {locale}. Fill in `text`; remove `was` once you have looked at a change."
        write_file(table_yaml(update.table, before, title="" if before else title), table_path)
    _report(update, output if as_csv and output else table_path, sum(not line.id for line in lines))
    if not as_csv and used is None:
        names = ", ".join((*read.use, table_path.name))
        errors.print(f"To use it, write into the script: use: {escape(f'[{names}]')}")


# -- the script and its table -----------------------------------------------------------------------------------------


def _read(path: Path) -> tuple[Script, Mapping[str, str]]:
    """The script, and its string tables by name; problems of theirs must not keep them from being mended."""
    try:
        source = read_file(path)
    except FileUnreadable as error:
        fail(str(error))
    tables = {name: text for name, text in source.side_files.items() if _locale_of(text) is not None}
    without = {name: NOTHING if name in tables else text for name, text in source.side_files.items()}
    reading = read_script(Source(source.text, source.file, without))
    if reading.script is None:
        _stop(reading.errors)
    return reading.script, tables


def _locale_of(text: str) -> str | None:
    tree = read_tree(text, Problems())
    locale = tree.get("strings") if isinstance(tree, MappingTree) else None
    return locale.text.casefold() if isinstance(locale, Scalar) else None


def _table(text: str, path: Path, locale: Locale) -> StringTable:
    problems = Problems(str(path))
    tree = read_tree(text, problems)
    found = _locale_of(text)
    if tree is not None and found is None:
        fail(f"{path} is there already, and no string table")
    if found not in {None, locale.casefold()}:
        fail(f"{path} is a string table for {found}, not {locale}")
    table = read_table(tree, Reader(problems, lenient=False)) if isinstance(tree, MappingTree) else None
    if table is None or problems.fatal:
        _stop(tuple(each for each in problems.sorted() if each.severity == "error"))
    return table


def _stop(found: tuple[Problem, ...]) -> NoReturn:
    for problem in found:
        errors.print(f"[red]error[/] {escape(str(problem))}\n    {escape(problem.fix)}")
    sys.exit(2)


def _text(path: Path) -> str:
    try:
        return read_file(path).text
    except FileUnreadable as error:
        fail(str(error))


def _report(update: Update, path: Path, nameless: int) -> None:
    counts = [f"{update.translated} translated", f"{update.missing} missing", f"{update.stale} stale"]
    if update.moved:
        counts.append(f"{update.moved} found again under another id")
    if update.set_aside:
        counts.append(f"{update.set_aside} set aside")
    errors.print(f"{escape(str(path))}: {', '.join(counts)}")
    if nameless:
        errors.print(f"{nameless} more cannot be translated: their actions have no `id`")


# -- spreadsheets --------------------------------------------------------------------------------------------------


def _write_sheet(table: StringTable, output: Path | None) -> None:
    sheet = io.StringIO()
    writer = csv.writer(sheet)
    writer.writerow(COLUMNS)
    for id, each in table.lines.items():
        writer.writerow((id, each.was or "", each.of or "", each.text.source))
    if output is None:
        click.echo(sheet.getvalue(), nl=False)
    else:
        write_file("\ufeff" + sheet.getvalue(), output)  # by which spreadsheets know UTF-8


def _with_sheet(table: StringTable, path: Path) -> StringTable:
    text = _text(path)
    header = text.partition("\n")[0]
    separator = max(",;\t", key=header.count)  # some spreadsheets write what their country does
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator)
    if not set(COLUMNS) <= set(rows.fieldnames or ()):
        fail(f"{path}: the first row is not {', '.join(COLUMNS)}")
    sent: dict[str, Sent] = {}
    try:
        for row in rows:
            id, was, of, said = ((row[name] or "").replace("\r\n", "\n") for name in COLUMNS)
            sent[id] = Sent(of, was, said)
    except csv.Error as error:
        fail(f"{path}: row {rows.line_num}: {error}")
    for id in sent.keys() - table.lines.keys():
        errors.print(f"[yellow]passed over[/] {escape(id)}: the script has no such line")
    return with_sent(table, sent)
