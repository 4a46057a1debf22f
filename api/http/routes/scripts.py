"""Routes for scripts and their versions: create, import, list, read, validate, compare, publish, archive; and for
drafts, the texts that authors work on.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Literal, TypeVar

from litestar import Response, delete, get, patch, post, put
from litestar.params import FromPath, JSONBody

from api.catalog.catalog import SavedScript, unusable
from api.catalog.diff import diff
from api.catalog.outline import outline
from api.catalog.script_views import list_entry, problem_views, view
from api.errors import ApiError, invalid_field, refusing, require_found
from api.http.request import (
    PAGE_MAX,
    REVISION_ETAG,
    ApiRequest,
    Cursor,
    DraftId,
    IfRevision,
    Limit,
    ScriptId,
    also,
    creating,
    number,
    page_of,
    query,
    respond_at,
    revision_of,
)
from api.schemas.scripts import (
    CaseReport,
    DraftEntry,
    DraftList,
    DraftText,
    DraftView,
    NewScript,
    Outline,
    ScriptDiff,
    ScriptEntry,
    ScriptList,
    ScriptPatch,
    ScriptToTest,
    ScriptToValidate,
    ScriptView,
    Validation,
    VersionList,
    WhichVersion,
)
from api.testing.cases.script_cases import run_cases
from scripts.checks.identifier_checks import is_id
from scripts.graph.graph import build_graph
from scripts.model.script import FormName
from scripts.parse.read_script import Reading, Source, read_script
from store.interface.errors import RowConflict, RowRefused
from store.interface.list_rows import ScriptChanges, ScriptFilter
from store.interface.rows import DraftRow

T = TypeVar("T")
_SAVE_RESPONSES = also(200, ScriptView, "The same text was saved before.")

Strict = Annotated[bool, query("strict", "Older and unknown keys are errors.")]


@creating("/scripts", "Save a script", "the script", responses=_SAVE_RESPONSES)
async def create_script(data: JSONBody[NewScript], request: ApiRequest) -> Response[ScriptView]:
    """Store a script in the current format; older keys are errors."""
    return _script_response(await request.services.catalog.save(request.tenant, data, "strict"))


@creating("/scripts/import", "Import a script", "the script", responses=_SAVE_RESPONSES)
async def import_script(request: ApiRequest, data: JSONBody[NewScript], strict: Strict = False) -> Response[ScriptView]:
    """Store a script; older keys are translated, and the response contains the warnings."""
    return _script_response(await request.services.catalog.save(request.tenant, data, "strict" if strict else "compat"))


@get("/scripts", summary="List scripts")
async def list_scripts(
    request: ApiRequest,
    status: Annotated[
        Literal["draft", "published", "archived"] | None,
        query("status", "The latest version of each script with this status."),
    ] = None,
    search: Annotated[str | None, query("search", "In id, name, description, author.", max_length=200)] = None,
    within: Annotated[Literal["about", "text"], query("in", "`text`: search in the YAML as well.")] = "about",
    tag: Annotated[str | None, query("tag", "Scripts with this tag.")] = None,
    author: Annotated[str | None, query("author", "Scripts of this author.")] = None,
    form: Annotated[FormName | None, query("form", "The form in which the script is written.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> ScriptList:
    """Return a page of scripts, the last changed first."""
    which = ScriptFilter(status=status, search=search, in_texts=within == "text", tag=tag, author=author, form=form)
    page = await request.services.store.scripts.page(request.tenant, which, limit=limit, cursor=cursor)
    return ScriptList(data=[list_entry(row) for row in page.rows], next_cursor=page.next)


@get("/scripts/{scriptId:str}", summary="Read a script")
async def get_script(script_id: ScriptId, request: ApiRequest) -> ScriptView:
    """Return a script by its uuid or its own id, in the version that new sessions run, else the latest."""
    catalog = request.services.catalog
    row = await catalog.find(request.tenant, script_id)
    return view(row, await catalog.reading(row))


@post("/scripts/validate", status_code=200, summary="Validate a script")
async def validate_script(data: JSONBody[ScriptToValidate], strict: Strict = False) -> Validation:
    """Return every problem of a script, with its position and fix."""
    source = Source(data.yaml_content, "", data.files or {})
    return _validation(await asyncio.to_thread(read_script, source, "strict" if strict else "compat"))


@post("/scripts/outline", status_code=200, summary="Outline a script")
async def outline_script(data: JSONBody[ScriptToValidate]) -> Outline:
    """Return the phases, topics and actions of a script with their lines, and a picture of the ways between them."""
    reading = await asyncio.to_thread(read_script, Source(data.yaml_content, "", data.files or {}), "compat")
    if reading.script is None:
        raise unusable(reading.problems)
    script = reading.script
    return await asyncio.to_thread(lambda: outline(build_graph(script)))


@post("/scripts/test", status_code=200, summary="Test a script")
async def test_script(data: JSONBody[ScriptToTest]) -> CaseReport:
    """Run the cases in those files whose names end in `.case.yaml`, without a language model; nothing is stored."""
    reading = await asyncio.to_thread(read_script, Source(data.yaml_content, "", data.files or {}), "compat")
    if reading.script is None:
        raise unusable(reading.problems)
    return await asyncio.to_thread(run_cases, reading, reading.script, data.files or {})


@post("/scripts/{scriptId:str}/validate", status_code=200, summary="Validate a saved script")
async def validate_saved_script(script_id: ScriptId, request: ApiRequest) -> Validation:
    """Return every problem of a stored script."""
    catalog = request.services.catalog
    return _validation(await catalog.reading(await catalog.find(request.tenant, script_id)))


def _validation(reading: Reading) -> Validation:
    return Validation(valid=reading.script is not None, diagnostics=problem_views(reading.problems, reading.source))


def _script_response(saved: SavedScript) -> Response[ScriptView]:
    body = view(saved.row, saved.reading)
    location = f"/api/scripts/{saved.row.script_uuid}"
    return Response(body, status_code=201 if saved.new else 200, headers={"Location": location})


# -- versions ---------------------------------------------------------------------------------------------------------


@get("/scripts/{scriptId:str}/versions", summary="List the versions of a script")
async def list_versions(
    script_id: ScriptId, request: ApiRequest, limit: Limit = PAGE_MAX, cursor: Cursor = None
) -> VersionList:
    """Return a page of the last 1,000 versions, the latest first."""
    rows = await request.services.catalog.versions(request.tenant, script_id)
    return page_of(VersionList, list(map(list_entry, rows)), limit, cursor)


@get("/scripts/{scriptId:str}/versions/{version:int}", summary="Read a version of a script")
async def get_version(script_id: ScriptId, version: FromPath[int], request: ApiRequest) -> ScriptView:
    """Return a version: text, structure and problems."""
    catalog = request.services.catalog
    row = await catalog.version(request.tenant, script_id, version)
    return view(row, await catalog.reading(row))


@get("/scripts/{scriptId:str}/diff", summary="Compare two versions of a script")
async def diff_versions(
    script_id: ScriptId,
    request: ApiRequest,
    earlier: Annotated[int | None, number("from", "The default is the version before `to`.", 1)] = None,
    later: Annotated[int | None, number("to", "The default is the latest version.", 1)] = None,
) -> ScriptDiff:
    """Return the differences by line and by part, and the changes that sessions of the earlier version could miss."""
    return await diff(request.services.catalog, request.tenant, script_id, earlier, later)


@post("/scripts/{scriptId:str}/publish", status_code=200, summary="Publish a version of a script")
async def publish_version(
    script_id: ScriptId, request: ApiRequest, data: JSONBody[WhichVersion | None] = None
) -> ScriptEntry:
    """Publish a version, by default the latest: new sessions run it; later versions become drafts again."""
    version = data.version if data is not None else None
    return list_entry(await request.services.catalog.publish_version(request.tenant, script_id, version))


@post("/scripts/{scriptId:str}/archive", status_code=200, summary="Archive a script")
async def archive_version(
    script_id: ScriptId, request: ApiRequest, data: JSONBody[WhichVersion | None] = None
) -> ScriptEntry:
    """Archive a version or the whole script: no new session runs it; running sessions continue."""
    version = data.version if data is not None else None
    return list_entry(await request.services.catalog.archive(request.tenant, script_id, version))


@patch("/scripts/{scriptId:str}", summary="Update the description of a script")
async def patch_script(script_id: ScriptId, data: JSONBody[ScriptPatch], request: ApiRequest) -> ScriptEntry:
    """Change name, tags, author or description of a script in all its versions; the text does not change."""
    changes = ScriptChanges(name=data.script_name, tags=data.tags, author=data.author, description=data.description)
    return list_entry(await request.services.catalog.describe(request.tenant, script_id, changes))


@get("/drafts", summary="List drafts")
async def list_drafts(request: ApiRequest, limit: Limit = 50, cursor: Cursor = None) -> DraftList:
    """Return a page of drafts without their texts, the last saved first."""
    page = await request.services.store.scripts.drafts(request.tenant, limit=limit, cursor=cursor)
    return DraftList(data=[DraftEntry.of(row) for row in page.rows], next_cursor=page.next)


@get("/drafts/{draftId:str}", summary="Read a draft", response_headers=[REVISION_ETAG])
async def get_draft(draft_id: DraftId, request: ApiRequest) -> Response[DraftView]:
    """Return the unpublished changes of a script."""
    draft = _require_draft(await request.services.store.scripts.draft(request.tenant, draft_id), draft_id)
    return respond_at(draft.revision, DraftView.of(draft, yaml_content=draft.text))


@put("/drafts/{draftId:str}", summary="Save a draft", response_headers=[REVISION_ETAG])
async def save_draft(
    draft_id: DraftId, data: JSONBody[DraftText], request: ApiRequest, if_match: IfRevision = None
) -> Response[DraftEntry]:
    """Save the unpublished changes of a script, which may have errors. Running sessions and versions do not change."""
    if not is_id(draft_id):
        raise invalid_field("draftId", f"{draft_id!r} cannot be the id of a script")
    now = request.services.clock()
    draft = DraftRow(
        tenant=request.tenant,
        script_id=draft_id,
        revision=int(now.timestamp() * 1_000),
        base_version=data.base_version,
        text=data.yaml_content,
        files=data.files or {},
        created_at=now,
        updated_at=now,
    )
    with _refusing_conflict(), refusing("DRAFTS_FULL", RowRefused):
        saved = await request.services.store.scripts.save_draft(draft, revision_of(if_match))
    return respond_at(saved.revision, DraftEntry.of(saved))


@delete("/drafts/{draftId:str}", summary="Delete a draft")
async def delete_draft(draft_id: DraftId, request: ApiRequest, if_match: IfRevision = None) -> None:
    """Delete the unpublished changes of a script; its versions stay."""
    with _refusing_conflict():
        found = await request.services.store.scripts.delete_draft(request.tenant, draft_id, revision_of(if_match))
    _require_draft(found, draft_id)


@contextmanager
def _refusing_conflict() -> Iterator[None]:
    """Raise ApiError DRAFT_CONFLICT if the draft has another revision than the request names."""
    try:
        yield
    except RowConflict as conflict:
        message = f"the draft was changed meanwhile: {conflict}"
        raise ApiError("DRAFT_CONFLICT", message, context={"revision": conflict.actual}) from conflict


def _require_draft(found: T | None, draft_id: str) -> T:
    return require_found(found, "DRAFT_NOT_FOUND", f"there is no draft of {draft_id}")
