"""A session out of the record, piece by piece: a long one is never in memory as a whole."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from api.analytics.pseudonyms import pseudonym_of, salt_of
from api.catalogue import Catalogue
from api.errors import ApiError
from api.privacy.hidden import hidden_of
from api.running import Running
from api.transfer.as_json import json_pieces
from api.transfer.as_lines import line_pieces
from api.transfer.as_text import markdown_pieces, text_pieces
from api.transfer.as_yaml import yaml_pieces
from api.transfer.whole import Source, masked, open_source

Format: TypeAlias = Literal["json", "yaml", "jsonl", "markdown", "txt"]
FORMATS: tuple[Format, ...] = get_args(Format)


class Export(Struct, frozen=True):
    """A session on its way out."""

    media_type: str
    file_name: str
    pieces: AsyncIterator[bytes]


class _Form(Struct, frozen=True):
    """How a session is written down."""

    media_type: str
    ending: str
    pieces: Callable[[Source], AsyncIterator[bytes]]


_FORMS: Mapping[Format, _Form] = {
    "json": _Form("application/json", "json", json_pieces),
    "yaml": _Form("application/yaml", "yaml", yaml_pieces),
    "jsonl": _Form("application/x-ndjson", "jsonl", line_pieces),
    "markdown": _Form("text/markdown", "md", markdown_pieces),
    "txt": _Form("text/plain", "txt", text_pieces),
}

MEDIA_TYPES: tuple[str, ...] = tuple(form.media_type for form in _FORMS.values())


async def export(
    running: Running, catalogue: Catalogue, tenant: str, session_id: str, form: Format, *, is_masked: bool
) -> Export:
    """A session in a form. Raises ApiError SESSION_NOT_FOUND, SESSION_TEXT_DROPPED, SCRIPT_NOT_FOUND and others."""
    source = await open_source(running.record, tenant, session_id, running.clock())
    if source is None:
        raise ApiError("SESSION_NOT_FOUND", "Session not found", context={"sessionId": session_id})
    if is_masked:
        salt = await asyncio.to_thread(salt_of, running.settings.data, tenant)
        user_id = pseudonym_of(salt, source.start.user_id)
        source = masked(source, await hidden_of(running.record, catalogue, source.start), user_id)
    chosen = _FORMS[form]
    pieces = chosen.pieces(source)
    first = await anext(pieces, b"")  # what cannot be read is told before anything is sent
    return Export(chosen.media_type, f"{session_id}.{chosen.ending}", _chained(first, pieces))


async def _chained(first: bytes, others: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in others:
        yield piece
