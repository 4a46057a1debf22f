"""Initial variables of a conversation, as commands take them."""

import difflib
from collections.abc import Sequence

import msgspec
from rich.markup import escape

from api.cases.names import names_of
from api.cli.output import errors, fail
from scripts.model import Script
from scripts.values import Value, ValueRefused, bounded, coerce


def variables_of(given: Sequence[str], script: Script) -> dict[str, Value]:
    """``name=value`` pairs; a value that is JSON counts as such, everything else as a text.

    Ends the command for what is no such pair.
    """
    variables: dict[str, Value] = {}
    known = names_of(script)
    for pair in given:
        name, value = value_of(pair, "--var")
        variables[name] = value
        if close := difflib.get_close_matches(name, [] if name in known else sorted(known), 1):
            errors.print(
                f"[yellow]--var[/] the script has no variable {escape(name)}. Did you mean {escape(close[0])}?"
            )
        _check_type(name, variables[name], script)
    return variables


def value_of(pair: str, option: str) -> tuple[str, Value]:
    """The name and value of one pair. Ends the command for what is none."""
    name, sign, text = pair.partition("=")
    if not sign or not name:
        fail(f"{option} takes NAME=VALUE, not {pair!r}")
    try:
        return name, bounded(msgspec.json.decode(text))
    except (msgspec.DecodeError, ValueRefused):
        return name, text


def _check_type(name: str, value: Value, script: Script) -> None:
    """Ends the command where a variable is declared with a type that its value does not fit."""
    for each in (*script.global_variables, *script.session_variables):
        if each.var == name and each.kind is not None and value is not None:
            try:
                coerce(value, each.kind, each.choices)
            except ValueRefused as refused:
                fail(f"--var {name}: {refused}")
