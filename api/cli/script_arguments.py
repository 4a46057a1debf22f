"""Reads the script that a command runs, with the variables and the language that are named for it."""

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from rich.markup import escape

from api.cli.options import value_of
from api.cli.output import end, errors, fail
from scripts.expressions.values import Value, refusal
from scripts.model.diagnostics import Problem
from scripts.model.script import LOCALE, Script
from scripts.parse.folder import read_path
from scripts.parse.read_script import Reading


def runnable(path: Path) -> tuple[Script, Reading]:
    """Return a script and its reading; end the command with its first error if it cannot be run."""
    reading = read_path(path)
    if reading.script is None:
        fail(f"{path} cannot be run: {reading.errors[0]}. See `cuebook check {path}`")
    return reading.script, reading


def script_of(reading: Reading) -> Script:
    """Return the script of a reading; end the command with all its errors if it has none."""
    if reading.script is None:
        stop(reading.errors)
    return reading.script


def stop(problems: Iterable[Problem]) -> NoReturn:
    """Print errors of a script with their fixes, and end the command."""
    for problem in problems:
        errors.print(f"[red]error[/] {escape(str(problem))}\n    {escape(problem.fix)}")
    end(2)


def variables_of(pairs: Sequence[str], script: Script) -> dict[str, Value]:
    """Parse ``NAME=VALUE`` pairs; a value that is valid JSON is read as such, any other as a text.

    Ends the command for an invalid pair, or a value that does not fit the declared type of its variable.
    """
    from api.testing.cases.case_reader import names_of  # not needed by commands without variables

    variables: dict[str, Value] = {}
    known = names_of(script)
    for pair in pairs:
        name, value = value_of(pair, "--var")
        variables[name] = value
        if close := difflib.get_close_matches(name, [] if name in known else sorted(known), 1):
            errors.print(
                f"[yellow]--var[/] the script has no variable {escape(name)}. Did you mean {escape(close[0])}?"
            )
        _check_type(name, variables[name], script)
    return variables


def _check_type(name: str, value: Value, script: Script) -> None:
    """End the command if the value does not fit the declared type of the variable."""
    for each in (*script.global_variables, *script.session_variables):
        if each.var == name and each.kind is not None and (reason := refusal(value, each.kind, each.choices)):
            fail(f"--var {name}: {reason}")


def check_locale(locale: str | None) -> None:
    """End the command if this is no language tag."""
    if locale is not None and not LOCALE.search(locale):
        fail(f"{locale!r} is no language tag; write e.g. de or pt-BR")
