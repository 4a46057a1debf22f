"""Exports a session piece by piece, so that a long one is never in memory as a whole.

JSON and YAML documents contain everything, so that they can be imported; JSON lines in nanobot's format, Markdown and
plain text contain the messages.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import msgspec
from msgspec import Struct

from api.analytics.pseudonyms import pseudonym_of, salt_of
from api.catalog.catalog import Catalog
from api.errors import ApiError
from api.privacy.mask import hidden_of
from api.schemas.session_lists import Format
from api.sessions.turn_runner import TurnRunner
from api.transfer.document import VERSION
from api.transfer.formats.nanobot import METADATA
from api.transfer.formats.yaml_text import yaml_text
from api.transfer.session_reader import SessionReader, masked, open_source
from runtime.context.messages import PARTS
from runtime.state.state import ContextMemory
from store.interface.rows import MessageRow

_OWN = frozenset({"role", "content", "timestamp", "cuebook", "_type"})


async def json_pieces(source: SessionReader) -> AsyncIterator[bytes]:
    """Yield the JSON document in pieces: the head, then pages of turns, then model calls."""
    yield msgspec.json.encode(await source.opening())[:-1] + b',\n"turns":['
    async for piece in _json_items(source.turns()):
        yield piece
    yield b'],\n"calls":['
    async for piece in _json_items(source.calls()):
        yield piece
    yield b"]}\n"


async def _json_items(pages: AsyncIterator[Sequence[msgspec.Struct]]) -> AsyncIterator[bytes]:
    separator = b"\n"
    async for page in pages:
        yield separator + b",\n".join(map(msgspec.json.encode, page))
        separator = b",\n"


async def yaml_pieces(source: SessionReader) -> AsyncIterator[bytes]:
    """Yield the YAML document, which has the same content as the JSON document, in pieces."""
    yield await asyncio.to_thread(_dump, await source.opening())
    yield b"turns:\n"
    async for turns in source.turns():
        yield await asyncio.to_thread(_dump, turns)
    is_first = True
    async for calls in source.calls():
        if is_first:
            yield b"calls:\n"
        is_first = False
        yield await asyncio.to_thread(_dump, calls)
    if is_first:
        yield b"calls: []\n"


def _dump(part: msgspec.Struct | Sequence[msgspec.Struct]) -> bytes:
    return yaml_text(msgspec.json.decode(msgspec.json.encode(part))).encode()


async def line_pieces(source: SessionReader) -> AsyncIterator[bytes]:
    """Yield JSON lines, a page at a time: one line about the session, then one per message."""
    start = source.start
    head = {
        "_type": METADATA,
        "key": source.name,
        "created_at": start.created_at,
        "updated_at": source.head.updated_at,
        "metadata": start.metadata,
        "last_consolidated": await _consolidated(source),
        "cuebook": {
            "format": "cuebook.messages",
            "version": VERSION,
            "session_id": start.session_id,
            "user_id": start.user_id,
            "script_id": source.head.script_id,
            "script_version": source.head.script_version,
            "locale": source.state.locale,
            **({"masked": True} if source.hidden is not None else {}),
        },
    }
    yield msgspec.json.encode(head) + b"\n"
    async for rows in source.messages():
        yield b"".join(map(_message_line, rows))


async def _consolidated(source: SessionReader) -> int:
    """Return how many messages precede the window of the context, or were summarised elsewhere."""
    context = source.state.context or ContextMemory()
    is_elsewhere = context.after > 0 or not context.summary
    after = max(context.after, context.summary_to if is_elsewhere else 0)
    count = 0
    async for rows in source.messages():
        count += sum(row.seq <= after for row in rows)
        if rows[-1].seq >= after:
            break
    return count


def _message_line(row: MessageRow) -> bytes:
    more = {name: value for name, value in row.metadata.items() if name not in _OWN}
    own = {"number": row.seq, "message_id": row.message_id, "action_id": row.action_id}
    line = {"role": row.role, "content": _content(row, more.pop(PARTS, None)), "timestamp": row.created_at}
    return msgspec.json.encode(line | more | {"cuebook": own}) + b"\n"


def _content(row: MessageRow, parts: object) -> object:
    """Return the text, or the parts of a message; parts without text follow its text."""
    if not isinstance(parts, list) or not parts:
        return row.content
    has_text = any(isinstance(part, str) or (isinstance(part, dict) and "text" in part) for part in parts)
    return parts if has_text or not row.content else [{"type": "text", "text": row.content}, *parts]


async def markdown_pieces(source: SessionReader) -> AsyncIterator[bytes]:
    """Yield Markdown: a heading for the session, and one section per message."""
    yield f"# Session: {' '.join(source.name.split())}\n".encode()
    async for rows in source.messages():
        yield "".join(map(_section, rows)).encode()


def _section(row: MessageRow) -> str:
    return f"\n## {row.role.title()} ({row.created_at:%Y-%m-%d %H:%M:%S} UTC)\n\n{row.content}\n"


async def text_pieces(source: SessionReader) -> AsyncIterator[bytes]:
    """Yield plain text: each message after its role."""
    async for rows in source.messages():
        yield "".join(f"[{row.role}] {row.content}\n" for row in rows).encode()


# -- exporting ---------------------------------------------------------------------------------------------------------


class SessionExport(Struct, frozen=True):
    """A session export: metadata and pieces of the document."""

    media_type: str
    file_name: str
    pieces: AsyncIterator[bytes]


class _Form(Struct, frozen=True):
    """A format of a session document."""

    media_type: str
    ending: str
    pieces: Callable[[SessionReader], AsyncIterator[bytes]]


_FORMS: Mapping[Format, _Form] = {
    "json": _Form("application/json", "json", json_pieces),
    "yaml": _Form("application/yaml", "yaml", yaml_pieces),
    "jsonl": _Form("application/x-ndjson", "jsonl", line_pieces),
    "markdown": _Form("text/markdown", "md", markdown_pieces),
    "txt": _Form("text/plain", "txt", text_pieces),
}

MEDIA_TYPES: tuple[str, ...] = tuple(form.media_type for form in _FORMS.values())


async def export(
    runner: TurnRunner, catalog: Catalog, tenant: str, session_id: str, form: Format, *, is_masked: bool
) -> SessionExport:
    """Export a session. Raises ApiError SESSION_NOT_FOUND, SESSION_REDACTED, SCRIPT_NOT_FOUND and others."""
    source = await open_source(runner.store, tenant, session_id, runner.clock())
    if source is None:
        raise ApiError("SESSION_NOT_FOUND", "Session not found", context={"sessionId": session_id})
    if is_masked:
        salt = await asyncio.to_thread(salt_of, runner.settings.keys_in, tenant)
        user_id = pseudonym_of(salt, source.start.user_id)
        source = masked(source, await hidden_of(runner.store, catalog, source.start), user_id)
    chosen = _FORMS[form]
    pieces = chosen.pieces(source)
    first = await anext(pieces, b"")  # errors of reading are raised before anything is sent
    return SessionExport(chosen.media_type, f"{session_id}.{chosen.ending}", _chained(first, pieces))


async def _chained(first: bytes, others: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in others:
        yield piece
