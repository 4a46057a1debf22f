"""Route for the events of a session, as pages or as a live stream."""

from typing import Annotated, Any

from litestar import Response, get
from litestar.params import HeaderParameter, QueryParameter

from api.asgi.sse import EventPosition, read_place
from api.auth.middleware import clients_of
from api.errors import ApiError
from api.http.openapi_streams import StreamedEvents
from api.http.request import (
    Accept,
    ApiRequest,
    Cursor,
    LastEventId,
    Limit,
    SessionId,
    number_of,
    seconds_to_wait,
    wants_stream,
)
from api.schemas.events import EventList
from api.sessions.streams import WAIT_S_MAX


@get(
    "/sessions/{sessionId:str}/events", summary="List or stream the events of a session", operation_class=StreamedEvents
)
async def list_events(
    session_id: SessionId,
    request: ApiRequest,
    after: Annotated[int, QueryParameter(ge=0, le=2**31, description="Events after this number.")] = 0,
    limit: Limit = 100,
    cursor: Cursor = None,
    last_event_id: LastEventId = None,
    accept: Accept = None,
    prefer: Annotated[
        str | None, HeaderParameter(name="Prefer", description="`wait=SECONDS`, at most 60: waits for an event.")
    ] = None,
) -> Response[EventList]:
    """A page of events, oldest first; with `Prefer: wait=SECONDS` (60 at most) it waits for one. With `Accept:
    text/event-stream` everything after `after` or `Last-Event-ID`, then events and words as they occur.
    """
    chat, key, clients = request.services.chat, (request.tenant, session_id), clients_of(request.scope)
    streams = chat.streams
    place = read_place(last_event_id, session_id) if last_event_id else EventPosition(max(after, number_of(cursor, 0)))
    try:
        cached = await chat.session(*key)
    except ApiError:
        if wants_stream(accept) and streams.begins(key):
            first = streams.of_session(key, None, place, clients)
            if first is not None:
                return first
        raise
    if wants_stream(accept):
        stream = streams.of_session(key, cached, place, clients)
        return stream if stream is not None else Response[Any](None, status_code=204)
    wait_s = seconds_to_wait(prefer)
    page = await streams.page(cached, place.seq, limit, wait_s, clients, request.receive)
    return Response(page, headers={"Preference-Applied": f"wait={min(wait_s, WAIT_S_MAX)}"} if wait_s else {})
