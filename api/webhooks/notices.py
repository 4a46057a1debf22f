"""What webhooks receive about a turn."""

from collections.abc import Iterator

import msgspec

from api.schemas.webhooks import COMPLETED, CREATED, EMIT, PROACTIVE, TURN, EmittedView, Notice, NoticeData
from api.sessions.session_cache import CachedSession
from api.sessions.views import message_view, position, proactive_messages, wait_now
from runtime.engine.engine import Turn
from store.interface.rows import EventRow, TurnRow


def notices(before: CachedSession, turn: Turn, row: TurnRow) -> Iterator[Notice]:
    """Yield the payloads of a turn; `before` is the session before it."""
    full = _data(before, turn, row)
    bare = msgspec.structs.replace(full, messages=msgspec.UNSET, wait=msgspec.UNSET)
    kinds: list[tuple[str, NoticeData]] = [(CREATED, full)] if row.turn == 0 else []
    for event in row.events:
        if event.kind == "emitted":
            emitted = _emitted_view(event)
            kinds.append((f"{EMIT}{emitted.name}", msgspec.structs.replace(bare, event=emitted)))
    kinds.append((TURN, full))
    if proactive_messages(row):
        kinds.append((PROACTIVE, full))
    if row.status == "completed" and before.state.status != "completed":
        kinds.append((COMPLETED, full))
    for number, (kind, data) in enumerate(kinds, start=1):
        yield Notice(id=f"{row.session_id}:{row.turn}:{number}", type=kind, timestamp=row.finished_at, data=data)


def _data(before: CachedSession, turn: Turn, row: TurnRow) -> NoticeData:
    session = before.session
    return NoticeData.of(
        row,
        session,
        script_id=session.script_uuid,
        script=session.script_id,
        position=position(before.program, turn.state),
        intervention=next((event.data["what"] for event in row.events if event.kind == "intervention"), None),
        messages=[message_view(message) for message in row.messages],
        wait=wait_now(turn.state),
    )


def _emitted_view(event: EventRow) -> EmittedView:
    data = event.data
    return EmittedView(seq=event.seq, name=data["event"], action_id=data["action_id"], data=data["data"])
