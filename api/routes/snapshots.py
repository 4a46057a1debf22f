"""The past of a session: where each of its turns left it."""

from typing import Annotated, Any

import msgspec
from litestar import Request, Router, get
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter

from api.caller import tenant_of
from api.chat import Chat
from api.errors import described
from api.lifecycle.past import turn_taken
from api.parameters import Limit
from api.schemas.lifecycle import SnapshotList, SnapshotListed, SnapshotView
from api.views import event_views, message_view, snapshot
from store.record import Record
from store.rows import NO_TURN, SnapshotRow


@get(
    "/sessions/{session_id:str}/snapshots",
    summary="List the turns of a session",
    responses=described("REQUEST_INVALID", "SESSION_NOT_FOUND"),
)
async def list_snapshots(
    session_id: FromPath[str],
    chat: NamedDependency[Chat],
    record: NamedDependency[Record],
    request: Request[Any, Any, Any],
    after: Annotated[
        int, QueryParameter(name="after", ge=NO_TURN, le=2**31, description="The turn to go on after.")
    ] = NO_TURN,
    limit: Limit = 100,
) -> SnapshotList:
    """A page of turns, oldest first, each with where it left the session."""
    await chat.session(tenant_of(request), session_id)
    rows = await record.snapshots(tenant_of(request), session_id, after_turn=after, limit=limit + 1)
    more = len(rows) > limit
    return SnapshotList(data=[_listed(row) for row in rows[:limit]], next_after=rows[limit - 1].turn if more else None)


@get(
    "/sessions/{session_id:str}/snapshots/{turn:int}",
    summary="Look at a session as it was",
    responses=described(
        "REQUEST_INVALID", "SESSION_NOT_FOUND", "SESSION_TEXT_DROPPED", "TURN_NOT_FOUND", "VARIABLE_STORE_INIT_ERROR"
    ),
)
async def get_snapshot(
    session_id: FromPath[str],
    turn: FromPath[int],
    chat: NamedDependency[Chat],
    record: NamedDependency[Record],
    request: Request[Any, Any, Any],
) -> SnapshotView:
    """The session as a turn left it: its variables, its place, what it waited for, what was said in that turn."""
    hot = await chat.session(tenant_of(request), session_id)
    row, state = await turn_taken(record, hot, turn)
    execution_status = state.execution_status if state.begun else "error"
    return SnapshotView(
        **msgspec.structs.asdict(snapshot(await chat.program_at(hot, turn), state, execution_status, None)),
        session_id=session_id,
        status=state.status,
        at=row.finished_at,
        messages=[message_view(message, hot.state.gaps) for message in row.messages],
        events=event_views(row),
    )


def _listed(row: SnapshotRow) -> SnapshotListed:
    return SnapshotListed(
        turn=row.turn,
        at=row.finished_at,
        status=row.status,
        execution_status=row.execution_status,
        phase_id=row.phase_id or "",
        topic_id=row.topic_id or "",
        action_id=row.action_id or "",
        wait_kind=row.wait_kind,
        message_count=row.message_count,
        event_count=row.event_count,
    )


router = Router("/api", route_handlers=[list_snapshots, get_snapshot], tags=["Sessions"])
