"""Routes that export and import memories as files."""

import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import IO, Annotated

import msgspec
from litestar import Router, get, post
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIResponse, OpenAPIType, Operation, RequestBody, Schema
from litestar.params import QueryParameter
from litestar.response import Stream

from api.auth.principal import check_trust_level, memory_of
from api.errors import described
from api.http.request import TAKES, ApiRequest
from api.http.routes.memory_units import DATABASE_ERRORS, OfMemory
from api.memory.transfers.import_memory import ImportOptions, OnTaken
from api.memory.transfers.memory_document import MEDIA_TYPES, Form
from api.schemas.memory_work import MemoryImportView

FORMS: Mapping[str, Form] = {media_type: form for form, media_type in MEDIA_TYPES.items()}
CHUNK_BYTES = 262_144

_MOVED = {
    "format": "cuebook.memory",
    "version": 1,
    "memory_id": "5f0c1a52-6c55-4b7e-9d6e-0c1f7f3f7a11",
    "embedder": None,
    "groups": [{"group_id": "diary", "created_at": "2026-05-08T10:00:00Z"}],
    "units": [
        {
            "unit_id": "moved",
            "sequence": 1,
            "group_id": "diary",
            "content": "I have moved to Lisbon.",
            "source": "Ana",
            "creation_time": "2026-05-08T10:00:00Z",
            "end_time": "2026-05-08T10:00:00Z",
            "last_visit": 1,
            "trust": "conversation",
            "valid_from": "2026-05-08T10:00:00Z",
        }
    ],
}


def _content() -> dict[str, OpenAPIMediaType]:
    binary = Schema(type=OpenAPIType.STRING, content_media_type="application/octet-stream")
    return {
        media_type: OpenAPIMediaType(Schema(type=OpenAPIType.OBJECT, examples=[_MOVED]) if form == "json" else binary)
        for form, media_type in MEDIA_TYPES.items()
    }


@dataclass
class _Exported(Operation):
    """Describe a response with a file in one of several formats."""

    def __post_init__(self) -> None:
        if self.responses is not None:
            self.responses["200"] = OpenAPIResponse("The memory.", content=_content())


@dataclass
class _Imported(Operation):
    """Describe a request with a file in one of several formats."""

    def __post_init__(self) -> None:
        self.request_body = RequestBody(_content(), description="The file.", required=True)


@get(
    "/memory/export",
    summary="Export a memory",
    operation_class=_Exported,
    description="All units with their content and links, in order; with `vectors` also the vectors of the server's "
    "embedder.",
    responses=described("MEMORY_NOT_FOUND", *DATABASE_ERRORS),
)
async def export_memory(
    request: ApiRequest,
    user_id: OfMemory,
    form: Annotated[Form, QueryParameter(name="format", description=f"One of {', '.join(MEDIA_TYPES)}.")] = "json",
    vectors: Annotated[bool, QueryParameter(name="vectors", description="Also the vectors.")] = False,
) -> Stream:
    """Return a memory as a file."""
    owner = memory_of(request, user_id)
    file = await request.services.memory_transfer.export_to(*owner, form, vectors=vectors)
    headers = {
        "Content-Disposition": f'attachment; filename="memory.{form}"',
        "Content-Length": str(os.fstat(file.fileno()).st_size),
    }
    return Stream(_pieces(file), media_type=MEDIA_TYPES[form], headers=headers)


async def _pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    """Yield the content of a file; it was just written and therefore is in the page cache."""
    with file:
        while piece := file.read(CHUNK_BYTES):
            yield piece


@post(
    "/memory/import",
    status_code=200,
    summary="Import a memory",
    operation_class=_Imported,
    opt={TAKES: tuple(FORMS)},
    description="A file of `export`, or an SQLite database of MemForest, becomes part of a user's memory, completely "
    "or not at all. Its units are appended in order, in collections. Their trust levels are imported only with "
    "`trusted`; else all units are foreign.",
    responses=described(
        "UNSUPPORTED_MEDIA_TYPE",
        "PAYLOAD_TOO_LARGE",
        "MEMORY_UNIT_EXISTS",
        "DOCUMENT_INVALID",
        *DATABASE_ERRORS,
    ),
)
async def import_memory(
    request: ApiRequest,
    user_id: OfMemory,
    on_taken: Annotated[
        OnTaken,
        QueryParameter(
            name="onTaken", description="If ids exist already: `refuse` the file, or `rename` the imported ids."
        ),
    ] = "refuse",
    trusted: Annotated[
        bool, QueryParameter(name="trusted", description="Import the trust levels of the file.")
    ] = False,
    dry_run: Annotated[bool, QueryParameter(name="dryRun", description="Return the result without a change.")] = False,
) -> MemoryImportView:
    """Return the result of the import."""
    owner = memory_of(request, user_id)
    if trusted:
        check_trust_level(request)
    form = FORMS.get(request.content_type[0], "json")
    options = ImportOptions(on_taken=on_taken, is_trusted=trusted, dry_run=dry_run)
    result = await request.services.memory_transfer.import_from(*owner, await request.body(), form, options)
    return MemoryImportView(**msgspec.structs.asdict(result), dry_run=dry_run)


exports = Router("/api", route_handlers=[export_memory], tags=["Memory"])


def imports(bytes_max: int) -> Router:
    """Return the route that accepts files, which may be larger than other bodies."""
    return Router("/api", route_handlers=[import_memory], tags=["Memory"], request_max_body_size=bytes_max)
