"""SQL for lists and searches: scripts and titles of sessions, and the messages of turns, which are stored as JSON."""

SPOKEN = (
    '[{"seq": "INTEGER", "message_id": "VARCHAR", "role": "VARCHAR", "content": "VARCHAR", "created_at": "VARCHAR"}]'
)
"""The structure of a turn's messages, for `from_json`."""

SCRIPT = """
LEFT JOIN scripts AS script
    ON script.tenant = $tenant AND script.script_uuid = coalesce(m.script_uuid, s.script_uuid)
    AND script.version = coalesce(m.script_version, s.script_version)"""
"""Joins the version of the script that a session `s` runs now; `m` is its last migration."""

TITLE = "coalesce(nullif(trim(s.metadata ->> '$.title'), ''), nullif(script.name, ''), s.script_id)"
"""The title of a session: `title` in its metadata, otherwise the name of its script."""

# The only field of a state that the store reads. Both ends of a gap are at the bounds of turns.
GAPS = """coalesce(from_json(t.state -> '$.gaps', '[["INTEGER"]]'), [])"""
"""First and last numbers of the ranges of messages that are no longer in the conversation after turn `t`."""


def outside(gaps: str, message_count: str) -> str:
    """Return SQL for whether the messages of a turn are outside all gaps; a gap has all of them or none."""
    return f"len(list_filter({gaps}, lambda gap: {message_count} BETWEEN gap[1] AND gap[2])) = 0"
