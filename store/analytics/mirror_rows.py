"""Copy rows from PostgreSQL into the mirror: in CSV through a private file, a part of the rows at a time.

A row as a JSON document takes DuckDB several times as long to read. The file has users' texts: it is in the folder of
the mirror, which an erasure removes, and it is deleted when its rows are inserted.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO

from store.duckdb.statements import Cursor
from store.duckdb.table_rows import insert_csv
from store.interface.admission import SessionId
from store.interface.errors import StoreUnavailable
from store.postgres.connection import PostgresConnection
from store.postgres.table_rows import csv_columns, read_csv
from store.sql.connection import Parameters

FILE_BYTES = 64 * 1024**2
"""The file is inserted when it is as large, which bounds the space that it takes."""


class MirrorRows:
    """The rows that one refresh reads and writes, within a transaction of both databases."""

    def __init__(self, source: PostgresConnection, cursor: Cursor, path: Path) -> None:
        self.source = source
        self.cursor = cursor
        self._path = path

    def delete(self, table: str, sessions: Sequence[SessionId]) -> None:
        """Delete the rows of sessions."""
        if sessions:
            given = [[tenant for tenant, _ in sessions], [session_id for _, session_id in sessions]]
            named = "SELECT unnest(?::VARCHAR[]), unnest(?::UUID[])"
            self.cursor.execute(f"DELETE FROM {table} WHERE (tenant, session_id) IN ({named})", given)  # noqa: S608

    def delete_turns(self, firsts: Mapping[SessionId, int]) -> None:
        """Delete the turns of sessions from the first ones on."""
        if firsts:
            named = (
                "SELECT unnest(?::VARCHAR[]) AS tenant, unnest(?::UUID[]) AS session_id, unnest(?::INTEGER[]) AS first"
            )
            tenants, session_ids = zip(*firsts, strict=True)
            self.cursor.execute(
                f"""DELETE FROM turns USING ({named}) AS n
                WHERE turns.tenant = n.tenant AND turns.session_id = n.session_id AND turn >= first""",  # noqa: S608
                [list(tenants), list(session_ids), list(firsts.values())],
            )

    def copy(self, table: str, which: str = "true", parameters: Parameters | None = None) -> None:
        """Insert the rows of a table of PostgreSQL that meet a condition. Raises StoreUnavailable."""
        names = csv_columns(self.source, table)
        with closing(read_csv(self.source, table, which, parameters or {})) as rows:
            row = next(rows, None)
            while row is not None:
                with _private_file(self._path) as file:
                    size = longest = 0
                    while row is not None and size < FILE_BYTES:
                        size += file.write(row)
                        longest = max(longest, len(row))
                        row = next(rows, None)
                    file.flush()
                    insert_csv(self.cursor, table, names, self._path, longest)


@contextmanager
def _private_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that only this account can read, and delete it at the end. Raises StoreUnavailable."""
    try:
        path.unlink(missing_ok=True)  # of a server that was killed
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            yield file
    except OSError as error:
        raise StoreUnavailable(f"the copy for analytics failed: {error.strerror}") from error
    finally:
        path.unlink(missing_ok=True)
