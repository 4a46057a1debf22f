"""Routes for participants: links without a key, tokens that applications request for them, and all that a
participant's token permits.
"""

from typing import Annotated

from litestar import Response, delete, get, put
from litestar.params import JSONBody

from api.auth.middleware import clients_of
from api.auth.principal import participant_of
from api.errors import ApiError
from api.http.request import (
    ETAG,
    Accept,
    ApiRequest,
    Cursor,
    IdempotencyKey,
    IfMatch,
    LastEventId,
    Limit,
    LinkId,
    ParticipantId,
    Prefer,
    condition,
    creating,
    number_of,
    query,
    respond_at,
    wants_stream,
)
from api.http.turn_routes import STREAMED_EVENTS, answer_turn, turn_route
from api.participants.access import SignedToken
from api.participants.views import PARTICIPANTS, visible_messages, visible_session, visible_turn
from api.schemas.participants import (
    EntryView,
    LinkList,
    LinkPage,
    LinkView,
    NewEntry,
    NewLink,
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
from api.sessions.sse import EventPosition, read_place
from scripts.model.script import Locale
from store.interface.participant_rows import ParticipantRow


@creating("/links", "Create a link", "the link")
async def create_link(data: JSONBody[NewLink], request: ApiRequest) -> Response[LinkView]:
    """With the id of the link, anybody can begin a session of the script in a browser, without a key."""
    link = await request.services.links.create(request.tenant, data)
    return Response(LinkView.of(link), headers={"Location": f"/api/links/{link.link_id}"})


@get("/links", summary="List links")
async def list_links(request: ApiRequest, limit: Limit = 50, cursor: Cursor = None) -> LinkList:
    """Return a page of links, including revoked ones, the newest first."""
    page = await request.services.store.participants.links(request.tenant, limit=limit, cursor=cursor)
    return LinkList(data=[LinkView.of(row) for row in page.rows], next_cursor=page.next)


@get("/links/{linkId:str}", summary="Read a link")
async def get_link(link_id: LinkId, request: ApiRequest) -> LinkView:
    """Return a link that is not revoked."""
    return LinkView.of(await request.services.links.get(request.tenant, link_id))


@delete("/links/{linkId:str}", summary="Revoke a link")
async def revoke_link(link_id: LinkId, request: ApiRequest) -> None:
    """Ends the access of all its participants at once. Their sessions stay, and the id is never used again."""
    await request.services.links.revoke(request.tenant, link_id)


@get("/links/{linkId:str}/page", summary="Look at a link as a participant")
async def look_at_link(
    link_id: LinkId,
    request: ApiRequest,
    locale: Annotated[Locale | None, query("locale", "The language of the browser.")] = None,
) -> LinkPage:
    """Return what a page shows before a participant is admitted."""
    return await request.services.links.look(link_id, locale, clients_of(request.scope))


@creating("/links/{linkId:str}/sessions", "Come through a link", "the participant's session")
async def enter_link(link_id: LinkId, data: JSONBody[NewEntry], request: ApiRequest) -> Response[EntryView]:
    """Admits a participant, or with `resume` the one who comes back, and returns a token for
    `POST /api/participants/session`.
    """
    services = request.services
    entry = await services.links.enter(link_id, data, clients_of(request.scope))
    token = services.participants.token(entry.participant)
    view = EntryView.of(_token_view(request, entry.participant, token), resume=entry.resume)
    return Response(view, headers={"Cache-Control": "no-store", "Location": "/api/participants/session"})


_NO_STORE = {"Cache-Control": "no-store"}


@creating("/participants/tokens", "Create a participant's token", "the participant")
async def create_participant_token(data: JSONBody[NewToken], request: ApiRequest) -> Response[TokenView]:
    """For an application that gives its users a page: a short-lived token for one session, which a browser may hold."""
    participants = request.services.participants
    row = await participants.admit(request.tenant, data)
    headers = _NO_STORE | {"Location": f"/api/participants/{row.participant_id}"}
    return Response(_token_view(request, row, participants.token(row)), headers=headers)


@get("/participants", summary="List participants")
async def list_participants(
    request: ApiRequest,
    link: Annotated[str | None, query("link", "Only those of this link.")] = None,
    user_id: Annotated[str | None, query("userId", "Only those with this user.")] = None,
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


@creating("/participants/renew", "Renew a participant's token", "the participant's session")
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


@turn_route("/participants/session", "Begin a participant's session")
async def begin_participant_session(request: ApiRequest, accept: Accept = None) -> Response[VisibleTurn]:
    """Runs the script that the token names to its first question; a session that has begun is returned as it is."""
    services, row = request.services, participant_of(request)
    cached = await services.participants.session(row)
    if cached is not None and cached.state.begun:
        return respond_at(cached.state.turn, await _current(request, cached))
    new, begin = await services.participants.to_begin(row), services.participants.begin
    return await answer_turn(request, accept, lambda _: begin(row, new), visible_turn, None, PARTICIPANTS)


@get("/participants/session", summary="Read a participant's session", response_headers=[ETAG])
async def get_participant_session(request: ApiRequest) -> Response[VisibleSession]:
    """Return the session of the token; 404 if it has not begun."""
    cached = await _session(request, participant_of(request))
    return respond_at(cached.state.turn, _visible(request, cached))


@turn_route("/participants/session/messages", "Send a participant's message")
async def send_participant_message(
    data: JSONBody[NewMessage],
    request: ApiRequest,
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
    prefer: Prefer = None,
    accept: Accept = None,
) -> Response[VisibleTurn]:
    """Process a message and return the answer."""
    preconditions = condition(idempotency_key, if_match, prefer)
    key, submit = (await _session(request, participant_of(request))).key, request.services.chat.submit_message
    return await answer_turn(
        request, accept, lambda join: submit(*key, data, preconditions, join=join), visible_turn, key, PARTICIPANTS
    )


@get("/participants/session/messages", summary="List a participant's messages")
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


@get("/participants/session/events", summary="Stream a participant's session", operation_class=STREAMED_EVENTS)
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
    return streams.of_session(cached.key, cached, place, clients_of(request.scope), PARTICIPANTS)


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
    status = "running" if request.services.chat.live.is_in_turn(cached.key) else cached.execution_status
    return visible_session(cached.program, cached.state, cached.session.session_id, status)


def _token_view(request: ApiRequest, row: ParticipantRow, token: SignedToken) -> TokenView:
    push_key = request.services.reminders.public_key
    return TokenView.of(row, token=token.text, expires_at=token.expires_at, push_key=push_key)
