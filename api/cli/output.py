"""Output of commands: documents on standard output, everything else on standard error."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click
import msgspec
from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from api.local_files.atomic_files import write_whole

_CONTROL_CHARS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

# `:x:` in a text is not an emoji
console = Console(highlight=False, soft_wrap=True, emoji=False)
errors = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def print_json(document: Any) -> None:
    """Print one JSON document."""
    click.echo(json_text(document))


def json_text(document: Any) -> str:
    """Return a JSON document, indented."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table; separate its columns by tabs if standard output is not a terminal."""
    if not sys.stdout.isatty():
        for row in (columns, *rows):
            click.echo("\t".join(_cell(value) for value in row))
        return
    table = Table(*columns, box=SIMPLE)
    for row in rows:
        table.add_row(*(escape(_cell(value)) for value in row))
    console.print(table)


def print_rows(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Print the named columns of rows as a table."""
    print_table(columns, [[row[column] for column in columns] for row in rows])


def print_page(page: Any, columns: Sequence[str], row_of: Callable[[Any], Mapping[str, Any]] = dict) -> None:
    """Print a page of a list as a table, and the option for the next page, if there is one."""
    print_rows(columns, map(row_of, page["data"]))
    if page["nextCursor"]:
        click.echo(f"more: --cursor {page['nextCursor']}", err=True)


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return plain(text.replace("\t", " ").replace("\n", " "))


def plain(text: str) -> str:
    """Replace control characters, by which untrusted text could set colours or titles or clear the screen."""
    return _CONTROL_CHARS.sub("\ufffd", text)


def printable(text: str) -> str:
    """Escape untrusted text for a line that is printed with markup."""
    return escape(plain(text))


def fail(message: str, code: int = 2) -> NoReturn:
    """End the command with a message and an exit code: 2 for wrong usage or invalid input, 1 for problems found."""
    errors.print(f"[bold red]error[/] {escape(message)}")
    end(code)


def end(code: int) -> NoReturn:
    """End the command with an exit code: 0 for success, 1 for problems found."""
    raise click.exceptions.Exit(code)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before a change that cannot be undone; end the command unless the answer is yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        fail("standard input is not a terminal, so no confirmation is possible; use --yes to run without it")
    if not click.confirm(question, err=True):
        end(1)


def write_text(text: str, output: Path | None) -> None:
    """Write a text to standard output, or to a file atomically; end the command if the file cannot be written."""
    if output is None:
        click.echo(text, nl=False)
        return
    with file_errors(output):
        write_whole(text, output)


def make_folder(folder: Path) -> None:
    """Create a folder; end the command if it cannot be created."""
    with file_errors(folder, "cannot be created"):
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def failing(*kinds: type[Exception]) -> Iterator[None]:
    """End the command with the message of an error of these kinds."""
    try:
        yield
    except kinds as error:
        fail(str(error))


@contextmanager
def file_errors(file: Path | None, otherwise: str = "cannot be written") -> Iterator[None]:
    """End the command with the system's message, or else this one, if a file cannot be used."""
    try:
        yield
    except OSError as error:
        fail(f"{file}: {error.strerror or otherwise}")
