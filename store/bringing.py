"""A session with everything that belongs to it, brought into the record at once: rows in groups, one transaction."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

import msgspec

from store.commit import SessionId
from store.errors import KeyTaken, RowRefused, SessionTaken
from store.fetch import Cursor
from store.insert import as_list, encode, insert_statement, typed_rows
from store.removal import delete_session
from store.rows import NO_TURN, CallRow, MigrationRow, ScriptTextRow, SessionRow, TurnRow, UserVariableRow, is_uuid
from store.script_texts import script_text

GROUP_ROWS_MAX = 1_000
"""Rows in one statement: its cost is spread over them, and its one parameter stays small."""
GROUP_BYTES_MAX = 4_000_000


class WholeSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session from its creation on, as it is to stand in the record."""

    session: SessionRow
    turns: Sequence[TurnRow]
    """From 0, without gaps."""
    migrations: Sequence[MigrationRow] = ()
    calls: Sequence[CallRow] = ()
    """Those whose turn was taken."""
    texts: Sequence[ScriptTextRow] = ()
    """Of the scripts it ran and runs; one that the record has already stays as it is."""
    variables: Sequence[UserVariableRow] = ()
    """The user's own, as the session knew them; one that the record has already stays as it is."""


class _StoredTurn(TurnRow, frozen=True):
    """A turn with the columns the record adds."""

    message_count: int
    event_count: int


def bring_session(cursor: Cursor, whole: WholeSession, *, replaces: bool) -> None:
    """Insert all rows of a session. Within a transaction. Raises SessionTaken, KeyTaken, RowRefused."""
    session = whole.session
    _check(whole)
    if replaces:
        delete_session(cursor, session.tenant, session.session_id)
    _check_free(cursor, session)
    texts = [text for text in whole.texts if script_text(cursor, text.tenant, text.digest) is None]
    _insert(cursor, "session_starts", [session])
    _insert(cursor, "session_migrations", whole.migrations)
    _insert(cursor, "turns", list(_counted(whole.turns)))
    _insert(cursor, "settled_calls", whole.calls)
    _insert(cursor, "script_texts", texts)
    if whole.variables:
        statement = _ADD_VARIABLES.format(rows=typed_rows(cursor, "user_variables"))
        cursor.execute(statement, [as_list(map(encode, whole.variables))])


def _check(whole: WholeSession) -> None:
    session = whole.session
    owner: SessionId = (session.tenant, session.session_id)
    if not is_uuid(session.session_id):
        raise RowRefused(f"session id {session.session_id!r} is not a UUID")
    for name, rows in (("turn", whole.turns), ("migration", whole.migrations), ("call", whole.calls)):
        if any((row.tenant, row.session_id) != owner for row in rows):
            raise RowRefused(f"a {name} is of another session than {session.session_id}")
    if not whole.turns:
        raise RowRefused("a session has at least the turn of its creation")
    for expected, turn in enumerate(whole.turns, start=NO_TURN + 1):
        if turn.turn != expected:
            raise RowRefused(f"turn {turn.turn} should be number {expected}")
    _check_numbers("message", [row.seq for turn in whole.turns for row in turn.messages])
    _check_numbers("event", [row.seq for turn in whole.turns for row in turn.events])


def _check_numbers(name: str, numbers: list[int]) -> None:
    for expected, seq in enumerate(numbers, start=1):
        if seq != expected:
            raise RowRefused(f"{name} {seq} should be number {expected}")


def _check_free(cursor: Cursor, session: SessionRow) -> None:
    rows = cursor.execute(
        """SELECT session_id::VARCHAR, key, idempotency_key FROM session_starts WHERE tenant = $tenant
        AND (session_id = $id::UUID OR key = $key OR idempotency_key = $idempotency_key)""",
        {
            "tenant": session.tenant,
            "id": session.session_id,
            "key": session.key,
            "idempotency_key": session.idempotency_key,
        },
    ).fetchall()
    for session_id, key, _ in rows:
        if session_id == session.session_id:
            raise SessionTaken(session_id)
        if session.key is not None and key == session.key:
            raise KeyTaken("key", session.key, session_id)
        raise KeyTaken("idempotency_key", session.idempotency_key or "", session_id)


def _counted(turns: Sequence[TurnRow]) -> Iterator[_StoredTurn]:
    messages = accumulate(len(turn.messages) for turn in turns)
    events = accumulate(len(turn.events) for turn in turns)
    for turn, message_count, event_count in zip(turns, messages, events, strict=True):
        yield _StoredTurn(**msgspec.structs.asdict(turn), message_count=message_count, event_count=event_count)


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
INSERT INTO user_variables BY NAME
SELECT * FROM ({rows}) AS written
WHERE NOT EXISTS (
    SELECT 1 FROM user_variables AS kept
    WHERE kept.tenant = written.tenant AND kept.user_id = written.user_id AND kept.name = written.name
)
"""
