"""One group of turns and calls of models, checked against what is recorded and inserted in one transaction.

Runs in the writer's thread.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self, TypeAlias

import duckdb
import msgspec

from store.calls import Settlement, settle
from store.errors import KeyTaken, RowRefused, StoreError, TurnConflict
from store.insert import as_list, encode, insert_statement, roll_back
from store.rows import (
    NO_TURN,
    CallRow,
    EventRow,
    MessageRow,
    MigrationRow,
    SessionRow,
    TurnRow,
    UserVariableRow,
    is_uuid,
)
from store.variables import merge_statement
from store.webhook_rows import DeliveryRow

HEADS_MAX = 10_000
"""Sessions whose latest turn number is kept in memory, about 3 MB."""

SessionId: TypeAlias = tuple[str, str]
"""Tenant and session: no tenant reaches another's sessions, whatever id it sends."""


class Head(NamedTuple):
    """Where a session's numbers stand."""

    turn: int
    messages: int
    events: int


_NO_HEAD = Head(NO_TURN, 0, 0)


class Proposal(NamedTuple):
    """A turn to commit, and what it was computed from."""

    turn: TurnRow
    expected_turn: int
    session: SessionRow | None
    migration: MigrationRow | None = None
    calls_used: tuple[str, ...] | None = None  # it settles its session's journal, and was taken with these
    calls_withheld: tuple[str, ...] = ()  # the words of these are not kept
    deliveries: tuple[DeliveryRow, ...] = ()  # what webhooks are to be told of it


Entry: TypeAlias = Proposal | CallRow
"""What a group consists of: turns, and calls for the journal."""


class _StoredTurn(TurnRow, frozen=True):
    """A turn with the columns the record adds."""

    message_count: int
    event_count: int


class Ledger:
    """Commits groups; knows each recent session's latest numbers, so that most commits need no look-up."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor
        self._heads: OrderedDict[SessionId, Head] = OrderedDict()
        self._insert_turns = insert_statement(cursor, "turns")
        self._insert_sessions = insert_statement(cursor, "session_starts")
        self._insert_migrations = insert_statement(cursor, "session_migrations")
        self._insert_calls = insert_statement(cursor, "call_journal")
        self._insert_deliveries = insert_statement(cursor, "webhook_deliveries")
        self._merge_variables = merge_statement(cursor)

    def commit(self, group: list[Entry]) -> list[StoreError | None]:
        """Commit what can be committed; for each entry, None or why it was refused.

        A refused one leaves no trace. Raises duckdb.Error when the transaction failed, with nothing of the group kept.
        """
        admission = _Admission.look_up(
            self._cursor, [entry for entry in group if isinstance(entry, Proposal)], self._heads
        )
        outcomes = [admission.consider(entry) for entry in group]
        if admission.turns or admission.call_documents:
            self._insert(admission)
            self._remember(admission)
        return outcomes

    def forget(self, gone: Iterable[SessionId] | None = None) -> None:
        """Drop what is remembered, of these sessions or of all, so that the next commit looks at the tables."""
        if gone is None:
            self._heads.clear()
        for session in gone or ():
            self._heads.pop(session, None)

    def _insert(self, admission: "_Admission") -> None:
        variables = _global_writes(admission.turns)
        inserts = [
            (self._insert_sessions, admission.session_documents),
            (self._insert_migrations, admission.migration_documents),
            (self._insert_turns, admission.turn_documents),
            (self._merge_variables, list(map(encode, variables))),
            (self._insert_calls, admission.call_documents),
            (self._insert_deliveries, admission.delivery_documents),
        ]
        inserts = [(statement, documents) for statement, documents in inserts if documents]
        alone = len(inserts) == 1 and not admission.settlements
        if not alone:  # one statement is a transaction by itself, and cheaper
            self._cursor.execute("BEGIN")
        try:
            for statement, documents in inserts:
                self._cursor.execute(statement, [as_list(documents)])
            if admission.settlements:
                settle(self._cursor, admission.settlements)
            if not alone:
                self._cursor.execute("COMMIT")
        except duckdb.Error:
            if not alone:
                roll_back(self._cursor)
            raise

    def _remember(self, admission: "_Admission") -> None:
        for session, head in admission.heads.items():
            self._heads[session] = head
            self._heads.move_to_end(session)
        while len(self._heads) > HEADS_MAX:
            self._heads.popitem(last=False)


class _Admission:
    """Decides turn by turn who gets in; each sees what those before it in the group did."""

    def __init__(self, heads: dict[SessionId, Head], keys: dict[tuple[str, str, str], str]) -> None:
        self.heads = heads
        self._keys = keys
        self.turns: list[TurnRow] = []
        self.turn_documents: list[bytes] = []
        self.session_documents: list[bytes] = []
        self.migration_documents: list[bytes] = []
        self.call_documents: list[bytes] = []
        self.delivery_documents: list[bytes] = []
        self.settlements: list[Settlement] = []

    @classmethod
    def look_up(
        cls, cursor: duckdb.DuckDBPyConnection, group: list[Proposal], cached: OrderedDict[SessionId, Head]
    ) -> Self:
        """What is recorded of the group's sessions and keys: at most one statement for either."""
        sessions = {_session_of(proposal.turn) for proposal in group}
        heads = {session: cached[session] for session in sessions if session in cached}
        missing = [session_id for _, session_id in sessions - heads.keys() if is_uuid(session_id)]
        if missing:
            heads.update(_load_heads(cursor, missing))
        created = [proposal.session for proposal in group if proposal.session is not None]
        return cls(heads, _load_keys(cursor, created))

    def consider(self, entry: Entry) -> StoreError | None:
        """Let the turn or call in, or say why not."""
        if isinstance(entry, Proposal):
            return self._consider_turn(entry)
        if not is_uuid(entry.session_id):
            return RowRefused(f"session id {entry.session_id!r} is not a UUID")
        try:
            self.call_documents.append(encode(entry))
        except RowRefused as refused:
            return refused
        return None

    def _consider_turn(self, proposal: Proposal) -> StoreError | None:
        turn, session = proposal.turn, proposal.session
        head = self.heads.get(_session_of(turn), _NO_HEAD)
        refusal = _ill_formed(proposal) or _stale(proposal, head) or _gap(turn, head) or self._key_taken(session)
        if refusal is not None:
            return refusal
        advanced = Head(turn.turn, head.messages + len(turn.messages), head.events + len(turn.events))
        try:
            document = encode(_stored(turn, advanced))
            start = None if session is None else encode(session)
            migration = None if proposal.migration is None else encode(proposal.migration)
            deliveries = [encode(delivery) for delivery in proposal.deliveries]
        except RowRefused as refused:
            return refused
        self.turns.append(turn)
        self.turn_documents.append(document)
        self.heads[_session_of(turn)] = advanced
        self.delivery_documents += deliveries
        if migration is not None:
            self.migration_documents.append(migration)
        if proposal.calls_used is not None:
            used, withheld = proposal.calls_used, proposal.calls_withheld
            self.settlements.append(Settlement(turn.tenant, turn.session_id, turn.turn, used, withheld))
        if session is not None and start is not None:
            self.session_documents.append(start)
            self._keys.update(dict.fromkeys(_keys_of(session), session.session_id))
        return None

    def _key_taken(self, session: SessionRow | None) -> KeyTaken | None:
        for key in _keys_of(session) if session is not None else ():
            if key in self._keys:
                _, field, value = key
                return KeyTaken(field, value, self._keys[key])
        return None


def _stored(turn: TurnRow, head: Head) -> _StoredTurn:
    return _StoredTurn(**msgspec.structs.asdict(turn), message_count=head.messages, event_count=head.events)


def _session_of(turn: TurnRow) -> SessionId:
    return turn.tenant, turn.session_id


def _ill_formed(proposal: Proposal) -> RowRefused | None:
    turn, session = proposal.turn, proposal.session
    if not is_uuid(turn.session_id):
        return RowRefused(f"session id {turn.session_id!r} is not a UUID")
    if turn.turn != proposal.expected_turn + 1:
        return RowRefused(f"turn {turn.turn} cannot be computed from turn {proposal.expected_turn}")
    if (session is None) != (turn.turn > 0):
        return RowRefused("a session's row comes with its turn 0, and with no other")
    owner = (turn.tenant, turn.user_id, turn.session_id)
    if session is not None and owner != (session.tenant, session.user_id, session.session_id):
        return RowRefused("turn 0 and its session's row name different sessions, users or tenants")
    moved = proposal.migration
    if moved is not None and (moved.tenant, moved.session_id, moved.turn) != (turn.tenant, turn.session_id, turn.turn):
        return RowRefused("a migration and its turn name different sessions or turns")
    told = {(delivery.tenant, delivery.session_id, delivery.turn) for delivery in proposal.deliveries}
    if told - {(turn.tenant, turn.session_id, turn.turn)}:
        return RowRefused("a delivery and its turn name different sessions or turns")
    return None


def _stale(proposal: Proposal, head: Head) -> TurnConflict | None:
    if proposal.expected_turn == head.turn:
        return None
    return TurnConflict(proposal.turn.session_id, proposal.expected_turn, head.turn)


def _gap(turn: TurnRow, head: Head) -> RowRefused | None:
    numbered: list[tuple[str, int, Sequence[MessageRow | EventRow]]] = [
        ("message", head.messages, turn.messages),
        ("event", head.events, turn.events),
    ]
    for name, count, rows in numbered:
        for expected, row in enumerate(rows, start=count + 1):
            if row.seq != expected:
                return RowRefused(f"{name} {row.seq} of turn {turn.turn} should be number {expected}")
    return None


def _keys_of(session: SessionRow) -> list[tuple[str, str, str]]:
    named = [("key", session.key), ("idempotency_key", session.idempotency_key)]
    return [(session.tenant, field, value) for field, value in named if value is not None]


def _load_heads(cursor: duckdb.DuckDBPyConnection, session_ids: list[str]) -> dict[SessionId, Head]:
    rows = cursor.execute(
        """SELECT tenant, session_id::VARCHAR, max(turn), max(message_count), max(event_count) FROM turns
        WHERE session_id IN (SELECT unnest(?::UUID[])) GROUP BY tenant, session_id""",
        [session_ids],
    ).fetchall()
    return {(tenant, session_id): Head(*numbers) for tenant, session_id, *numbers in rows}


def _load_keys(cursor: duckdb.DuckDBPyConnection, created: list[SessionRow]) -> dict[tuple[str, str, str], str]:
    """Which of the new sessions' keys are taken, and by which session."""
    keys = {key for session in created for key in _keys_of(session)}
    if not keys:
        return {}
    rows = cursor.execute(
        """SELECT tenant, key, idempotency_key, session_id::VARCHAR FROM session_starts
        WHERE key IN (SELECT unnest($values)) OR idempotency_key IN (SELECT unnest($values))""",
        {"values": [value for _, _, value in keys]},
    ).fetchall()
    found = {(tenant, "key", key): session_id for tenant, key, _, session_id in rows}
    found.update({(tenant, "idempotency_key", key): session_id for tenant, _, key, session_id in rows})
    return found


def _global_writes(turns: Iterable[TurnRow]) -> list[UserVariableRow]:
    """The last write of each user's variable; one unset is kept as null here and deleted by the merge."""
    latest = {
        (turn.tenant, turn.user_id, write.name): UserVariableRow(
            turn.tenant, turn.user_id, write.name, write.new, write.type, write.source, turn.finished_at
        )
        for turn in turns
        for write in turn.variables
        if write.scope == "global"
    }
    return list(latest.values())
