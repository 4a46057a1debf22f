"""Routes for scripts: create, import, list, read, validate."""

import asyncio
from typing import Annotated, Literal

from litestar import Response, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg, QueryParameter

from api.catalog.catalog import SavedScript
from api.catalog.script_views import list_entry, problem_views, view
from api.errors import described
from api.http.request import ApiRequest, Cursor, Limit, ScriptId, location
from api.schemas.scripts import NewScript, ScriptList, ScriptToValidate, ScriptView, Validation
from scripts.model.script import FormName
from scripts.parse.read_script import Reading, Source, read_script
from store.interface.list_rows import ScriptFilter

_YAML = """\
script: hello
phases:
  - phase: main
    topics:
      - topic: greeting
        actions:
          - ask: What is your name?
            id: ask_name
            output: [{get: name}]
          - say: "Hello, {{ name }}!"
            id: greet
"""
_LOCATION = location("The URL of the script.")
_EXAMPLES = [Example(value={"yamlContent": _YAML, "scriptName": "Hello"})]
_SAVE_RESPONSES = {
    200: ResponseSpec(ScriptView, generate_examples=False, description="The same text was saved before."),
    **described("SCRIPT_PARSE_ERROR", "SCRIPT_VALIDATION_ERROR"),
}

Strict = Annotated[bool, QueryParameter(name="strict", description="Older and unknown keys are errors.")]


@post("/scripts", status_code=201, summary="Save a script", response_headers=[_LOCATION], responses=_SAVE_RESPONSES)
async def create_script(
    data: Annotated[NewScript, BodyKwarg(examples=_EXAMPLES)], request: ApiRequest
) -> Response[ScriptView]:
    """Store a script in the current format; older keys are errors."""
    return _saved(await request.services.catalog.save(request.tenant, data, "strict"))


@post(
    "/scripts/import",
    status_code=201,
    summary="Import a script",
    response_headers=[_LOCATION],
    responses=_SAVE_RESPONSES,
)
async def import_script(
    request: ApiRequest, data: Annotated[NewScript, BodyKwarg(examples=_EXAMPLES)], strict: Strict = False
) -> Response[ScriptView]:
    """Store a script; older keys are translated, and the response contains the warnings."""
    return _saved(await request.services.catalog.save(request.tenant, data, "strict" if strict else "compat"))


@get("/scripts", summary="List scripts")
async def list_scripts(
    request: ApiRequest,
    status: Annotated[
        Literal["draft", "published", "archived"] | None,
        QueryParameter(description="The latest version of each script with this status."),
    ] = None,
    search: Annotated[
        str | None, QueryParameter(max_length=200, description="In id, name, description, author.")
    ] = None,
    within: Annotated[
        Literal["about", "text"], QueryParameter(name="in", description="`text`: search in the YAML as well.")
    ] = "about",
    tag: Annotated[str | None, QueryParameter(description="Scripts with this tag.")] = None,
    author: Annotated[str | None, QueryParameter(description="Scripts of this author.")] = None,
    form: Annotated[FormName | None, QueryParameter(description="The form in which the script is written.")] = None,
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
async def validate_script(
    data: Annotated[ScriptToValidate, BodyKwarg(examples=[Example(value={"yamlContent": _YAML})])],
    strict: Strict = False,
) -> Validation:
    """Return every problem of a script, with its position and fix."""
    source = Source(data.yaml_content, "", data.files)
    return _validation(await asyncio.to_thread(read_script, source, "strict" if strict else "compat"))


@post("/scripts/{scriptId:str}/validate", status_code=200, summary="Validate a saved script")
async def validate_saved_script(script_id: ScriptId, request: ApiRequest) -> Validation:
    """Return every problem of a stored script."""
    catalog = request.services.catalog
    return _validation(await catalog.reading(await catalog.find(request.tenant, script_id)))


def _validation(reading: Reading) -> Validation:
    return Validation(valid=reading.script is not None, diagnostics=problem_views(reading.problems))


def _saved(saved: SavedScript) -> Response[ScriptView]:
    body = view(saved.row, saved.reading)
    location = f"/api/scripts/{saved.row.script_uuid}"
    return Response(body, status_code=201 if saved.new else 200, headers={"Location": location})
