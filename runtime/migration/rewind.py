"""Restoration of an earlier state: what is restored, what is retained, and the events of it."""

import msgspec

from runtime.migration.variables import differences
from runtime.state.events import Body, ScopeEntered, ScopeLeft
from runtime.state.state import Source, State, copy_of

_RETAINED = (
    "turn", "event_seq", "message_seq", "heard", "last_at", "spent", "global_cells", "exposed", "hand_over", "model"
)  # fmt: skip


def back_to(now: State, before: State) -> State:
    """Return an earlier state, with the current numbers of turn, event and message, and the current usage.

    The user's global variables are not restored, because other sessions may have used them. Neither are the arms of
    experiments. A person who has taken the session over keeps it, and the choice of a model stays.
    """
    current = copy_of(now)
    return msgspec.structs.replace(copy_of(before), **{name: getattr(current, name) for name in _RETAINED})


def rewound(now: State, before: State) -> State:
    """Return an earlier state, without the messages since then."""
    since = (before.message_seq + 1, now.message_seq)
    gaps = before.gaps if since[0] > since[1] else (*before.gaps, since)
    return msgspec.structs.replace(back_to(now, before), gaps=gaps)


def cleared(now: State) -> State:
    """Return the state without earlier messages."""
    return msgspec.structs.replace(now, gaps=((1, now.message_seq),) if now.message_seq else (), context=None)


def account_of(now: State, before: State, source: Source) -> tuple[Body, ...]:
    """Return the events that lead from the place and variables of one state to those of an earlier one."""
    account: list[Body] = []
    if now.topic and now.topic_entry != before.topic_entry:
        account.append(ScopeLeft("topic", now.topic, now.topic_entry))
    if now.phase and now.phase_entry != before.phase_entry:
        account.append(ScopeLeft("phase", now.phase, now.phase_entry))
    if before.phase and (now.phase_entry != before.phase_entry or not now.phase):
        account.append(ScopeEntered("phase", before.phase, before.phase_entry))
    if before.topic and (now.topic_entry != before.topic_entry or not now.topic):
        account.append(ScopeEntered("topic", before.topic, before.topic_entry))
    changes = [each for each in differences(now, before, source=source) if each.scope != "global"]
    return (*account, *changes)
