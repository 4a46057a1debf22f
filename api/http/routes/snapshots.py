"""Routes for the past of a session: its state after each turn."""

from typing import Annotated

import msgspec
from litestar import get
from litestar.params import FromPath, QueryParameter

from api.errors import described
from api.http.request import ApiRequest, Cursor, Limit, SessionId, number_of
from api.schemas.lifecycle import SnapshotEntry, SnapshotList, SnapshotView
from api.sessions.lifecycle.resolve_turn import load_turn
from api.sessions.views import event_views, message_view, snapshot
from store.interface.rows import NO_TURN, SnapshotRow


@get("/sessions/{sessionId:str}/snapshots", summary="List the snapshots of a session")
async def list_snapshots(
    session_id: SessionId,
    request: ApiRequest,
    after: Annotated[int, QueryParameter(ge=NO_TURN, le=2**31, description="Turns after this one.")] = NO_TURN,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> SnapshotList:
    """Return a page of turns, oldest first, each with the position after it."""
    services = request.services
    await services.chat.session(request.tenant, session_id)
    after = max(after, number_of(cursor, NO_TURN))
    rows = await services.store.turns.snapshots(request.tenant, session_id, after_turn=after, limit=limit + 1)
    next_cursor = str(rows[limit - 1].turn) if len(rows) > limit else None
    return SnapshotList(data=[_list_entry(row) for row in rows[:limit]], next_cursor=next_cursor)


@get(
    "/sessions/{sessionId:str}/snapshots/{turn:int}",
    summary="Read a snapshot",
    responses=described("SESSION_REDACTED", "TURN_NOT_FOUND", "VARIABLE_STORE_INIT_ERROR"),
)
async def get_snapshot(session_id: SessionId, turn: FromPath[int], request: ApiRequest) -> SnapshotView:
    """Return the session after a turn: its variables, position and wait, and the messages of that turn."""
    chat = request.services.chat
    cached = await chat.session(request.tenant, session_id)
    row, state = await load_turn(request.services.store, cached, turn)
    execution_status = state.execution_status if state.begun else "error"
    return SnapshotView(
        **msgspec.structs.asdict(snapshot(await chat.program_at(cached, turn), state, execution_status, None)),
        session_id=session_id,
        status=state.status,
        at=row.finished_at,
        messages=[message_view(message, cached.state.gaps) for message in row.messages],
        events=event_views(row),
    )


def _list_entry(row: SnapshotRow) -> SnapshotEntry:
    return SnapshotEntry.of(
        row, at=row.finished_at, phase_id=row.phase_id or "", topic_id=row.topic_id or "", action_id=row.action_id or ""
    )
