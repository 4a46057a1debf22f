"""Sessions out of the record and into it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from litestar import Request, Router, get, post
from litestar.di import NamedDependency
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIResponse, OpenAPIType, Operation, RequestBody, Schema
from litestar.params import FromPath, QueryParameter
from litestar.response import Stream

from api.caller import caller_of, masks, tenant_of, user_for
from api.catalogue import Catalogue
from api.errors import described
from api.parameters import KEY_CHARS_MAX, Masked
from api.routes.media import JSON, TAKES
from api.running import Running
from api.schemas.transfers import ImportView, SkippedView
from api.transfer.exporting import FORMATS, MEDIA_TYPES, Format, export
from api.transfer.importing import Imported, Importing, Wanted
from api.transfer.reading import Kind
from scripts.nodes import ID_CHARS_MAX

KINDS: Mapping[str, Kind] = {
    JSON: "json",
    "application/x-ndjson": "jsonl",
    "application/yaml": "yaml",
    "text/yaml": "yaml",
}
"""What a document is, by its media type."""


_AGENTLY = {"id": "greeting", "full_chat_history": [{"role": "user", "content": "Hello"}]}


def _described(media_type: str) -> Schema:
    whole = media_type == JSON or "yaml" in media_type
    return Schema(type=OpenAPIType.OBJECT if whole else OpenAPIType.STRING)


@dataclass
class _Exported(Operation):
    """A document in one of several forms."""

    def __post_init__(self) -> None:
        content = {each: OpenAPIMediaType(_described(each)) for each in MEDIA_TYPES}
        if self.responses is not None:
            self.responses["200"] = OpenAPIResponse("The session.", content=content)


@dataclass
class _Imported(Operation):
    """A document of one of several kinds."""

    def __post_init__(self) -> None:
        content = {each: OpenAPIMediaType(_described(each)) for each in KINDS}
        content[JSON] = OpenAPIMediaType(Schema(type=OpenAPIType.OBJECT, examples=[_AGENTLY]))
        self.request_body = RequestBody(content, description="The document.", required=True)


@get(
    "/sessions/{session_id:str}/export",
    summary="Export a session",
    operation_class=_Exported,
    description="`json` and `yaml` hold everything that is needed to go on, and are what can be imported as it was; "
    "`jsonl`, `markdown` and `txt` hold what was said. None of them holds a secret of the server's. Masked, there are "
    "names in the place of personal values (`pii`), and no state; such a document is for reading alone. "
    "Whoever has neither the role `reader` nor `admin` gets it so.",
    responses=described(
        "REQUEST_INVALID", "SESSION_NOT_FOUND", "SESSION_TEXT_DROPPED", "SCRIPT_NOT_FOUND", "SERVER_BUSY"
    ),
)
async def export_session(
    session_id: FromPath[str],
    running: NamedDependency[Running],
    catalogue: NamedDependency[Catalogue],
    request: Request[Any, Any, Any],
    form: Annotated[Format, QueryParameter(name="format", description=f"One of {', '.join(FORMATS)}.")] = "json",
    masked: Masked = None,
) -> Stream:
    """A session as a document."""
    is_masked = masks(caller_of(request), masked)
    document = await export(running, catalogue, tenant_of(request), session_id, form, is_masked=is_masked)
    headers = {"Content-Disposition": f'attachment; filename="{document.file_name}"'}
    return Stream(document.pieces, media_type=document.media_type, headers=headers)


def _name(name: str, description: str) -> QueryParameter:
    return QueryParameter(name=name, required=False, min_length=1, max_length=ID_CHARS_MAX, description=description)


@post(
    "/sessions/import",
    status_code=200,
    summary="Import a session",
    operation_class=_Imported,
    opt={TAKES: tuple(KINDS)},
    description="A document of `export` (JSON or YAML) becomes the session it was, under its own id. Conversations of "
    "nanobot (JSON lines), of Agently (JSON or YAML) and exported JSON lines "
    "become sessions of the script for free conversation. All of it is imported or nothing; lines that cannot be read "
    "are told of in `skipped`.",
    responses=described(
        "REQUEST_INVALID",
        "UNSUPPORTED_MEDIA_TYPE",
        "PAYLOAD_TOO_LARGE",
        "SESSION_EXISTS",
        "SESSION_KEY_TAKEN",
        "SESSION_BUSY",
        "DOCUMENT_INVALID",
        "SERVER_BUSY",
    ),
)
async def import_session(
    importing: NamedDependency[Importing],
    request: Request[Any, Any, Any],
    user_id: Annotated[str | None, _name("userId", "Whose it becomes.")] = None,
    key: Annotated[str | None, _name("key", "The key it gets instead of its own.")] = None,
    file_name: Annotated[
        str, QueryParameter(name="fileName", max_length=KEY_CHARS_MAX, description="What the file is called.")
    ] = "",
    path: Annotated[
        str,
        QueryParameter(name="path", max_length=KEY_CHARS_MAX, description="Keys that lead to it."),
    ] = "",
    replace: Annotated[bool, QueryParameter(name="replace", description="In the place of what is there.")] = False,
    copy: Annotated[bool, QueryParameter(name="copy", description="Give it an id of its own.")] = False,
    dry_run: Annotated[bool, QueryParameter(name="dryRun", description="Change nothing, only say.")] = False,
) -> ImportView:
    """Imports a document."""
    content, caller = await request.body(), caller_of(request)
    wanted = Wanted(
        kind=KINDS.get(request.content_type[0], "json"),
        user_id=user_for(request, user_id),
        key=key,
        file_name=file_name,
        path=path,
        replace=replace,
        copy=copy,
        dry_run=dry_run,
        bound_to=caller.user_id,
    )
    return _view(await importing.load(caller.tenant, content, wanted), dry_run=dry_run)


def _view(found: Imported, *, dry_run: bool) -> ImportView:
    session = found.session
    return ImportView(
        session_id=session.session_id,
        user_id=session.user_id,
        key=session.key,
        format=found.format,
        script_id=session.script_id,
        script_version=found.script_version,
        turns=found.turns,
        messages=found.messages,
        replaced=found.replaced,
        dry_run=dry_run,
        skipped=[SkippedView(line=each.line, reason=each.reason) for each in found.skipped],
        skipped_count=found.skipped_count,
        remarks=found.remarks,
    )


exports = Router("/api", route_handlers=[export_session], tags=["Sessions"])


def imports(bytes_max: int) -> Router:
    """The route that takes documents, which may be larger than other bodies."""
    return Router("/api", route_handlers=[import_session], tags=["Sessions"], request_max_body_size=bytes_max)
