"""Routes that export and import sessions."""

from collections.abc import Mapping
from typing import Annotated

from litestar import Response, Router, get
from litestar.openapi.spec import OpenAPIType, Schema
from litestar.params import QueryParameter
from litestar.response import Stream

from api.auth.principal import masks, user_for
from api.errors import refusing
from api.http.files import answering, taking
from api.http.openapi import EXAMPLES
from api.http.request import JSON, KEY_CHARS_MAX, TAKES, ApiRequest, Masked, SessionId, also, creating, query
from api.replay.recorded_session import ReplaySource, SessionUnknown, find_session
from api.replay.replay_session import NotRepeatable
from api.replay.session_case import case_file_name, session_case
from api.schemas.session_lists import FORMATS, MEDIA_TYPES, Format, ImportView, SessionCase
from api.transfer.document_reader import Kind
from api.transfer.session_export import export
from api.transfer.session_import import ImportOptions
from scripts.model.base import ID_CHARS_MAX

KINDS: Mapping[str, Kind] = {
    JSON: "json",
    "application/x-ndjson": "jsonl",
    "application/yaml": "yaml",
    "text/yaml": "yaml",
}
"""Descriptions of documents by media type."""


def _schema_of(media_type: str) -> Schema:
    is_object = media_type == JSON or "yaml" in media_type
    return Schema(type=OpenAPIType.OBJECT if is_object else OpenAPIType.STRING)


_EXPORTED = {each: _schema_of(each) for each in MEDIA_TYPES.values()}
_DOCUMENT = Schema(type=OpenAPIType.OBJECT, examples=EXAMPLES["session_document"])
_IMPORTED = {each: _schema_of(each) for each in KINDS} | {JSON: _DOCUMENT}


@get(
    "/sessions/{sessionId:str}/export", summary="Export a session", operation_class=answering("The session.", _EXPORTED)
)
async def export_session(
    session_id: SessionId,
    request: ApiRequest,
    form: Annotated[Format, query("format", f"One of {', '.join(FORMATS)}.")] = "json",
    masked: Masked = None,
) -> Stream:
    """`json` and `yaml` contain everything that is needed to continue, and can be imported; `jsonl`, `markdown` and
    `txt` contain the messages. None of them contains a secret of the server. A masked document has names in place of
    personal values (`pii`) and no state; it is for reading only and cannot be imported. A caller without the role
    `reader` or `admin` gets the masked document.
    """
    services, is_masked = request.services, masks(request.principal, masked)
    document = await export(
        services.turn_runner, services.catalog, request.tenant, session_id, form, is_masked=is_masked
    )
    headers = {"Content-Disposition": f'attachment; filename="{document.file_name}"'}
    return Stream(document.pieces, media_type=document.media_type, headers=headers)


def _name(name: str, description: str) -> QueryParameter:
    return query(name, description, min_length=1, max_length=ID_CHARS_MAX)


@creating(
    "/sessions/import",
    "Import a session",
    "the session",
    operation_class=taking("The document.", _IMPORTED),
    opt={TAKES: tuple(KINDS)},
    responses=also(200, ImportView, "A session was replaced, or a dry run."),
)
async def import_session(
    request: ApiRequest,
    user_id: Annotated[str | None, _name("userId", "The user of the imported session.")] = None,
    key: Annotated[str | None, _name("key", "The key of the imported session instead of its own.")] = None,
    file_name: Annotated[str, query("fileName", "The name of the file.", max_length=KEY_CHARS_MAX)] = "",
    path: Annotated[
        str, query("path", "The keys that lead to the session in the document.", max_length=KEY_CHARS_MAX)
    ] = "",
    replace: Annotated[bool, query("replace", "Replace an existing session.")] = False,
    copy: Annotated[bool, query("copy", "Import a copy with a new id.")] = False,
    dry_run: Annotated[bool, query("dryRun", "Return the result without a change.")] = False,
) -> Response[ImportView]:
    """A document of `export` (JSON or YAML) becomes the same session under its own id. Conversations of nanobot (JSON
    lines), of Agently (JSON or YAML) and exported JSON lines become sessions of the script for free conversation. The
    import is complete or changes nothing; lines that cannot be read are listed in `skipped`.
    """
    options = ImportOptions(
        kind=KINDS.get(request.content_type[0], "json"),
        user_id=user_for(request, user_id),
        key=key,
        file_name=file_name,
        path=path,
        replace=replace,
        copy=copy,
        dry_run=dry_run,
        bound_to=request.principal.user_id,
    )
    found = await request.services.session_importer.load(request.tenant, await request.body(), options)
    if dry_run:
        return Response(found, status_code=200)
    headers = {"Location": f"/api/sessions/{found.session_id}"}
    return Response(found, status_code=200 if found.replaced else 201, headers=headers)


@get("/sessions/{sessionId:str}/case", summary="Write a session as a test case")
async def get_session_case(session_id: SessionId, request: ApiRequest) -> SessionCase:
    """Return a case file that repeats the session: what the user did, what was said, and the replies of models and
    tools. A session that an application changed or that was migrated cannot be repeated.
    """
    services = request.services
    settings, contexts = services.settings, services.turn_runner.contexts
    source = ReplaySource(services.store, services.catalog, settings.limits, contexts, settings.timezone)
    at = {"sessionId": session_id}
    with (
        refusing("REQUEST_INVALID", NotRepeatable, context=at),
        refusing("SESSION_NOT_FOUND", SessionUnknown, context=at),
    ):
        session = await find_session(source, request.tenant, session_id)
        text = await session_case(session)
    return SessionCase(file_name=case_file_name(session), yaml_content=text)


exports = Router("/api", route_handlers=[export_session, get_session_case], tags=["Sessions"])
imports = Router("/api", route_handlers=[import_session], tags=["Sessions"])
"""The route that accepts documents, which may be larger than other bodies."""
