"""Commit a group of turns and calls of models in one transaction. Runs in the thread of `GroupWriter`.

The heads of the sessions are locked and read, without waiting for another server that has locked one; then the rows of
all valid entries are sent in one pipeline with the COMMIT.
"""

import random
import time
from collections.abc import Sequence
from datetime import datetime

import msgspec
import psycopg

from store.interface.admission import NO_HEAD, Entry, Head, ProposedTurn, SessionId, TurnGroup, UniqueKey, keys_of
from store.interface.errors import (
    RowRefused,
    StoreBusy,
    StoreError,
    StoreUnavailable,
    TurnClaimed,
    TurnConflict,
    UserErased,
    describe_error,
)
from store.interface.global_writes import global_writes
from store.interface.rows import CallRow, UserVariableRow, encode, is_uuid
from store.postgres import claims, erasures
from store.postgres.connection import OF_SESSION_IDS, PostgresConnection, names_of
from store.postgres.derived_rows import HeadRow, LatestTurn, texts_of
from store.postgres.engine import BAD_ROW, CLASHES_MAX, PAUSE_S, PREVENTED, RETRY_S, PostgresEngine
from store.sql.calls import last_rows, settle, settle_unused
from store.sql.deletion import delete_rows_of

_RACES = (*PREVENTED, psycopg.errors.UniqueViolation)
"""Errors of a transaction that lost to one of another server; nothing of it is written, and it is checked again."""
_NUMBERS = 2**63
ROW_TIMEOUT_S = 0.2
"""How long a group waits for a row that another transaction is writing, such as a session with the same key; then the
entry that needs it waits alone."""


class SessionLocked(StoreBusy):
    """Another transaction has locked the session of a turn or a call, or a row of it; nothing of it is written."""


class GroupCommitter:
    """Commits groups over the connections of an engine."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    def commit(self, group: list[Entry]) -> Sequence[StoreError | None]:
        """Commit the valid entries; return for each entry None, or the error if it was refused.

        If another server commits turns of the same sessions or the same keys meanwhile, the group is checked again. An
        entry of a session that another transaction has locked is refused with SessionLocked, so that it delays no
        others. If the connection is lost, it is checked what was committed. Raises nothing.
        """
        number = random.randrange(_NUMBERS)  # noqa: S311  (no secret; recognises the group after a lost connection)
        return self._commit(group, number, time.monotonic() + RETRY_S, is_unknown=False)

    def _commit(
        self, group: list[Entry], number: int, until: float, *, is_unknown: bool
    ) -> Sequence[StoreError | None]:
        """Commit the valid entries; `is_unknown` says whether some may be committed with this number."""
        outcomes: list[StoreError | None] = [SessionLocked("another server has locked the session") for _ in group]
        clashes = 0
        while waiting := [place for place, outcome in enumerate(outcomes) if isinstance(outcome, SessionLocked)]:
            entries = [group[place] for place in waiting]
            found: Sequence[StoreError | None] = [outcomes[place] for place in waiting]
            failed: StoreError | None = None
            is_known = False
            try:
                found = self._try(entries, number, is_unknown=is_unknown)
                self._engine.failure, is_known = None, not is_unknown
            except psycopg.errors.LockNotAvailable as error:
                is_known = not is_unknown
                if len(entries) > 1:
                    found, is_known = self._one_by_one(entries, number, until, error, is_unknown=is_unknown), True
            except _RACES as error:
                failed = StoreBusy("other transactions prevented the commit")
                clashes += isinstance(error, psycopg.errors.UniqueViolation)
                if clashes == CLASHES_MAX:
                    found, is_known = self._one_by_one(entries, number, until, error, is_unknown=is_unknown), True
            except (*BAD_ROW, msgspec.DecodeError) as error:
                found, is_known = self._one_by_one(entries, number, until, error, is_unknown=is_unknown), True
            except psycopg.Error as error:
                failed, is_unknown = self._engine.note_failure(error), True
            is_late = time.monotonic() > until
            if failed is not None and is_late and not is_known:
                found = [failed] * len(entries)
            for place, outcome in zip(waiting, found, strict=True):
                outcomes[place] = outcome
            if is_known or is_late:
                break
            time.sleep(PAUSE_S * random.random())  # noqa: S311
        return outcomes

    def _one_by_one(
        self, group: list[Entry], number: int, until: float, error: Exception, *, is_unknown: bool
    ) -> Sequence[StoreError | None]:
        """Commit the entries of a group of which the database refused one; if it fails meanwhile, all others fail."""
        if len(group) == 1:
            return [RowRefused(f"the database refused the row: {describe_error(error)}")]
        outcomes: list[StoreError | None] = []
        for entry in group:
            failure = next((each for each in outcomes if isinstance(each, StoreUnavailable)), None)
            outcomes += [failure] if failure else self._commit([entry], number, until, is_unknown=is_unknown)
        return outcomes

    def _try(self, group: list[Entry], number: int, *, is_unknown: bool) -> Sequence[StoreError | None]:
        with self._engine.pool.connection() as raw:
            connection = PostgresConnection(raw, self._engine.tables)
            with raw.transaction():
                return _Attempt(connection, self._engine.owner, group, number).run(is_unknown=is_unknown)


class _Attempt:
    """One attempt to commit a group, within a transaction."""

    def __init__(self, connection: PostgresConnection, owner: str, group: list[Entry], number: int) -> None:
        self._connection = connection
        self._owner = owner
        self._group = group
        self._number = number
        self._turns = [entry for entry in group if isinstance(entry, ProposedTurn)]
        self._claiming = [call for call in self._calls() if call.outcome == "in_doubt"]  # begun, or interrupted
        self._sessions = {turn.session_id for turn in self._turns if is_uuid(turn.turn.session_id)}
        self._sessions.update(map(_session_of, self._calls()))
        """The sessions whose heads must not change meanwhile: another server could settle calls without one that ends
        now."""
        self._redacted: set[SessionId] = set()
        self._claimed: set[tuple[str, str, int]] = set()
        """The turns that other servers run."""

    def run(self, *, is_unknown: bool) -> Sequence[StoreError | None]:
        """Commit what can be committed; raises what psycopg raises."""
        heads = self._lock_heads()
        locked = self._locked_by_others(heads)
        keys = load_keys(self._connection, {key for turn in self._turns for key in keys_of(turn.session)})
        # after the keys: those of an earlier attempt that is committed meanwhile are no other session's
        committed, noted = (self._find_committed(), self._find_noted()) if is_unknown else (set(), set())
        unknown, late = self._ended_calls()
        noted |= {(call.call_id, True) for call in late}
        refused = self._claim(heads, locked) | unknown | self._find_erased()
        checked = TurnGroup(dict(heads), keys, self._number)
        outcomes: list[StoreError | None] = []
        for entry in self._group:
            if _session_of(entry) in locked:
                outcomes.append(SessionLocked("another server has locked the session"))
                continue
            if isinstance(entry, ProposedTurn) and (entry.session_id, entry.turn.turn) in committed:
                outcomes.append(None)
                continue
            if isinstance(entry, CallRow) and (entry.call_id, entry.ended_at is not None) in noted:
                outcomes.append(None)
                continue
            outcomes.append(refused.get(id(entry)) or checked.validate(entry))
        self._delete_calls_of(self._find_gone(outcomes, checked))
        if late:
            self._settle_late(late)
        if checked.documents or checked.settlements:
            with self._connection.connection.pipeline():
                self._insert(checked, heads)
        return outcomes

    def _lock_heads(self) -> dict[SessionId, Head]:
        if not self._sessions:
            return {}
        names = names_of(sorted(self._sessions))
        with self._connection.connection.pipeline():  # sent at once; what the last one reads is as of the locks
            self._connection.execute(f"SET LOCAL lock_timeout = '{ROW_TIMEOUT_S}s'")
            locked = self._connection.execute(
                f"""SELECT tenant, session_id::TEXT, turn, message_count, event_count FROM session_heads
                WHERE {OF_SESSION_IDS} ORDER BY tenant, session_id FOR UPDATE SKIP LOCKED""",  # noqa: S608
                names,
            )
            redacted = self._connection.execute(
                f"""SELECT tenant, session_id::TEXT FROM session_starts
                WHERE {OF_SESSION_IDS} AND redacted_at IS NOT NULL""",  # noqa: S608
                names,
            )
            claimed = self._connection.execute(claims.OF_OTHERS, {"owner": self._owner, **names})
        self._claimed = set(claimed.fetchall())
        self._redacted = {(tenant, session_id) for tenant, session_id in redacted.fetchall()}
        return {(tenant, session_id): Head(*numbers) for tenant, session_id, *numbers in locked.fetchall()}

    def _locked_by_others(self, heads: dict[SessionId, Head]) -> set[SessionId]:
        """Return the sessions that exist and whose heads another transaction has locked."""
        absent = sorted(self._sessions - heads.keys())
        is_new = all(turn.session is not None for turn in self._turns if turn.session_id in absent)
        if is_new and all(call.turn == 0 for call in self._calls() if _session_of(call) in absent):
            return set()
        select = f"SELECT tenant, session_id::TEXT FROM session_heads WHERE {OF_SESSION_IDS}"  # noqa: S608
        rows = self._connection.rows(select, names_of(absent))
        return {(tenant, session_id) for tenant, session_id in rows}

    def _find_committed(self) -> set[tuple[SessionId, int]]:
        """Return the turns of an earlier attempt that was committed although its connection was lost."""
        rows = self._connection.rows(
            f"""SELECT tenant, session_id::TEXT, turn FROM turns
            WHERE commit_number = $number AND {OF_SESSION_IDS}""",  # noqa: S608
            {
                "number": self._number,
                **names_of([turn.session_id for turn in self._turns if is_uuid(turn.turn.session_id)]),
            },
        )
        return {((tenant, session_id), turn) for tenant, session_id, turn in rows}

    def _calls(self) -> list[CallRow]:
        return [entry for entry in self._group if isinstance(entry, CallRow) and is_uuid(entry.session_id)]

    def _find_noted(self) -> set[tuple[str, bool]]:
        """Return the ids of calls that have a row already, and whether it is that of their end."""
        rows = self._connection.rows(
            f"""SELECT call_id, ended_at IS NOT NULL FROM call_journal WHERE {_OF_CALLS}
            UNION SELECT call_id, is_end FROM settled_calls CROSS JOIN (VALUES (true), (false)) AS ends (is_end)
                WHERE {_OF_CALLS}""",  # noqa: S608
            _calls_named(self._calls()),
        )
        return {(call_id, is_end) for call_id, is_end in rows}

    def _ended_calls(self) -> tuple[dict[int, StoreError], list[CallRow]]:
        """Return the errors of calls that have ended, and whose beginning was deleted with their session or user; and
        the calls that another server, which had taken over their turn, has settled without their end.
        """
        begun = {call.call_id for call in self._calls() if call.ended_at is None}
        ended = [call for call in self._calls() if call.ended_at is not None and call.call_id not in begun]
        if not ended:
            return {}, []
        rows = self._connection.rows(
            f"""SELECT call_id, false FROM call_journal WHERE {_OF_CALLS}
            UNION SELECT call_id, true FROM settled_calls WHERE {_OF_CALLS}""",  # noqa: S608
            _calls_named(ended),
        )
        begun.update(call_id for call_id, _ in rows)
        settled = {call_id for call_id, is_settled in rows if is_settled}
        unknown: dict[int, StoreError] = {
            id(call): TurnClaimed(call.session_id) for call in ended if call.call_id not in begun
        }
        return unknown, [call for call in ended if call.call_id in settled and call.outcome != "in_doubt"]

    def _settle_late(self, late: list[CallRow]) -> None:
        """Store the ends of calls that are settled; a call without a digest was redacted, and stays as it is."""
        statement = f"DELETE FROM settled_calls WHERE {_OF_CALLS} AND request_digest <> '' RETURNING call_id"  # noqa: S608
        rows = self._connection.rows(statement, _calls_named(late))
        replaced = {call_id for (call_id,) in rows}
        for call in last_rows(late):
            if call.call_id in replaced:
                settle_unused(self._connection, call)
                self._connection.note_change(call.tenant, [call.session_id])

    def _claim(self, heads: dict[SessionId, Head], locked: set[SessionId]) -> dict[int, StoreError]:
        """Claim the turns that begin a call, or note an interrupted one; return the errors of calls and turns that
        another server has claimed.

        A turn that another server has committed is not claimed, nor one of a redacted session: it would call a model in
        vain.
        """
        wanted = [
            (call.tenant, call.session_id, call.turn)
            for call in self._claiming
            if _session_of(call) not in locked | self._redacted
            and heads.get(_session_of(call), NO_HEAD).turn < call.turn
        ]
        owned = claims.claim(self._connection, self._owner, wanted) if wanted else set()
        refused: dict[int, StoreError] = {
            id(call): TurnClaimed(call.session_id) for call in self._claiming if _session_of(call) not in owned
        }
        for turn in self._turns:
            if turn.session_id in self._redacted:
                refused[id(turn)] = TurnConflict(turn.turn.session_id, turn.expected_turn, turn.expected_turn)
            elif (*turn.session_id, turn.turn.turn) in self._claimed:
                refused[id(turn)] = TurnClaimed(turn.turn.session_id)
        return refused

    def _find_erased(self) -> dict[int, StoreError]:
        """Return the errors of new sessions whose user was erased after they began."""
        begun = [(turn, turn.session) for turn in self._turns if turn.session is not None]
        if not begun:
            return {}
        with self._connection.connection.pipeline():
            erasures.wait_for(self._connection)
            erased = erasures.erasure_times(
                self._connection, {(session.tenant, session.user_id) for _, session in begun}
            )
        return {
            id(turn): UserErased(session.session_id)
            for turn, session in begun
            if (at := erased.get((session.tenant, session.user_id))) is not None and session.created_at < at
        }

    def _find_gone(self, outcomes: Sequence[StoreError | None], checked: TurnGroup) -> list[SessionId]:
        """Return the sessions of turns that were deleted or redacted, or erased before they were created."""
        found = {
            turn.session_id
            for turn, outcome in zip(self._group, outcomes, strict=True)
            if isinstance(turn, ProposedTurn)
            and (isinstance(outcome, UserErased) or (isinstance(outcome, TurnConflict) and turn.session is None))
        }
        return sorted(found - (checked.heads.keys() - self._redacted))

    def _delete_calls_of(self, gone: list[SessionId]) -> None:
        """Delete the calls of turns whose sessions were deleted or redacted, since nothing else would."""
        if gone:
            delete_rows_of(self._connection, "call_journal", gone)
            claims.end(self._connection, gone)

    def _insert(self, group: TurnGroup, heads: dict[SessionId, Head]) -> None:
        for table, sessions in group.replacements.items():
            delete_rows_of(self._connection, table, sessions)
        for table, documents in group.all_documents().items():
            self._connection.insert_documents(table, documents)
        self._connection.insert("turn_texts", texts_of(entry.turn for entry in group.turns))
        _advance_heads(self._connection, group.turns, heads, group.heads)
        _write_variables(self._connection, global_writes(entry.turn for entry in group.turns))
        if group.settlements:
            settle(self._connection, group.settlements)
            claims.end(self._connection, [(each.tenant, each.session_id) for each in group.settlements])


def _session_of(entry: Entry) -> SessionId:
    return entry.session_id if isinstance(entry, ProposedTurn) else (entry.tenant, entry.session_id)


_OF_CALLS = f"{OF_SESSION_IDS} AND call_id = ANY($calls::TEXT[])"


def _calls_named(calls: Sequence[CallRow]) -> dict[str, list[str]]:
    return {
        "calls": [call.call_id for call in calls],
        **names_of(sorted({(call.tenant, call.session_id) for call in calls})),
    }


def load_keys(connection: PostgresConnection, keys: set[UniqueKey]) -> dict[UniqueKey, str]:
    """Return the keys that sessions already have, with the ids of the sessions."""
    found: dict[UniqueKey, str] = {}
    for field in {field for _, field, _ in keys}:
        these = [(tenant, value) for tenant, of_field, value in keys if of_field == field]
        rows = connection.rows(
            f"""SELECT tenant, {field}, session_id::TEXT FROM session_starts
            WHERE (tenant, {field}) IN (SELECT unnest($tenants::TEXT[]), unnest($values::TEXT[]))""",  # noqa: S608
            {"tenants": [tenant for tenant, _ in these], "values": [value for _, value in these]},
        )
        found.update({(tenant, field, value): session_id for tenant, value, session_id in rows})
    return found


def _advance_heads(
    connection: PostgresConnection,
    accepted: Sequence[ProposedTurn],
    before: dict[SessionId, Head],
    after: dict[SessionId, Head],
) -> None:
    """Insert the heads of new sessions, and update the others. An insert fails if another server has inserted one."""
    rows: dict[SessionId, HeadRow] = {}
    for entry in accepted:
        turn, head = entry.turn, after[entry.session_id]
        created_at: datetime = turn.finished_at if entry.session is None else entry.session.created_at
        latest = LatestTurn(
            tenant=turn.tenant,
            session_id=turn.session_id,
            turn=head.turn,
            message_count=head.messages,
            event_count=head.events,
            status=turn.status,
            execution_status=turn.execution_status,
            active_at=max(turn.finished_at, created_at),
            state=turn.state,
        )
        rows[entry.session_id] = latest.head()
    new = [row for session, row in rows.items() if session not in before]
    if new:
        connection.insert("session_heads", new)
    changed = [row for session, row in sorted(rows.items()) if session in before]
    if changed:
        connection.update_heads(changed)


def _write_variables(connection: PostgresConnection, writes: Sequence[UserVariableRow]) -> None:
    """Write the last values of global variables, in the order of their keys; null deletes a variable."""
    ordered = sorted(writes, key=lambda row: (row.tenant, row.user_id, row.name))
    removed = [row for row in ordered if row.value is None]
    if removed:
        connection.change(
            """DELETE FROM user_variable_values WHERE (tenant, user_id, name) IN
            (SELECT unnest($tenants::TEXT[]), unnest($users::TEXT[]), unnest($names::TEXT[]))""",
            {
                "tenants": [row.tenant for row in removed],
                "users": [row.user_id for row in removed],
                "names": [row.name for row in removed],
            },
        )
    remaining = [row for row in ordered if row.value is not None]
    if remaining:
        connection.insert_documents(
            "user_variable_values",
            [encode(row) for row in remaining],
            """ON CONFLICT (tenant, user_id, name) DO UPDATE SET value = excluded.value, type = excluded.type,
                source = excluded.source, updated_at = excluded.updated_at""",
        )
