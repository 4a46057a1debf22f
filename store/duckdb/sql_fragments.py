"""SQL shared by the list and the search of sessions: titles, and the messages of turns, which are stored as JSON."""

SPOKEN = (
    '[{"seq": "INTEGER", "message_id": "VARCHAR", "role": "VARCHAR", "content": "VARCHAR", "created_at": "VARCHAR"}]'
)
"""The structure of a turn's messages, for `from_json`."""

LAST_MOVES = """
SELECT * FROM session_migrations WHERE tenant = $tenant
QUALIFY row_number() OVER (PARTITION BY session_id ORDER BY turn DESC) = 1"""
"""The last script migration of each session that was migrated."""

SCRIPT_NOW = ", ".join(
    f"coalesce(m.{column}, s.{column}) AS {column}"
    for column in ("script_uuid", "script_id", "script_version", "digest")
)
"""The columns of the version of the script that a session `s` runs now; `m` is its last migration."""

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


def first_of(messages: str, role: str, seq_max: int) -> str:
    """Return SQL for the text of the first message of a role in a turn, among those numbered up to `seq_max`."""
    matches = f"lambda message: message.role = '{role}' AND message.seq <= {seq_max}"
    return f"list_filter(from_json({messages}, '{SPOKEN}'), {matches})[1].content"
