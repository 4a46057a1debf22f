"""The findings of a verification of the database or of an analytics file, with a remedy for each code."""

from collections.abc import Mapping

from msgspec import Struct

FOUND_MAX = 1_000
"""Maximum number of findings of one rule over whole tables."""

_RESTORE = "restore the database from a backup, or delete the session: `cuebook sessions delete ID`"
_REBUILD = "the file is generated from the database: take another snapshot, or delete the file and run the query again"
_DERIVED = "rebuild it from other rows: `cuebook verify --fix`"
_UNUSED = "nothing uses the row; restore a backup if the session should exist"


class Finding(Struct, frozen=True, kw_only=True):
    """An inconsistency and its location. It contains no variable values and no message texts."""

    code: str
    table: str
    tenant: str
    session_id: str | None = None
    user_id: str | None = None
    turn: int | None = None
    what: str

    @property
    def remedy(self) -> str:
        """How to fix it."""
        return REMEDIES[self.code]

    @property
    def is_damage(self) -> bool:
        """Whether it is damage. If not, normal use can explain it, and it is reported as information only."""
        return self.code not in REMARKS


REMEDIES: Mapping[str, str] = {
    "commits_missing": "restore a backup, or accept the loss: delete the file that the text names",
    "session_twice": "restore the database from a backup",
    "session_empty": _RESTORE,
    "key_twice": "give one of the sessions another key: restore a backup, or delete one of them",
    "turn_missing": _RESTORE,
    "turn_twice": _RESTORE,
    "row_unreadable": _RESTORE,
    "user_differs": _RESTORE,
    "messages_misnumbered": _RESTORE,
    "events_misnumbered": _RESTORE,
    "event_of_nothing": _RESTORE,
    "state_unreadable": "start the version of Cuebook that wrote it, or " + _RESTORE,
    "state_differs": _RESTORE,
    "state_invalid": "move the session to a version of its script that it fits (`cuebook migrate`), or " + _RESTORE,
    "variables_differ": _RESTORE,
    "text_left": "the session was to be redacted: delete it, `cuebook sessions delete ID`",
    "script_missing": "import the session again from an export, which contains its script, or " + _RESTORE,
    "script_unusable": "this version of Cuebook cannot run the text; run `cuebook check` on it",
    "script_altered": "restore the database from a backup; a session must continue with the text it started with",
    "script_twice": "restore the database from a backup",
    "migration_misfit": _RESTORE,
    "replay_parts": "see `cuebook replay ID`; it may not be damage if Cuebook or its limits have changed since",
    "row_orphaned": _UNUSED,
    "turn_past_end": _UNUSED,
    "call_twice": "restore a backup; until then the costs of this session are counted twice",
    "delivery_orphaned": "the delivery is not sent; delete it with its webhook, or restore a backup",
    "variable_twice": "restore the database from a backup",
    "variable_differs": "set the variable again: `PATCH /api/users/ID/variables`",
    "variable_behind": "correct if a session was imported from another database; otherwise set the variable again",
    "model_differs": _REBUILD,
    "file_counts_differ": _REBUILD,
    "file_differs": _REBUILD,
    "file_unmasked": "do not share the file; delete it and report a bug of Cuebook; " + _REBUILD,
    "memory_twice": "restore the database from a backup, or delete the user's data: `cuebook users erase ID`",
    "memory_missing": "restore the database from a backup, or delete the user's data: `cuebook users erase ID`",
    "memory_orphaned": "restore a backup if the session should exist; or remove the units: `cuebook memory remove`",
    "memory_group_differs": "remove the summary (`cuebook memory remove`); the next summary of the memory replaces it",
    "memory_number_behind": _DERIVED,
    "memory_past_end": _DERIVED,
    "memory_parent_invalid": _DERIVED,
    "vector_invalid": _DERIVED,
    "short_term_memory_missing": _DERIVED,
    "key_of_api_twice": "revoke both keys (`cuebook keys revoke`) and create a new one",
}
"""The remedies, by code."""

REMARKS = frozenset({"variable_behind", "replay_parts"})
"""Codes that normal use of the database can explain."""
