"""The route that lists sessions for a person; those that take one over are with the other changes of a session."""

from typing import Annotated

from litestar import get
from litestar.params import FromQuery, QueryParameter

from api.auth.principal import user_for
from api.http.request import ApiRequest, Cursor, Limit
from api.schemas.hand_overs import HandOverList, HandOverView
from store.interface.hand_over_rows import HandOverStatus


@get("/hand-overs", summary="List hand-overs")
async def list_hand_overs(
    request: ApiRequest,
    user_id: Annotated[str | None, QueryParameter(name="userId", description="Sessions of this user.")] = None,
    status: FromQuery[HandOverStatus | None] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> HandOverList:
    """Return a page of the sessions that a person is asked to join or talks in, those that wait longest first."""
    page = await request.services.store.sessions.hand_overs(
        request.tenant, user_id=user_for(request, user_id), status=status, limit=limit, cursor=cursor
    )
    return HandOverList(data=[HandOverView.of(row) for row in page.rows], next_cursor=page.next)
