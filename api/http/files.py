"""Routes that answer with files, or take them: the answer, and the OpenAPI descriptions of both."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import IO

from litestar.openapi.spec import (
    OpenAPIHeader,
    OpenAPIMediaType,
    OpenAPIResponse,
    OpenAPIType,
    Operation,
    Reference,
    RequestBody,
    Schema,
)
from litestar.response import Stream

CHUNK_BYTES = 1 << 20


def describing(describe: Callable[[Operation], None]) -> type[Operation]:
    """Return a kind of operation whose description `describe` completes."""

    @dataclass
    class Described(Operation):
        def __post_init__(self) -> None:
            describe(self)

    return Described


def answering(
    about: str, content: Mapping[str, Schema], *, or_json: bool = False, headers: Mapping[str, str] | None = None
) -> type[Operation]:
    """Return an operation whose response is a file of one of these media types, or the JSON of its route, with these
    headers and their meanings.
    """
    text = Schema(type=OpenAPIType.STRING)
    named: dict[str, OpenAPIHeader | Reference] = {
        name: OpenAPIHeader(schema=text, description=meaning) for name, meaning in (headers or {}).items()
    }

    def describe(operation: Operation) -> None:
        if operation.responses is not None:
            documented = operation.responses["200"]
            media_types = _media_types(content)
            if or_json and isinstance(documented, OpenAPIResponse) and documented.content:
                media_types = {**documented.content, **media_types}
            operation.responses["200"] = OpenAPIResponse(about, content=media_types, headers=named or None)

    return describing(describe)


def taking(about: str, content: Mapping[str, Schema]) -> type[Operation]:
    """Return an operation whose request body is a file of one of these media types."""

    def describe(operation: Operation) -> None:
        operation.request_body = RequestBody(_media_types(content), description=about, required=True)

    return describing(describe)


def _media_types(content: Mapping[str, Schema]) -> dict[str, OpenAPIMediaType]:
    return {media_type: OpenAPIMediaType(schema) for media_type, schema in content.items()}


def download(file: IO[bytes], name: str, media_type: str) -> Stream:
    """Return an answer with an open file, which is closed at the end or when the client disconnects."""
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Length": str(os.fstat(file.fileno()).st_size),
    }
    return Stream(_pieces(file), media_type=media_type, headers=headers)


async def _pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    with file:
        while piece := await asyncio.to_thread(file.read, CHUNK_BYTES):
            yield piece
