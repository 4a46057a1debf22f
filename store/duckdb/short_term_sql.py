"""SQL over the short-term memory of groups, a JSON column with lists of unit sequences."""

_SEQUENCES = """flatten(list_transform(json_extract(short_term, '$.working.*'),
    lambda each: if(json_type(each) = 'ARRAY', from_json(each, '["BIGINT"]'), [])))"""


DANGLING = f"""SELECT tenant, user_id, group_id, place, list(listed) AS gone FROM (
        SELECT tenant, user_id, group_id, rowid AS place, unnest({_SEQUENCES}) AS listed FROM memory_groups
        WHERE json_type(short_term, '$.working') = 'OBJECT'
    ) AS g WHERE NOT EXISTS (FROM memory_unit_rows AS u
        WHERE u.tenant = g.tenant AND u.user_id = g.user_id AND u.sequence = g.listed) GROUP BY ALL"""  # noqa: S608
"""SELECT of all groups whose short-term memory names units that no longer exist, and of those units as `gone`."""
