"""The connection to PostgreSQL, as the SQL of `store.sql` uses it.

The database builds one JSON object per row, msgspec decodes it into the row's type. Any number of rows of a table are
inserted with one statement, whose parameters are the columns as arrays.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec
import psycopg
import psycopg.sql

from store.interface.admission import SessionId
from store.interface.rows import encode
from store.postgres.derived_rows import LATEST_TURNS, TURNS_OF_SESSION, HeadRow, LatestTurn, SpokenTurn, texts_of
from store.sql.connection import Parameters, Scalar, decode_rows, of_session, rows_select

PsycopgConnection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
Tables: TypeAlias = Mapping[str, Mapping[str, str]]
"""The types of the columns of each table."""
R = TypeVar("R", bound=msgspec.Struct)
OF_SESSION_IDS = "(tenant, session_id) IN (SELECT unnest($tenants::TEXT[]), unnest($sessions::UUID[]))"
"""Condition on rows of the sessions that `names_of` names, of any tenants."""
LOCK_TIMEOUT_S = 5.0
IDLE_TIMEOUT_S = 20.0
"""Seconds after which a server that stops in the middle of a transaction, for example by SIGSTOP, loses it and its
locks."""
_PARAMETER = re.compile(r"\$([a-z]\w*)")
_ESCAPED_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
_VERBATIM = frozenset({"turns", "call_journal", "settled_calls", "user_variable_values", "user_variable_writes"})
"""Tables with JSON that no statement looks into, so that it may contain U+0000."""


def names_of(sessions: Sequence[SessionId]) -> dict[str, list[str]]:
    """Return the parameters of OF_SESSION_IDS."""
    return {"tenants": [tenant for tenant, _ in sessions], "sessions": [session_id for _, session_id in sessions]}


class PostgresConnection:
    """A connection of the pool, used by one thread at a time."""

    derived_tables: Sequence[str] = ("session_heads", "turn_claims", "turn_texts")
    derived_texts: Sequence[str] = ("turn_texts",)
    derived_of_users: Sequence[str] = ("memory_versions",)
    row_number = "ctid"

    def __init__(self, connection: PsycopgConnection, tables: Tables) -> None:
        self.connection = connection
        self.tables = tables

    def execute(
        self, statement: str, parameters: Parameters | None = None, *, prepare: bool | None = None
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        """Execute a statement with named parameters, and return its cursor; `prepare` as in `fetch`."""
        numbered = number_parameters(statement)
        given = parameters or {}
        values = [_storable(given[name]) for name in numbered.names]
        return self.connection.execute(numbered.statement, values, prepare=prepare)

    def rows(self, select: str, parameters: Parameters | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT."""
        return self.execute(select, parameters).fetchall()

    def fetch(
        self, row: type[R], select: str, parameters: Parameters | None = None, *, prepare: bool | None = None
    ) -> list[R]:
        """Return the rows of a SELECT whose columns are the fields of a row; other columns are ignored.

        A statement that is executed often is prepared by the driver, and PostgreSQL may then plan it once for all
        parameters. With `prepare=False` it is planned for these.
        """
        in_json = f"SELECT row_to_json(found)::text FROM ({select}) AS found"  # noqa: S608
        return decode_rows(row, self.execute(in_json, parameters, prepare=prepare).fetchall())

    def change(self, statement: str, parameters: Parameters | None = None) -> int:
        """Execute an INSERT, UPDATE or DELETE; return the number of its rows."""
        return self.execute(statement, parameters).rowcount

    def insert(self, table: str, rows: Sequence[msgspec.Struct]) -> None:
        """Insert any number of rows. Raises RowRefused."""
        for start in range(0, len(rows), GROUP_ROWS_MAX):
            self.insert_documents(table, [encode(row) for row in rows[start : start + GROUP_ROWS_MAX]])

    def insert_documents(self, table: str, documents: Sequence[bytes], conflict: str = "") -> None:
        """Insert encoded rows; `conflict` is the ON CONFLICT clause."""
        columns = _columns(documents, self.tables[table], is_verbatim=table in _VERBATIM)
        statement = _insert_statement(table, tuple(columns), tuple(self.tables[table][name] for name in columns))
        self.connection.execute(f"{statement} {conflict}", list(columns.values()))

    def update_heads(self, rows: Sequence[HeadRow]) -> None:
        """Update the heads of sessions, in this order."""
        given, parameters = rows_select(HeadRow, rows, session_id="UUID")
        self.execute(
            f"""UPDATE session_heads AS h SET turn = n.turn, message_count = n.message_count,
                event_count = n.event_count, status = n.status, execution_status = n.execution_status,
                active_at = greatest(h.active_at, n.active_at), outcome = n.outcome, gaps = n.gaps
            FROM ({given}) AS n WHERE h.tenant = n.tenant AND h.session_id = n.session_id""",  # noqa: S608
            parameters,
        )

    def prepare_change(self, tenant: str, session_ids: Sequence[str]) -> None:
        """Lock the heads of the sessions, and let analytics read them again."""
        self.lock_heads(tenant, session_ids)
        self.note_change(tenant, session_ids)

    def lock_heads(self, tenant: str, session_ids: Sequence[str]) -> None:
        """Lock the heads of the sessions, in the order of their ids, so that no other server adds a turn meanwhile."""
        self.execute(
            """SELECT 1 FROM session_heads WHERE tenant = $tenant AND session_id IN (SELECT unnest($sessions::UUID[]))
            ORDER BY session_id FOR UPDATE""",
            {"tenant": tenant, "sessions": list(session_ids)},
        )

    def note_change(self, tenant: str, session_ids: Sequence[str]) -> None:
        """Let analytics read the sessions again as a whole."""
        self.execute(
            "INSERT INTO changed_sessions (tenant, session_id) SELECT $tenant, unnest($sessions::UUID[])",
            {"tenant": tenant, "sessions": list(session_ids)},
        )

    def in_transaction(self) -> AbstractContextManager[object]:
        """Execute the statements in the block in one transaction, which may be within another one."""
        return self.connection.transaction()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let the statements in the block read the same state of the database. Not within a transaction."""
        with self.connection.transaction():
            self.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield

    def note_memory_change(self, tenant: str, user_ids: Sequence[str]) -> None:
        """Give memories new versions, so that other servers that have loaded them read them again."""
        self.execute(
            """INSERT INTO memory_versions AS held (tenant, user_id, version)
            SELECT $tenant, each, nextval('memory_version_numbers') FROM unnest($users::TEXT[]) AS each
            ON CONFLICT (tenant, user_id) DO UPDATE SET version = excluded.version""",
            {"tenant": tenant, "users": sorted(user_ids)},
        )

    def derive(self, tenant: str, session_ids: Sequence[str]) -> None:
        """Insert the heads of new sessions, from their latest turns, and the texts of all their turns."""
        latest = self.fetch(LatestTurn, LATEST_TURNS, {"tenant": tenant, "sessions": list(session_ids)})
        self.insert("session_heads", [turn.head() for turn in latest])
        for session_id in session_ids:
            turns = self.fetch(SpokenTurn, TURNS_OF_SESSION, of_session(tenant, session_id))
            self.insert("turn_texts", texts_of(turns))

    def latest_turns(self, condition: str) -> str:
        """Return the heads of sessions without a claim."""
        return f"""(SELECT * FROM session_heads AS h WHERE {condition or "true"} AND NOT EXISTS (
            SELECT 1 FROM turn_claims AS c WHERE c.tenant = h.tenant AND c.session_id = h.session_id
                AND c.expires_at >= clock_timestamp()))"""  # noqa: S608


GROUP_ROWS_MAX = 1_000
"""Rows per statement."""
STATEMENTS_MAX = 1_000
"""Statements whose numbers are cached; those with a condition for each of several sessions are many."""


def _storable(value: Scalar | Sequence[Scalar]) -> Scalar | Sequence[Scalar]:
    """Return a parameter; U+0000, which no text in PostgreSQL has, becomes U+FFFD, as it is stored."""
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd")
    if isinstance(value, list | tuple):
        return [each.replace("\x00", "\ufffd") if isinstance(each, str) else each for each in value]
    return value


class _NumberedStatement(NamedTuple):
    statement: str
    names: tuple[str, ...]


@lru_cache(STATEMENTS_MAX)
def number_parameters(statement: str) -> _NumberedStatement:
    """Return a statement with numbered parameters, and their names in the order of the numbers."""
    names: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        return f"${names.setdefault(found[1], len(names) + 1)}"

    return _NumberedStatement(_PARAMETER.sub(number, statement), tuple(names))


def with_literals(statement: str, parameters: Parameters) -> str:
    """Return a statement with the values in place of its named parameters."""
    return _PARAMETER.sub(lambda found: psycopg.sql.Literal(parameters[found[1]]).as_string(), statement)


def _columns(documents: Iterable[bytes], types: Mapping[str, str], *, is_verbatim: bool) -> dict[str, list[Any]]:
    """Return encoded rows as columns; those that no row has are left out."""
    rows = [msgspec.json.decode(document, type=dict[str, msgspec.Raw]) for document in documents]
    names = dict.fromkeys(name for row in rows for name in row if name in types)
    columns: dict[str, list[Any]] = {}
    for name in names:
        convert = _converter(types[name], is_verbatim=is_verbatim)
        columns[name] = [convert(row[name]) if name in row else None for row in rows]
    return columns


def _converter(kind: str, *, is_verbatim: bool) -> Callable[[msgspec.Raw], Any]:
    if kind == "json":
        return _verbatim if is_verbatim else _json
    if kind == "bytea":
        return _bytes
    return _json if kind.endswith("[]") else _text if kind == "text" else msgspec.json.decode


def _verbatim(raw: msgspec.Raw) -> str | None:
    text = bytes(raw)
    return None if text == b"null" else text.decode()


def _json(raw: msgspec.Raw) -> str | None:
    """Return JSON whose fields statements read; U+0000, which PostgreSQL cannot read, becomes U+FFFD."""
    text = bytes(raw)
    return None if text == b"null" else _ESCAPED_NUL.sub(rb"\1\\ufffd", text).decode()


def _bytes(raw: msgspec.Raw) -> bytes | None:
    """Return bytes that are given in hexadecimal."""
    text: str | None = msgspec.json.decode(raw)
    return None if text is None else bytes.fromhex(text)


def _text(raw: msgspec.Raw) -> str | None:
    """Return a text; U+0000, which PostgreSQL cannot store, becomes U+FFFD."""
    text: str | None = msgspec.json.decode(raw)
    return None if text is None else text.replace("\x00", "\ufffd")


@cache
def _insert_statement(table: str, names: tuple[str, ...], types: tuple[str, ...]) -> str:
    """Return the INSERT of columns that are given as arrays; arrays within a column are given as JSON."""
    given = ", ".join(f"${at}::{_sent_type(kind)}[]" for at, kind in enumerate(types, 1))
    values = ", ".join(
        f'ARRAY(SELECT json_array_elements_text(given."{name}"))' if kind.endswith("[]") else f'given."{name}"'
        for name, kind in zip(names, types, strict=True)
    )
    quoted = ", ".join(f'"{name}"' for name in names)
    return f"INSERT INTO {table} ({quoted}) SELECT {values} FROM unnest({given}) AS given ({quoted})"  # noqa: S608


def _sent_type(kind: str) -> str:
    return "json" if kind.endswith("[]") else kind
