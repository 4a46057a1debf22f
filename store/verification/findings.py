"""What can be wrong with a record, or an analytics file made of one, and what is to be done about it."""

from collections.abc import Mapping

from msgspec import Struct

FOUND_MAX = 1_000
"""Findings of one rule over whole tables."""

_RESTORE = "restore the record from a backup, or delete the session: `cuebook sessions delete ID`"
_ANEW = "the file is made from the record: take another snapshot, or delete it and ask once more"
_LEFT_OVER = "it is of no use to anybody; restore a backup if the session should be there"


class Finding(Struct, frozen=True, kw_only=True):
    """Something that is wrong, and where. It names no value and nothing that was said."""

    code: str
    table: str
    tenant: str
    session_id: str | None = None
    user_id: str | None = None
    turn: int | None = None
    what: str

    @property
    def remedy(self) -> str:
        """What to do."""
        return REMEDIES[self.code]

    @property
    def is_damage(self) -> bool:
        """Whether it cannot have come about by using the record; else it is worth knowing, and no more."""
        return self.code not in REMARKS


REMEDIES: Mapping[str, str] = {
    "session_twice": "restore the record from a backup",
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
    "state_unsound": "move the session to a version of its script that it fits (`cuebook migrate`), or " + _RESTORE,
    "variables_differ": _RESTORE,
    "text_left": "the text of the session was to be dropped: delete it, `cuebook sessions delete ID`",
    "script_missing": "import the session once more from an export, which holds its script, or " + _RESTORE,
    "script_unusable": "the text cannot be run by this version of Cuebook; see `cuebook check` of the text",
    "script_altered": "restore the record from a backup; sessions must go on with the text they began with",
    "script_twice": "restore the record from a backup",
    "migration_misfit": _RESTORE,
    "replay_parts": "see `cuebook replay ID`; where Cuebook or its limits have changed since, it may be no damage",
    "row_orphaned": _LEFT_OVER,
    "turn_past_end": _LEFT_OVER,
    "call_twice": "restore a backup; until then the costs of this session are counted twice",
    "delivery_orphaned": "nothing is sent of it; delete it with its webhook, or restore a backup",
    "variable_twice": "restore the record from a backup",
    "variable_differs": "set it anew: `PATCH /api/users/ID/variables`",
    "variable_behind": "right where a session was imported from another record; else set the variable anew",
    "model_differs": _ANEW,
    "file_counts_differ": _ANEW,
    "file_misnumbered": _ANEW,
    "file_differs": _ANEW,
    "file_unmasked": "give the file to nobody, delete it, and tell the makers of Cuebook; " + _ANEW,
    "key_of_api_twice": "revoke both (`cuebook keys revoke`), and make a new one",
}
"""By code, what to do."""

REMARKS = frozenset({"variable_behind", "replay_parts"})
"""Codes that use of the record may explain."""
