"""Exports all recorded data of a user as one JSON document, written page by page, so that little of it is in memory at
a time.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias

import msgspec

from api.memory.row_mapping import unit_of
from api.schemas.memory import StoredUnit
from api.schemas.participants import ParticipantView
from api.schemas.sessions import EventView, Layer, MessageView
from api.schemas.users import (
    EXPORT_VERSION,
    ExportedGroup,
    FailureView,
    MoveView,
    ScriptOfSession,
    SessionBasics,
    SessionLayers,
    UserWriteView,
)
from api.sessions.row_mapping import cells_of
from api.sessions.views import call_view, event_views, layer, message_view
from runtime.state.state import State, StateUnreadable, decode
from store.interface.pages import Page, all_pages
from store.interface.rows import SessionHead, UserVariableRow
from store.store import Store

ROWS_A_READ = 500
TURNS_A_READ = 20

Chunks: TypeAlias = AsyncIterator[bytes]
Pages: TypeAlias = AsyncIterator[Sequence[msgspec.Struct]]


async def user_export(store: Store, tenant: str, user_id: str, now: datetime) -> Chunks:
    """Yield the document in chunks. A session that changes meanwhile is exported as it was when its part began."""
    head = {"format": "cuebook-user", "version": EXPORT_VERSION, "userId": user_id, "exportedAt": now}
    variables = await store.sessions.user_variables(tenant, user_id)
    yield msgspec.json.encode(head | {"variables": user_layer(variables)})[:-1]
    yield b',"variableHistory":['
    async for chunk in _join(_history(store, tenant, user_id)):
        yield chunk
    yield b'],"sessions":['
    separator = b""
    for session_id in await store.sessions.ids_of_user(tenant, user_id):
        yield separator + msgspec.json.encode({"sessionId": session_id})[:-1]
        async for chunk in _session(store, tenant, session_id):
            yield chunk
        yield b"}"
        separator = b","
    yield b'],"participants":['
    participants = partial(store.participants.page, tenant, user_id=user_id)
    async for chunk in _join(_views(participants, ParticipantView.of)):
        yield chunk
    yield b"],"
    async for chunk in _memory(store, tenant, user_id):
        yield chunk
    yield b"}\n"


async def _memory(store: Store, tenant: str, user_id: str) -> Chunks:
    """Yield the memory of a user, as far as its turns are processed; the rest is in the sessions."""
    owner = await store.memory.owner(tenant, user_id)
    groups = [ExportedGroup.of(row) for row in await store.memory.groups(tenant, user_id)]
    head = {"memoryId": None if owner is None else owner.memory_id, "groups": groups}
    yield b'"memory":' + msgspec.json.encode(head)[:-1] + b',"units":['
    async for chunk in _join(_units(store, tenant, user_id)):
        yield chunk
    yield b"]}"


async def _units(store: Store, tenant: str, user_id: str) -> AsyncIterator[list[StoredUnit]]:
    after = 0
    while rows := await store.memory.units(tenant, user_id, after=after, limit=ROWS_A_READ):
        yield [StoredUnit.of(unit_of(row)) for row in rows]
        after = rows[-1].sequence


async def _join(pages: Pages) -> Chunks:
    """Yield the items of pages as elements of a JSON list."""
    separator = b""
    async for page in pages:
        items = b",".join(msgspec.json.encode(item) for item in page)
        if items:
            yield separator + items
            separator = b","


async def _views(read: Callable[..., Awaitable[Page[Any]]], view: Callable[[Any], msgspec.Struct]) -> Pages:
    """Yield the views of the rows of a list, page by page; `read` takes a limit and a cursor."""
    async for rows in all_pages(read, ROWS_A_READ):
        yield [view(row) for row in rows]


async def _history(store: Store, tenant: str, user_id: str) -> AsyncIterator[list[UserWriteView]]:
    offset = 0
    while rows := await store.sessions.user_history(tenant, user_id, offset=offset, limit=ROWS_A_READ):
        yield [UserWriteView.of(row) for row in rows]
        offset += len(rows)


async def _session(store: Store, tenant: str, session_id: str) -> Chunks:
    """Yield a session without its id, which precedes it in the document."""
    head = await store.sessions.head(tenant, session_id)
    yield b',"session":' + msgspec.json.encode(_basics(head) if head is not None else None)
    messages, events = (head.message_count, head.event_count) if head is not None else (0, 0)
    lists: dict[str, Pages] = {
        "messages": _messages(store, tenant, session_id, messages),
        "events": _events(store, tenant, session_id, events),
        "calls": _views(partial(store.turns.calls, tenant, session_id), partial(call_view, debug=True)),
    }
    for name, pages in lists.items():
        yield f',"{name}":['.encode()
        async for chunk in _join(pages):
            yield chunk
        yield b"]"
    failures = await store.turns.failures(tenant, session_id)
    moves = await store.sessions.migrations(tenant, session_id)
    failed = [FailureView.of(row, turn=row.turn_attempted) for row in reversed(failures)]
    moved = [MoveView.of(row, version=row.script_version) for row in reversed(moves)]
    yield b',"failures":' + msgspec.json.encode(failed) + b',"migrations":' + msgspec.json.encode(moved)


async def _messages(store: Store, tenant: str, session_id: str, last: int) -> AsyncIterator[list[MessageView]]:
    seq = 0
    # there are no rows if the session was deleted meanwhile
    while seq < last and (rows := await store.turns.messages(tenant, session_id, after_seq=seq, limit=ROWS_A_READ)):
        yield [message_view(row) for row in rows if row.seq <= last]
        seq = rows[-1].seq


async def _events(store: Store, tenant: str, session_id: str, last: int) -> AsyncIterator[list[EventView]]:
    seq = 0
    while seq < last and (rows := await store.turns.events(tenant, session_id, after_seq=seq, limit=TURNS_A_READ)):
        yield [event for row in rows for event in event_views(row) if event.seq <= last]
        seq = rows[-1].events[-1].seq


def user_layer(rows: list[UserVariableRow]) -> Layer:
    """Return a user's global variables as views."""
    return layer(cells_of(rows))


def _basics(head: SessionHead) -> SessionBasics:
    try:
        state = decode(bytes(head.state))
    except StateUnreadable:  # of another version of Cuebook: the messages can be exported anyway
        state = None
    return SessionBasics.of(
        head,
        script=ScriptOfSession(script_id=head.script_uuid, id=head.script_id, version=head.script_version),
        variables=_layers(state) if state is not None else None,
    )


def _layers(state: State) -> SessionLayers:
    return {"session": layer(state.session_cells), "phase": layer(state.phase_cells), "topic": layer(state.topic_cells)}
