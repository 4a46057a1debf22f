"""SQL that lists and searches of sessions share: titles, and the messages of turns, which are kept as JSON."""

SPOKEN = (
    '[{"seq": "INTEGER", "message_id": "VARCHAR", "role": "VARCHAR", "content": "VARCHAR", "created_at": "VARCHAR"}]'
)
"""The shape of a turn's messages, for `from_json`."""

LAST_MOVES = """
SELECT * FROM session_migrations WHERE tenant = $tenant
QUALIFY row_number() OVER (PARTITION BY session_id ORDER BY turn DESC) = 1"""
"""The last move of each session that ever moved to another version of its script."""

SCRIPT = """
LEFT JOIN scripts AS script
    ON script.tenant = $tenant AND script.script_uuid = coalesce(m.script_uuid, s.script_uuid)
    AND script.version = coalesce(m.script_version, s.script_version)"""
"""Joins the version of the script that a session `s` runs now, `m` being its last move."""

TITLE = "coalesce(nullif(trim(s.metadata ->> '$.title'), ''), nullif(script.name, ''), s.script_id)"
"""What a session is called: `title` in its metadata, else the name of its script."""

# All that the record itself reads of a state. Both ends of a gap stand at the bounds of turns.
GAPS = """coalesce(from_json(t.state -> '$.gaps', '[["INTEGER"]]'), [])"""
"""First and last numbers of the messages that the state of turn `t` has no more in its conversation."""


def outside(gaps: str, message_count: str) -> str:
    """Whether the messages of a turn are in none of these; a turn's are in a gap all or none."""
    return f"len(list_filter({gaps}, lambda gap: {message_count} BETWEEN gap[1] AND gap[2])) = 0"


def first_of(messages: str, role: str, seq_max: int) -> str:
    """What somebody said first among a turn's messages, if it is in them; none numbered above `seq_max`."""
    said = f"lambda message: message.role = '{role}' AND message.seq <= {seq_max}"
    return f"list_filter(from_json({messages}, '{SPOKEN}'), {said})[1].content"
