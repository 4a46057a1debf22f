"""What webhooks are told of a turn, in the order in which it happened."""

from collections.abc import Iterator

import msgspec

from api.hot import Hot
from api.schemas.webhooks import EmittedView, Notice, NoticeData
from api.views import message_view, position, wait_view
from api.webhooks.kinds import COMPLETED, CREATED, EMIT, TURN
from runtime.engine import Turn
from store.rows import EventRow, TurnRow


def notices(before: Hot, turn: Turn, row: TurnRow) -> Iterator[Notice]:
    """Of a turn, with the session as it was before."""
    whole = _data(before, turn, row)
    bare = msgspec.structs.replace(whole, messages=msgspec.UNSET, wait=msgspec.UNSET)
    kinds: list[tuple[str, NoticeData]] = [(CREATED, whole)] if row.turn == 0 else []
    for event in row.events:
        if event.kind == "emitted":
            emitted = _emitted(event)
            kinds.append((f"{EMIT}{emitted.name}", msgspec.structs.replace(bare, event=emitted)))
    kinds.append((TURN, whole))
    if row.status == "completed" and before.state.status != "completed":
        kinds.append((COMPLETED, whole))
    for number, (kind, data) in enumerate(kinds, start=1):
        yield Notice(id=f"{row.session_id}:{row.turn}:{number}", type=kind, timestamp=row.finished_at, data=data)


def _data(before: Hot, turn: Turn, row: TurnRow) -> NoticeData:
    session = before.session
    return NoticeData(
        session_id=session.session_id,
        user_id=session.user_id,
        key=session.key,
        script_id=session.script_uuid,
        script=session.script_id,
        script_version=session.script_version,
        turn=row.turn,
        status=row.status,
        execution_status=row.execution_status,
        position=position(before.program, turn.state),
        intervention=next((event.data["what"] for event in row.events if event.kind == "intervention"), None),
        messages=[message_view(message) for message in row.messages],
        wait=wait_view(turn.state.wait),
    )


def _emitted(event: EventRow) -> EmittedView:
    said = event.data
    return EmittedView(seq=event.seq, name=said["event"], action_id=said["action_id"], data=said["data"])
