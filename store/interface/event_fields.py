"""The fields of events that contain no personal text: the one list that retention and masking follow.

It lists, by kind of event, the fields that are retained; a field or a kind that is not listed is removed. Ids, numbers
and values of closed sets are retained. Texts, values, notes, questions and reasons are removed.
"""

from collections.abc import Mapping

_ACTION = ("action_id", "action_type", "skill", "interrupt", "detector")
_SCOPE = ("scope", "id", "entry")

EVENT_FIELDS: Mapping[str, tuple[str, ...]] = {
    "message": ("message",),
    "variable": ("variable",),
    "scope_entered": _SCOPE,
    "scope_left": _SCOPE,
    "scope_skipped": ("scope", "id"),
    "action_entered": _ACTION,
    "action_left": ("action_id", "rounds", "skill", "interrupt", "detector"),
    "action_skipped": _ACTION,
    "variant": ("action_id", "index"),
    "exit": ("action_id", "source"),
    "judged": ("action_id", "round", "progress", "understanding", "has_questions", "exit"),
    "jump": ("action_id", "phase_id", "topic_id"),
    "wait": ("action_id", "wait.kind", "wait.begins", "wait.until"),
    "warning": ("code", "action_id"),
    "interrupted": ("interrupt", "action_id"),
    "repaired": ("repair", "action_id", "variables"),
    "detected": ("detector", "label", "score", "severity", "by", "message"),
    "exposed": ("action_id", "experiment", "arm", "by"),
    "emitted": ("action_id", "event"),
    "remembered": ("unit_id", "action_id", "trust", "pinned"),
    "recalled": ("action_id", "by", "k", "units[].unit_id", "units[].trust", "units[].score"),
    "tool_call": ("action_id", "tool"),
    "tool_result": ("action_id", "tool", "failure.kind"),
    "migrated": ("verdict", "old_place", "new_place"),
    "intervention": ("what", "scope", "turn", "first", "last", "keep"),
    "resized": ("strategy", "type", "after", "summary_to", "memo_to", "by", "tokens"),
    "timer": ("action_id", "timer_id", "timer", "due", "moment", "missed", "is_by_hand", "source"),
    "milestone": ("name", "action_id"),
    "ended": ("by", "action_id", "outcome"),
}
"""The retained fields of the data, by kind; `a.b` is a field of an object, `a[].b` one of each object in a list."""
