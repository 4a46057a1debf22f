"""``cuebook convert``: a script of any form, written in the native one."""

import sys
from pathlib import Path

import click
from rich.markup import escape

from api.cli.output import errors, fail, write_file
from scripts.conversion import Conversion, NotConvertible, convert
from scripts.diagnostics import Problem, Problems
from scripts.dialects.stage_repairs import read_repaired
from scripts.folder import read_path
from scripts.parse import Reading
from scripts.side_files import beside, used_names


@click.command("convert", epilog="Example: cuebook convert older.yaml -o newer.yaml")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Where to write [standard output]."
)
@click.option("--force", is_flag=True, help="Overwrite what is there.")
@click.option("--strict", is_flag=True, help="Older and unknown keys are errors.")
def convert_file(file: Path, output: Path | None, force: bool, strict: bool) -> None:
    """Writes a script of any form in the native one, with its comments.

    What could not be carried over stands as a comment at its place and on standard error; then the exit code is 1.
    Side files are named relative to the output; where it lies in another folder, they are copied beside it.
    """
    if output is not None and output.exists() and not force:
        fail(f"{output} is there already; --force overwrites it")
    reading = read_path(file, "strict" if strict else "compat")
    if reading.script is None:
        for problem in reading.errors:
            _print_problem(problem, f"[red]error[/] {problem.code}")
        sys.exit(2)
    folder = _folder_of_sides(file, output)
    try:
        converted = convert(reading.script, reading, folder or "")
    except NotConvertible as why:
        fail(f"{file} cannot be written in the native form: {why}", 1)
    copies = _copies(converted, reading, output) if output is not None and folder is None else {}
    for path, text in copies.items():
        if path.exists() and path.read_text("utf-8-sig") != text and not force:
            fail(f"{path} is there already and differs from the file that {file} uses; --force overwrites it")
    for path, text in copies.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(text, path)
        errors.print(f"wrote {escape(str(path))}, which {escape(str(output))} uses")
    _write(converted.text, output)
    for problem in converted.losses:
        _print_problem(problem, f"[yellow]not carried over[/] {problem.code}")
    sys.exit(1 if converted.losses else 0)


def _folder_of_sides(file: Path, output: Path | None) -> str | None:
    """The path from the output's folder to the side files, empty where it is the same; None where none leads there.

    A script uses files of its own folder and below, so only a folder above can reach those of the source.
    """
    if output is None or not output.parent.is_dir():
        return ""
    here, there = file.parent.resolve(), output.parent.resolve()
    if not here.is_relative_to(there):
        return None
    return "" if here == there else here.relative_to(there).as_posix()


def _copies(converted: Conversion, reading: Reading, output: Path) -> dict[Path, str]:
    """The side files that the output needs beside it, with those that they use in turn."""
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


def _write(text: str, output: Path | None) -> None:
    """Writes to standard output, or a file that is there whole or not at all."""
    if output is None:
        click.echo(text, nl=False)
        return
    write_file(text, output)
