"""What can be wrong with the rows of memories: how each is found, and how it is mended from other rows.

Every statement is of one memory, or to find with null for `$tenant` and `$user_id` of all. Words that stand nowhere
else are never removed.
"""

from msgspec import Struct


class Damage(Struct, frozen=True):
    """One thing that can be wrong."""

    code: str
    means: str
    mended: str
    """What repairing does; empty where the server sees to it by itself."""
    found: str
    """SELECT of tenant, user_id, subject (what it is about, as text), sequence (null: no unit) and place, a rowid."""
    repair: tuple[str, ...] = ()
    """Statements; `$tenant` and `$user_id` are never null in them."""


def _of(table: str) -> str:
    return f"""(SELECT rowid AS place, * FROM {table}
        WHERE tenant = coalesce($tenant, tenant) AND user_id = coalesce($user_id, user_id))"""  # noqa: S608


_OWNERS, _GROUPS, _UNITS, _VECTORS = map(_of, ("memory_owners", "memory_groups", "memory_unit_rows", "memory_vectors"))
_NOTHING = "NULL::BIGINT AS sequence, NULL::BIGINT AS place"

# -- owners and groups ----------------------------------------------------------------------------------------------

_OWNER_TWICE = f"""SELECT o.tenant, o.user_id, memory_id AS subject, NULL::BIGINT AS sequence, place FROM {_OWNERS} AS o
    QUALIFY row_number() OVER (PARTITION BY o.tenant, o.user_id ORDER BY o.sequence DESC, place) > 1"""  # noqa: S608

# A group may be there before the memory: that is made with the first unit.
_OWNER_MISSING = f"""SELECT DISTINCT tenant, user_id, user_id AS subject, {_NOTHING}
    FROM {_UNITS} ANTI JOIN memory_owners USING (tenant, user_id)"""  # noqa: S608

_OWNER_BEHIND = f"""SELECT o.tenant, o.user_id, o.memory_id AS subject, {_NOTHING} FROM {_OWNERS} AS o
    WHERE o.sequence < (SELECT max(u.sequence) FROM memory_unit_rows AS u
        WHERE u.tenant = o.tenant AND u.user_id = o.user_id)"""  # noqa: S608

_RAISE_OWNER = f"""UPDATE memory_owners
    SET sequence = greatest(sequence, (SELECT coalesce(max(sequence), 0) FROM {_UNITS}))
    WHERE tenant = $tenant AND user_id = $user_id"""  # noqa: S608

_GROUP_TWICE = f"""SELECT tenant, user_id, group_id AS subject, NULL::BIGINT AS sequence, place FROM {_GROUPS}
    QUALIFY row_number() OVER (PARTITION BY tenant, user_id, group_id ORDER BY turn DESC, place) > 1"""  # noqa: S608

_GROUP_MISSING = f"""SELECT DISTINCT tenant, user_id, group_id AS subject, {_NOTHING} FROM {_UNITS} AS u
    WHERE rank < 2 AND NOT EXISTS (FROM memory_groups AS g
        WHERE g.tenant = u.tenant AND g.user_id = u.user_id AND g.group_id = u.group_id)"""  # noqa: S608

_SESSION_GONE = f"""SELECT DISTINCT tenant, user_id, session_id::VARCHAR AS subject, {_NOTHING} FROM (
        SELECT tenant, user_id, session_id FROM {_UNITS} UNION SELECT tenant, user_id, session_id FROM {_GROUPS}
    ) AS m WHERE session_id IS NOT NULL AND NOT EXISTS (FROM session_starts AS s
        WHERE s.tenant = m.tenant AND s.user_id = m.user_id AND s.session_id = m.session_id)"""  # noqa: S608
_OF_GONE = f"""tenant = $tenant AND user_id = $user_id
    AND session_id IN (SELECT subject::UUID FROM ({_SESSION_GONE}))"""  # noqa: S608

_PAST_END = f"""SELECT tenant, user_id, group_id AS subject, NULL::BIGINT AS sequence, place FROM {_GROUPS} AS g
    WHERE turn > (SELECT max(t.turn) FROM turns AS t
        WHERE t.tenant = g.tenant AND t.session_id = g.session_id)"""  # noqa: S608

# -- units ----------------------------------------------------------------------------------------------------------

_SEQUENCE_TWICE = f"""SELECT tenant, user_id, unit_id AS subject, sequence, place FROM {_UNITS}
    QUALIFY row_number() OVER (PARTITION BY tenant, user_id, sequence ORDER BY place) > 1"""  # noqa: S608

# Of summaries the newest is kept: it tells what the older ones told, and more.
_UNIT_TWICE = f"""SELECT tenant, user_id, unit_id AS subject, sequence, place, rank,
        content IS NOT DISTINCT FROM first_value(content) OVER same AS says_the_same FROM {_UNITS}
    WINDOW same AS (PARTITION BY tenant, user_id, unit_id ORDER BY if(rank = 0, sequence, -sequence), place)
    QUALIFY row_number() OVER same > 1"""  # noqa: S608

_ACCOUNT_ELSEWHERE = f"""SELECT u.tenant, u.user_id, u.unit_id AS subject, u.sequence, u.place FROM {_UNITS} AS u
    JOIN memory_owners AS o ON o.tenant = u.tenant AND o.user_id = u.user_id
    WHERE u.rank = 2 AND u.group_id <> o.memory_id"""  # noqa: S608

_MESSAGE_MISSING = f"""SELECT u.tenant, u.user_id, u.unit_id AS subject, u.sequence, u.place FROM {_UNITS} AS u
    WHERE u.content IS NULL AND NOT EXISTS (FROM turns AS t WHERE t.tenant = u.tenant AND t.user_id = u.user_id
        AND t.session_id = u.session_id AND t.turn = u.turn
        AND list_contains(from_json(t.messages->'$[*].seq', '["INTEGER"]'), u.message))"""  # noqa: S608

_PARENT_MISSING = f"""SELECT tenant, user_id, unit_id AS subject, sequence, place FROM {_UNITS} AS u
    WHERE parent_id IS NOT NULL AND NOT EXISTS (FROM memory_unit_rows AS p
        WHERE p.tenant = u.tenant AND p.user_id = u.user_id AND p.unit_id = u.parent_id)"""  # noqa: S608

# Every edge leads up, so a circle has one that does not.
_PARENT_WRONG = f"""SELECT u.tenant, u.user_id, u.unit_id AS subject, u.sequence, u.place FROM {_UNITS} AS u
    JOIN memory_unit_rows AS p ON p.tenant = u.tenant AND p.user_id = u.user_id AND p.unit_id = u.parent_id
    WHERE NOT ((p.rank, p.level) > (u.rank, u.level) AND CASE p.rank
        WHEN 1 THEN p.group_id = u.group_id AND (u.rank = 0 OR u.unit_id <> u.group_id)
        WHEN 2 THEN u.rank > 0 AND (u.rank = 1) = (u.unit_id = u.group_id)
        ELSE false END)"""  # noqa: S608

_STALE = f"""SELECT tenant, user_id, unit_id AS subject, sequence, place FROM {_UNITS} WHERE is_stale
    UNION ALL SELECT tenant, user_id, memory_id, NULL, place FROM {_OWNERS} WHERE is_stale"""  # noqa: S608

# -- vectors and what is in mind ------------------------------------------------------------------------------------

_VECTOR_TWICE = f"""SELECT tenant, user_id, embedder AS subject, sequence, place FROM {_VECTORS}
    QUALIFY row_number() OVER (PARTITION BY tenant, user_id, embedder, sequence ORDER BY place DESC) > 1"""  # noqa: S608

_VECTOR_ASTRAY = f"""SELECT tenant, user_id, embedder AS subject, sequence, place FROM {_VECTORS} AS v
    WHERE NOT EXISTS (FROM memory_unit_rows AS u
        WHERE u.tenant = v.tenant AND u.user_id = v.user_id AND u.sequence = v.sequence)"""  # noqa: S608

# A float of 32 bits is not finite where all bits of its exponent are set: in the last byte, and one before it.
_VECTOR_DAMAGED = f"""SELECT tenant, user_id, embedder AS subject, sequence, place FROM {_VECTORS}
    JOIN (SELECT embedder, mode(octet_length(vector)) AS usual FROM memory_vectors
        WHERE octet_length(vector) > 0 GROUP BY embedder) USING (embedder)
    WHERE octet_length(vector) > 0 AND (octet_length(vector) <> usual OR usual % 4 <> 0
        OR regexp_matches(hex(vector), '^(?:.{{8}})*.{{4}}[89A-F].[7F]F'))"""  # noqa: S608

_VECTOR_ELSEWHERE = f"""SELECT v.tenant, v.user_id, v.embedder AS subject, v.sequence, v.place FROM {_VECTORS} AS v
    JOIN memory_unit_rows AS u ON u.tenant = v.tenant AND u.user_id = v.user_id AND u.sequence = v.sequence
    WHERE u.session_id IS DISTINCT FROM v.session_id"""  # noqa: S608

_IN_MIND = """flatten(list_transform(json_extract(short_term, '$.working.*'),
    lambda each: if(json_type(each) = 'ARRAY', from_json(each, '["BIGINT"]'), [])))"""

_MIND_GONE = f"""SELECT tenant, user_id, subject, NULL::BIGINT AS sequence, place, list(held) AS gone FROM (
        SELECT tenant, user_id, group_id AS subject, place, unnest({_IN_MIND}) AS held FROM {_GROUPS}
        WHERE json_type(short_term, '$.working') = 'OBJECT'
    ) AS g WHERE NOT EXISTS (FROM memory_unit_rows AS u
        WHERE u.tenant = g.tenant AND u.user_id = g.user_id AND u.sequence = g.held) GROUP BY ALL"""  # noqa: S608


def _drop(table: str, found: str) -> str:
    return f"DELETE FROM {table} WHERE rowid IN (SELECT place FROM ({found}))"  # noqa: S608


def _drop_vectors(found: str) -> str:
    return f"""DELETE FROM memory_vectors WHERE tenant = $tenant AND user_id = $user_id
        AND sequence IN (SELECT sequence FROM ({found}))"""  # noqa: S608


def _set(changes: str, found: str, table: str = "memory_unit_rows") -> str:
    return f"UPDATE {table} SET {changes} WHERE rowid IN (SELECT place FROM ({found}))"  # noqa: S608


# -- how they are mended --------------------------------------------------------------------------------------------

_MAKE_OWNER = f"""INSERT INTO memory_owners BY NAME
    SELECT tenant, user_id, coalesce(min(group_id) FILTER (rank = 2), uuid()::VARCHAR) AS memory_id,
        max(sequence) AS sequence, false AS is_stale, min(creation_time) AS created_at
    FROM {_UNITS} GROUP BY ALL"""  # noqa: S608

# Turns after the last one that a unit tells of are admitted anew: better twice than never.
_MAKE_GROUPS = f"""INSERT INTO memory_groups BY NAME
    SELECT tenant, user_id, group_id, any_value(session_id) FILTER (session_id::VARCHAR = group_id) AS session_id,
        coalesce(max(turn) FILTER (session_id::VARCHAR = group_id), -1) AS turn, min(creation_time) AS created_at
    FROM {_UNITS} WHERE rank < 2 AND group_id IN (SELECT subject FROM ({_GROUP_MISSING})) GROUP BY ALL"""  # noqa: S608

_LET_SESSIONS_GO = (
    f"""DELETE FROM memory_vectors WHERE tenant = $tenant AND user_id = $user_id AND sequence IN (
        SELECT sequence FROM memory_unit_rows WHERE content IS NULL AND {_OF_GONE})""",  # noqa: S608
    f"DELETE FROM memory_unit_rows WHERE content IS NULL AND {_OF_GONE}",  # noqa: S608
    f"DELETE FROM memory_groups WHERE group_id NOT IN (SELECT group_id FROM {_UNITS}) AND {_OF_GONE}",  # noqa: S608
    f"UPDATE memory_groups SET session_id = NULL, turn = -1 WHERE {_OF_GONE}",  # noqa: S608
    f"UPDATE memory_vectors SET session_id = NULL WHERE {_OF_GONE}",  # noqa: S608
    f"""UPDATE memory_owners SET is_stale = EXISTS (FROM {_UNITS} WHERE rank = 2)
        WHERE tenant = $tenant AND user_id = $user_id""",  # noqa: S608
    f"""UPDATE memory_unit_rows SET is_stale = is_stale OR rank = 1, session_id = NULL, turn = NULL, message = NULL
        WHERE {_OF_GONE}""",  # noqa: S608
)

_NUMBER_ANEW = f"""UPDATE memory_unit_rows SET sequence = anew.number FROM (
        SELECT place, row_number() OVER (ORDER BY sequence, place) + (SELECT max(sequence) FROM (
            SELECT sequence FROM {_UNITS} UNION ALL SELECT sequence FROM {_OWNERS})) AS number
        FROM ({_SEQUENCE_TWICE})
    ) AS anew WHERE memory_unit_rows.rowid = anew.place"""  # noqa: S608


def _kept(name: str) -> str:
    """What is still there of a list that is in mind; null where there is no such list."""
    return f"""list_filter(from_json(json_extract(short_term, '$.working.{name}'), '["BIGINT"]'),
        lambda each: NOT list_contains(gone, each))"""


FORGET_GONE = f"""UPDATE memory_groups SET short_term = json_merge_patch(short_term, json_object('working',
        json_object('context', {_kept("context")}, 'short_term', {_kept("short_term")})))
    FROM ({_MIND_GONE}) AS mind WHERE memory_groups.rowid = mind.place"""  # noqa: S608
"""Takes out of what `$user_id` of `$tenant` has in mind what is no more."""

_COPIES = f"SELECT * FROM ({_UNIT_TWICE}) WHERE says_the_same"  # noqa: S608

_REAL_SESSIONS = f"""UPDATE memory_vectors SET session_id = u.session_id FROM {_UNITS} AS u
    WHERE memory_vectors.tenant = $tenant AND memory_vectors.user_id = $user_id
        AND memory_vectors.sequence = u.sequence"""  # noqa: S608


DAMAGES = (
    Damage(
        "owner_twice",
        "a memory has two rows of its own",
        "the one with the lower number goes",
        _OWNER_TWICE,
        (_drop("memory_owners", _OWNER_TWICE),),
    ),
    Damage(
        "owner_missing",
        "units belong to no memory",
        "the memory is made anew around them",
        _OWNER_MISSING,
        (_MAKE_OWNER,),
    ),
    Damage(
        "group_twice",
        "a group has two rows",
        "the one that is further behind goes",
        _GROUP_TWICE,
        (_drop("memory_groups", _GROUP_TWICE),),
    ),
    Damage(
        "session_gone",
        "units or a group are of a session that is not in the record, or is another user's",
        "units that were its messages go; notes and summaries stay, in a collection, and summaries are told anew",
        _SESSION_GONE,
        _LET_SESSIONS_GO,
    ),
    Damage(
        "message_missing",
        "a unit is a message that is not in its turn",
        "it goes: it has no words",
        _MESSAGE_MISSING,
        (_drop_vectors(_MESSAGE_MISSING), _drop("memory_unit_rows", _MESSAGE_MISSING)),
    ),
    Damage(
        "sequence_twice",
        "two units have one number",
        "the later row is numbered anew, as the newest unit; both are embedded anew",
        _SEQUENCE_TWICE,
        (_drop_vectors(_SEQUENCE_TWICE), _NUMBER_ANEW, _RAISE_OWNER),
    ),
    Damage(
        "unit_twice",
        "two units have one id",
        "a copy with the same words goes; one with other words gets an id of its own",
        _UNIT_TWICE,
        (
            _drop_vectors(_COPIES),
            _drop("memory_unit_rows", _COPIES),
            _set("unit_id = unit_id || '~' || sequence", _UNIT_TWICE),
        ),
    ),
    Damage(
        "owner_behind",
        "a memory has given fewer numbers than its units have",
        "it goes on after the highest",
        _OWNER_BEHIND,
        (_RAISE_OWNER,),
    ),
    Damage(
        "group_missing",
        "units are in a group that is not there",
        "the group is made anew around them",
        _GROUP_MISSING,
        (_MAKE_GROUPS,),
    ),
    Damage(
        "admitted_past_end",
        "of a session more turns are admitted than it has",
        "it goes on after its last turn",
        _PAST_END,
        (
            f"""UPDATE memory_groups SET turn = (SELECT max(t.turn) FROM turns AS t
            WHERE t.tenant = $tenant AND t.session_id = memory_groups.session_id)
            WHERE rowid IN (SELECT place FROM ({_PAST_END}))""",  # noqa: S608
        ),
    ),
    Damage(
        "account_elsewhere",
        "a summary of the whole memory is in another group",
        "it is put into the memory's own",
        _ACCOUNT_ELSEWHERE,
        (
            f"""UPDATE memory_unit_rows SET group_id = (SELECT any_value(memory_id) FROM {_OWNERS})
            WHERE rowid IN (SELECT place FROM ({_ACCOUNT_ELSEWHERE}))""",  # noqa: S608
        ),
    ),
    Damage(
        "parent_missing",
        "a unit is told in a summary that is not there",
        "it is free again, and told in the next",
        _PARENT_MISSING,
        (_set("parent_id = NULL", _PARENT_MISSING),),
    ),
    Damage(
        "parent_wrong",
        "a unit is told in one that is no summary of its group or memory, or stands no higher, or above itself",
        "it is free again, and told in the next",
        _PARENT_WRONG,
        (_set("parent_id = NULL", _PARENT_WRONG),),
    ),
    Damage(
        "vector_astray",
        "there is a vector of a unit that is not there",
        "it goes",
        _VECTOR_ASTRAY,
        (_drop("memory_vectors", _VECTOR_ASTRAY),),
    ),
    Damage(
        "vector_twice",
        "a unit has two vectors of one embedder",
        "the older one goes",
        _VECTOR_TWICE,
        (_drop("memory_vectors", _VECTOR_TWICE),),
    ),
    Damage(
        "vector_damaged",
        "a vector has another length than those of its embedder, or a number that is none",
        "it goes, and its unit is embedded anew",
        _VECTOR_DAMAGED,
        (_drop("memory_vectors", _VECTOR_DAMAGED),),
    ),
    Damage(
        "vector_elsewhere",
        "a vector is filed under another session than its unit",
        "it is filed under the unit's",
        _VECTOR_ELSEWHERE,
        (_REAL_SESSIONS,),
    ),
    Damage(
        "mind_gone",
        "a group has units in mind that are not there",
        "it has them in mind no more",
        _MIND_GONE,
        (FORGET_GONE,),
    ),
    Damage("summary_stale", "a summary is withdrawn: units it tells of were removed or superseded", "", _STALE),
)
"""In the order in which they are mended: what one leaves behind, a later one finds."""
