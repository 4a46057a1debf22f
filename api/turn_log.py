"""What the log says of a turn: of which session and script it is, and at which action it failed."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

import structlog

from runtime.engine import PLACE, TurnFailed
from store.rows import SessionRow, TurnRow

_FIELDS: Final = "turn_fields"
_CAUSES_MAX = 10
_MS = timedelta(milliseconds=1)
ACTIONS_LOGGED_MAX = 100

log = structlog.get_logger()


@contextmanager
def noting_turn(session: SessionRow, turn: int) -> Iterator[None]:
    """Note at an exception which turn it leaves, for `fields_of`."""
    try:
        yield
    except Exception as error:
        vars(error).setdefault(_FIELDS, fields_of_turn(session, turn))
        raise


def fields_of_turn(session: SessionRow, turn: int) -> dict[str, Any]:
    """Return the fields of a log line that is about a turn; none holds words of a user."""
    return {
        "session_id": session.session_id,
        "script": session.script_id,
        "script_version": session.script_version,
        "turn": turn,
    }


def log_turn(session: SessionRow, row: TurnRow) -> None:
    """Write a line about a turn that was committed: its actions in their order, and how long it took to be run."""
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
    """Return the fields of a log line about an exception: those of the turn that it left, and its place in there."""
    fields: dict[str, Any] = {}
    place: tuple[str, str, str] | None = None
    each: BaseException | None = error
    for _ in range(_CAUSES_MAX):
        if each is None:
            break
        noted = vars(each)
        fields = noted.get(_FIELDS, fields)
        place = each.place if isinstance(each, TurnFailed) else noted.get(PLACE, place)
        each = each.__cause__
    if place is None:
        return fields
    return fields | dict(zip(("phase_id", "topic_id", "action_id"), place, strict=True))
