"""The statistics of a session."""

from datetime import datetime
from itertools import pairwise

import msgspec

from store.interface.list_rows import CallUsage, MessageCounts, SessionStatistics
from store.interface.rows import Gaps, Role
from store.sql.calls import journaled_sql
from store.sql.connection import OF_SESSION, Connection, of_session


class _Turn(msgspec.Struct, frozen=True):
    started_at: datetime
    finished_at: datetime
    message_count: int
    messages: list["_MessageSize"]


class _MessageSize(msgspec.Struct, frozen=True):
    role: Role
    content: str
    characters: int | None = None


def statistics(connection: Connection, tenant: str, session_id: str, *, without: Gaps = ()) -> SessionStatistics | None:
    """Return the statistics of a session, without the messages in the ranges `without`."""
    which = of_session(tenant, session_id)
    with connection.snapshot():
        select = f"SELECT started_at, finished_at, message_count, messages FROM turns WHERE {OF_SESSION} ORDER BY turn"  # noqa: S608
        turns = connection.fetch(_Turn, select, which)
        if not turns:
            return None
        (used,) = connection.fetch(CallUsage, _USED, which)
    answers = [(before, turn) for before, turn in pairwise([None, *turns]) if turn is not None and _is_answer(turn)]
    return SessionStatistics(
        turns=len(turns),
        started_at=min(turn.started_at for turn in turns),
        finished_at=max(turn.finished_at for turn in turns),
        answered_in_s=_mean([_seconds(before.finished_at, turn.started_at) for before, turn in answers if before]),
        turn_took_s=_mean([_seconds(turn.started_at, turn.finished_at) for _, turn in answers]),
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
    UNION ALL SELECT * FROM ({journaled_sql(_COLUMNS, OF_SESSION)}) AS journal
) AS every WHERE purpose != 'tool'
"""  # noqa: S608


def _is_answer(turn: _Turn) -> bool:
    return any(said.role == "user" for said in turn.messages)


def _seconds(begin: datetime, end: datetime) -> float:
    return max(0.0, (end - begin).total_seconds())


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
