"""The heads of sessions, each with the latest turn of a session, in a table in memory.

They are loaded from all turns, in less than a second for a million turns, when a list first needs them or several
sessions had to be searched for. A turn writes nothing for them: the writer says which sessions have changed, and the
next list applies that first. So a list does not search all turns, and neither does a session that is not cached.
"""

import threading
from collections.abc import Iterable
from contextlib import closing
from datetime import datetime
from typing import NamedTuple

import msgspec

from store.duckdb.statements import Cursor, as_list, execute, typed_rows
from store.interface.admission import ProposedTurn, SessionId
from store.interface.errors import StoreBusy
from store.interface.rows import encode
from store.sql.turns import state_fields

TABLE = "memory.session_heads"
WAITING_MAX = 20_000
"""After so many changed sessions without a list, all heads are loaded again by the next one."""
SEARCHES_MAX = 16
"""After so many searches for the latest turn of a session, the heads are worth loading; a command makes fewer."""
LOADING_S = 5.0
"""How long a read waits while another one loads the heads."""


class LatestTurn(msgspec.Struct, frozen=True):
    """The latest turn of a session, as the writer has committed it."""

    tenant: str
    session_id: str
    created_at: datetime | None
    """None: as it was."""
    turn: int
    finished_at: datetime
    """When this turn finished."""
    active_at: datetime
    """When a turn last finished, or the session was created, whichever is later."""
    status: str
    execution_status: str
    outcome: str | None
    """How the conversation ended; None while it is active."""
    is_moved: bool
    """Whether the session was moved to another version of its script."""

    def after(self, before: "LatestTurn") -> "LatestTurn":
        """Return this turn with what an earlier one, or itself, says of the session."""
        return msgspec.structs.replace(
            self,
            created_at=self.created_at or before.created_at,
            active_at=max(self.active_at, before.active_at),
            is_moved=self.is_moved or before.is_moved,
        )


class SessionHeads:
    """The table of one open database. The writer notes changes in its thread, readers apply them in theirs."""

    def __init__(self) -> None:
        self._applying = threading.Lock()
        self._noting = threading.Lock()  # never for longer than it takes to change the dictionary
        self._waiting: dict[SessionId, LatestTurn | None] | None = None
        self._searches = 0

    @property
    def are_worth_loading(self) -> bool:
        """Whether the heads are not loaded, and sessions were searched for because of that."""
        return self._waiting is None and self._searches >= SEARCHES_MAX

    def note_turns(self, turns: Iterable[ProposedTurn]) -> None:
        """Note committed turns, before they are acknowledged."""
        if self._waiting is not None:
            self._note([(proposal.session_id, _latest(proposal)) for proposal in turns])

    def note_changes(self, sessions: Iterable[SessionId]) -> None:
        """Note sessions that were deleted, imported or changed otherwise, before that is acknowledged."""
        if self._waiting is not None:
            self._note([(session, None) for session in sessions])

    def forget(self) -> None:
        """Load the heads again when they are needed next."""
        with self._noting:
            self._waiting = None

    def _note(self, changed: Iterable[tuple[SessionId, LatestTurn | None]]) -> None:
        with self._noting:
            if self._waiting is None:
                return
            for session, latest in changed:
                before = self._waiting.get(session, latest)
                self._waiting[session] = None if latest is None or before is None else latest.after(before)
            if len(self._waiting) > WAITING_MAX:
                self._waiting = None

    def refresh(self, cursor: Cursor) -> None:
        """Make the table contain all changes that were acknowledged. Not within a transaction.

        Raises StoreBusy if another read has been loading the heads for LOADING_S.
        """
        if not self._applying.acquire(timeout=LOADING_S):
            raise StoreBusy("the sessions of a large database are being loaded")
        try:
            with self._noting:
                waiting, self._waiting, self._searches = self._waiting, {}, 0
            if waiting is None:
                _load(cursor)
            elif waiting:
                _apply(cursor, waiting)
        except BaseException:
            self.forget()
            raise
        finally:
            self._applying.release()

    def find(self, cursor: Cursor, tenant: str, session_id: str) -> "HeadPlace | None":
        """Return where the latest turn of a session is; None if that is not known without a search of the turns."""
        waiting = self._waiting
        if waiting is None:
            self._searches += 1
            return None
        if (tenant, session_id) in waiting:
            latest = waiting[tenant, session_id]
            return None if latest is None else HeadPlace(latest.turn, latest.finished_at.isoformat(), is_moved=True)
        # in this order: changes that are no longer in `waiting` are in the table once the lock is free
        if self._applying.locked():
            return None
        rows = execute(cursor, _FIND, [tenant, session_id]).fetchall()
        return HeadPlace(*rows[0]) if rows else None


class HeadPlace(NamedTuple):
    """Where the latest turn of a session is."""

    turn: int
    finished_at: str
    is_moved: bool
    """Whether the session was moved to another version of its script, or may have been."""


_FIND = f"SELECT turn, finished_at::VARCHAR AS finished_at, is_moved FROM {TABLE} WHERE tenant = ? AND session_id = ?"  # noqa: S608
# In the order of their activity: a list of the last active ones then reads few of them.
_HEADS = """
SELECT s.tenant, s.session_id, s.created_at, t.turn, t.finished_at, greatest(t.active_at, s.created_at) AS active_at,
    t.status, t.execution_status, t.outcome, m.session_id IS NOT NULL AS is_moved
FROM session_starts AS s JOIN (
    SELECT tenant, session_id, max(turn) AS turn, arg_max(finished_at, turn) AS finished_at,
        max(finished_at) AS active_at, arg_max(status, turn) AS status,
        arg_max(execution_status, turn) AS execution_status,
        arg_max_null(CASE WHEN status <> 'active' THEN state ->> '$.outcome' END, turn) AS outcome
    FROM turns WHERE {which} GROUP BY tenant, session_id
) AS t USING (tenant, session_id)
LEFT JOIN (SELECT DISTINCT tenant, session_id FROM session_migrations) AS m USING (tenant, session_id)
ORDER BY active_at DESC"""
_MERGE = f"""
MERGE INTO {TABLE} AS old USING ({{rows}}) AS new ON old.tenant = new.tenant AND old.session_id = new.session_id
WHEN MATCHED AND old.turn <= new.turn THEN UPDATE SET turn = new.turn, finished_at = new.finished_at,
    active_at = greatest(old.active_at, new.active_at), status = new.status, execution_status = new.execution_status,
    outcome = new.outcome, is_moved = old.is_moved OR new.is_moved
WHEN NOT MATCHED AND new.created_at IS NOT NULL THEN INSERT BY NAME"""


def _load(cursor: Cursor) -> None:
    """Load all heads with a cursor of its own, since those of a very large database would never be loaded otherwise: a
    read is stopped at its time limit.
    """
    with closing(cursor.cursor()) as loading:
        loading.execute("USE cuebook")
        loading.execute(f"CREATE OR REPLACE TABLE {TABLE} AS {_HEADS.format(which='true')}")


def _apply(cursor: Cursor, waiting: dict[SessionId, LatestTurn | None]) -> None:
    latest = [each for each in waiting.values() if each is not None]
    if latest:
        rows = typed_rows(cursor, TABLE)
        cursor.execute(_MERGE.format(rows=rows), [as_list(map(encode, latest))])
    to_read = [session_id for (_, session_id), each in waiting.items() if each is None]
    if to_read:
        literals = ", ".join(f"'{session_id}'" for session_id in to_read)  # so that row groups without them are skipped
        which = f"session_id IN ({literals})"
        cursor.execute(f"DELETE FROM {TABLE} WHERE {which}")  # noqa: S608
        cursor.execute(f"INSERT INTO {TABLE} {_HEADS.format(which=which)}")


def _latest(proposal: ProposedTurn) -> LatestTurn:
    turn, start = proposal.turn, proposal.session
    return LatestTurn(
        turn.tenant,
        turn.session_id,
        None if start is None else start.created_at,
        turn.turn,
        turn.finished_at,
        turn.finished_at if start is None else max(turn.finished_at, start.created_at),
        turn.status,
        turn.execution_status,
        None if turn.status == "active" else state_fields(turn.state).outcome,
        proposal.migration is not None,
    )
