"""The columns that are masked in analytics files: the one list that queries, snapshots, Parquet, masked exports of
sessions and the check of analytics files follow.

A column that is not listed is visible to every role. `tests/api/analytics/test_masked_columns.py` lists every column of
the model as masked or visible, so that the test fails for a new column until someone has decided.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

Treatment: TypeAlias = Literal["pseudonym", "words", "digest", "flag", "value", "label", "fields"]
"""How a column is masked.

pseudonym: a keyed digest of an id that an application chose; the key never leaves the data folder.
words: NULL in analytics; in an export, the text without personal values.
digest: NULL in analytics, empty in an export: a digest would confirm a guess of the missing part of a text.
flag: NULL and empty are unchanged; any other text is replaced by `HIDDEN`, so that it is still counted.
value: NULL if the variable is personal, or holds a text, a list or a record.
label: unchanged if it is a value of a closed set or a text of the script; other texts are masked.
fields: only the fields of `store.interface.event_fields`.
"""

HIDDEN = "[hidden]"
"""Replaces a text in a column where queries need to know that there is one."""

_USER: Mapping[str, Treatment] = {"user_id": "pseudonym"}

MASKED: Mapping[str, Mapping[str, Treatment]] = {
    "users": _USER,
    "sessions": {**_USER, "key": "words", "metadata": "words", "end_reason": "label"},
    "turns": _USER,
    "failed_turns": {"message": "words"},
    "messages": {**_USER, "content": "words", "metadata": "words"},
    "events": {**_USER, "data": "fields"},
    "action_visits": {**_USER, "exit_reason": "words"},
    "scope_visits": _USER,
    "waits": _USER,
    "variable_history": {
        **_USER,
        "old": "value",
        "new": "value",
        "old_text": "value",
        "new_text": "value",
        "old_number": "value",
        "new_number": "value",
    },
    "variables_current": {**_USER, "value": "value", "value_text": "value", "value_number": "value"},
    "llm_calls": {
        **_USER,
        "error": "words",
        "failures": "words",
        "degraded": "flag",
        "request_digest": "digest",
        "prompt_digest": "digest",
        "reply": "words",
    },
    "detections": {**_USER, "label": "label"},
    "exposures": _USER,
    "milestones": _USER,
    "memory_units": {
        **_USER,
        "unit_id": "pseudonym",
        "group_id": "pseudonym",
        "content": "words",
        "source": "label",
        "metadata": "words",
        "parent_id": "pseudonym",
        "superseded_by": "pseudonym",
        "duplicate_of": "pseudonym",
    },
}
"""Treatments by table and column. `llm_calls.failures` is a column of exports only, not of the model."""
