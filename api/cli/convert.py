"""``cuebook convert``: convert a script to the current language."""

from pathlib import Path

import click
from rich.markup import escape

from api.cli.options import EXISTING_FILE, to_file
from api.cli.output import end, errors, fail, write_text
from scripts.formats.stage.yaml_fixups import read_repaired
from scripts.model.diagnostics import Problem, Problems
from scripts.parse.conversion import Conversion, NotConvertible, convert
from scripts.parse.folder import read_path
from scripts.parse.includes import beside, used_names
from scripts.parse.read_script import Reading


@click.command("convert", epilog="Example: cuebook convert older.yaml -o newer.yaml")
@click.argument("file", type=EXISTING_FILE)
@to_file
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@click.option("--strict", is_flag=True, help="Report older and unknown keys as errors.")
def convert_file(file: Path, output: Path | None, force: bool, strict: bool) -> None:
    """Convert a script to the current language (`cuebook: 1`), with its comments.

    Use it to continue work on a script with older keys or in an older format. What the language cannot express is
    written as a comment in its place and reported on standard error; then the exit code is 1. Include files are named
    relative to the output; if the output is in another folder, they are copied beside it.
    """
    if output is not None and output.exists() and not force:
        fail(f"{output} already exists; --force overwrites it")
    reading = read_path(file, "strict" if strict else "compat")
    if reading.script is None:
        for problem in reading.errors:
            _print_problem(problem, f"[red]error[/] {problem.code}")
        end(2)
    folder = _folder_of_sides(file, output)
    try:
        converted = convert(reading.script, reading, folder or "")
    except NotConvertible as why:
        fail(f"{file} cannot be converted: {why}", 1)
    copies = _copies(converted, reading, output) if output is not None and folder is None else {}
    for path, text in copies.items():
        if path.exists() and path.read_text("utf-8-sig") != text and not force:
            fail(f"{path} already exists and differs from the file that {file} uses; --force overwrites it")
    for path, text in copies.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(text, path)
        errors.print(f"wrote {escape(str(path))}, which {escape(str(output))} uses")
    write_text(converted.text, output)
    for problem in converted.losses:
        _print_problem(problem, f"[yellow]not converted[/] {problem.code}")
    end(1 if converted.losses else 0)


def _folder_of_sides(file: Path, output: Path | None) -> str | None:
    """Return the path from the output's folder to the include files: empty for the same folder, None if there is none.

    A script uses files of its own folder and below, so the output can use the source's files only from a folder above.
    """
    if output is None or not output.parent.is_dir():
        return ""
    here, there = file.parent.resolve(), output.parent.resolve()
    if not here.is_relative_to(there):
        return None
    return "" if here == there else here.relative_to(there).as_posix()


def _copies(converted: Conversion, reading: Reading, output: Path) -> dict[Path, str]:
    """Return the include files that the output needs in its folder, including the files that these use."""
    files, waiting = reading.source.side_files, list(converted.use)
    found: dict[Path, str] = {}
    while waiting:
        name = waiting.pop()
        path = output.parent / name
        if name in files and path not in found:
            found[path] = files[name]
            tree = read_repaired(files[name], Problems(), lenient=True)
            waiting += [beside(name, used) for used in used_names(tree)]
    return found


def _print_problem(problem: Problem, what: str) -> None:
    errors.print(f"{escape(problem.file)}:{problem.line}:{problem.column} {what} {escape(problem.message)}")
    errors.print(f"    {escape(problem.fix)}")
