"""How commands speak: documents on standard output, everything else on standard error."""

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click
import msgspec
from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from api.files import write_whole

_ORDERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

console = Console(highlight=False, soft_wrap=True)
errors = Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(document: Any) -> None:
    """One JSON document."""
    click.echo(json_text(document))


def json_text(document: Any) -> str:
    """A JSON document, indented."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table; tab-separated where no person looks."""
    if not sys.stdout.isatty():
        for row in (columns, *rows):
            click.echo("\t".join(_cell(value) for value in row))
        return
    table = Table(*columns, box=SIMPLE)
    for row in rows:
        table.add_row(*(escape(_cell(value)) for value in row))
    console.print(table)


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return plain(text.replace("\t", " ").replace("\n", " "))


def plain(text: str) -> str:
    """A text of anybody's, without what a terminal would take for an order: colours, titles, a cleared screen."""
    return _ORDERS.sub("\ufffd", text)


def told(text: str) -> str:
    """A text of anybody's, to stand in a line that is printed as it is."""
    return escape(plain(text))


def fail(message: str, code: int = 2) -> NoReturn:
    """Ends the command with a message: 2 for wrong use or broken input, 1 for problems found."""
    errors.print(f"[bold red]error[/] {escape(message)}")
    sys.exit(code)


def confirm(question: str, *, yes: bool) -> None:
    """Asks before what cannot be taken back, and ends the command unless the answer is yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        fail("nobody is there to be asked; --yes does it without asking")
    if not click.confirm(question, err=True):
        sys.exit(1)


def write_file(text: str, output: Path) -> None:
    """Writes a file that is there whole or not at all; ends the command where it cannot be written."""
    try:
        write_whole(text, output)
    except OSError as error:
        fail(f"{output}: {error.strerror or 'cannot be written'}")
