"""Routes for versions of a script: list, compare, publish, archive."""

from typing import Annotated

from litestar import get, patch, post
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg, FromPath, QueryParameter

from api.catalog.diff import diff
from api.catalog.script_views import list_entry, view
from api.errors import described
from api.http.request import ApiRequest, ScriptId
from api.schemas.scripts import ScriptDiff, ScriptEntry, ScriptPatch, ScriptView, VersionList, WhichVersion
from store.interface.list_rows import ScriptChanges

_ERRORS = described("SERVER_BUSY")
_EXAMPLES = [Example(summary="Version 2", value={"version": 2}), Example(summary="Without a number", value={})]
_PATCH = [Example(value={"scriptName": "First visit", "tags": ["adults", "short"]})]


@get("/scripts/{scriptId:str}/versions", summary="List the versions of a script", responses=_ERRORS)
async def list_versions(script_id: ScriptId, request: ApiRequest) -> VersionList:
    """Return the last 1,000 versions, the latest first."""
    rows = await request.services.catalog.versions(request.tenant, script_id)
    return VersionList(data=[list_entry(row) for row in rows])


@get("/scripts/{scriptId:str}/versions/{version:int}", summary="Read a version of a script", responses=_ERRORS)
async def get_version(script_id: ScriptId, version: FromPath[int], request: ApiRequest) -> ScriptView:
    """Return a version: text, structure and problems."""
    catalog = request.services.catalog
    row = await catalog.version(request.tenant, script_id, version)
    return view(row, await catalog.reading(row))


@get("/scripts/{scriptId:str}/diff", summary="Compare two versions of a script", responses=_ERRORS)
async def diff_versions(
    script_id: ScriptId,
    request: ApiRequest,
    earlier: Annotated[
        int | None, QueryParameter(name="from", ge=1, le=2**31, description="The default is the version before `to`.")
    ] = None,
    later: Annotated[
        int | None, QueryParameter(name="to", ge=1, le=2**31, description="The default is the latest version.")
    ] = None,
) -> ScriptDiff:
    """Return the differences by line and by part, and the changes that sessions of the earlier version could miss."""
    return await diff(request.services.catalog, request.tenant, script_id, earlier, later)


@post("/scripts/{scriptId:str}/publish", status_code=200, summary="Publish a version of a script", responses=_ERRORS)
async def publish_version(
    script_id: ScriptId, request: ApiRequest, data: Annotated[WhichVersion | None, BodyKwarg(examples=_EXAMPLES)] = None
) -> ScriptEntry:
    """Publish a version, by default the latest: new sessions run it; later versions become drafts again."""
    version = data.version if data is not None else None
    return list_entry(await request.services.catalog.publish_version(request.tenant, script_id, version))


@post("/scripts/{scriptId:str}/archive", status_code=200, summary="Archive a script", responses=_ERRORS)
async def archive_version(
    script_id: ScriptId, request: ApiRequest, data: Annotated[WhichVersion | None, BodyKwarg(examples=_EXAMPLES)] = None
) -> ScriptEntry:
    """Archive a version or the whole script: no new session runs it; running sessions continue."""
    version = data.version if data is not None else None
    return list_entry(await request.services.catalog.archive(request.tenant, script_id, version))


@patch("/scripts/{scriptId:str}", summary="Update the description of a script", responses=_ERRORS)
async def patch_script(
    script_id: ScriptId, data: Annotated[ScriptPatch, BodyKwarg(examples=_PATCH)], request: ApiRequest
) -> ScriptEntry:
    """Change name, tags, author or description of a script in all its versions; the text does not change."""
    changes = ScriptChanges(name=data.script_name, tags=data.tags, author=data.author, description=data.description)
    return list_entry(await request.services.catalog.describe(request.tenant, script_id, changes))
