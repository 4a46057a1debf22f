"""Validate a group of turns and calls of models against the database and insert it in one transaction.

Runs in the writer's thread.
"""

from collections.abc import Collection, Iterable

import duckdb
from cachetools import LRUCache

from store.duckdb.connection import DuckDBConnection
from store.duckdb.statements import transaction
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
        checked = TurnGroup(*self._read(turns), number)
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

    def _read(self, turns: list[ProposedTurn]) -> tuple[dict[SessionId, Head], dict[UniqueKey, str]]:
        """Return the heads of the turns' sessions, and which keys of new sessions other sessions have.

        Heads that are not cached are read with one statement. A new session has none, as the starts of sessions tell,
        which are searched in less time than turns.
        """
        sessions = {proposal.session_id for proposal in turns}
        heads = {session: self._heads[session] for session in sessions if session in self._heads}
        missing = {session_id for _, session_id in sessions - heads.keys() if is_uuid(session_id)}
        created = [proposal.session for proposal in turns if proposal.session is not None]
        new = missing & {session.session_id for session in created}
        existing, keys = load_starts(self._cursor, new, [key for session in created for key in keys_of(session)])
        return heads | load_heads(self._cursor, missing - new | existing), keys

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


def load_heads(cursor: duckdb.DuckDBPyConnection, session_ids: Collection[str]) -> dict[SessionId, Head]:
    """Return the heads of the sessions that exist. The ids are valid UUIDs."""
    if not session_ids:
        return {}
    rows = cursor.execute(
        f"""SELECT tenant, session_id::VARCHAR, max(turn), max(message_count), max(event_count) FROM turns
        WHERE session_id IN ({_literals(session_ids)}) GROUP BY tenant, session_id"""  # noqa: S608
    ).fetchall()
    return {(tenant, session_id): Head(*numbers) for tenant, session_id, *numbers in rows}


def load_starts(
    cursor: duckdb.DuckDBPyConnection, session_ids: Collection[str], keys: Collection[UniqueKey]
) -> tuple[set[str], dict[UniqueKey, str]]:
    """Return which of the sessions exist, and the keys that sessions have, with the ids of those. The ids are valid
    UUIDs.
    """
    conditions, values = [], [value for _, _, value in keys]
    if session_ids:
        conditions.append(f"session_id IN ({_literals(session_ids)})")
    if values:
        # Not `IN (SELECT unnest(?))`: with OR, that is evaluated for every session, in ten times the time.
        any_value = f"IN ({', '.join('?' * len(values))})"
        conditions += [f"key {any_value}", f"idempotency_key {any_value}"]
    if not conditions:
        return set(), {}
    rows = cursor.execute(  # without `execute`, which would keep each statement with its ids
        f"""SELECT tenant, key, idempotency_key, session_id::VARCHAR FROM session_starts
        WHERE {" OR ".join(conditions)}""",  # noqa: S608
        values + values,
    ).fetchall()
    found = {(tenant, "key", key): session_id for tenant, key, _, session_id in rows}
    found.update({(tenant, "idempotency_key", key): session_id for tenant, _, key, session_id in rows})
    return {session_id for *_, session_id in rows}.intersection(session_ids), found


def _literals(session_ids: Collection[str]) -> str:
    """Return ids as literals of a statement: a scan then skips the row groups without these sessions."""
    return ", ".join(f"'{session_id}'" for session_id in session_ids)
