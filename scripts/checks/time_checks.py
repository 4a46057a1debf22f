"""Check the moments of a script: waits, reminders and expiry, quiet hours, and the time zone."""

from collections.abc import Iterator, Sequence

from scripts.checks.detector_checks import unable
from scripts.checks.effects import effect_of
from scripts.expressions.time_values import zone_of
from scripts.model.actions import Action, Expiry, Question, Reminder, Sleep, action_type
from scripts.model.diagnostics import Fault
from scripts.model.moments import Duration, Moment
from scripts.model.script import Phase, Script, Topic, all_actions, timers_of

_CLOCKS_CHANGE_S = 7_200  # at most, forwards or back
_IS_CLOCK = "Write `timezone: Europe/Berlin` at the top of the script; it holds for sessions and users without a zone."


def action_faults(action: Action) -> Iterator[Fault]:
    """Yield the problems of the moments of an action."""
    if isinstance(action, Sleep):
        yield from _moment(action.moment)
    elif isinstance(action, Question):
        yield from _check_times(action.remind, action.expire)
        yield from _without_wait(action)
        for inner in (inner for each in timers_of(action) for inner in unable(each.actions)):
            message = f"`remind` and `expire` cannot `{action_type(inner)}`: their actions run at once"
            yield Fault("TIMER_WAITS", message, inner.at)


def _without_wait(action: Question) -> Iterator[Fault]:
    """Yield the reminders and the expiry of a message after which the session does not wait for a reply."""
    if effect_of(action).waits == "never":
        fix = "Write `acknowledge: true` beside it, or move it to a question."
        for key, given in (("remind", action.remind), ("expire", action.expire)):
            if given:
                message = f"`{key}` has no effect on a message that waits for no reply"
                yield Fault("KEY_IGNORED", message, action.mark(key), fix)


def default_faults(node: Script | Phase | Topic) -> Iterator[Fault]:
    """Yield the problems of the reminders and the expiry of all questions of a script, phase or topic."""
    yield from _check_times(node.remind, node.expire)
    for each in timers_of(node):
        if each.actions:
            yield Fault("TIMER_DO_SHARED", "`do` is not allowed here, only at an action", each.mark("do"))


def script_faults(script: Script) -> Iterator[Fault]:
    """Yield the problems of the time zone and the quiet hours of a script."""
    quiet = script.quiet_hours
    if quiet is not None and quiet.begin.time == quiet.end.time:
        message = "`quiet_hours` that end when they begin have no length"
        fix = 'Write two different times, such as `{from: "21:00", to: "8:00"}`.'
        yield Fault("MOMENT_INVALID", message, script.mark("quiet_hours"), fix)
    if script.timezone and zone_of(script.timezone) is None:
        message = f"there is no time zone {script.timezone!r}"
        yield Fault("TIMEZONE_UNKNOWN", message, script.mark("timezone"))
    if not script.timezone:
        clock = next((each for each in moments_of(script) if each.clock is not None), None)
        if clock is not None:
            yield Fault("TIMEZONE_MISSING", "a clock time, but the script has no `timezone`", clock.at, _IS_CLOCK)


def moments_of(script: Script) -> Iterator[Moment]:
    """Yield every moment of a script."""
    holders: list[Script | Phase | Topic] = [script, *script.phases]
    for node in (*holders, *(topic for phase in script.phases for topic in phase.topics)):
        yield from timers_of(node)
    for action in all_actions(script):
        yield from action_moments(action)


def action_moments(action: Action) -> Iterator[Moment]:
    """Yield every moment of an action."""
    if isinstance(action, Sleep):
        yield action.moment
    elif isinstance(action, Question):
        yield from timers_of(action)


def _check_times(remind: Sequence[Reminder], expire: Expiry | None) -> Iterator[Fault]:
    seen: set[str] = set()
    for each in remind:
        yield from _moment(each)
        if each.say is None and not each.actions:
            yield Fault("REQUIRED_FIELD_MISSING", "a reminder needs `say` or `do`", each.at, "Add `say:`.")
        if each.text in seen:
            message = f"two reminders at the same moment, {each.text}"
            yield Fault("MOMENT_INVALID", message, each.at, "Make them one reminder, or change a moment.")
        seen.add(each.text)
        if expire is not None and _is_later(each.after, expire.after):
            message = "the question expires before the moment of this reminder"
            yield Fault("ACTION_UNREACHABLE", message, each.mark("after"), "Write a shorter `after`.")
    if expire is not None:
        yield from _moment(expire)
        if expire.then.policy == "continue":
            message = "a question that expires cannot continue"
            yield Fault("ENUM_VALUE_INVALID", message, expire.then.at, "Write `skip`, `end` or `goto phase/topic`.")


def _is_later(one: Duration | None, other: Duration | None) -> bool:
    """Return whether a duration is longer than another on all days, also if the clocks change."""
    if one is None or other is None:
        return False
    days, seconds = one.days - other.days, one.seconds - other.seconds
    return days * 86_400 + seconds > (_CLOCKS_CHANGE_S if days else 0)


def _moment(moment: Moment) -> Iterator[Fault]:
    written = {key for key in ("after", "at", "until") if key in moment.marks}  # an invalid one has its own problem
    if len(written) + (moment.after is not None and not written) != 1 and written != {"at", "until"}:
        yield Fault("MOMENT_INVALID", "a moment has one of `after`, `at` and `until`", moment.at)
    elif moment.days and moment.clock is None:
        yield Fault("MOMENT_INVALID", "`days` needs a clock time", moment.mark("days"), "Add `at: 9:00`.")
    elif moment.days and moment.until is not None:
        yield Fault("MOMENT_INVALID", "`days` and `until` in one moment", moment.mark("days"), "Remove `days`.")
