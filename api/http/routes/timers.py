"""Routes for timers: what sessions will do by themselves."""

from typing import Annotated

import msgspec
from litestar import Response, get, post
from litestar.params import FromQuery, JSONBody, QueryParameter

from api.auth.principal import user_for
from api.http.request import (
    ApiRequest,
    Cursor,
    IdempotencyKey,
    IfMatch,
    Limit,
    SessionId,
    WithEvents,
    condition,
    turn_of,
)
from api.schemas.lifecycle import SessionChange
from api.schemas.timers import FiredTimer, TimerList, TimerView
from api.sessions.views import ETAG, etag, event_views, message_view, snapshot
from runtime.state.inputs import TimerDue
from store.interface.timer_rows import TimerStatus


@get("/timers", summary="List timers")
async def list_timers(
    request: ApiRequest,
    session_id: Annotated[str | None, QueryParameter(name="sessionId", description="Timers of this session.")] = None,
    user_id: Annotated[str | None, QueryParameter(name="userId", description="Timers of this user.")] = None,
    status: FromQuery[TimerStatus | None] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> TimerList:
    """A page of timers, the earliest first."""
    page = await request.services.store.timers.page(
        request.tenant,
        session_id=session_id,
        user_id=user_for(request, user_id),
        status=status,
        limit=limit,
        cursor=cursor,
    )
    return TimerList(data=[TimerView.of(row) for row in page.rows], next_cursor=page.next)


@post("/sessions/{sessionId:str}/timers/fire", status_code=200, summary="Fire a timer", response_headers=[ETAG])
async def fire_timer(
    session_id: SessionId,
    data: JSONBody[FiredTimer],
    request: ApiRequest,
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
    events: WithEvents = False,
) -> Response[SessionChange]:
    """Fires one timer of the session now, also before it is due. It is a turn like any other."""
    answer = await request.services.session_timers.fire(
        request.tenant, session_id, TimerDue(data.timer_id), condition(idempotency_key, if_match)
    )
    body = SessionChange(
        **msgspec.structs.asdict(snapshot(answer.program, answer.state, answer.state.execution_status, None)),
        session_id=answer.session.session_id,
        status=answer.state.status,
        messages=[message_view(message) for message in answer.row.messages],
        events=event_views(answer.row) if events else msgspec.UNSET,
    )
    return Response(body, headers=etag(answer.state.turn))


@post("/sessions/{sessionId:str}/timers/arm", status_code=200, summary="Arm the timers of a session")
async def arm_timers(session_id: SessionId, request: ApiRequest, if_match: IfMatch = None) -> TimerList:
    """Lets the timers of a session fire that are held or have failed, and those of a fork or an import. They are set
    again by the session's next turn as well.
    """
    rows = await request.services.session_timers.arm(request.tenant, session_id, turn_of(if_match))
    return TimerList(data=[TimerView.of(row) for row in rows], next_cursor=None)
