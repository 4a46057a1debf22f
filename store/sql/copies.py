"""Sessions that begin as copies: forks of another session, and imported sessions. Within a transaction."""

from collections.abc import Mapping

from msgspec.structs import replace

from store.interface.admission import StoredTurn, imported_turns, require_importable, require_uuid
from store.interface.errors import RowRefused, SessionTaken
from store.interface.rows import ForkRow, MigrationRow, SessionDocument
from store.sql.connection import OF_SESSION, Connection, Parameters, as_uuid, exists, of_session
from store.sql.deletion import delete_session
from store.sql.script_texts import script_text
from store.sql.sessions import require_free, session_start
from store.sql.variables import stored_values

_SOURCE = "tenant = $tenant AND session_id = $source::UUID"
_ID = {"session_id": "$id::UUID"}
_OWN = ("session_id", "key", "metadata", "created_at", "idempotency_key")
"""The properties of a session that a fork has of its own."""


def fork(connection: Connection, fork: ForkRow) -> None:
    """Copy a session, its turns up to one, and its migrations up to that turn, under another id.

    The copied turns have the same numbers, times and states. Idempotency keys are not copied, since those requests
    were made to the other session, nor commit numbers, so that their writes of global variables do not count again.
    Raises KeyTaken, RowRefused.
    """
    require_uuid(fork.session_id)
    require_free(connection, fork.tenant, "key", fork.key)
    require_free(connection, fork.tenant, "idempotency_key", fork.idempotency_key)
    source = {"tenant": fork.tenant, "source": as_uuid(fork.from_session_id), "id": fork.session_id}
    start = session_start(connection, fork.tenant, fork.from_session_id)
    if start is not None:
        own = {name: getattr(fork, name) for name in _OWN}
        connection.insert("session_starts", [replace(start, **own)])
    which = f"{_SOURCE} AND turn <= $turn"
    copied = _copy(
        connection,
        "turns",
        tuple(name for name in StoredTurn.__struct_fields__ if name != "commit_number"),
        _ID
        | {
            "idempotency_key": "CASE WHEN turn = 0 THEN $request::VARCHAR END",
            "fingerprint": "CASE WHEN turn = 0 THEN $fingerprint::VARCHAR END",
        },
        which,
        {**source, "request": fork.idempotency_key, "fingerprint": fork.fingerprint, "turn": fork.turn},
    )
    if copied != fork.turn + 1:
        raise RowRefused(f"session {fork.from_session_id} has no turn {fork.turn}")
    _copy(connection, "session_migrations", MigrationRow.__struct_fields__, _ID, which, {**source, "turn": fork.turn})
    connection.derive(fork.tenant, [fork.session_id])


def _copy(
    connection: Connection,
    table: str,
    columns: tuple[str, ...],
    replaced: Mapping[str, str],
    which: str,
    parameters: Parameters,
) -> int:
    """Insert the rows of a table that meet a condition again, with some columns replaced; return their number."""
    values = ", ".join(replaced.get(name, name) for name in columns)
    statement = f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {table} WHERE {which}"  # noqa: S608
    return connection.change(statement, parameters)


def import_session(connection: Connection, whole: SessionDocument, *, replaces: bool = False) -> None:
    """Insert all rows of a session; with `replaces`, in place of an existing session with the same id.

    Raises SessionTaken if the id exists and `replaces` is false, KeyTaken if one of its keys belongs to another
    session, RowRefused for an invalid row.
    """
    session = whole.session
    require_importable(whole)
    if replaces:
        delete_session(connection, session.tenant, session.session_id)
    if exists(connection, "session_starts", OF_SESSION, of_session(session.tenant, session.session_id)):
        raise SessionTaken(session.session_id)
    require_free(connection, session.tenant, "key", session.key)
    require_free(connection, session.tenant, "idempotency_key", session.idempotency_key)
    texts = [text for text in whole.texts if script_text(connection, text.tenant, text.digest) is None]
    for table, rows in (
        ("session_starts", [session]),
        ("session_migrations", whole.migrations),
        ("turns", list(imported_turns(whole.turns))),
        ("settled_calls", whole.calls),
        ("script_texts", texts),
    ):
        if rows:
            connection.insert(table, rows)
    connection.derive(session.tenant, [session.session_id])
    _add_variables(connection, whole)


def _add_variables(connection: Connection, whole: SessionDocument) -> None:
    """Add the variables that the user does not have."""
    if not whole.variables:
        return
    connection.prepare_change(whole.session.tenant, [whole.session.session_id])
    existing = {row.name for row in stored_values(connection, whole.session.tenant, whole.session.user_id)}
    connection.insert("user_variable_values", [row for row in whole.variables if row.name not in existing])
