"""The connection to a DuckDB database: a cursor for one thread, as the SQL of `store.sql` uses it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from store.duckdb.session_heads import TABLE, SessionHeads
from store.duckdb.statements import Cursor, Inserts, execute, fetch, snapshot, transaction
from store.duckdb.variables import merge_writes
from store.interface.admission import SessionId
from store.interface.rows import encode
from store.sql.connection import Parameters

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", bound=msgspec.Struct)
GROUP_ROWS_MAX = 1_000
"""Rows per statement: enough to share the cost of a statement, few enough that its one value stays small."""
GROUP_BYTES_MAX = 4_000_000


class DuckDBConnection:
    """A cursor, as the SQL that every database executes uses it."""

    derived_tables: Sequence[str] = ()
    derived_texts: Sequence[str] = ()
    derived_of_users: Sequence[str] = ()
    row_number = "rowid"

    def __init__(self, cursor: Cursor, heads: SessionHeads | None = None) -> None:
        self.cursor = cursor
        self.heads = heads or SessionHeads()
        self.changed: list[SessionId] = []
        """The sessions that the current transaction changes other than by a turn."""
        self.inserts = Inserts(cursor)

    def snapshot(self) -> AbstractContextManager[None]:
        """Let the statements in the block read the same state of the database. Not within a transaction."""
        return snapshot(self.cursor)

    def in_transaction(self) -> AbstractContextManager[None]:
        """Execute the statements in the block in one transaction."""
        return transaction(self.cursor)

    def execute(self, statement: str) -> None:
        """Execute a statement without rows."""
        self.cursor.execute(statement)

    def rows(self, select: str, parameters: Parameters | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT."""
        return execute(self.cursor, select, parameters or {}).fetchall()

    def fetch(self, row: type[R], select: str, parameters: Parameters | None = None) -> list[R]:
        """Return the rows of a SELECT whose columns are the fields of a row; other columns are ignored."""
        return fetch(self.cursor, row, select, parameters or {})

    def change(self, statement: str, parameters: Parameters | None = None) -> int:
        """Execute an INSERT, UPDATE or DELETE; return the number of its rows."""
        return int(execute(self.cursor, statement, parameters or {}).fetchall()[0][0])

    def insert(self, table: str, rows: Sequence[msgspec.Struct]) -> None:
        """Insert any number of rows, in statements of a bounded size. Raises RowRefused."""
        for group in _groups(map(encode, rows)):
            self.inserts.insert(table, group)

    def prepare_change(self, tenant: str, session_ids: Sequence[str]) -> None:
        """Merge the writes of all turns into the table of users' variables. There is no other writer."""
        merge_writes(self.cursor)
        self.derive(tenant, session_ids)

    def note_change(self, tenant: str, session_ids: Sequence[str]) -> None:
        """Analytics compares all sessions."""

    def note_memory_change(self, tenant: str, user_ids: Sequence[str]) -> None:
        """No other server has loaded a memory."""

    def derive(self, tenant: str, session_ids: Sequence[str]) -> None:
        """Note the sessions; the writer tells it to the readers."""
        self.changed += [(tenant, session_id) for session_id in session_ids]

    def latest_turns(self, condition: str) -> str:
        """Return the heads of sessions; with a condition, their turns, which a transaction may have changed."""
        if not condition:
            self.heads.refresh(self.cursor)
            return TABLE
        return f"""(SELECT tenant, session_id, max(turn) AS turn, max(finished_at) AS active_at,
            arg_max(status, turn) AS status FROM turns WHERE {condition} GROUP BY tenant, session_id)"""  # noqa: S608


def _groups(documents: Iterable[bytes]) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    size = 0
    for document in documents:
        if group and (len(group) == GROUP_ROWS_MAX or size + len(document) > GROUP_BYTES_MAX):
            yield group
            group, size = [], 0
        group.append(document)
        size += len(document)
    if group:
        yield group


def with_cursor(function: Callable[Concatenate[Cursor, P], T]) -> Callable[Concatenate[DuckDBConnection, P], T]:
    """Return a function with a connection that runs one with DuckDB's cursor."""

    @wraps(function)
    def run(connection: DuckDBConnection, /, *args: P.args, **options: P.kwargs) -> T:
        return function(connection.cursor, *args, **options)

    return run
