"""Everything that is recorded of a user, as one JSON document, written page by page: however much it is, little of it
is in memory at a time.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import TypeAlias

import msgspec

from api.memory.showing import stored_view
from api.memory.units import unit_of
from api.rows import cells_of
from api.schemas.events import EventView
from api.schemas.memory import StoredUnit
from api.schemas.sessions import Layer, MessageView
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
from api.views import call_view, event_views, layer, message_view
from runtime.state import State, StateUnreadable, decode
from store.record import Record
from store.rows import FailureRow, MigrationRow, SessionHead, UserHistoryRow, UserVariableRow

ROWS_A_READ = 500
TURNS_A_READ = 20

Chunks: TypeAlias = AsyncIterator[bytes]
Pages: TypeAlias = AsyncIterator[Sequence[msgspec.Struct]]


async def user_export(record: Record, tenant: str, user_id: str, now: datetime) -> Chunks:
    """The document in chunks. A session that is talked to meanwhile is told as it was when its part began."""
    head = {"format": "cuebook-user", "version": EXPORT_VERSION, "userId": user_id, "exportedAt": now}
    variables = await record.user_variables(tenant, user_id)
    yield msgspec.json.encode(head | {"variables": user_layer(variables)})[:-1]
    yield b',"variableHistory":['
    async for chunk in _joined(_history(record, tenant, user_id)):
        yield chunk
    yield b'],"sessions":['
    separator = b""
    for session_id in await record.user_session_ids(tenant, user_id):
        yield separator + msgspec.json.encode({"sessionId": session_id})[:-1]
        async for chunk in _session(record, tenant, session_id):
            yield chunk
        yield b"}"
        separator = b","
    yield b"],"
    async for chunk in _memory(record, tenant, user_id):
        yield chunk
    yield b"}\n"


async def _memory(record: Record, tenant: str, user_id: str) -> Chunks:
    """The memory of a user, as far as it has been admitted; the rest is what was said in sessions."""
    owner = await record.memory.owner(tenant, user_id)
    groups = [
        ExportedGroup(group_id=row.group_id, session_id=row.session_id, created_at=row.created_at)
        for row in await record.memory.groups(tenant, user_id)
    ]
    head = {"memoryId": None if owner is None else owner.memory_id, "groups": groups}
    yield b'"memory":' + msgspec.json.encode(head)[:-1] + b',"units":['
    async for chunk in _joined(_units(record, tenant, user_id)):
        yield chunk
    yield b"]}"


async def _units(record: Record, tenant: str, user_id: str) -> AsyncIterator[list[StoredUnit]]:
    after = 0
    while rows := await record.memory.units(tenant, user_id, after=after, limit=ROWS_A_READ):
        yield [stored_view(unit_of(row)) for row in rows]
        after = rows[-1].sequence


async def _joined(pages: Pages) -> Chunks:
    """The items of pages, as they stand between the brackets of a list."""
    separator = b""
    async for page in pages:
        items = b",".join(msgspec.json.encode(item) for item in page)
        if items:
            yield separator + items
            separator = b","


async def _history(record: Record, tenant: str, user_id: str) -> AsyncIterator[list[UserWriteView]]:
    offset = 0
    while rows := await record.user_history(tenant, user_id, offset=offset, limit=ROWS_A_READ):
        yield [_write(row) for row in rows]
        offset += len(rows)


async def _session(record: Record, tenant: str, session_id: str) -> Chunks:
    """All of a session but its id, which stands there already."""
    head = await record.session_head(tenant, session_id)
    yield b',"session":' + msgspec.json.encode(_basics(head) if head is not None else None)
    messages, events = (head.message_count, head.event_count) if head is not None else (0, 0)
    lists: dict[str, Pages] = {
        "messages": _messages(record, tenant, session_id, messages),
        "events": _events(record, tenant, session_id, events),
        "calls": _calls(record, tenant, session_id),
    }
    for name, pages in lists.items():
        yield f',"{name}":['.encode()
        async for chunk in _joined(pages):
            yield chunk
        yield b"]"
    failures = [_failure(row) for row in reversed(await record.failures(tenant, session_id))]
    moves = [_move(row) for row in reversed(await record.migrations(tenant, session_id))]
    yield b',"failures":' + msgspec.json.encode(failures) + b',"migrations":' + msgspec.json.encode(moves)


async def _messages(record: Record, tenant: str, session_id: str, last: int) -> AsyncIterator[list[MessageView]]:
    seq = 0
    while seq < last:
        rows = await record.messages(tenant, session_id, after_seq=seq, limit=ROWS_A_READ)
        if not rows:  # the session was removed meanwhile
            return
        yield [message_view(row) for row in rows if row.seq <= last]
        seq = rows[-1].seq


async def _events(record: Record, tenant: str, session_id: str, last: int) -> AsyncIterator[list[EventView]]:
    seq = 0
    while seq < last:
        rows = await record.happened(tenant, session_id, after_seq=seq, limit=TURNS_A_READ)
        if not rows:
            return
        yield [event for row in rows for event in event_views(row) if event.seq <= last]
        seq = rows[-1].events[-1].seq


async def _calls(record: Record, tenant: str, session_id: str) -> Pages:
    cursor = None
    while True:
        page = await record.calls(tenant, session_id, limit=ROWS_A_READ, cursor=cursor)
        yield [call_view(row, debug=True) for row in page.rows]
        cursor = page.next
        if cursor is None:
            return


def user_layer(rows: list[UserVariableRow]) -> Layer:
    """A user's global variables as clients see them."""
    return layer(cells_of(rows))


def _write(row: UserHistoryRow) -> UserWriteView:
    return UserWriteView(**msgspec.structs.asdict(row))


def _basics(head: SessionHead) -> SessionBasics:
    try:
        state = decode(bytes(head.state))
    except StateUnreadable:  # of another version of the program: what was said can be told all the same
        state = None
    return SessionBasics(
        key=head.key,
        script=ScriptOfSession(script_id=head.script_uuid, id=head.script_id, version=head.script_version),
        locale=head.locale,
        seed=head.seed,
        metadata=head.metadata,
        status=head.status,
        execution_status=head.execution_status,
        turn=head.turn,
        created_at=head.created_at,
        updated_at=head.updated_at,
        completed_at=head.completed_at,
        text_dropped_at=head.text_dropped_at,
        variables=_layers(state) if state is not None else None,
    )


def _layers(state: State) -> SessionLayers:
    return {
        "session": layer(state.session_cells),
        "phase": layer(state.phase_cells),
        "topic": layer(state.topic_cells),
    }


def _failure(row: FailureRow) -> FailureView:
    return FailureView(turn=row.turn_attempted, code=row.code, message=row.message, failed_at=row.failed_at)


def _move(row: MigrationRow) -> MoveView:
    return MoveView(
        turn=row.turn,
        kind=row.kind,
        verdict=row.verdict,
        why=row.why,
        from_version=row.from_version,
        version=row.script_version,
        migrated_at=row.migrated_at,
    )
