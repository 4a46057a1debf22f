"""Routes that export and import memories as files."""

from collections.abc import Mapping
from typing import Annotated

from litestar import Router, get, post
from litestar.openapi.spec import OpenAPIType, Schema
from litestar.response import Stream

from api.auth.principal import check_trust_level, memory_of
from api.http.files import answering, download, taking
from api.http.openapi import EXAMPLES
from api.http.request import JSON, TAKES, ApiRequest, query
from api.http.routes.memory_units import OfMemory
from api.memory.transfer import export_file, import_file
from api.memory.transfers.memory_document import MEDIA_TYPES, Form
from api.schemas.memory_work import MemoryImportView

FORMS: Mapping[str, Form] = {media_type: form for form, media_type in MEDIA_TYPES.items()}

_BINARY = Schema(type=OpenAPIType.STRING, content_media_type="application/octet-stream")
_DOCUMENT = Schema(type=OpenAPIType.OBJECT, examples=EXAMPLES["memory_file"])
_FILES = dict.fromkeys(MEDIA_TYPES.values(), _BINARY) | {JSON: _DOCUMENT}


@get("/memory/export", summary="Export a memory", operation_class=answering("The memory.", _FILES))
async def export_memory(
    request: ApiRequest,
    user_id: OfMemory,
    form: Annotated[Form, query("format", f"One of {', '.join(MEDIA_TYPES)}.")] = "json",
    vectors: Annotated[bool, query("vectors", "Also the vectors.")] = False,
) -> Stream:
    """All units with their content and links, in order; with `vectors` also the vectors of the server's embedder. Units
    that the status of the memory counts as `withoutVector` have none yet; the server that imports them computes it.
    """
    memory = request.services.memory_system
    file = await export_file(memory, *memory_of(request, user_id), form, vectors=vectors)
    return download(file, f"memory.{form}", MEDIA_TYPES[form])


@post(
    "/memory/import",
    status_code=200,
    summary="Import a memory",
    operation_class=taking("The file.", _FILES),
    opt={TAKES: tuple(FORMS)},
)
async def import_memory(
    request: ApiRequest,
    user_id: OfMemory,
    trusted: Annotated[bool, query("trusted", "Import the trust levels of the file.")] = False,
    dry_run: Annotated[bool, query("dryRun", "Return the result without a change.")] = False,
) -> MemoryImportView:
    """A file of `export`, or an SQLite database of MemForest, becomes part of a user's memory, completely or not at
    all. Its units are appended in order, in collections. Their trust levels are imported only with `trusted`; else all
    units are foreign.
    """
    owner = memory_of(request, user_id)
    if trusted:
        check_trust_level(request)
    form = FORMS.get(request.content_type[0], "json")
    content = await request.body()
    memory = request.services.memory_system
    return await import_file(memory, *owner, content, form, is_trusted=trusted, dry_run=dry_run)


exports = Router("/api", route_handlers=[export_memory], tags=["Memory"])
imports = Router("/api", route_handlers=[import_memory], tags=["Memory"])
"""The route that accepts files, which may be larger than other bodies."""
