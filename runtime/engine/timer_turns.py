"""A turn that a timer causes: the end of a wait, a reminder, or the expiry of a question."""

from collections.abc import Sequence
from itertools import chain

import msgspec
from msgspec import Struct

from runtime.actions.form import form_of
from runtime.actions.outcomes import EXPIRED, Finish, Outcome, onward
from runtime.actions.outputs import outputs_of
from runtime.engine.inline_actions import perform
from runtime.state.events import TimerFired
from runtime.state.inputs import InputRefused, TimerDue
from runtime.timers.timers import Timer, pending_timers
from runtime.turn.context import TurnContext
from scripts.checks.effects import effect_of
from scripts.model.actions import AiAsk, Ask, Expiry, Form, OwnAction, Question, Reminder, timed_arms, walk
from scripts.model.script import as_output
from scripts.model.variables import Output, OutputItem, Records


class Firing(Struct, frozen=True):
    """The timer that fires, if any, and the reminders that do not speak any more."""

    timer: Timer | None
    missed: tuple[Timer, ...]
    event: TimerFired


def choose_timer(run: TurnContext, turn_input: TimerDue) -> Firing:
    """Return what fires: the end of a wait, else an expiry, else the last of the reminders that are due.

    Raises InputRefused if nothing is due.
    """
    pending = pending_timers(run.program, run.state, run.default_zone)
    by_hand = turn_input.timer_id
    due = [each for each in pending if (each.timer_id == by_hand if by_hand else each.due <= run.now())]
    if not due:
        raise InputRefused(f"the session has no timer {by_hand}" if by_hand else "no timer of the session is due")
    ends = (each for each in due if each.kind != "remind")
    reminders = [each for each in due if each.kind == "remind"]
    before = turn_input.missed_before
    spoken = (each for each in reversed(reminders) if before is None or each.due >= before or by_hand)
    fires = next(chain(ends, spoken), None)
    missed = tuple(each for each in reminders if each is not fires)
    shown = fires or reminders[-1]
    event = TimerFired(
        shown.action,
        shown.timer_id,
        shown.kind,
        shown.due,
        fires.moment.text if fires is not None else "",
        tuple(each.moment.text for each in missed),
        is_by_hand=bool(by_hand),
    )
    return Firing(fires, missed, event)


def note_reminders(run: TurnContext, timers: Sequence[Timer]) -> None:
    """Note the reminders that have spoken or were missed, so that none speaks twice in a visit."""
    done = tuple(each.moment.text for each in timers if each.kind == "remind")
    if run.state.timing is not None and done:
        reminded = (*run.state.timing.reminded, *done)
        run.state.timing = msgspec.structs.replace(run.state.timing, reminded=reminded)


def remind(run: TurnContext, reminder: Reminder) -> Finish | None:
    """Say or do what a reminder says; return how the conversation ends, if it is to end."""
    run.say(run.text(reminder.say))
    return _perform(run, reminder)


def expire(run: TurnContext, action: Question | OwnAction, expiry: Expiry) -> Outcome:
    """Clear the variables of a question, do what its expiry says, and return where the conversation continues."""
    _clear(run, action)
    finish = _perform(run, expiry)
    return finish or onward(run, expiry.then, Finish(EXPIRED.format(action.id), "expired", action.id))


def _perform(run: TurnContext, moment: Reminder | Expiry) -> Finish | None:
    waiting = run.action_id
    try:
        return perform(run, moment.actions)
    finally:
        run.action_id = waiting


def _clear(run: TurnContext, action: Question | OwnAction) -> None:
    """Set the variables of a question to their defaults, or unset them: an earlier answer is not that of today.

    A list to which the question appends does not change: its records are those of earlier answers.
    """
    timed = timed_arms(action) if isinstance(action, Question) else {}
    inside = (each for actions in timed.values() for each in walk(actions))
    inner = {name for each in inside for name, _ in effect_of(each).written}
    own = {name for name, _ in effect_of(action, run.program.script.forms).written} - inner
    outputs: tuple[OutputItem, ...] = outputs_of(run, action) if isinstance(action, Ask | AiAsk) else ()
    if isinstance(action, Form):
        outputs = tuple(map(as_output, form_of(run, action).fields))
    defaults = {each.get: each for each in outputs if isinstance(each, Output) and each.default is not None}
    lists = {each.tolist for each in outputs if isinstance(each, Records)}
    for name in sorted(own - lists):
        if name in defaults:
            run.assign(name, defaults[name].default, "default", defaults[name])
        elif run.scopes.find(name) is not None:
            run.assign(name, None, "default")
