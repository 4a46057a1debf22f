"""The statistics of one session."""

import asyncio

from api.errors import require_session
from api.schemas.session_lists import ModelUsageView, RoleCountsView, SessionStatsView, TranscriptTokens
from api.sessions.session_cache import CachedSession
from runtime.context.text_lengths import MESSAGE_TOKENS, tokens_of
from store.store import Store

COUNTED_MAX = 10_000
"""Number of last messages whose tokens are estimated."""
_PAGE = 1_000


async def statistics_of(store: Store, cached: CachedSession) -> SessionStatsView:
    """Return the statistics of a session. Raises ApiError SESSION_NOT_FOUND."""
    session_id = cached.session.session_id
    found = await store.sessions.statistics(*cached.key, without=cached.state.gaps)
    counts = require_session(found, session_id)  # it may have been deleted since it was loaded
    return SessionStatsView.of(
        counts,
        session_id=session_id,
        messages=sum(stats.messages for stats in counts.said),
        by_role=[RoleCountsView.of(stats, mean_characters=stats.characters / stats.messages) for stats in counts.said],
        duration_seconds=(counts.finished_at - counts.started_at).total_seconds(),
        mean_answer_seconds=counts.answered_in_s,
        mean_turn_seconds=counts.turn_took_s,
        transcript_tokens=await _tokens(store, cached),
        models=ModelUsageView.of(counts.used),
    )


async def _tokens(store: Store, cached: CachedSession) -> TranscriptTokens:
    estimate, counted, before = 0, 0, None
    while counted < COUNTED_MAX:
        rows = await store.turns.recent_messages(*cached.key, _PAGE, before_seq=before, without=cached.state.gaps)
        texts = [row.content for row in rows]
        estimate += await asyncio.to_thread(lambda: sum(map(tokens_of, texts)))  # noqa: B023
        counted += len(rows)
        if len(rows) < _PAGE:
            break
        before = rows[0].seq
    return TranscriptTokens(estimate=estimate + counted * MESSAGE_TOKENS, messages=counted)
