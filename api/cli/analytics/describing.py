"""``cuebook query --describe``: the tables that can be asked, and their columns."""

from difflib import get_close_matches

from api.cli.output import fail, print_json, print_table
from store.analytics.describe import DescribedTable, described_tables


def describe(name: str | None, form: str) -> None:
    """Print all tables, or the columns of one; ends the command where there is none of that name."""
    tables = described_tables()
    if form == "json":
        print_json(tables if name is None else _named(name, tables))
    elif name is None:
        print_table(("table", "means"), [(table.name, table.means) for table in tables])
    else:
        columns = _named(name, tables).columns
        print_table(("column", "type", "means"), [(each.name, each.type, each.means) for each in columns])


def _named(name: str | None, tables: tuple[DescribedTable, ...]) -> DescribedTable:
    found = {table.name: table for table in tables}
    if name not in found:
        close = get_close_matches(name or "", found, 1)
        fail(f"there is no table {name!r}" + (f"; did you mean {close[0]}?" if close else "; --describe lists them"))
    return found[name]
