"""Validate a group of turns and calls of models against the database and insert it in one transaction.

Runs in the writer's thread.
"""

from collections.abc import Collection, Iterable

import duckdb
from cachetools import LRUCache

from store.duckdb.connection import DuckDBConnection
from store.duckdb.statements import execute, transaction
from store.interface.admission import Entry, Head, ProposedTurn, SessionId, TurnGroup, UniqueKey, keys_of
from store.interface.errors import StoreError
from store.interface.rows import is_uuid
from store.sql.calls import settle
from store.sql.deletion import delete_rows_of

HEADS_MAX = 10_000
"""Sessions whose head is cached in memory, about 3 MB."""


class TurnCommitter:
    """Commit groups. The heads of recent sessions are cached, so that most commits need no query."""

    def __init__(self, connection: DuckDBConnection) -> None:
        self._connection = connection
        self._cursor = connection.cursor
        self._heads: LRUCache[SessionId, Head] = LRUCache(HEADS_MAX)

    def commit(self, group: list[Entry], number: int) -> tuple[list[StoreError | None], list[ProposedTurn]]:
        """Commit the valid entries; return for each entry None, or the error if it was refused, and the turns that were
        committed.

        The turns are stored with the number of the commit. Nothing of a refused entry is written. Raises duckdb.Error
        if the transaction failed; then nothing of the group is written.
        """
        turns = [entry for entry in group if isinstance(entry, ProposedTurn)]
        keys = {key for proposal in turns for key in keys_of(proposal.session)}
        checked = TurnGroup(self._find_heads(turns), load_keys(self._cursor, keys), number)
        outcomes = [checked.validate(entry) for entry in group]
        if checked.documents:
            self._insert(checked)
            self._heads.update(checked.heads)
        return outcomes, checked.turns

    def forget(self, sessions: Iterable[SessionId] | None = None) -> None:
        """Remove the cached heads of these sessions, or of all, so that the next commit reads them from the tables."""
        if sessions is None:
            self._heads.clear()
        for session in sessions or ():
            self._heads.pop(session, None)

    def _find_heads(self, turns: list[ProposedTurn]) -> dict[SessionId, Head]:
        """Return the heads of the turns' sessions; those that are not cached are read with one statement."""
        sessions = {proposal.session_id for proposal in turns}
        heads = {session: self._heads[session] for session in sessions if session in self._heads}
        missing = [session_id for _, session_id in sessions - heads.keys() if is_uuid(session_id)]
        return heads | (load_heads(self._cursor, missing) if missing else {})

    def _insert(self, group: TurnGroup) -> None:
        documents = group.all_documents()
        if len(documents) == 1 and not group.settlements and not group.replacements:
            self._insert_rows(documents)  # one statement is a transaction by itself, and costs less
            return
        with transaction(self._cursor):
            for table, sessions in group.replacements.items():
                delete_rows_of(self._connection, table, sessions)
            self._insert_rows(documents)
            if group.settlements:
                settle(self._connection, group.settlements)

    def _insert_rows(self, documents: dict[str, list[bytes]]) -> None:
        for table, rows in documents.items():
            self._connection.inserts.insert(table, rows)


def load_heads(cursor: duckdb.DuckDBPyConnection, session_ids: list[str]) -> dict[SessionId, Head]:
    """Return the heads of the sessions that exist. The ids are valid UUIDs."""
    # As literals in the statement: a scan then skips the row groups without these sessions.
    literals = ", ".join(f"'{session_id}'" for session_id in session_ids)
    rows = cursor.execute(
        f"""SELECT tenant, session_id::VARCHAR, max(turn), max(message_count), max(event_count) FROM turns
        WHERE session_id IN ({literals}) GROUP BY tenant, session_id"""  # noqa: S608
    ).fetchall()
    return {(tenant, session_id): Head(*numbers) for tenant, session_id, *numbers in rows}


def load_keys(cursor: duckdb.DuckDBPyConnection, keys: Collection[UniqueKey]) -> dict[UniqueKey, str]:
    """Return the keys that sessions already have, with the ids of the sessions."""
    if not keys:
        return {}
    # Not `IN (SELECT unnest(?))`: with OR, that is evaluated for every session, in ten times the time.
    values = [value for _, _, value in keys]
    any_value = f"IN ({', '.join('?' * len(values))})"
    rows = execute(
        cursor,
        f"""SELECT tenant, key, idempotency_key, session_id::VARCHAR FROM session_starts
        WHERE key {any_value} OR idempotency_key {any_value}""",  # noqa: S608
        values + values,
    ).fetchall()
    found = {(tenant, "key", key): session_id for tenant, key, _, session_id in rows}
    found.update({(tenant, "idempotency_key", key): session_id for tenant, _, key, session_id in rows})
    return found
