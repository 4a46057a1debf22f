"""Read the head of a session, the statistics of one, and the variables of users."""

from datetime import datetime
from itertools import pairwise

import msgspec

from store.interface.global_writes import values_after
from store.interface.pages import bounded
from store.interface.rows import Gaps, PositionRow, Role, SessionHead, UserHistoryRow, UserVariableRow, VariableRow
from store.interface.statistics_rows import CallsUsed, MessageCounts, SessionStatistics
from store.postgres.connection import PostgresConnection
from store.sql.calls import journaled
from store.sql.connection import OF_SESSION, fetch_one, of_session
from store.sql.variables import stored_values

_HEAD = f"""
SELECT s.tenant, s.session_id, s.user_id, s.key, coalesce(m.script_uuid, s.script_uuid) AS script_uuid,
    coalesce(m.script_id, s.script_id) AS script_id, coalesce(m.script_version, s.script_version) AS script_version,
    coalesce(m.digest, s.digest) AS digest, s.locale, s.seed, s.metadata, s.created_at, s.idempotency_key,
    s.redacted_at, t.turn, {", ".join(f"t.{name}" for name in PositionRow.__struct_fields__)}, t.message_count,
    t.event_count, t.state, t.finished_at AS updated_at,
    CASE WHEN t.status = 'completed' THEN t.finished_at END AS completed_at
FROM session_starts AS s
JOIN session_heads AS h ON h.tenant = s.tenant AND h.session_id = s.session_id
JOIN turns AS t ON t.tenant = h.tenant AND t.session_id = h.session_id AND t.turn = h.turn
LEFT JOIN LATERAL (
    SELECT script_uuid, script_id, script_version, digest FROM session_migrations
    WHERE tenant = s.tenant AND session_id = s.session_id ORDER BY turn DESC LIMIT 1
) AS m ON true
WHERE s.tenant = $tenant AND s.session_id = $session_id::UUID
"""  # noqa: S608


def session_head(connection: PostgresConnection, tenant: str, session_id: str) -> SessionHead | None:
    """Return a session with the state after its latest turn; None also for an id that is not a UUID."""
    return fetch_one(connection, SessionHead, _HEAD, of_session(tenant, session_id))


class _Turn(msgspec.Struct, frozen=True):
    started_at: datetime
    finished_at: datetime
    message_count: int
    messages: list["_Said"]


class _Said(msgspec.Struct, frozen=True):
    role: Role
    content: str
    characters: int | None = None


def statistics(
    connection: PostgresConnection, tenant: str, session_id: str, *, without: Gaps = ()
) -> SessionStatistics | None:
    """Return the statistics of a session, without the messages in the ranges `without`."""
    which = of_session(tenant, session_id)
    with connection.snapshot():
        turns = connection.fetch(
            _Turn,
            f"SELECT started_at, finished_at, message_count, messages FROM turns WHERE {OF_SESSION} ORDER BY turn",  # noqa: S608
            which,
        )
        if not turns:
            return None
        (used,) = connection.fetch(CallsUsed, _USED, which)
    answers = [turn for turn in turns if any(said.role == "user" for said in turn.messages)]
    asked_at = {id(turn): before.finished_at for before, turn in pairwise(turns)}
    waits = [turn.started_at - asked_at[id(turn)] for turn in answers if id(turn) in asked_at]
    return SessionStatistics(
        turns=len(turns),
        started_at=min(turn.started_at for turn in turns),
        finished_at=max(turn.finished_at for turn in turns),
        answered_in_s=_mean([max(0.0, wait.total_seconds()) for wait in waits]),
        turn_took_s=_mean([max(0.0, (turn.finished_at - turn.started_at).total_seconds()) for turn in answers]),
        said=_counts([turn for turn in turns if not _is_within(turn.message_count, without)]),
        used=used,
    )


_COLUMNS = "purpose, input_tokens, cached_tokens, output_tokens, cost"
_USED = f"""
SELECT count(*) AS calls, coalesce(sum(input_tokens), 0)::BIGINT AS input_tokens,
    coalesce(sum(cached_tokens), 0)::BIGINT AS cached_tokens, coalesce(sum(output_tokens), 0)::BIGINT AS output_tokens,
    sum(cost) AS cost
FROM (
    SELECT {_COLUMNS} FROM settled_calls WHERE {OF_SESSION}
    UNION ALL SELECT * FROM ({journaled(_COLUMNS, OF_SESSION)}) AS journal
) AS every WHERE purpose != 'tool'
"""  # noqa: S608


def _is_within(message_count: int, gaps: Gaps) -> bool:
    return any(first <= message_count <= last for first, last in gaps)


def _counts(turns: list[_Turn]) -> list[MessageCounts]:
    counts: dict[Role, tuple[int, int]] = {}
    for turn in turns:
        for said in turn.messages:
            length = len(said.content) if said.characters is None else said.characters
            messages, characters = counts.get(said.role, (0, 0))
            counts[said.role] = (messages + 1, characters + length)
    return [MessageCounts(role, *numbers) for role, numbers in sorted(counts.items())]


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def user_variables(connection: PostgresConnection, tenant: str, user_id: str) -> list[UserVariableRow]:
    """Return all variables of a user that are set, ordered by name."""
    return values_after(stored_values(connection, tenant, user_id), ())


class _Writes(msgspec.Struct, frozen=True):
    session_id: str
    turn: int
    finished_at: datetime
    variables: list[VariableRow]


def user_history(
    connection: PostgresConnection, tenant: str, user_id: str, *, offset: int = 0, limit: int = 100
) -> list[UserHistoryRow]:
    """Return at most `limit` writes of a user's global variables, in sessions and outside, the oldest first.

    All writes up to these are read, from turns that wrote any.
    """
    user = {"tenant": tenant, "user_id": user_id}
    of_user = "tenant = $tenant AND user_id = $user_id"
    with connection.snapshot():
        in_turns = connection.fetch(
            _Writes,
            f"""SELECT session_id, turn, finished_at, variables FROM turns
            WHERE {of_user} AND strpos(variables::text, '"scope":"global"') > 0""",  # noqa: S608
            user,
        )
        outside_turns = connection.fetch(
            UserHistoryRow,
            f"""SELECT NULL AS session_id, NULL AS turn, name, old, new, type, source, NULL AS action_id, written_at
            FROM user_variable_writes WHERE {of_user} ORDER BY written_at, ctid""",  # noqa: S608
            user,
        )
    rows = outside_turns + [
        UserHistoryRow(
            found.session_id,
            found.turn,
            write.name,
            write.old,
            write.new,
            write.type,
            write.source,
            write.action_id,
            found.finished_at,
        )
        for found in in_turns
        for write in found.variables
        if write.scope == "global"
    ]
    rows.sort(key=_order)
    return rows[offset : offset + bounded(limit)]


def _order(row: UserHistoryRow) -> tuple[datetime, bool, str, int, str]:
    """Order by time, session, turn and name; writes outside sessions are after those of a session at the same time."""
    return row.written_at, row.session_id is None, row.session_id or "", row.turn or 0, row.name
