"""The timers of a session: a pure function of its state and its script."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Literal, TypeAlias

from msgspec import Struct

from runtime.state.program import Program
from runtime.state.state import State, Timing, Wait
from runtime.timers.due import after_quiet_hours, due_moment
from scripts.model.actions import Action, Expiry, OwnAction, Question, Reminder, Say, Show, Sleep, walk
from scripts.model.moments import DateValue, Moment
from scripts.model.script import Phase, Script, Topic, innermost_expiry

TimerKind: TypeAlias = Literal["wait", "remind", "expire"]


class Timer(Struct, frozen=True):
    """A moment that a session waits for. `timer_id` is unique among those of its state."""

    timer_id: str
    kind: TimerKind
    due: datetime
    action: str
    moment: Moment
    depth: int  # the number of frames of the session at the action that waits


def pending_timers(program: Program, state: State, default_zone: str) -> tuple[Timer, ...]:
    """Return the timers of a session, the earliest first; none while it is paused, over or taken over by a person."""
    if state.wait is None or state.status != "active" or not state.frames or state.operator:
        return ()
    zone = program.zone(state, default_zone)
    found = list(_of_wait(program, state, len(state.frames), state.wait, state.timing, zone, "remind"))
    for depth, frame in enumerate(state.frames):
        if frame.held is not None and not frame.held.is_answered:  # reminders of the suspended question rest
            found += _of_wait(program, state, depth, frame.held.wait, frame.held.timing, zone, "expire")
    found.sort(key=lambda each: (each[1].due, _RANK[each[1].kind], each[0], each[1].timer_id))
    return tuple(timer for _, timer in found)


_RANK: Mapping[TimerKind, int] = {"remind": 0, "expire": 1, "wait": 2}


def _of_wait(
    program: Program, state: State, depth: int, wait: Wait, timing: Timing | None, zone: tzinfo, least: TimerKind
) -> Iterator[tuple[datetime, Timer]]:
    """Yield the timers of the wait of the innermost of `depth` frames, each with its moment without quiet hours;
    `least` is the least important kind.
    """
    if timing is None or wait.begins:
        return
    action = program.action(*state.home(depth), state.frames[depth - 1].action)
    quiet = program.script.quiet_hours
    for kind, moment in _moments(program, state, depth, action):
        if _RANK[kind] < _RANK[least] or (kind == "remind" and moment.text in timing.reminded):
            continue
        start = timing.began if kind == "wait" or timing.heard is None else timing.heard
        written = due_moment(moment, start, zone, timing.dates.get(f"{kind} {moment.text}", ""))
        if written is None:
            continue
        due = after_quiet_hours(written, quiet, zone) if quiet is not None and _speaks(moment) else written
        yield written, Timer(f"{depth}:{action.id}:{kind}:{moment.text}", kind, due, action.id, moment, depth)


def _speaks(moment: Moment) -> bool:
    """Return whether the session speaks when a moment has come; an expiry may be silent."""
    if isinstance(moment, Expiry):
        return any(isinstance(action, Say | Show) for action in walk(moment.actions))
    return True


def _moments(program: Program, state: State, depth: int, action: Action) -> Iterator[tuple[TimerKind, Moment]]:
    if isinstance(action, Sleep):
        yield "wait", action.moment
    elif isinstance(action, Question | OwnAction):
        remind, expire = times_of(program, state, depth, action)
        yield from (("remind", each) for each in remind)
        if expire is not None:
            yield "expire", expire


def times_of(
    program: Program, state: State, depth: int, action: Question | OwnAction
) -> tuple[Sequence[Reminder], Expiry | None]:
    """Return the reminders and the expiry of a question: its own, else those of its topic, phase or script."""
    holders: list[Question | Topic | Phase | Script] = [action] if isinstance(action, Question) else []
    call = state.call(depth)
    if call is None:
        holders += [program.topics[state.phase, state.topic], program.phases[state.phase]]
    elif call.interrupt in program.answering:
        holders.append(program.answering[call.interrupt])
    holders.append(program.script)
    remind = next((each.remind for each in holders if "remind" in each.marks), ())
    return remind, innermost_expiry(*holders)


def dates_wanted(program: Program, state: State, action: Action) -> Iterator[tuple[str, DateValue]]:
    """Yield the dates of the moments of the current action, by their key in `Timing.dates`."""
    for kind, moment in _moments(program, state, len(state.frames), action):
        if moment.until is not None:
            yield f"{kind} {moment.text}", moment.until
