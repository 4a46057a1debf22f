"""Import a session with all its rows: the rows are inserted in groups, in one transaction."""

from collections.abc import Sequence

import msgspec

from store.duckdb.deletion import delete_session
from store.duckdb.fetch import Cursor
from store.duckdb.insert import as_list, insert_statement, typed_rows
from store.duckdb.script_texts import script_text
from store.duckdb.variables import merge_writes
from store.interface.admission import imported_turns, require_importable
from store.interface.encoding import encode
from store.interface.errors import KeyTaken, SessionTaken
from store.interface.rows import SessionDocument, SessionRow

GROUP_ROWS_MAX = 1_000
"""Rows per statement: enough to share the cost of a statement, few enough that its one parameter stays small."""
GROUP_BYTES_MAX = 4_000_000


def import_session(cursor: Cursor, whole: SessionDocument, *, replaces: bool = False) -> None:
    """Insert all rows of a session. Within a transaction. Raises SessionTaken, KeyTaken, RowRefused."""
    session = whole.session
    require_importable(whole)
    if replaces:
        delete_session(cursor, session.tenant, session.session_id)
    _check_free(cursor, session)
    texts = [text for text in whole.texts if script_text(cursor, text.tenant, text.digest) is None]
    _insert(cursor, "session_starts", [session])
    _insert(cursor, "session_migrations", whole.migrations)
    _insert(cursor, "turns", list(imported_turns(whole.turns)))
    _insert(cursor, "settled_calls", whole.calls)
    _insert(cursor, "script_texts", texts)
    if whole.variables:
        merge_writes(cursor)
        statement = _ADD_VARIABLES.format(rows=typed_rows(cursor, "user_variable_values"))
        cursor.execute(statement, [as_list(map(encode, whole.variables))])


def _check_free(cursor: Cursor, session: SessionRow) -> None:
    rows = cursor.execute(
        """SELECT session_id::VARCHAR, key, idempotency_key FROM session_starts WHERE tenant = ?
        AND (session_id = ?::UUID OR key = ? OR idempotency_key = ?)""",
        [session.tenant, session.session_id, session.key, session.idempotency_key],
    ).fetchall()
    for session_id, key, _ in rows:
        if session_id == session.session_id:
            raise SessionTaken(session_id)
        if session.key is not None and key == session.key:
            raise KeyTaken("key", session.key, session_id)
        raise KeyTaken("idempotency_key", session.idempotency_key or "", session_id)


def _insert(cursor: Cursor, table: str, rows: Sequence[msgspec.Struct]) -> None:
    """Insert rows in groups of a bounded size."""
    if not rows:
        return
    statement = insert_statement(cursor, table)
    group: list[bytes] = []
    size = 0
    for row in rows:
        document = encode(row)
        if group and (len(group) == GROUP_ROWS_MAX or size + len(document) > GROUP_BYTES_MAX):
            cursor.execute(statement, [as_list(group)])
            group, size = [], 0
        group.append(document)
        size += len(document)
    cursor.execute(statement, [as_list(group)])


_ADD_VARIABLES = """
INSERT INTO user_variable_values BY NAME
SELECT * FROM ({rows}) AS written
WHERE NOT EXISTS (
    SELECT 1 FROM user_variable_values AS old
    WHERE old.tenant = written.tenant AND old.user_id = written.user_id AND old.name = written.name
)
"""
