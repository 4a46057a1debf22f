"""Back to a state that a session was in before: what is restored, what goes on all the same, and the account of it."""

import msgspec

from runtime.copies import copy_of
from runtime.events import Body, ScopeEntered, ScopeLeft
from runtime.migrated_cells import differences
from runtime.state import Source, State


def back_to(now: State, before: State) -> State:
    """An earlier state, to go on from; the numbers of turns, events and messages, and what was spent, go on.

    The user's own variables stay as they are now: other sessions may have gone on with them. So do the arms of
    experiments that the user has met.
    """
    going_on = ("turn", "event_seq", "message_seq", "heard", "spent", "global_cells", "exposed")
    return msgspec.structs.replace(copy_of(before), **{name: getattr(copy_of(now), name) for name in going_on})


def rewound(now: State, before: State) -> State:
    """An earlier state to go on from, without what was said since."""
    since = (before.message_seq + 1, now.message_seq)
    gaps = before.gaps if since[0] > since[1] else (*before.gaps, since)
    return msgspec.structs.replace(back_to(now, before), gaps=gaps)


def cleared(now: State) -> State:
    """The same state, with nothing said before."""
    return msgspec.structs.replace(now, gaps=((1, now.message_seq),) if now.message_seq else (), context=None)


def account_of(now: State, before: State, source: Source) -> tuple[Body, ...]:
    """What leads from the place and variables of one state back to those of an earlier one."""
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
