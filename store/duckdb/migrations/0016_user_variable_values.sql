-- A turn already has its writes of global variables. The table of current values is updated for many turns at once,
-- because a MERGE costs as much as the commit of the turn.

ALTER TABLE user_variables RENAME TO user_variable_values;
COMMENT ON TABLE user_variable_values IS 'Variables of the global scope, one row per user and name, without the writes of the last turns; the view user_variables has these too';

ALTER TABLE commits ADD COLUMN merged_number BIGINT DEFAULT 0;
COMMENT ON COLUMN commits.merged_number IS 'Number of the last commit whose writes of global variables are in user_variable_values';
UPDATE commits SET merged_number = coalesce((SELECT max(commit_number) FROM turns), 0);

CREATE VIEW user_variables AS
WITH writes AS (
    SELECT tenant, user_id, finished_at, unnest(variables) AS write,
        {'commit': commit_number, 'row': row_number, 'place': generate_subscripts(variables, 1)} AS position
    FROM (
        SELECT tenant, user_id, finished_at, commit_number, rowid AS row_number, from_json(variables,
            '[{"scope": "VARCHAR", "name": "VARCHAR", "new": "JSON", "type": "VARCHAR", "source": "VARCHAR"}]') AS variables
        FROM turns WHERE commit_number > (SELECT merged_number FROM commits) AND variables <> '[]'
    )
), later AS (
    SELECT tenant, user_id, write.name AS name, arg_max(write, position) AS write,
        arg_max(finished_at, position) AS updated_at
    FROM writes WHERE write.scope = 'global' GROUP BY ALL
)
SELECT * FROM user_variable_values ANTI JOIN later USING (tenant, user_id, name)
UNION ALL BY NAME
SELECT tenant, user_id, name, write.new AS value, write.type AS type, write.source AS source, updated_at
FROM later WHERE write.new IS NOT NULL;
COMMENT ON VIEW user_variables IS 'Variables of the global scope as they are now: one row per user and name';
COMMENT ON COLUMN user_variables.tenant IS 'The tenant of the user';
COMMENT ON COLUMN user_variables.user_id IS 'The user';
COMMENT ON COLUMN user_variables.name IS 'Name of the variable';
COMMENT ON COLUMN user_variables.value IS 'Its value now';
COMMENT ON COLUMN user_variables.type IS 'Type of the value: text, number, boolean, date, choice, list, record';
COMMENT ON COLUMN user_variables.source IS 'Where the value came from: script, user, model, api, default, migrated';
COMMENT ON COLUMN user_variables.updated_at IS 'When the turn that wrote it finished, or it was set';
