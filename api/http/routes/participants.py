"""Routes for participants: tokens that applications request for them, and all that a participant's token permits."""

from functools import partial
from typing import Annotated, Any

from litestar import Response, delete, get, post, put
from litestar.params import JSONBody, QueryParameter

from api.asgi.sse import EventPosition, read_place
from api.auth.middleware import clients_of
from api.auth.principal import participant_of
from api.errors import ApiError
from api.http.openapi_streams import StreamedEvents, StreamedTurn, stream_request_of
from api.http.request import (
    Accept,
    ApiRequest,
    Cursor,
    LastEventId,
    Limit,
    ParticipantId,
    TurnPreconditions,
    location,
    number_of,
    wants_stream,
)
from api.participants.access import SignedToken
from api.participants.views import PARTICIPANTS, visible_messages, visible_session, visible_turn
from api.schemas.participants import (
    NewPush,
    NewToken,
    ParticipantList,
    ParticipantView,
    TokenView,
    VisibleMessageList,
    VisibleSession,
    VisibleTurn,
)
from api.schemas.sessions import NewMessage
from api.sessions.session_cache import CachedSession, require_not_redacted
from api.sessions.views import ETAG, etag
from store.interface.participant_rows import ParticipantRow

_NO_STORE = {"Cache-Control": "no-store"}


@post(
    "/participants/tokens",
    status_code=201,
    summary="Create a participant's token",
    response_headers=[location("The URL of the participant.")],
)
async def create_participant_token(data: JSONBody[NewToken], request: ApiRequest) -> Response[TokenView]:
    """For an application that gives its users a page: a short-lived token for one session, which a browser may hold."""
    participants = request.services.participants
    row = await participants.admit(request.tenant, data)
    headers = _NO_STORE | {"Location": f"/api/participants/{row.participant_id}"}
    return Response(_token_view(request, row, participants.token(row)), headers=headers)


@get("/participants", summary="List participants")
async def list_participants(
    request: ApiRequest,
    link: Annotated[str | None, QueryParameter(description="Only those of this link.")] = None,
    user_id: Annotated[str | None, QueryParameter(name="userId", description="Only those with this user.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> ParticipantList:
    """Return a page of participants with their sessions, including revoked ones, the newest first."""
    participants = request.services.store.participants
    page = await participants.page(request.tenant, link_id=link, user_id=user_id, limit=limit, cursor=cursor)
    return ParticipantList(data=[ParticipantView.of(row) for row in page.rows], next_cursor=page.next)


@get("/participants/{participantId:str}", summary="Read a participant")
async def get_participant(participant_id: ParticipantId, request: ApiRequest) -> ParticipantView:
    """Return a participant whose access is not revoked."""
    return ParticipantView.of(await request.services.participants.get(request.tenant, participant_id))


@delete("/participants/{participantId:str}", summary="Revoke a participant's access")
async def revoke_participant(participant_id: ParticipantId, request: ApiRequest) -> None:
    """Ends the access at once, with all tokens and streams. The session stays."""
    await request.services.participants.revoke(request.tenant, participant_id)


@post(
    "/participants/renew",
    status_code=201,
    summary="Renew a participant's token",
    response_headers=[location("The URL of the participant's session.")],
)
async def renew_token(request: ApiRequest) -> Response[TokenView]:
    """While the session has not ended and the access lasts. The old token is valid until it expires."""
    row = participant_of(request)
    view = _token_view(request, row, await request.services.participants.renew(row))
    return Response(view, headers=_NO_STORE | {"Location": "/api/participants/session"})


@put("/participants/session/push", status_code=204, summary="Remind a participant's browser")
async def subscribe_participant(data: JSONBody[NewPush], request: ApiRequest) -> None:
    """When the session speaks by itself, the browser gets a reminder without its text, also if the page is closed."""
    await request.services.reminders.subscribe(participant_of(request), data)


@delete("/participants/session/push", summary="Stop reminding a participant's browser")
async def unsubscribe_participant(request: ApiRequest) -> None:
    """The server forgets the address of the browser."""
    await request.services.reminders.unsubscribe(participant_of(request))


@post(
    "/participants/session",
    status_code=200,
    summary="Begin a participant's session",
    response_headers=[ETAG],
    operation_class=StreamedTurn,
)
async def begin_participant_session(request: ApiRequest, accept: Accept = None) -> Response[VisibleTurn]:
    """Runs the script that the token names to its first question; a session that has begun is returned as it is."""
    services, row = request.services, participant_of(request)
    cached = await services.participants.session(row)
    if cached is not None and cached.state.begun:
        return Response(await _current(request, cached), headers=etag(cached.state.turn))
    new = await services.participants.to_begin(row)
    if wants_stream(accept):
        begin = partial(services.participants.begin, row, new)
        return await services.chat.streams.of_turn(begin, visible_turn, stream_request_of(request), None, PARTICIPANTS)
    answer = await services.participants.begin(row, new)
    return Response(visible_turn(answer), headers=etag(answer.state.turn))


@get(
    "/participants/session",
    summary="Read a participant's session",
    response_headers=[ETAG],
)
async def get_participant_session(request: ApiRequest) -> Response[VisibleSession]:
    """Return the session of the token; 404 if it has not begun."""
    cached = await _session(request, participant_of(request))
    return Response(_visible(request, cached), headers=etag(cached.state.turn))


@post(
    "/participants/session/messages",
    status_code=200,
    summary="Send a participant's message",
    response_headers=[ETAG],
    operation_class=StreamedTurn,
)
async def send_participant_message(
    data: JSONBody[NewMessage], request: ApiRequest, preconditions: TurnPreconditions, accept: Accept = None
) -> Response[VisibleTurn]:
    """Process a message and return the answer."""
    row, chat = participant_of(request), request.services.chat
    cached = await _session(request, row)
    if wants_stream(accept):
        return await chat.streams.of_turn(
            lambda: chat.submit_message(row.tenant, row.session_id, data, preconditions, join=True),
            visible_turn,
            stream_request_of(request),
            cached,
            PARTICIPANTS,
        )
    answer = await chat.submit_message(row.tenant, row.session_id, data, preconditions)
    return Response(visible_turn(answer), headers=etag(answer.state.turn))


@get(
    "/participants/session/messages",
    summary="List a participant's messages",
)
async def list_participant_messages(
    request: ApiRequest, limit: Limit = 100, cursor: Cursor = None
) -> VisibleMessageList:
    """Return the newest messages of the session, oldest first; `nextCursor` leads to earlier ones."""
    row = participant_of(request)
    cached = await _session(request, row)
    rows = await request.services.store.turns.recent_messages(
        row.tenant, row.session_id, limit + 1, before_seq=number_of(cursor, 0) or None, without=cached.state.gaps
    )
    page = rows[-limit:]
    earlier = str(page[0].seq) if len(rows) > limit else None
    return VisibleMessageList(data=visible_messages(page), next_cursor=earlier)


@get(
    "/participants/session/events",
    summary="Stream a participant's session",
    operation_class=StreamedEvents,
)
async def stream_participant_session(
    request: ApiRequest, last_event_id: LastEventId = None, accept: Accept = None
) -> Response[VisibleSession]:
    """With `Accept: text/event-stream` the `message` and `wait` events after `Last-Event-ID`, the `status` after each
    turn, and words as they occur; else the session as it is.
    """
    row, streams = participant_of(request), request.services.chat.streams
    cached = await _session(request, row)
    if not wants_stream(accept):
        return Response(_visible(request, cached))
    place = read_place(last_event_id, row.session_id) if last_event_id else EventPosition()
    stream = streams.of_session((row.tenant, row.session_id), cached, place, clients_of(request.scope), PARTICIPANTS)
    return stream if stream is not None else Response[Any](None, status_code=204)


async def _session(request: ApiRequest, row: ParticipantRow) -> CachedSession:
    """Return the session of a participant. Raises ApiError SESSION_NOT_FOUND, SESSION_REDACTED."""
    cached = await request.services.participants.session(row)
    if cached is None:
        raise ApiError("SESSION_NOT_FOUND", "the session has not begun; POST /api/participants/session begins it")
    require_not_redacted(cached.session)
    return cached


async def _current(request: ApiRequest, cached: CachedSession) -> VisibleTurn:
    """Return a session that has begun, with the answer of its last turn."""
    require_not_redacted(cached.session)
    turn = await request.services.store.turns.get(*cached.key, cached.state.turn)
    said = [message for message in turn.messages if message.role == "assistant"] if turn is not None else []
    return VisibleTurn.of(_visible(request, cached), messages=visible_messages(said))


def _visible(request: ApiRequest, cached: CachedSession) -> VisibleSession:
    in_turn = request.services.chat.live.is_in_turn(cached.key)
    status = "running" if in_turn else cached.execution_status
    return visible_session(cached.program, cached.state, cached.session.session_id, status)


def _token_view(request: ApiRequest, row: ParticipantRow, token: SignedToken) -> TokenView:
    push_key = request.services.reminders.public_key
    return TokenView.of(row, token=token.text, expires_at=token.expires_at, push_key=push_key)
