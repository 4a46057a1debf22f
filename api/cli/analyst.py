"""``cuebook query``: SQL over the record."""

import csv
import sys
from pathlib import Path
from typing import Any, Literal

import click

from api.cli.options import settings_of, with_settings
from api.cli.output import fail, print_json, print_table
from store.analytics.query import QueryLimits
from store.analytics.query import query as run_query
from store.database import FILE_NAME
from store.errors import StoreError


@click.command(epilog='Example: cuebook query "SELECT role, count(*) FROM messages GROUP BY role"')
@click.argument("sql")
@click.option("--format", "style", type=click.Choice(["table", "csv", "json"]), default="table", help="[table]")
@click.option("--rows", type=click.IntRange(1, 1_000_000), default=10_000, help="How many rows at most [10000].")
@with_settings("data")
def query(sql: str, style: Literal["table", "csv", "json"], rows: int, config: Path | None, **flags: Any) -> None:
    """Asks the record one SELECT. Nothing can be changed by it.

    Tables worth knowing: sessions, turns, messages, variable_history, events, llm_calls, scripts.
    A running server holds the file; stop it first.
    """
    settings = settings_of(config, **flags)
    try:
        result = run_query(settings.data / FILE_NAME, sql, QueryLimits(rows_max=rows))
    except StoreError as error:
        fail(str(error))
    if style == "json":
        print_json([dict(zip(result.names(), row, strict=True)) for row in result.rows])
    elif style == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerow(result.names())
        writer.writerows(result.rows)
    else:
        print_table(result.names(), result.rows)
    if result.truncated:
        click.echo(f"only the first {rows} rows; --rows shows more", err=True)
