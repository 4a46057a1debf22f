"""``cuebook strings``: write or update the string table of a script, which a translator fills in."""

from collections.abc import Mapping
from pathlib import Path

import click
from rich.markup import escape

from api.cli.options import EXISTING_FILE, OUTPUT_FILE
from api.cli.output import errors, fail, failing, write_text
from api.cli.script_arguments import check_locale, script_of, stop
from scripts.model.diagnostics import Problems
from scripts.model.script import Locale, Script, StringTable
from scripts.parse.includes import used_names
from scripts.parse.read_script import Source, read_file, read_script
from scripts.translations.localisation import lines_of
from scripts.translations.string_tables import Update, read_table, table_yaml, update_lines
from scripts.yaml.decoder import Reader
from scripts.yaml.parser import Mapping as MappingTree
from scripts.yaml.parser import Scalar, read_tree
from scripts.yaml.text_file import FileUnreadable

NOTHING = "globals: []\n"


@click.command(epilog="Example: cuebook strings intake.yaml --locale de")
@click.argument("script", type=EXISTING_FILE)
@click.option("--locale", required=True, metavar="TAG", help="The language, such as `de` or `pt-BR`.")
@click.option(
    "-o",
    "--output",
    type=OUTPUT_FILE,
    help="Output file [the table that the script uses, else NAME.TAG.yaml in its folder].",
)
def strings(script: Path, locale: str, output: Path | None) -> None:
    """Write the string table of a script for a language, or update it.

    Use it to translate a script, and again after the script changes. New lines are empty, changed lines show the
    earlier text as `was`, and lines that the script no longer has move to `unused`: no translation is lost. Exits
    with 2 if the script has errors.
    """
    check_locale(locale)
    read, tables = _read(script)
    used = next((name for name, text in tables.items() if _locale_of(text) == locale.casefold()), None)
    table_path = output or script.parent / (used or f"{script.stem}.{locale}.yaml")
    with failing(FileUnreadable):
        before = read_file(table_path).text if table_path.is_file() else tables.get(used or "", "")
    lines = lines_of(read)
    update = update_lines(_table(before, table_path, locale) if before else None, lines, locale)
    title = f"The texts of {script.name} in {locale}. Fill in `text`; remove `was` after reviewing a change."
    write_text(table_yaml(update.table, before, title="" if before else title), table_path)
    _report(update, table_path, sum(not line.id for line in lines))
    if used is None and table_path.name not in read.use:
        names = ", ".join((*read.use, table_path.name))
        errors.print(f"To use it, add to the script: use: {escape(f'[{names}]')}")


# -- the script and its table -----------------------------------------------------------------------------------------


def _read(path: Path) -> tuple[Script, Mapping[str, str]]:
    """Return the script, and its string tables by name; the script is read without them, so that a broken one is no
    obstacle to fixing it, nor one that it uses already and this command has yet to write.
    """
    with failing(FileUnreadable):
        source = read_file(path)
    tables = {name: text for name, text in source.side_files.items() if _locale_of(text) is not None}
    emptied = {name: NOTHING if name in tables else text for name, text in source.side_files.items()}
    used = used_names(read_tree(source.text, Problems()))
    emptied |= {name: NOTHING for name in used if name not in emptied and name.startswith(f"{path.stem}.")}
    reading = read_script(Source(source.text, source.file, emptied))
    return script_of(reading), tables


def _locale_of(text: str) -> str | None:
    tree = read_tree(text, Problems())
    locale = tree.get("strings") if isinstance(tree, MappingTree) else None
    return locale.text.casefold() if isinstance(locale, Scalar) else None


def _table(text: str, path: Path, locale: Locale) -> StringTable:
    problems = Problems(str(path))
    tree = read_tree(text, problems)
    found = _locale_of(text)
    if tree is not None and found is None:
        fail(f"{path} already exists and is not a string table")
    if found not in {None, locale.casefold()}:
        fail(f"{path} is a string table for {found}, not {locale}")
    table = read_table(tree, Reader(problems, lenient=False)) if isinstance(tree, MappingTree) else None
    if table is None or problems.fatal:
        stop(tuple(each for each in problems.sorted() if each.severity == "error"))
    return table


def _report(update: Update, path: Path, nameless: int) -> None:
    counts = [f"{update.translated} translated", f"{update.missing} missing", f"{update.stale} stale"]
    if update.moved:
        counts.append(f"{update.moved} moved to another id")
    if update.set_aside:
        counts.append(f"{update.set_aside} moved to `unused`")
    errors.print(f"{escape(str(path))}: {', '.join(counts)}")
    if nameless:
        errors.print(f"{nameless} more cannot be translated: their actions have no `id`")
