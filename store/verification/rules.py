"""The consistency rules between the tables of the database; each rule is one SELECT that finds its violations."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from store.duckdb.statements import Cursor, fetch
from store.interface.findings import FOUND_MAX, Finding
from store.sql.connection import Connection
from store.sql.deletion import OWNED

_EXEMPT = {"session_starts", "turns", "call_journal", "participants"}
"""Tables without the rule for orphaned rows: `session_starts` and `turns` have rules of their own, the journal has
calls of sessions that were killed before their first turn, and the sessions of participants may not have begun.
Memories have rules of their own.
"""


class Rule(Struct, frozen=True):
    """A rule; `found` selects its violations: `tenant`, `what`, and if known `session_id`, `user_id` and `turn`."""

    code: str
    table: str
    found: str
    fix: Callable[[Connection, str, str, Sequence[tuple[Any, ...]]], int] | None = None
    """Rebuilds derived rows of the memory of a tenant's user, and returns their number; None if nothing can.

    Every database executes it. It has the values of `keys` for the violations in the memory.
    """
    keys: str = ""
    """Columns of `found` with which the fix finds the rows that violate the rule; none if it finds them itself."""


def find_violations(cursor: Cursor, rule: Rule) -> list[Finding]:
    """Return the violations of a rule, at most FOUND_MAX."""
    found = f"SELECT * FROM ({rule.found}) ORDER BY ALL LIMIT {FOUND_MAX}"  # noqa: S608
    select = f"""SELECT *, '{rule.code}' AS code, '{rule.table}' AS "table" FROM ({found})"""  # noqa: S608
    return fetch(cursor, Finding, select, {})


def broken_keys(cursor: Cursor, rule: Rule, tenant: str, user_id: str) -> list[tuple[Any, ...]]:
    """Return the keys of the rows of a memory that violate a rule, for its fix."""
    if not rule.keys:
        return []
    select = f"SELECT {rule.keys} FROM ({rule.found}) WHERE tenant = $tenant AND user_id = $user_id"  # noqa: S608
    return cursor.execute(select, {"tenant": tenant, "user_id": user_id}).fetchall()


def fix(connection: Connection, rule: Rule, tenant: str, user_id: str, keys: Sequence[tuple[Any, ...]]) -> None:
    """Rebuild the derived rows of a memory that violate a rule. Within a transaction."""
    if rule.fix is not None and rule.fix(connection, tenant, user_id, keys):
        connection.note_memory_change(tenant, [user_id])


_LATEST = "(SELECT tenant, session_id, max(turn) AS turn FROM turns GROUP BY ALL)"


def _orphan_rule(table: str) -> Rule:
    found = f"""SELECT tenant, session_id, count(*) || ' rows of a session that does not exist' AS what
        FROM {table} ANTI JOIN session_starts USING (tenant, session_id) GROUP BY ALL"""  # noqa: S608
    return Rule("row_orphaned", table, found)


def _past_end(table: str, turn: str, more: int) -> Rule:
    found = f"""SELECT rows.tenant, rows.session_id, {turn} AS turn, 'the latest turn is ' || latest.turn AS what
        FROM {table} AS rows JOIN {_LATEST} AS latest USING (tenant, session_id)
        WHERE {turn} > latest.turn + {more} GROUP BY ALL"""  # noqa: S608
    return Rule("turn_past_end", table, found)


def twice(code: str, table: str, columns: str, what: str, shown: str = "") -> Rule:
    """Return the rule that no two rows have the same values in these columns; `shown` are more columns of a finding."""
    found = f"""SELECT tenant {shown}, {what} AS what FROM {table} WHERE ({columns}) IS NOT NULL
        GROUP BY tenant, {columns} HAVING count(*) > 1"""  # noqa: S608
    return Rule(code, table, found)


def _sharing_rule(key: str) -> Rule:
    found = f"""SELECT tenant, session_id, 'another session has the same {key.replace("_", " ")}' AS what
        FROM session_starts WHERE {key} IS NOT NULL
        QUALIFY count(DISTINCT session_id) OVER (PARTITION BY tenant, {key}) > 1"""  # noqa: S608
    return Rule("key_twice", "session_starts", found)


def _text_missing(table: str) -> Rule:
    found = f"""SELECT DISTINCT tenant, 'there is no text with the digest ' || digest AS what FROM {table}
        ANTI JOIN script_texts USING (tenant, digest)"""  # noqa: S608
    return Rule("script_missing", table, found)


_CALLS_TWICE = """SELECT tenant, session_id, min(turn) AS turn, 'a call has ' || count(*) || ' rows' AS what FROM (
        SELECT tenant, session_id, turn, call_id FROM settled_calls
        UNION ALL SELECT tenant, session_id, min(turn), call_id FROM call_journal GROUP BY ALL
    ) GROUP BY tenant, session_id, call_id HAVING count(*) > 1"""

_NO_WEBHOOK = """SELECT tenant, session_id, turn, count(*) || ' deliveries for a webhook that does not exist' AS what
    FROM webhook_deliveries ANTI JOIN webhooks USING (tenant, webhook_id) GROUP BY ALL"""

_UNSETTLED = """SELECT tenant, session_id, turn, 'a delivery has the status ' || status || ', but ' ||
        if(settled_at IS NULL, 'no settlement time', 'a settlement time') AS what
    FROM webhook_deliveries WHERE (status = 'pending') <> (settled_at IS NULL)"""

# Deleting a session deletes its writes, but not the variables, so a variable without a write is not a violation. Writes
# with the same time are writes of one turn: the last one counts. Redacted sessions have no values and are left out.
_WRITES = """
    SELECT tenant, user_id, name, new, written_at, session_id, turn, place FROM (
        SELECT tenant, user_id, name, "new", written_at, session_id, turn, place,
            row_number() OVER (PARTITION BY tenant, user_id, name, written_at, session_id ORDER BY place DESC) AS rank
        FROM (
            SELECT tenant, user_id, finished_at AS written_at, session_id, turn,
                generate_subscripts(writes, 1) AS place, unnest(writes, max_depth := 2)
            FROM (SELECT *, from_json(variables, '[{"scope": "VARCHAR", "name": "VARCHAR", "new": "JSON"}]') AS writes
                FROM turns SEMI JOIN (FROM session_starts WHERE redacted_at IS NULL) USING (tenant, session_id)
                WHERE contains(variables, '"global"'))
            UNION ALL BY NAME
            SELECT tenant, user_id, written_at, 0 AS place, 'global' AS scope, name, "new" FROM user_variable_writes
        ) WHERE scope = 'global'
    ) WHERE rank = 1"""

_VALUE_DIFFERS = f"""SELECT now.tenant, now.user_id, any_value(writes.session_id) AS session_id,
        any_value(writes.turn) AS turn, 'the value of `' || now.name || '` differs from the write at that time' AS what
    FROM user_variables AS now JOIN ({_WRITES}) AS writes
        ON writes.tenant = now.tenant AND writes.user_id = now.user_id AND writes.name = now.name
        AND writes.written_at = now.updated_at
    GROUP BY now.tenant, now.user_id, now.name, now.value
    HAVING NOT coalesce(bool_or(writes."new"::VARCHAR = now.value::VARCHAR), false)"""  # noqa: S608

# A margin of one minute, because of two concurrent turns the one that finishes later may be committed first. What a
# session wrote last follows from its turns, not from their times: a clock may have been set back between them.
_VALUE_BEHIND = f"""SELECT now.tenant, now.user_id, arg_max(writes.session_id, writes.written_at) AS session_id,
        arg_max(writes.turn, writes.written_at) AS turn, '`' || now.name || '` was written later' AS what
    FROM user_variables AS now JOIN (SELECT * FROM ({_WRITES}) QUALIFY row_number() OVER (
            PARTITION BY tenant, user_id, name, session_id ORDER BY turn DESC, written_at DESC) = 1) AS writes
        ON writes.tenant = now.tenant AND writes.user_id = now.user_id AND writes.name = now.name
        AND writes.written_at > now.updated_at + INTERVAL 1 MINUTE
    GROUP BY now.tenant, now.user_id, now.name"""  # noqa: S608

RULES = (
    twice("session_twice", "session_starts", "session_id", "'it has ' || count(*) || ' rows'", ", session_id"),
    _sharing_rule("key"),
    _sharing_rule("idempotency_key"),
    _orphan_rule("turns"),
    *(
        _orphan_rule(owned.table)
        for owned in OWNED
        if owned.by_session and owned.table not in _EXEMPT and not owned.table.startswith("memory_")
    ),
    _past_end("settled_calls", "rows.turn", 0),
    _past_end("turn_failures", "rows.turn_attempted", 1),
    _past_end("webhook_deliveries", "rows.turn", 0),
    _past_end("session_migrations", "rows.turn", 0),
    Rule("call_twice", "settled_calls", _CALLS_TWICE),
    Rule("delivery_orphaned", "webhook_deliveries", _NO_WEBHOOK),
    Rule("delivery_orphaned", "webhook_deliveries", _UNSETTLED),
    twice("variable_twice", "user_variables", "user_id, name", "'`' || name || '` has two values'", ", user_id"),
    Rule("variable_differs", "user_variables", _VALUE_DIFFERS),
    Rule("variable_behind", "user_variables", _VALUE_BEHIND),
    _text_missing("session_starts"),
    _text_missing("session_migrations"),
    _text_missing("scripts"),
    twice("script_twice", "script_texts", "digest", "'there are two texts with the digest ' || digest"),
    twice("script_twice", "scripts", "script_uuid, version", "'version ' || version || ' exists twice'"),
    twice("link_twice", "links", "link_id", "'two links have the id ' || link_id"),
    twice("participant_twice", "participants", "participant_id", "'two participants have the id ' || participant_id"),
    twice("key_of_api_twice", "api_keys", "key_id", "'two keys have the id ' || key_id"),
)
"""In the order of the checks: the tables of sessions come first."""
