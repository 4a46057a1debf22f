"""Sessions that begin as copies: forks of another session, and imported sessions. Within a transaction."""

from collections.abc import Mapping

from msgspec.structs import replace

from store.interface.admission import StoredTurn, imported_turns, require_importable, require_uuid
from store.interface.errors import KeyTaken, RowRefused, SessionTaken
from store.interface.rows import ForkRow, MigrationRow, SessionDocument, SessionRow, UserVariableRow
from store.sql.connection import Connection, Parameters, as_uuid
from store.sql.deletion import delete_session
from store.sql.script_texts import script_text
from store.sql.sessions import require_free, session_start

_SOURCE = "tenant = $tenant AND session_id = $source::UUID"
_ID = {"session_id": "$id::UUID"}


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
        copy = replace(
            start,
            session_id=fork.session_id,
            key=fork.key,
            metadata=fork.metadata,
            created_at=fork.created_at,
            idempotency_key=fork.idempotency_key,
        )
        connection.insert("session_starts", [copy])
    copied = _copy(
        connection,
        "turns",
        tuple(name for name in StoredTurn.__struct_fields__ if name != "commit_number"),
        _ID
        | {
            "idempotency_key": "CASE WHEN turn = 0 THEN $request::VARCHAR END",
            "fingerprint": "CASE WHEN turn = 0 THEN $fingerprint::VARCHAR END",
        },
        f"{_SOURCE} AND turn <= $turn",
        {**source, "request": fork.idempotency_key, "fingerprint": fork.fingerprint, "turn": fork.turn},
    )
    if copied != fork.turn + 1:
        raise RowRefused(f"session {fork.from_session_id} has no turn {fork.turn}")
    which = f"{_SOURCE} AND turn <= $turn"
    _copy(
        connection,
        "session_migrations",
        MigrationRow.__struct_fields__,
        _ID,
        which,
        {**source, "turn": fork.turn},
    )
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
    return connection.change(
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {table} WHERE {which}",  # noqa: S608
        parameters,
    )


def import_session(connection: Connection, whole: SessionDocument, *, replaces: bool = False) -> None:
    """Insert all rows of a session; with `replaces`, in place of an existing session with the same id.

    Raises SessionTaken if the id exists and `replaces` is false, KeyTaken if one of its keys belongs to another
    session, RowRefused for an invalid row.
    """
    session = whole.session
    require_importable(whole)
    if replaces:
        delete_session(connection, session.tenant, session.session_id)
    _require_free(connection, session)
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


def _require_free(connection: Connection, session: SessionRow) -> None:
    found = connection.rows(
        """SELECT session_id::VARCHAR, key FROM session_starts WHERE tenant = $tenant
        AND (session_id = $session_id::UUID OR key = $key OR idempotency_key = $request)""",
        {
            "tenant": session.tenant,
            "session_id": session.session_id,
            "key": session.key,
            "request": session.idempotency_key,
        },
    )
    for session_id, key in found:
        if session_id == session.session_id:
            raise SessionTaken(session_id)
        if session.key is not None and key == session.key:
            raise KeyTaken("key", session.key, session_id)
        raise KeyTaken("idempotency_key", session.idempotency_key or "", session_id)


def _add_variables(connection: Connection, whole: SessionDocument) -> None:
    """Add the variables that their users do not have."""
    if not whole.variables:
        return
    connection.prepare_change(whole.session.tenant, [whole.session.session_id])
    by_user: dict[tuple[str, str], list[UserVariableRow]] = {}
    for row in whole.variables:
        by_user.setdefault((row.tenant, row.user_id), []).append(row)
    for (tenant, user_id), rows in by_user.items():
        found = connection.rows(
            "SELECT name FROM user_variable_values WHERE tenant = $tenant AND user_id = $user_id",
            {"tenant": tenant, "user_id": user_id},
        )
        existing = {name for (name,) in found}
        new = [row for row in rows if row.name not in existing]
        if new:
            connection.insert("user_variable_values", new)
