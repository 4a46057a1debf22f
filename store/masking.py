"""The columns that a masked analytics file does not show as they are: the one list that queries, snapshots, Parquet,
masked exports of sessions and the check of analytics files follow.

A column that is not listed is shown to everybody. `tests/api/analytics/test_masked_columns.py` holds every column of
the model to one side or the other, so that a new one fails there until somebody has decided.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

Treatment: TypeAlias = Literal["pseudonym", "words", "digest", "flag", "value", "label", "fields"]
"""What becomes of a column.

pseudonym: a keyed digest of an id that an application chose; the key never leaves the data folder.
words: NULL in analytics; in an export the text without personal values.
digest: NULL in analytics, empty in an export: who knows the rest of a text confirms a guess by its digest.
flag: NULL and empty stay, any other text is replaced by `HIDDEN`, so that it is still counted.
value: NULL where the variable is personal, or holds a text, a list or a record.
label: kept where it is a word of a closed set or of the script.
fields: the fields of `store.event_fields` alone.
"""

HIDDEN = "[hidden]"
"""Stands in the place of words where it matters that there are any."""

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
"""By table and column; `llm_calls.failures` is in no table of the model, but in exports."""


def masking_sql(table: str, column_types: Mapping[str, str]) -> str:
    """Return the SQL list for `SELECT * REPLACE (…)` that masks rows of a table where `is_masked` is set; it has the
    columns that there are. For tables whose columns are all of pseudonym of users, words, digest or flag.
    """
    parts = []
    for column, treatment in MASKED[table].items():
        if column not in column_types:
            continue
        match treatment:
            case "pseudonym":
                masked = f"who({column})"
            case "words" | "digest":
                masked = f"CASE WHEN NOT getvariable('is_masked') THEN {column} END::{column_types[column]}"
            case "flag":
                masked = f"CASE WHEN getvariable('is_masked') AND {column} != '' THEN '{HIDDEN}' ELSE {column} END"
            case "value" | "label" | "fields":
                raise ValueError(f"{table}.{column} is masked by its own SQL, not by a rule of columns")
        parts.append(f"{masked} AS {column}")
    return ", ".join(parts)
