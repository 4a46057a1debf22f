"""Routes for links: create, list and revoke them, and come through one without a key."""

from typing import Annotated

from litestar import Response, delete, get, post
from litestar.params import JSONBody, QueryParameter

from api.auth.middleware import clients_of
from api.http.request import ApiRequest, Cursor, Limit, LinkId, location
from api.schemas.participants import EntryView, LinkList, LinkPage, LinkView, NewEntry, NewLink
from scripts.model.script import Locale


@post(
    "/links",
    status_code=201,
    summary="Create a link",
    response_headers=[location("The URL of the link.")],
)
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


@get(
    "/links/{linkId:str}/page",
    summary="Look at a link as a participant",
)
async def look_at_link(
    link_id: LinkId,
    request: ApiRequest,
    locale: Annotated[Locale | None, QueryParameter(description="The language of the browser.")] = None,
) -> LinkPage:
    """Return what a page shows before a participant is admitted."""
    return await request.services.links.look(link_id, locale, clients_of(request.scope))


@post(
    "/links/{linkId:str}/sessions",
    status_code=201,
    summary="Come through a link",
    response_headers=[location("The URL of the participant's session.")],
)
async def enter_link(link_id: LinkId, data: JSONBody[NewEntry], request: ApiRequest) -> Response[EntryView]:
    """Admits a participant, or with `resume` the one who comes back, and returns a token for
    `POST /api/participants/session`.
    """
    services = request.services
    entry = await services.links.enter(link_id, data, clients_of(request.scope))
    token = services.participants.token(entry.participant)
    push_key = request.services.reminders.public_key
    view = EntryView.of(
        entry.participant, token=token.text, expires_at=token.expires_at, push_key=push_key, resume=entry.resume
    )
    return Response(view, headers={"Cache-Control": "no-store", "Location": "/api/participants/session"})
