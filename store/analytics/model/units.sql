-- All units of memory; the texts of units that are messages come from `messages`.
DELETE FROM memory_units;
INSERT INTO memory_units BY NAME
    SELECT who(u.user_id) AS user_id, named(u.unit_id) AS unit_id, u.sequence, named(u.group_id) AS group_id, u.session_id,
        u.turn, u.message, u.rank, u.level,
        coalesce(unmasked(u.content), m.content) AS content, coalesce(length(u.content), m.characters)::INTEGER AS characters,
        CASE WHEN u.source IN ('user', 'assistant', 'summary') THEN u.source ELSE unmasked(u.source) END AS source,
        u.creation_time, u.end_time, unmasked(u.metadata::VARCHAR)::JSON AS metadata, named(u.parent_id) AS parent_id,
        u.visit_count, u.last_visit, u.never_delete, u.trust, u.is_extract, u.is_stale,
        u.valid_from, u.valid_to, named(u.superseded_by) AS superseded_by, named(u.duplicate_of) AS duplicate_of
    FROM delta_units AS u LEFT JOIN messages AS m ON m.session_id = u.session_id AND m.seq = u.message;
