"""Scripts: create, import, list, get, validate."""

import asyncio
from typing import Annotated, Any, Literal

from litestar import Request, Response, Router, get, post
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg, FromPath, QueryParameter

from api.caller import tenant_of
from api.catalogue import Catalogue, Saved
from api.errors import described
from api.parameters import Cursor, Limit
from api.problems import problem_views
from api.routes import script_versions
from api.schemas.scripts import NewScript, ScriptList, ScriptToValidate, ScriptView, Validation
from api.script_views import listed, view
from scripts.model import FormName
from scripts.parse import Reading, Source, read_script
from store.record import Record
from store.script_texts import ScriptFilter

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
_EXAMPLES = [Example(value={"yamlContent": _YAML, "scriptName": "Hello"})]
_KEPT = described(
    "REQUEST_INVALID", "SCRIPT_PARSE_ERROR", "SCRIPT_VALIDATION_ERROR", "PAYLOAD_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE"
) | {200: ResponseSpec(ScriptView, generate_examples=False, description="This very text was kept before.")}

Strict = Annotated[bool, QueryParameter(name="strict", description="Older and unknown keys are errors.")]


@post("/scripts", status_code=201, summary="Keep a script, strictly", responses=_KEPT)
async def create_script(
    data: Annotated[NewScript, BodyKwarg(examples=_EXAMPLES)],
    catalogue: NamedDependency[Catalogue],
    request: Request[Any, Any, Any],
) -> Response[ScriptView]:
    """Keeps a script of today's form; older keys are errors."""
    return _saved(await catalogue.save(tenant_of(request), data, "strict"))


@post("/scripts/import", status_code=201, summary="Import a script, older forms included", responses=_KEPT)
async def import_script(
    request: Request[Any, Any, Any],
    data: Annotated[NewScript, BodyKwarg(examples=_EXAMPLES)],
    catalogue: NamedDependency[Catalogue],
    strict: Strict = False,
) -> Response[ScriptView]:
    """Keeps a script; what is older in it is translated, and its warnings are in the answer."""
    return _saved(await catalogue.save(tenant_of(request), data, "strict" if strict else "compat"))


@get("/scripts", summary="List scripts", responses=described("REQUEST_INVALID"))
async def list_scripts(
    record: NamedDependency[Record],
    request: Request[Any, Any, Any],
    status: Annotated[
        Literal["draft", "published", "archived"] | None,
        QueryParameter(name="status", required=False, description="Of each the latest version that has it."),
    ] = None,
    search: Annotated[
        str | None,
        QueryParameter(name="search", required=False, max_length=200, description="In id, name, description, author."),
    ] = None,
    within: Annotated[
        Literal["about", "text"], QueryParameter(name="in", description="`text`: search in the YAML as well.")
    ] = "about",
    tag: Annotated[str | None, QueryParameter(name="tag", required=False)] = None,
    author: Annotated[str | None, QueryParameter(name="author", required=False)] = None,
    form: Annotated[
        FormName | None, QueryParameter(name="form", required=False, description="The form it is written in.")
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> ScriptList:
    """A page of scripts, the last changed first."""
    which = ScriptFilter(status=status, search=search, in_texts=within == "text", tag=tag, author=author, form=form)
    page = await record.scripts(tenant_of(request), which, limit=limit, cursor=cursor)
    return ScriptList(data=[listed(row) for row in page.rows], next_cursor=page.next)


@get("/scripts/{script_id:str}", summary="Read a script", responses=described("REQUEST_INVALID", "SCRIPT_NOT_FOUND"))
async def get_script(
    script_id: FromPath[str], catalogue: NamedDependency[Catalogue], request: Request[Any, Any, Any]
) -> ScriptView:
    """A script by its uuid or its own id, in the version new sessions begin with, else the latest."""
    row = await catalogue.find(tenant_of(request), script_id)
    return view(row, await catalogue.reading(row))


@post(
    "/scripts/validate",
    status_code=200,
    summary="Look at a script without keeping it",
    responses=described("REQUEST_INVALID", "PAYLOAD_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE"),
)
async def validate_script(
    data: Annotated[ScriptToValidate, BodyKwarg(examples=[Example(value={"yamlContent": _YAML})])],
    strict: Strict = False,
) -> Validation:
    """Every problem of a script, with its place and what mends it."""
    source = Source(data.yaml_content, "", data.files)
    return _validation(await asyncio.to_thread(read_script, source, "strict" if strict else "compat"))


@post(
    "/scripts/{script_id:str}/validate",
    status_code=200,
    summary="Look at a kept script again",
    responses=described("REQUEST_INVALID", "SCRIPT_NOT_FOUND"),
)
async def validate_kept_script(
    script_id: FromPath[str], catalogue: NamedDependency[Catalogue], request: Request[Any, Any, Any]
) -> Validation:
    """Every problem of a kept script."""
    return _validation(await catalogue.reading(await catalogue.find(tenant_of(request), script_id)))


def _validation(reading: Reading) -> Validation:
    return Validation(valid=reading.script is not None, diagnostics=list(problem_views(reading.problems)))


def _saved(saved: Saved) -> Response[ScriptView]:
    shown = view(saved.row, saved.reading)
    location = f"/api/scripts/{saved.row.script_uuid}"
    return Response(shown, status_code=201 if saved.new else 200, headers={"Location": location})


router = Router(
    "/api",
    route_handlers=[
        create_script,
        import_script,
        list_scripts,
        get_script,
        validate_script,
        validate_kept_script,
        *script_versions.HANDLERS,
    ],
    tags=["Scripts"],
)
