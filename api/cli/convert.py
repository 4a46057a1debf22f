"""``cuebook convert``: a script of any form, written in the native one."""

import sys
from pathlib import Path

import click
from rich.markup import escape

from api.cli.output import errors, fail, write_file
from scripts.conversion import Conversion, NotConvertible, convert
from scripts.diagnostics import Problem
from scripts.folder import read_path
from scripts.parse import Reading


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
    """
    if output is not None and output.exists() and not force:
        fail(f"{output} is there already; --force overwrites it")
    reading = read_path(file, "strict" if strict else "compat")
    if reading.script is None:
        for problem in reading.errors:
            _print_problem(problem, f"[red]error[/] {problem.code}")
        sys.exit(2)
    try:
        converted = convert(reading.script, reading)
    except NotConvertible as why:
        fail(f"{file} cannot be written in the native form: {why}", 1)
    _write(converted.text, output)
    sys.exit(1 if _report(converted, reading, output) else 0)


def _report(converted: Conversion, reading: Reading, output: Path | None) -> bool:
    """Says what the new file does not hold; whether there is such a thing."""
    for problem in converted.losses:
        _print_problem(problem, f"[yellow]not carried over[/] {problem.code}")
    script = reading.script
    missing = [name for name in script.use if not (output.parent / name).is_file()] if script and output else []
    for name in missing:
        errors.print(f"[yellow]not carried over[/] {escape(name)}, a file it uses: put it beside {escape(str(output))}")
    return bool(converted.losses or missing)


def _print_problem(problem: Problem, what: str) -> None:
    errors.print(f"{escape(problem.file)}:{problem.line}:{problem.column} {what} {escape(problem.message)}")
    errors.print(f"    {escape(problem.fix)}")


def _write(text: str, output: Path | None) -> None:
    """Writes to standard output, or a file that is there whole or not at all."""
    if output is None:
        click.echo(text, nl=False)
        return
    write_file(text, output)
