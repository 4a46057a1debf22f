"""Analytics files that are refreshed in this process, and all that is in them."""

import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import duckdb
import msgspec

from api.analytics.outlines import outline_of
from scripts.model.script import Script
from scripts.parse.read_script import Source, read_script
from store.analytics.delta import TURNS_MAX, Delta, write_delta
from store.analytics.file import Place, described_tables
from store.analytics.outlines import OUTLINES
from store.analytics.refresh import Masking, refresh
from store.duckdb.database import Database
from store.duckdb.statements import Cursor
from tests.support.data_folders import database_file

SALT = "a salt"


def refresh_all(
    store: Path, place: Place, *, is_masked: bool, turns_max: int = TURNS_MAX, deltas_max: int = 10_000
) -> int:
    """Refresh a file, with so many turns at a time; return the number of deltas."""
    database = Database.open(database_file(store).parent, read_only=True)
    cursor = database.cursor()
    try:
        for number in range(1, deltas_max + 1):
            if not one(cursor, place, is_masked=is_masked, turns_max=turns_max).left:
                return number
    finally:
        cursor.close()
        database.close()
    return deltas_max


def one(cursor: Cursor, place: Place, *, is_masked: bool, turns_max: int) -> Delta:
    with tempfile.TemporaryDirectory() as folder:
        delta = write_delta(cursor, "default", Path(folder), place.read_known(), units=True, turns_max=turns_max)
        outlines = outline_of((digest, _script(cursor, digest)) for digest in delta.digests)
        (Path(folder) / OUTLINES).write_bytes(msgspec.json.encode(outlines))
        return refresh(place, Path(folder), Masking(is_masked, SALT))


def _script(cursor: Cursor, digest: str) -> Script:
    text, files = cursor.execute("SELECT text, files FROM script_texts WHERE digest = ?", [digest]).fetchall()[0]
    script = read_script(Source(text, "", msgspec.json.decode(files, type=dict[str, str])), "compat").script
    assert script is not None
    return script


def rows(file: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of all tables, but when the file was made."""
    with duckdb.connect(str(file), read_only=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        tables = [table.name for table in described_tables() if table.name != "about"]
        found = {table: connection.execute(f"FROM {table} ORDER BY ALL").fetchall() for table in tables}
        return found | {"about": connection.execute("FROM (SELECT * EXCLUDE (as_of) FROM about)").fetchall()}


def count(file: Path, table: str) -> int:
    """Return how many rows a table has."""
    with duckdb.connect(str(file), read_only=True) as connection:
        ((number,),) = connection.execute(f"SELECT count(*) FROM {table}").fetchall()
        return int(number)


def as_of(file: Path) -> datetime:
    """Return the moment that a file tells."""
    with duckdb.connect(str(file), read_only=True) as connection:
        ((moment,),) = connection.execute("SELECT as_of FROM about").fetchall()
        return cast(datetime, moment)
