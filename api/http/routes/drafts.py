"""Routes for drafts: the texts of scripts that authors work on."""

from litestar import Response, delete, get, put
from litestar.params import JSONBody

from api.http.request import REVISION_ETAG, ApiRequest, Cursor, DraftId, IfRevision, Limit, revision_of
from api.schemas.scripts import DraftEntry, DraftList, DraftText, DraftView


@get("/drafts", summary="List drafts")
async def list_drafts(request: ApiRequest, limit: Limit = 50, cursor: Cursor = None) -> DraftList:
    """Return a page of drafts without their texts, the last saved first."""
    page = await request.services.store.scripts.drafts(request.tenant, limit=limit, cursor=cursor)
    return DraftList(data=[DraftEntry.of(row) for row in page.rows], next_cursor=page.next)


@get("/drafts/{draftId:str}", summary="Read a draft", response_headers=[REVISION_ETAG])
async def get_draft(draft_id: DraftId, request: ApiRequest) -> Response[DraftView]:
    """Return the unpublished changes of a script."""
    draft = await request.services.drafts.get(request.tenant, draft_id)
    return Response(DraftView.of(draft, yaml_content=draft.text), headers={"ETag": f'"{draft.revision}"'})


@put("/drafts/{draftId:str}", summary="Save a draft", response_headers=[REVISION_ETAG])
async def save_draft(
    draft_id: DraftId, data: JSONBody[DraftText], request: ApiRequest, if_match: IfRevision = None
) -> Response[DraftEntry]:
    """Save the unpublished changes of a script, which may have errors. Running sessions and versions do not change."""
    saved = await request.services.drafts.save(request.tenant, draft_id, data, revision_of(if_match))
    return Response(DraftEntry.of(saved), headers={"ETag": f'"{saved.revision}"'})


@delete("/drafts/{draftId:str}", summary="Delete a draft")
async def delete_draft(draft_id: DraftId, request: ApiRequest, if_match: IfRevision = None) -> None:
    """Delete the unpublished changes of a script; its versions stay."""
    await request.services.drafts.delete(request.tenant, draft_id, revision_of(if_match))
