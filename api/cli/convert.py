"""``cuebook convert``: convert a script to the current language."""

from pathlib import Path

import click
from rich.markup import escape

from api.cli.options import EXISTING_FILE, to_file
from api.cli.output import end, errors, fail, write_text
from scripts.model.diagnostics import Problem
from scripts.parse.conversion import NotConvertible, convert
from scripts.parse.folder import read_path


@click.command("convert", epilog="Example: cuebook convert older.yaml -o newer.yaml")
@click.argument("file", type=EXISTING_FILE)
@to_file
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@click.option("--strict", is_flag=True, help="Report older and unknown keys as errors.")
def convert_file(file: Path, output: Path | None, force: bool, strict: bool) -> None:
    """Convert a script to the current language (`cuebook: 1`), with its comments.

    Use it to continue work on a script with older keys or in an older format. What the language cannot express is
    written as a comment in its place and reported on standard error; then the exit code is 1. The output names include
    files as FILE does: in another folder it needs copies of them.
    """
    if output is not None and output.exists() and not force:
        fail(f"{output} already exists; --force overwrites it")
    reading = read_path(file, "strict" if strict else "compat")
    if reading.script is None:
        for problem in reading.errors:
            _print_problem(problem, f"[red]error[/] {problem.code}")
        end(2)
    try:
        converted = convert(reading.script, reading)
    except NotConvertible as why:
        fail(f"{file} cannot be converted: {why}", 1)
    write_text(converted.text, output)
    if output is not None and converted.use and output.parent.resolve() != file.parent.resolve():
        names = escape(", ".join(converted.use))
        errors.print(
            f"copy {names} and the files that they use to {escape(str(output.parent))}: {output.name} needs them"
        )
    for problem in converted.losses:
        _print_problem(problem, f"[yellow]not converted[/] {problem.code}")
    end(1 if converted.losses else 0)


def _print_problem(problem: Problem, what: str) -> None:
    errors.print(f"{escape(problem.file)}:{problem.line}:{problem.column} {what} {escape(problem.message)}")
    errors.print(f"    {escape(problem.fix)}")
