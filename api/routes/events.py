"""What happened in a session: in pages, or as a stream that goes on while it is talked to."""

from typing import Annotated, Any

from litestar import Request, Response, Router, get
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter

from api.accept import wants_stream
from api.access.guard import clients_of
from api.caller import tenant_of
from api.chat import Chat
from api.errors import ApiError, described
from api.frames import Place, read_place
from api.parameters import Accept, LastEventId, Limit, Prefer, seconds_to_wait
from api.routes.streamed import StreamedEvents
from api.schemas.events import EventList
from api.streams import WAIT_S_MAX


@get(
    "/sessions/{session_id:str}/events",
    summary="Follow a session",
    operation_class=StreamedEvents,
    description=(
        "A page of events, oldest first; with `Prefer: wait=SECONDS` (60 at most) it waits for one. With `Accept: "
        "text/event-stream` everything after `after` or `Last-Event-ID`, and then what happens, word by word."
    ),
    responses=described("REQUEST_INVALID", "SESSION_NOT_FOUND", "STREAMS_FULL", "SERVER_BUSY"),
)
async def list_events(
    session_id: FromPath[str],
    chat: NamedDependency[Chat],
    request: Request[Any, Any, Any],
    after: Annotated[int, QueryParameter(name="after", ge=0, le=2**31, description="The number to go on after.")] = 0,
    limit: Limit = 100,
    last_event_id: LastEventId = None,
    accept: Accept = None,
    prefer: Prefer = None,
) -> Response[EventList]:
    """Everything that happened after an event."""
    key, streams, clients = (tenant_of(request), session_id), chat.streams, clients_of(request.scope)
    place = read_place(last_event_id, session_id) if last_event_id else Place(after)
    try:
        hot = await chat.session(*key)
    except ApiError:
        if wants_stream(accept) and streams.begins(key):
            first = streams.of_session(key, None, place, clients)
            if first is not None:
                return first
        raise
    if wants_stream(accept):
        stream = streams.of_session(key, hot, place, clients)
        return stream if stream is not None else Response[Any](None, status_code=204)
    wait_s = seconds_to_wait(prefer)
    page = await streams.page(hot, place.seq, limit, wait_s, clients)
    return Response(page, headers={"Preference-Applied": f"wait={min(wait_s, WAIT_S_MAX)}"} if wait_s else {})


router = Router("/api", route_handlers=[list_events], tags=["Sessions"])
