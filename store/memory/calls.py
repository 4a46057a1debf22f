"""Calls of language models for memories: a row before the call is made, and in its place one of what came of it."""

from datetime import datetime

import msgspec

from store.fetch import Cursor
from store.insert import insert
from store.rows import CallOutcome, JsonObject


class MemoryCallRow(msgspec.Struct, frozen=True, kw_only=True):
    """A call for a memory, as it is known before it is made; once it has ended, with what came of it."""

    tenant: str
    user_id: str
    call_id: str
    purpose: str
    model: str
    """As the server knows it."""
    request_digest: str
    started_at: datetime
    ended_at: datetime | None = None
    outcome: CallOutcome = "in_doubt"
    error: str | None = None
    endpoint_model: str | None = None
    prompt_digest: str | None = None
    parameters: JsonObject | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    counted: bool | None = None
    cost: float | None = None
    latency_ms: int | None = None
    first_words_ms: int | None = None
    attempts: int | None = None
    failures: list[str] | None = None
    degraded: str | None = None


def begin_call(cursor: Cursor, row: MemoryCallRow) -> None:
    """Keep that a call is about to be made. Within a transaction."""
    insert(cursor, "memory_calls", row)


def end_call(cursor: Cursor, row: MemoryCallRow) -> None:
    """Keep what came of a call; nothing of one whose user was erased meanwhile. Within a transaction."""
    which = "tenant = ? AND call_id = ?"
    begun = cursor.execute(f"SELECT 1 FROM memory_calls WHERE {which}", [row.tenant, row.call_id]).fetchall()  # noqa: S608
    if begun:
        cursor.execute(f"DELETE FROM memory_calls WHERE {which}", [row.tenant, row.call_id])  # noqa: S608
        insert(cursor, "memory_calls", row)
