"""Begin and continue the counting of the timers of a wait."""

import msgspec

from runtime.state.state import Timing
from runtime.timers.timers import dates_wanted
from runtime.turn.context import ActionFailed, TurnContext
from scripts.model.actions import Action
from scripts.model.base import Expression
from scripts.model.moments import parse_date


def begin(run: TurnContext, action: Action) -> None:
    """Count the timers of an action from now on, unless they are counted already."""
    if run.state.timing is None:
        dates = {key: _date(run, date.expression) for key, date in dates_wanted(run.program, run.state, action)}
        run.state.timing = Timing(run.now(), dates=dates)


def note_message(run: TurnContext) -> None:
    """Count the reminders and the expiry of the current question from the user's message."""
    if run.state.timing is not None:
        run.state.timing = msgspec.structs.replace(run.state.timing, heard=run.now())


def _date(run: TurnContext, expression: Expression) -> str:
    """Return the value of a date; a value that is none means that the moment never comes, with a warning."""
    try:
        value = run.value(expression)
    except ActionFailed as error:
        run.warn("expression_failed", str(error))
        return ""
    if not isinstance(value, str) or parse_date(value) is None:
        run.warn("date_missing", f"`{expression.source}` is not a date")
        return ""
    return value
