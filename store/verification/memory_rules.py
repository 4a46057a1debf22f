"""The consistency rules of memories. Derived data has SQL that rebuilds it; rows that are the truth are only reported.

Derived are vectors, the parents of units, the last number of a memory, the number of ingested turns and short-term
memory. A `fix` concerns one memory. What it deletes, the maintenance of memories creates again. The SQL of a check is
that of DuckDB, the SQL of a fix is executed by every database, and changes only rows that are still broken.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from store.sql.connection import Connection
from store.sql.deletion import remove_dangling
from store.verification.rules import Rule, twice

_Keys: TypeAlias = Sequence[tuple[Any, ...]]
_OF_MEMORY = "tenant = $tenant AND user_id = $user_id"


def _statement(sql: str) -> Callable[[Connection, str, str, _Keys], int]:
    """Return the fix that is one statement, with the parameters `$tenant` and `$user_id`."""
    return lambda connection, tenant, user_id, _: connection.change(sql, {"tenant": tenant, "user_id": user_id})


def _twice(table: str, column: str, what: str) -> Rule:
    columns = ", ".join(dict.fromkeys(("user_id", column)))
    return twice("memory_twice", table, columns, f"{what} || ' has ' || count(*) || ' rows'", ", user_id")


_OWNER_MISSING = """SELECT tenant, user_id, count(*) || ' units belong to no memory' AS what
    FROM memory_unit_rows ANTI JOIN memory_owners USING (tenant, user_id) GROUP BY ALL"""

_GROUP_MISSING = """SELECT tenant, user_id, count(*) || ' units of group `' || group_id || '`, which has no row' AS what
    FROM memory_unit_rows ANTI JOIN memory_groups USING (tenant, user_id, group_id)
    WHERE rank < 2 GROUP BY tenant, user_id, group_id"""

_SESSION_MISSING = """SELECT tenant, user_id, session_id,
        'units or a group of a session that does not exist, or of another user' AS what
    FROM (SELECT tenant, user_id, session_id FROM memory_unit_rows
        UNION SELECT tenant, user_id, session_id FROM memory_groups)
    ANTI JOIN session_starts USING (tenant, user_id, session_id) WHERE session_id IS NOT NULL"""

_MESSAGE_MISSING = """SELECT tenant, user_id, session_id, turn,
        'the message of unit `' || unit_id || '` is not in its turn' AS what
    FROM memory_unit_rows AS u WHERE content IS NULL AND NOT EXISTS (FROM turns AS t
        WHERE t.tenant = u.tenant AND t.user_id = u.user_id AND t.session_id = u.session_id AND t.turn = u.turn
            AND list_contains(from_json(t.messages->'$[*].seq', '["INTEGER"]'), u.message))"""

_GROUP_DIFFERS = """SELECT tenant, user_id,
        'summary `' || unit_id || '` of the whole memory is in another group' AS what
    FROM memory_unit_rows JOIN memory_owners USING (tenant, user_id) WHERE rank = 2 AND group_id <> memory_id"""

_NUMBER_BEHIND = """SELECT tenant, user_id, 'a unit has a higher number than ' || any_value(o.sequence) AS what
    FROM memory_owners AS o JOIN memory_unit_rows AS u USING (tenant, user_id)
    GROUP BY ALL HAVING max(u.sequence) > any_value(o.sequence)"""
_LAST_NUMBER = f"(SELECT max(sequence) FROM memory_unit_rows WHERE {_OF_MEMORY})"  # noqa: S608
_RAISE_NUMBER = f"""UPDATE memory_owners SET sequence = {_LAST_NUMBER}
    WHERE {_OF_MEMORY} AND sequence < {_LAST_NUMBER}"""  # noqa: S608

_INGESTED = """SELECT tenant, g.user_id, session_id, g.turn, max(t.turn),
        'the latest turn is ' || max(t.turn) AS what
    FROM memory_groups AS g JOIN turns AS t USING (tenant, session_id)
    GROUP BY ALL HAVING g.turn > max(t.turn)"""
_LATEST = """(SELECT max(t.turn) FROM turns AS t
    WHERE t.tenant = memory_groups.tenant AND t.session_id = memory_groups.session_id)"""
_LOWER_INGESTED = f"""UPDATE memory_groups SET turn = {_LATEST}
    WHERE {_OF_MEMORY} AND turn > {_LATEST}"""  # noqa: S608

# A parent is higher than its unit, in its group or, for the summary of a whole group, in the memory. So every cycle
# contains a unit that violates this.
_IS_PARENT_INVALID = """parent_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM memory_unit_rows AS p
    WHERE p.tenant = u.tenant AND p.user_id = u.user_id AND p.unit_id = u.parent_id
        AND (p.rank, p.level) > (u.rank, u.level) AND CASE p.rank
            WHEN 1 THEN p.group_id = u.group_id AND (u.rank = 0 OR u.unit_id <> u.group_id)
            WHEN 2 THEN u.rank > 0 AND (u.rank = 1) = (u.unit_id = u.group_id)
            ELSE false END)"""
_PARENT_INVALID = f"""SELECT tenant, user_id, 'the parent of unit `' || unit_id || '` is not a summary above it' AS what
    FROM memory_unit_rows AS u WHERE {_IS_PARENT_INVALID}"""  # noqa: S608
_REMOVE_PARENT = f"""UPDATE memory_unit_rows AS u SET parent_id = NULL
    WHERE {_OF_MEMORY} AND {_IS_PARENT_INVALID}"""  # noqa: S608

# A 32-bit float is not finite if all bits of its exponent are set: in the last byte, and one in the byte before it. The
# newest of several vectors of a unit counts.
_VECTOR_INVALID = """SELECT tenant, user_id, embedder, sequence, digest,
        'the vector of unit ' || sequence || ' by ' || embedder || ' ' || problem AS what
    FROM (SELECT v.tenant, v.user_id, v.embedder, v.sequence, md5(v.vector) AS digest, CASE
            WHEN u.sequence IS NULL THEN 'belongs to a unit that does not exist'
            WHEN u.session_id IS DISTINCT FROM v.session_id THEN 'has another session than its unit'
            WHEN octet_length(vector) > 0 AND (octet_length(vector) <> usual OR usual % 4 <> 0)
                THEN 'has another length than the others of its embedder'
            WHEN regexp_matches(hex(vector), '^(?:.{8})*.{4}[89A-F].[7F]F') THEN 'has a number that is not finite'
            WHEN row_number() OVER (PARTITION BY v.tenant, v.user_id, v.embedder, v.sequence ORDER BY v.rowid DESC) > 1
                THEN 'exists twice' END AS problem
        FROM memory_vectors AS v
        LEFT JOIN (SELECT tenant, user_id, sequence, any_value(session_id) AS session_id FROM memory_unit_rows
            GROUP BY ALL) AS u USING (tenant, user_id, sequence)
        LEFT JOIN (SELECT embedder, mode(octet_length(vector)) AS usual FROM memory_vectors
            WHERE octet_length(vector) > 0 GROUP BY embedder) USING (embedder))
    WHERE problem IS NOT NULL"""

# Short-term memory is a JSON column with lists of unit sequences.
_SEQUENCES = """flatten(list_transform(json_extract(short_term, '$.working.*'),
    lambda each: if(json_type(each) = 'ARRAY', from_json(each, '["BIGINT"]'), [])))"""
_DANGLING = f"""SELECT tenant, user_id, group_id, place, list(listed) AS gone FROM (
        SELECT tenant, user_id, group_id, rowid AS place, unnest({_SEQUENCES}) AS listed FROM memory_groups
        WHERE json_type(short_term, '$.working') = 'OBJECT'
    ) AS g WHERE NOT EXISTS (FROM memory_unit_rows AS u
        WHERE u.tenant = g.tenant AND u.user_id = g.user_id AND u.sequence = g.listed) GROUP BY ALL"""  # noqa: S608
"""SELECT of all groups whose short-term memory names units that no longer exist, and of those units as `gone`."""
_SHORT_TERM_MISSING = f"""SELECT tenant, user_id,
        'group `' || group_id || '` has units in short-term memory that do not exist' AS what
    FROM ({_DANGLING})"""  # noqa: S608

# What length is usual, all memories tell: so the check finds the vectors, and the fix does not read those of others.
_REMOVE_VECTORS = f"""DELETE FROM memory_vectors WHERE {_OF_MEMORY} AND (embedder, sequence, md5(vector)) IN (
    SELECT unnest($embedders::VARCHAR[]), unnest($sequences::BIGINT[]), unnest($digests::VARCHAR[]))"""  # noqa: S608


def _remove_vectors(connection: Connection, tenant: str, user_id: str, keys: _Keys) -> int:
    embedders, sequences, digests = ([key[place] for key in keys] for place in range(3))
    given = {"embedders": embedders, "sequences": sequences, "digests": digests}
    return connection.change(_REMOVE_VECTORS, {"tenant": tenant, "user_id": user_id, **given})


def _shorten(connection: Connection, tenant: str, user_id: str, _: _Keys) -> int:
    return remove_dangling(connection, tenant, user_id)


MEMORY_RULES = (
    _twice("memory_owners", "user_id", "'the memory'"),
    _twice("memory_groups", "group_id", "'group `' || group_id || '`'"),
    _twice("memory_unit_rows", "unit_id", "'unit `' || unit_id || '`'"),
    _twice("memory_unit_rows", "sequence", "'unit number ' || sequence"),
    Rule("memory_missing", "memory_owners", _OWNER_MISSING),
    Rule("memory_missing", "memory_groups", _GROUP_MISSING),
    Rule("memory_orphaned", "memory_unit_rows", _SESSION_MISSING),
    Rule("memory_orphaned", "memory_unit_rows", _MESSAGE_MISSING),
    Rule("memory_group_differs", "memory_unit_rows", _GROUP_DIFFERS),
    Rule("memory_number_behind", "memory_owners", _NUMBER_BEHIND, _statement(_RAISE_NUMBER)),
    Rule("memory_past_end", "memory_groups", _INGESTED, _statement(_LOWER_INGESTED)),
    Rule("memory_parent_invalid", "memory_unit_rows", _PARENT_INVALID, _statement(_REMOVE_PARENT)),
    Rule("vector_invalid", "memory_vectors", _VECTOR_INVALID, _remove_vectors, "embedder, sequence, digest"),
    Rule("short_term_memory_missing", "memory_groups", _SHORT_TERM_MISSING, _shorten),
)
"""In the order of the fixes: a fix can cause a violation that a later one fixes."""
