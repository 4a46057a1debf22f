"""Log fields of a turn: its session and script, and the action at which it failed."""

from datetime import timedelta
from typing import Any, Final

import structlog

from runtime.engine.engine import PLACE, TurnFailed
from store.interface.rows import SessionRow, TurnRow

_FIELDS: Final = "turn_fields"
_CAUSES_MAX = 10
_MS = timedelta(milliseconds=1)
ACTIONS_LOGGED_MAX = 100

log = structlog.get_logger()


def note_turn(error: Exception, session: SessionRow, turn: int) -> None:
    """Attach the fields of the turn to an exception that is about to leave it, for `fields_of`."""
    vars(error).setdefault(_FIELDS, fields_of_turn(session, turn))


def fields_of_turn(session: SessionRow, turn: int) -> dict[str, Any]:
    """Return the fields of a log line about a turn; none contains text of a user."""
    return {
        "session_id": session.session_id,
        "script": session.script_id,
        "script_version": session.script_version,
        "turn": turn,
    }


def log_turn(session: SessionRow, row: TurnRow) -> None:
    """Log a committed turn with its actions in order and its duration."""
    log.debug(
        "a turn was committed",
        **fields_of_turn(session, row.turn),
        status=row.status,
        actions=[event.data["action_id"] for event in row.events if event.kind == "action_entered"][
            :ACTIONS_LOGGED_MAX
        ],
        events=len(row.events),
        messages=len(row.messages),
        ms=round((row.finished_at - row.started_at) / _MS, 1),
    )


def fields_of(error: BaseException) -> dict[str, Any]:
    """Return the fields of a log line about an exception: those of its turn, and its position in the script."""
    fields: dict[str, Any] = {}
    place: tuple[str, str, str] | None = None
    each: BaseException | None = error
    for _ in range(_CAUSES_MAX):
        if each is None:
            break
        attributes = vars(each)
        fields = attributes.get(_FIELDS, fields)
        place = each.place if isinstance(each, TurnFailed) else attributes.get(PLACE, place)
        each = each.__cause__
    return fields if place is None else fields | dict(zip(("phase_id", "topic_id", "action_id"), place, strict=True))
