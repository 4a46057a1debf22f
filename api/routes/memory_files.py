"""Memories out of the record as files, and into it."""

import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import IO, Annotated, Any

from litestar import Request, Router, get, post
from litestar.di import NamedDependency
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIResponse, OpenAPIType, Operation, RequestBody, Schema
from litestar.params import QueryParameter
from litestar.response import Stream

from api.caller import check_vouches, memory_of
from api.errors import described
from api.memory.carrying import Bringing, Carrying
from api.memory.transfers.document import Form
from api.memory.transfers.importing import OnTaken
from api.routes.media import JSON, TAKES
from api.routes.memory_units import OfMemory
from api.schemas.memory_care import BroughtView

MEDIA_TYPES: Mapping[Form, str] = {
    "json": JSON,
    "parquet": "application/vnd.apache.parquet",
    "sqlite": "application/vnd.sqlite3",
}
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
            "trust": "told",
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
    """A file in one of several forms."""

    def __post_init__(self) -> None:
        if self.responses is not None:
            self.responses["200"] = OpenAPIResponse("The memory.", content=_content())


@dataclass
class _Imported(Operation):
    """A file of one of several forms."""

    def __post_init__(self) -> None:
        self.request_body = RequestBody(_content(), description="The file.", required=True)


@get(
    "/memory/export",
    summary="Export a memory",
    operation_class=_Exported,
    description="All units with their words and links, in their order; with `vectors` also what the server's embedder "
    "made of them.",
    responses=described("REQUEST_INVALID", "MEMORY_NOT_FOUND", "DATABASE_ERROR", "SERVER_BUSY"),
)
async def export_memory(
    carrying: NamedDependency[Carrying],
    request: Request[Any, Any, Any],
    user_id: OfMemory = None,
    form: Annotated[Form, QueryParameter(name="format", description=f"One of {', '.join(MEDIA_TYPES)}.")] = "json",
    vectors: Annotated[bool, QueryParameter(name="vectors", description="Also the vectors.")] = False,
) -> Stream:
    """A memory as a file."""
    file = await carrying.out(*memory_of(request, user_id), form, vectors=vectors)
    headers = {
        "Content-Disposition": f'attachment; filename="memory.{form}"',
        "Content-Length": str(os.fstat(file.fileno()).st_size),
    }
    return Stream(_pieces(file), media_type=MEDIA_TYPES[form], headers=headers)


async def _pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    """What is in a file that was just written, so that it is in the cache of the system."""
    with file:
        while piece := file.read(CHUNK_BYTES):
            yield piece


@post(
    "/memory/import",
    status_code=200,
    summary="Import a memory",
    operation_class=_Imported,
    opt={TAKES: tuple(FORMS)},
    description="A file of `export`, or an SQLite database of MemForest, becomes part of a user's memory, all of it or "
    "nothing: its units come after those that are there, in their order, in collections. They are trusted as the file "
    "says only with `trusted`; else they are foreign.",
    responses=described(
        "REQUEST_INVALID",
        "UNSUPPORTED_MEDIA_TYPE",
        "PAYLOAD_TOO_LARGE",
        "MEMORY_UNIT_TAKEN",
        "DOCUMENT_INVALID",
        "DATABASE_ERROR",
        "SERVER_BUSY",
    ),
)
async def import_memory(
    carrying: NamedDependency[Carrying],
    request: Request[Any, Any, Any],
    user_id: OfMemory = None,
    on_taken: Annotated[
        OnTaken,
        QueryParameter(name="onTaken", description="What is done where ids are taken: `refuse`, or `rename` them."),
    ] = "refuse",
    trusted: Annotated[bool, QueryParameter(name="trusted", description="Trust it as the file says.")] = False,
    dry_run: Annotated[bool, QueryParameter(name="dryRun", description="Change nothing, only say.")] = False,
) -> BroughtView:
    """What came of it."""
    if trusted:
        check_vouches(request)
    how = Bringing(
        form=FORMS.get(request.content_type[0], "json"), on_taken=on_taken, is_trusted=trusted, dry_run=dry_run
    )
    found = await carrying.into(*memory_of(request, user_id), await request.body(), how)
    return BroughtView(
        units=found.units,
        groups=found.groups,
        vectors=found.vectors,
        embedder=found.embedder,
        renamed=found.renamed,
        left_out=found.left_out,
        dry_run=dry_run,
    )


exports = Router("/api", route_handlers=[export_memory], tags=["Memory"])


def imports(bytes_max: int) -> Router:
    """The route that takes files, which may be larger than other bodies."""
    return Router("/api", route_handlers=[import_memory], tags=["Memory"], request_max_body_size=bytes_max)
