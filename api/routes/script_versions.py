"""Versions of a script: which there are, what is otherwise between them, which one new sessions begin with."""

from typing import Annotated, Any

from litestar import Request, get, patch, post
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg, FromPath, QueryParameter

from api.caller import tenant_of
from api.catalogue import Catalogue
from api.errors import described
from api.schemas.scripts import (
    ScriptDiff,
    ScriptListed,
    ScriptPatch,
    ScriptView,
    VersionList,
    WhichVersion,
)
from api.script_diff import diff
from api.script_views import listed, view
from store.script_texts import ScriptChanges

_KNOWN = described("REQUEST_INVALID", "SCRIPT_NOT_FOUND", "SERVER_BUSY")
_WRITTEN = described(
    "REQUEST_INVALID", "SCRIPT_NOT_FOUND", "PAYLOAD_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE", "SERVER_BUSY"
)
_EXAMPLES = [Example(summary="Version 2", value={"version": 2}), Example(summary="Without a number", value={})]
_PATCH = [Example(value={"scriptName": "First visit", "tags": ["adults", "short"]})]


@get("/scripts/{script_id:str}/versions", summary="List the versions of a script", responses=_KNOWN)
async def list_versions(
    script_id: FromPath[str], catalogue: NamedDependency[Catalogue], request: Request[Any, Any, Any]
) -> VersionList:
    """The last 1,000 versions, the latest first."""
    return VersionList(data=[listed(row) for row in await catalogue.versions(tenant_of(request), script_id)])


@get("/scripts/{script_id:str}/versions/{version:int}", summary="Read a version of a script", responses=_KNOWN)
async def get_version(
    script_id: FromPath[str],
    version: FromPath[int],
    catalogue: NamedDependency[Catalogue],
    request: Request[Any, Any, Any],
) -> ScriptView:
    """A version: text, structure and problems."""
    row = await catalogue.version(tenant_of(request), script_id, version)
    return view(row, await catalogue.reading(row))


@get("/scripts/{script_id:str}/diff", summary="Compare two versions of a script", responses=_KNOWN)
async def diff_versions(
    script_id: FromPath[str],
    catalogue: NamedDependency[Catalogue],
    request: Request[Any, Any, Any],
    earlier: Annotated[
        int | None,
        QueryParameter(name="from", required=False, ge=1, le=2**31, description="The one before `to`, unless named."),
    ] = None,
    later: Annotated[
        int | None, QueryParameter(name="to", required=False, ge=1, le=2**31, description="The latest, unless named.")
    ] = None,
) -> ScriptDiff:
    """Line by line and part by part, and what sessions of the earlier version could miss."""
    return await diff(catalogue, tenant_of(request), script_id, earlier, later)


@post("/scripts/{script_id:str}/publish", status_code=200, summary="Publish a version of a script", responses=_WRITTEN)
async def publish_version(
    script_id: FromPath[str],
    catalogue: NamedDependency[Catalogue],
    request: Request[Any, Any, Any],
    data: Annotated[WhichVersion | None, BodyKwarg(examples=_EXAMPLES)] = None,
) -> ScriptListed:
    """New sessions begin with this version, the latest unless it is named; later ones are drafts again."""
    version = data.version if data is not None else None
    return listed(await catalogue.publish_version(tenant_of(request), script_id, version))


@post("/scripts/{script_id:str}/archive", status_code=200, summary="Take a script out of use", responses=_WRITTEN)
async def archive_version(
    script_id: FromPath[str],
    catalogue: NamedDependency[Catalogue],
    request: Request[Any, Any, Any],
    data: Annotated[WhichVersion | None, BodyKwarg(examples=_EXAMPLES)] = None,
) -> ScriptListed:
    """No new session begins with this version, or with the script at all; sessions that run it go on."""
    version = data.version if data is not None else None
    return listed(await catalogue.archive(tenant_of(request), script_id, version))


@patch("/scripts/{script_id:str}", summary="Say something else of a script", responses=_WRITTEN)
async def patch_script(
    script_id: FromPath[str],
    data: Annotated[ScriptPatch, BodyKwarg(examples=_PATCH)],
    catalogue: NamedDependency[Catalogue],
    request: Request[Any, Any, Any],
) -> ScriptListed:
    """Its name, tags, author or description, in all its versions; the text stays."""
    changes = ScriptChanges(name=data.script_name, tags=data.tags, author=data.author, description=data.description)
    return listed(await catalogue.describe(tenant_of(request), script_id, changes))


HANDLERS = (list_versions, get_version, diff_versions, publish_version, archive_version, patch_script)
"""For the router of scripts: one path has one."""
