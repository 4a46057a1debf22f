"""Maps runtime values to database rows and back; no other module knows both."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from runtime.engine.engine import Turn
from runtime.state.events import Event, Message, VariableChanged
from runtime.state.program import Program
from runtime.state.state import Cell, State, encode
from runtime.timers.timers import pending_timers
from scripts.model.actions import action_type
from store.interface.hand_over_rows import HandOverRow
from store.interface.rows import EventRow, MessageRow, SessionHead, SessionRow, TurnRow, UserVariableRow, VariableRow
from store.interface.timer_rows import TimerRow

FORKED_FROM = "forkedFrom"
"""The metadata name under which a fork stores its origin."""


class Origin(Struct, frozen=True, rename="camel"):
    """The origin of a forked session: another session, up to a turn."""

    session_id: str
    turn: int


def origin_of(session: SessionRow) -> Origin | None:
    """Return the origin of a forked session; None for other sessions."""
    try:
        return msgspec.convert(session.metadata.get(FORKED_FROM), Origin | None)
    except msgspec.ValidationError:
        return None  # applications set metadata, so the value may have another type


def hand_over_rows(session: SessionRow, before: State, after: State) -> tuple[HandOverRow, ...] | None:
    """Return the row of a session for a person after a turn, if it is one; None if it was none before either."""
    found = after.hand_over
    if found is None:
        return None if before.hand_over is None else ()
    row = HandOverRow(
        tenant=session.tenant,
        session_id=session.session_id,
        user_id=session.user_id,
        turn=after.turn,
        script_id=session.script_id,
        status=found.status,
        since=found.since,
        action_id=found.action_id,
        operator=found.operator,
        has_ended=after.status == "completed",
    )
    return (row,)


def turn_row(
    session: SessionRow,
    program: Program,
    turn: Turn,
    *,
    started_at: datetime,
    finished_at: datetime,
    idempotency_key: str | None = None,
    fingerprint: str | None = None,
) -> TurnRow:
    """Return the database row of a turn."""
    state = turn.state
    return TurnRow(
        tenant=session.tenant,
        session_id=session.session_id,
        user_id=session.user_id,
        turn=state.turn,
        started_at=started_at,
        finished_at=finished_at,
        status=state.status,
        execution_status=state.execution_status,
        **turn_position_of(program, state),
        state=msgspec.Raw(turn.saved),
        idempotency_key=idempotency_key,
        fingerprint=fingerprint,
        messages=[_message_row(message, finished_at) for message in turn.messages],
        variables=[_variable_row(change) for change in turn.changes],
        events=_event_rows(turn.events),
    )


def turn_position_of(program: Program, state: State) -> dict[str, str | None]:
    """Return the position of a state by the columns of a turn. Raises PlaceLost."""
    action = state.frames[-1].action if state.frames else ""
    return {
        "phase_id": state.phase or None,
        "topic_id": state.topic or None,
        "action_id": action or None,
        "action_type": action_type(program.action(*state.home(), action)) if action else None,
        "wait_kind": state.wait.kind if state.wait is not None else None,
    }


def _message_row(message: Message, now: datetime) -> MessageRow:
    return MessageRow(
        seq=message.number,
        message_id=message.message_id,
        role=message.role,
        content=message.content,
        action_id=message.action_id or None,
        metadata=dict(message.metadata),
        created_at=now,
    )


def _variable_row(change: VariableChanged) -> VariableRow:
    return VariableRow(
        scope=change.scope,
        name=change.name,
        old=change.old,
        new=change.new,
        type=change.type,
        action_id=change.action_id or None,
        source=change.source,
        phase_id=change.phase_id if change.scope in {"phase", "topic"} else None,
        topic_id=change.topic_id if change.scope == "topic" else None,
    )


def _event_rows(events: tuple[Event, ...]) -> list[EventRow]:
    """Return the events without data that the message and variable rows of the turn contain; those are referenced."""
    rows, changes = [], 0
    for event in events:
        if isinstance(event.body, Message):
            rows.append(EventRow(event.seq, "message", {"message": event.body.number}))
        elif isinstance(event.body, VariableChanged):
            rows.append(EventRow(event.seq, "variable", {"variable": changes}))
            changes += 1
        else:
            data = msgspec.to_builtins(event.body)
            rows.append(EventRow(event.seq, data.pop("kind"), data))
    return rows


def messages_of(rows: list[MessageRow]) -> tuple[Message, ...]:
    """Convert message rows to runtime messages."""
    return tuple(
        Message(
            number=row.seq,
            message_id=row.message_id,
            role=row.role,
            content=row.content,
            action_id=row.action_id or "",
            metadata=row.metadata,
        )
        for row in rows
    )


def cells_of(rows: list[UserVariableRow]) -> dict[str, Cell]:
    """Convert the rows of a user's global variables to runtime cells."""
    return {row.name: msgspec.convert(_cell(row), Cell) for row in rows}


def _cell(row: UserVariableRow) -> Mapping[str, Any]:
    return {"value": row.value, "type": row.type, "last_updated": row.updated_at, "source": row.source}


def seed_of(session_id: str) -> int:
    """Derive the seed of a session's random choices from its id, as the default."""
    return int.from_bytes(hashlib.sha256(session_id.encode()).digest()[:6])


def session_before_first_turn(state: State) -> Turn:
    """Return the turn that represents a session whose first turn failed."""
    next_state = msgspec.structs.replace(state, turn=state.turn + 1)
    return Turn(state=next_state, saved=encode(next_state), events=(), model_calls=())


def session_of(head: SessionHead) -> SessionRow:
    """Return the fixed fields of a session."""
    return SessionRow(**{name: getattr(head, name) for name in SessionRow.__struct_fields__})


def timer_rows(session: SessionRow, program: Program, state: State, default_zone: str) -> tuple[TimerRow, ...]:
    """Return the rows of the timers that a session has in a state."""
    if not program.has_time:
        return ()
    return tuple(
        TimerRow(
            tenant=session.tenant,
            session_id=session.session_id,
            user_id=session.user_id,
            turn=state.turn,
            timer_id=each.timer_id,
            kind=each.kind,
            action_id=each.action,
            moment=each.moment.text,
            due=each.due,
            next_attempt_at=each.due,
        )
        for each in pending_timers(program, state, default_zone)
    )
