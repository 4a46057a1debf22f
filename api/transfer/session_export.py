"""Exports a session as it was at one moment, optionally masked, in pieces: a long one is never in memory as a whole.

JSON and YAML documents contain everything, so that they can be imported; JSON lines in nanobot's format, Markdown and
plain text contain the messages.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TypeVar

import msgspec
from msgspec import UNSET, Struct

from api.analytics.pseudonyms import pseudonym_of, salt_of
from api.catalog.catalog import Catalog
from api.errors import ApiError, refusing, require_session
from api.privacy.mask import HiddenValues, find_hidden_values
from api.privacy.masked_rows import mask_call, mask_message, mask_migration, mask_session, mask_turn
from api.schemas.session_lists import ENDINGS, MEDIA_TYPES, Format
from api.sessions.row_mapping import messages_of
from api.sessions.session_cache import require_not_redacted
from api.sessions.turn_runner import TurnRunner
from api.transfer.document import VERSION, CallPart, Head, MovePart, ScriptPart, SessionPart, TurnPart
from api.transfer.formats.nanobot import METADATA, SUMMARY
from api.transfer.formats.yaml_text import yaml_text
from api.transfer.imported_conversation import OWN
from runtime.context.messages import MEDIA, PARTS, attachment_texts, text_of
from runtime.state.state import ContextMemory, State, StateUnreadable, decode
from store.interface.errors import StoreUnavailable
from store.interface.pages import all_pages
from store.interface.rows import MessageRow, MigrationRow, SessionHead, SessionRow, is_uuid
from store.store import Store

R = TypeVar("R")

TURNS_A_PAGE = 50
CALLS_A_PAGE = 200
MESSAGES_A_PAGE = 500
_OWN = frozenset({*OWN, "metadata", "_type"})


class SessionReader(Struct, frozen=True):
    """A session up to the turn at which it was opened."""

    store: Store
    start: SessionRow
    head: SessionHead
    state: State
    moves: tuple[MigrationRow, ...]  # oldest first
    now: datetime
    hidden: HiddenValues | None = None  # its personal values, if it is masked

    async def opening(self) -> Head:
        """Return the head of the document. Raises ApiError SCRIPT_NOT_FOUND."""
        digests = dict.fromkeys([self.start.digest, *(move.digest for move in self.moves)])
        scripts = []
        for digest in digests:
            text = await self.store.scripts.text(self.start.tenant, digest)
            if text is None:
                raise ApiError("SCRIPT_NOT_FOUND", "the script's text is not in the database")
            scripts.append(ScriptPart.of(text))
        return Head(
            version=VERSION,
            exported_at=self.now,
            session=SessionPart.of(self.start),
            scripts=scripts,
            migrations=[MovePart.of(move) for move in self.moves],
            masked=UNSET if self.hidden is None else True,
        )

    async def turns(self) -> AsyncIterator[list[TurnPart]]:
        """Yield every turn, in pages. Raises StoreUnavailable if the session is removed meanwhile."""
        first, count = 0, self.head.turn + 1
        while first < count:
            size = min(TURNS_A_PAGE, count - first)
            rows = await self.store.turns.range(self.start.tenant, self.start.session_id, first=first, limit=size)
            if [row.turn for row in rows] != list(range(first, first + size)):
                raise StoreUnavailable("the session was removed while it was read")
            yield [TurnPart.of(row) for row in await self._mask(mask_turn, rows)]
            first += size

    async def calls(self) -> AsyncIterator[list[CallPart]]:
        """Yield the model calls of committed turns, in pages that are not empty."""
        read = partial(self.store.turns.calls, self.start.tenant, self.start.session_id)
        async for rows in all_pages(read, CALLS_A_PAGE):
            used = [row for row in rows if row.used is not None and row.turn <= self.head.turn]
            if used:
                yield [CallPart.of(row) for row in await self._mask(mask_call, used)]

    async def messages(self) -> AsyncIterator[list[MessageRow]]:
        """Yield the messages that are in the conversation, in pages."""
        after, last = 0, self.head.message_count
        while after < last:
            rows = await self.store.turns.messages(
                self.start.tenant,
                self.start.session_id,
                after_seq=after,
                limit=MESSAGES_A_PAGE,
                without=self.state.gaps,
            )
            rows = [row for row in rows if row.seq <= last]
            if not rows:
                return
            after = rows[-1].seq
            yield await self._mask(mask_message, rows)

    async def _mask(self, mask: Callable[[HiddenValues, R], R], rows: list[R]) -> list[R]:
        """Return rows, masked if the session is, in a thread because that takes long."""
        hidden = self.hidden
        return rows if hidden is None else await asyncio.to_thread(lambda: [mask(hidden, row) for row in rows])

    @property
    def name(self) -> str:
        """Return the key of the session, else its id."""
        return self.start.key or self.start.session_id


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
    heading = b"calls:\n"
    async for calls in source.calls():
        yield heading + await asyncio.to_thread(_dump, calls)
        heading = b""
    if heading:
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
        "metadata": _with_summary(source),
        "last_consolidated": await _count_consolidated(source),
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


def _with_summary(source: SessionReader) -> Mapping[str, object]:
    """Return the metadata with the summary of the messages that models do not see; masked without it."""
    context, metadata = source.state.context, source.start.metadata
    if source.hidden is not None or context is None or not context.summary:
        return metadata
    return {**metadata, SUMMARY: {"text": context.summary, "last_active": source.head.updated_at}}


async def _count_consolidated(source: SessionReader) -> int:
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
    if len(more) < len(row.metadata):  # names that a line has itself
        more["metadata"] = {name: row.metadata[name] for name in row.metadata if name in _OWN}
    own = {"number": row.seq, "message_id": row.message_id, "action_id": row.action_id}
    content = _content(row, more.get(PARTS))
    if content is not row.content:
        more.pop(PARTS)
    line = {"role": row.role, "content": content, "timestamp": row.created_at}
    return msgspec.json.encode(line | more | {"cuebook": own}) + b"\n"


def _content(row: MessageRow, parts: object) -> object:
    """Return the text, or the parts of a message, which follow its text; parts with another text are metadata."""
    if not isinstance(parts, list) or not all(isinstance(part, str | dict) for part in parts):
        return row.content
    if parts and text_of(parts) == row.content:
        return parts
    has_text = any(isinstance(part, str) or "text" in part for part in parts)
    return row.content if has_text or not parts else [{"type": "text", "text": row.content}, *parts]


async def markdown_pieces(source: SessionReader) -> AsyncIterator[bytes]:
    """Yield Markdown: a heading for the session, and one section per message."""
    yield f"# Session: {' '.join(source.name.split())}\n".encode()
    async for rows in source.messages():
        yield "".join(map(_section, rows)).encode()


def _section(row: MessageRow) -> str:
    return f"\n## {row.role.title()} ({row.created_at:%Y-%m-%d %H:%M:%S} UTC)\n\n{_text(row)}\n"


def _text(row: MessageRow) -> str:
    """Return the text of a message, followed by its attachments and by the media that `show` showed."""
    (message,) = messages_of([row])
    shown = row.metadata.get(MEDIA)
    media = shown if isinstance(shown, dict) else {}
    shown_texts = (f"[{name}: {media[name]}]" for name in ("image", "url") if name in media)
    return "\n".join([*filter(None, [row.content]), *attachment_texts(message), *shown_texts])


async def text_pieces(source: SessionReader) -> AsyncIterator[bytes]:
    """Yield plain text: each message after its role."""
    async for rows in source.messages():
        yield "".join(f"[{row.role}] {_text(row)}\n" for row in rows).encode()


# -- exporting ---------------------------------------------------------------------------------------------------------


class SessionExport(Struct, frozen=True):
    """A session export: metadata and pieces of the document."""

    media_type: str
    file_name: str
    pieces: AsyncIterator[bytes]


_PIECES: Mapping[Format, Callable[[SessionReader], AsyncIterator[bytes]]] = {
    "json": json_pieces,
    "yaml": yaml_pieces,
    "jsonl": line_pieces,
    "markdown": markdown_pieces,
    "txt": text_pieces,
}


async def _open(store: Store, tenant: str, session_id: str, now: datetime) -> SessionReader:
    """Open a session. Raises ApiError SESSION_NOT_FOUND, VARIABLE_STORE_INIT_ERROR, SESSION_REDACTED."""
    found = await store.sessions.start(tenant, session_id) if is_uuid(session_id) else None
    start = require_session(found, session_id)
    head = require_session(await store.sessions.head(tenant, session_id), session_id)
    require_not_redacted(start)
    with refusing("VARIABLE_STORE_INIT_ERROR", StateUnreadable, context={"sessionId": session_id}):
        state = decode(bytes(head.state))
    moves = await store.sessions.migrations(tenant, session_id)
    earlier = tuple(move for move in reversed(moves) if move.turn <= head.turn)  # it may have moved since
    return SessionReader(store, start, head, state, earlier, now)


def _masked_reader(source: SessionReader, hidden: HiddenValues, user_id: str) -> SessionReader:
    """Return a masked reader of the session, with a pseudonym of the user."""
    moves = tuple(mask_migration(hidden, move) for move in source.moves)
    return msgspec.structs.replace(source, start=mask_session(source.start, user_id), moves=moves, hidden=hidden)


async def export(
    runner: TurnRunner, catalog: Catalog, tenant: str, session_id: str, form: Format, *, is_masked: bool
) -> SessionExport:
    """Export a session. Raises ApiError SESSION_NOT_FOUND, SESSION_REDACTED, SCRIPT_NOT_FOUND and others."""
    source = await _open(runner.store, tenant, session_id, runner.clock())
    if is_masked:
        salt = await asyncio.to_thread(salt_of, runner.settings.keys_in, tenant)
        user_id = pseudonym_of(salt, source.start.user_id)
        source = _masked_reader(source, await find_hidden_values(runner.store, catalog, source.start), user_id)
    pieces = _PIECES[form](source)
    first = await anext(pieces, b"")  # errors of reading are raised before anything is sent
    return SessionExport(MEDIA_TYPES[form], f"{session_id}.{ENDINGS[form]}", _chain(first, pieces))


async def _chain(first: bytes, others: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in others:
        yield piece
