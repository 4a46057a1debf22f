"""The statistics of a session: what the record counts, and an estimate of its tokens."""

import asyncio

import msgspec

from api.errors import ApiError
from api.hot import Hot
from api.schemas.session_lists import SessionStatsView, SpokenView, TranscriptTokens, UsedView
from runtime.tokens import MESSAGE_TOKENS, tokens_of
from store.record import Record

COUNTED_MAX = 10_000
"""Messages whose tokens are estimated: the last of a session."""
_PAGE = 1_000


async def statistics_of(record: Record, hot: Hot) -> SessionStatsView:
    """What a session came to. Raises ApiError SESSION_NOT_FOUND."""
    tenant, session_id = hot.session.tenant, hot.session.session_id
    found = await record.statistics(tenant, session_id, without=hot.state.gaps)
    if found is None:  # deleted meanwhile
        raise ApiError("SESSION_NOT_FOUND", "Session not found", context={"sessionId": session_id})
    return SessionStatsView(
        session_id=session_id,
        turns=found.turns,
        messages=sum(spoken.messages for spoken in found.said),
        by_role=[
            SpokenView(
                role="ai" if spoken.role == "assistant" else spoken.role,
                messages=spoken.messages,
                characters=spoken.characters,
                mean_characters=spoken.characters / spoken.messages,
            )
            for spoken in found.said
        ],
        started_at=found.started_at,
        finished_at=found.finished_at,
        duration_seconds=(found.finished_at - found.started_at).total_seconds(),
        mean_answer_seconds=found.answered_in_s,
        mean_turn_seconds=found.turn_took_s,
        transcript_tokens=await _tokens(record, hot),
        models=UsedView(**msgspec.structs.asdict(found.used)),
    )


async def _tokens(record: Record, hot: Hot) -> TranscriptTokens:
    estimate, counted, before = 0, 0, None
    while counted < COUNTED_MAX:
        rows = await record.recent_messages(
            hot.session.tenant, hot.session.session_id, _PAGE, before_seq=before, without=hot.state.gaps
        )
        texts = [row.content for row in rows]
        estimate += await asyncio.to_thread(lambda: sum(map(tokens_of, texts)))  # noqa: B023
        counted += len(rows)
        if len(rows) < _PAGE:
            break
        before = rows[0].seq
    return TranscriptTokens(estimate=estimate + counted * MESSAGE_TOKENS, messages=counted)
