"""SQL over the short-term memory of groups, a JSON column with lists of unit sequences."""

_SEQUENCES = """flatten(list_transform(json_extract(short_term, '$.working.*'),
    lambda each: if(json_type(each) = 'ARRAY', from_json(each, '["BIGINT"]'), [])))"""


def _dangling(scope: str) -> str:
    return f"""SELECT tenant, user_id, group_id, place, list(listed) AS gone FROM (
        SELECT tenant, user_id, group_id, rowid AS place, unnest({_SEQUENCES}) AS listed FROM memory_groups
        WHERE json_type(short_term, '$.working') = 'OBJECT' AND {scope}
    ) AS g WHERE NOT EXISTS (FROM memory_unit_rows AS u
        WHERE u.tenant = g.tenant AND u.user_id = g.user_id AND u.sequence = g.listed) GROUP BY ALL"""  # noqa: S608


DANGLING = _dangling("true")
"""SELECT of all groups whose short-term memory names units that no longer exist, and of those units as `gone`."""


def _remaining(name: str) -> str:
    """Return SQL of the units of a list that still exist; null if the group has no such list."""
    return f"""list_filter(from_json(json_extract(short_term, '$.working.{name}'), '["BIGINT"]'),
        lambda each: NOT list_contains(gone, each))"""


REMOVE_DANGLING = f"""UPDATE memory_groups SET short_term = json_merge_patch(short_term, json_object('working',
        json_object('context', {_remaining("context")}, 'short_term', {_remaining("short_term")})))
    FROM ({_dangling("tenant = $tenant AND user_id = $user_id")}) AS dangling
    WHERE memory_groups.rowid = dangling.place"""  # noqa: S608
"""Remove units that no longer exist from the short-term memory of `$user_id` of `$tenant`."""
