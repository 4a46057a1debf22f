-- The model that analysts query. Names, types and meanings are a public interface: a change that breaks a working query
-- increments MODEL_VERSION (store/analytics/file.py). docs/reference/analytics-model.md is generated from the comments.

CREATE TABLE about (
    model_version INTEGER NOT NULL,
    tenant VARCHAR NOT NULL,
    is_masked BOOLEAN NOT NULL,
    as_of TIMESTAMPTZ NOT NULL,
    sessions BIGINT NOT NULL,
    turns BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    events BIGINT NOT NULL
);
COMMENT ON TABLE about IS 'One row that describes the file. All tables contain the data of one tenant.';
COMMENT ON COLUMN about.model_version IS 'Version of these tables; a change that breaks queries increments it';
COMMENT ON COLUMN about.tenant IS 'The tenant of the data';
COMMENT ON COLUMN about.is_masked IS 'Whether the texts of messages and variables, personal values, names and keys are removed, and users have pseudonyms';
COMMENT ON COLUMN about.as_of IS 'The time of the database that the file describes';
COMMENT ON COLUMN about.sessions IS 'Number of sessions in the database at that time';
COMMENT ON COLUMN about.turns IS 'Number of turns';
COMMENT ON COLUMN about.messages IS 'Number of messages';
COMMENT ON COLUMN about.events IS 'Number of events';

CREATE TABLE scripts (
    script_uuid VARCHAR NOT NULL,
    script_id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    version INTEGER NOT NULL,
    version_label VARCHAR NOT NULL,
    digest VARCHAR NOT NULL,
    status VARCHAR NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    tags VARCHAR[] NOT NULL,
    author VARCHAR,
    description VARCHAR
);
COMMENT ON TABLE scripts IS 'One row per version of a script in the catalogue.';
COMMENT ON COLUMN scripts.script_uuid IS 'The script; the same for all its versions';
COMMENT ON COLUMN scripts.script_id IS 'The id that the author gave it';
COMMENT ON COLUMN scripts.name IS 'Its name';
COMMENT ON COLUMN scripts.version IS 'Number of the version, from 1';
COMMENT ON COLUMN scripts.version_label IS 'The version as the author wrote it; may be empty';
COMMENT ON COLUMN scripts.digest IS 'Digest of its text';
COMMENT ON COLUMN scripts.status IS 'draft, published or archived';
COMMENT ON COLUMN scripts.created_at IS 'When the version was first saved';
COMMENT ON COLUMN scripts.updated_at IS 'When the version was last saved';
COMMENT ON COLUMN scripts.tags IS 'Its tags';
COMMENT ON COLUMN scripts.author IS 'The author';
COMMENT ON COLUMN scripts.description IS 'The description';

CREATE TABLE script_actions (
    digest VARCHAR NOT NULL,
    script_id VARCHAR NOT NULL,
    position INTEGER NOT NULL,
    phase_id VARCHAR NOT NULL,
    phase_position INTEGER NOT NULL,
    topic_id VARCHAR NOT NULL,
    topic_position INTEGER NOT NULL,
    action_id VARCHAR NOT NULL,
    action_type VARCHAR NOT NULL,
    is_question BOOLEAN NOT NULL,
    says VARCHAR
);
COMMENT ON TABLE script_actions IS 'One row per action of a script, in the order of the script; also of versions that only sessions still use.';
COMMENT ON COLUMN script_actions.digest IS 'Digest of the text of the script';
COMMENT ON COLUMN script_actions.script_id IS 'The id that the author gave the script';
COMMENT ON COLUMN script_actions.position IS 'Position of the action in the script, from 1; skills, interrupts and detectors are last';
COMMENT ON COLUMN script_actions.phase_id IS 'Its phase; empty for a skill, :interrupts for an interrupt, :detectors for a detector';
COMMENT ON COLUMN script_actions.phase_position IS 'Position of the phase in the script, from 1; 0 for none';
COMMENT ON COLUMN script_actions.topic_id IS 'Its topic, skill, interrupt or detector';
COMMENT ON COLUMN script_actions.topic_position IS 'Position of the topic in the script, from 1; 0 for none';
COMMENT ON COLUMN script_actions.action_id IS 'The action';
COMMENT ON COLUMN script_actions.action_type IS 'Its type: say, ask, ai_ask, choose, form, if …';
COMMENT ON COLUMN script_actions.is_question IS 'Whether it waits for a reply';
COMMENT ON COLUMN script_actions.says IS 'The text that the author wrote for it, shortened; the same for all users, so it is never masked';

CREATE TABLE script_variables (
    digest VARCHAR NOT NULL,
    script_id VARCHAR NOT NULL,
    scope VARCHAR NOT NULL,
    phase_id VARCHAR NOT NULL,
    topic_id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    type VARCHAR,
    define VARCHAR,
    is_pii BOOLEAN NOT NULL
);
COMMENT ON TABLE script_variables IS 'One row per variable that a script declares.';
COMMENT ON COLUMN script_variables.digest IS 'Digest of the text of the script';
COMMENT ON COLUMN script_variables.script_id IS 'The id that the author gave the script';
COMMENT ON COLUMN script_variables.scope IS 'global, session, phase or topic';
COMMENT ON COLUMN script_variables.phase_id IS 'The phase that declares it; otherwise empty';
COMMENT ON COLUMN script_variables.topic_id IS 'The topic or skill that declares it; otherwise empty';
COMMENT ON COLUMN script_variables.name IS 'Its name';
COMMENT ON COLUMN script_variables.type IS 'The declared type; null for none';
COMMENT ON COLUMN script_variables.define IS 'Its meaning, as the author wrote it';
COMMENT ON COLUMN script_variables.is_pii IS 'Whether the author marked it as personal';

CREATE TABLE script_arms (
    digest VARCHAR NOT NULL,
    script_id VARCHAR NOT NULL,
    experiment VARCHAR NOT NULL,
    unit VARCHAR NOT NULL,
    arm VARCHAR NOT NULL,
    position INTEGER NOT NULL,
    weight INTEGER NOT NULL,
    define VARCHAR
);
COMMENT ON TABLE script_arms IS 'One row per arm of an experiment of a script.';
COMMENT ON COLUMN script_arms.digest IS 'Digest of the text of the script';
COMMENT ON COLUMN script_arms.script_id IS 'The id that the author gave the script';
COMMENT ON COLUMN script_arms.experiment IS 'The experiment';
COMMENT ON COLUMN script_arms.unit IS 'Unit that is assigned to an arm: user or session';
COMMENT ON COLUMN script_arms.arm IS 'The arm';
COMMENT ON COLUMN script_arms.position IS 'Position of the arm in the experiment, from 1';
COMMENT ON COLUMN script_arms.weight IS 'Its weight among the arms';
COMMENT ON COLUMN script_arms.define IS 'Its description, as the author wrote it';

CREATE TABLE script_milestones (
    digest VARCHAR NOT NULL,
    script_id VARCHAR NOT NULL,
    milestone VARCHAR NOT NULL
);
COMMENT ON TABLE script_milestones IS 'One row per milestone of a script.';
COMMENT ON COLUMN script_milestones.digest IS 'Digest of the text of the script';
COMMENT ON COLUMN script_milestones.script_id IS 'The id that the author gave the script';
COMMENT ON COLUMN script_milestones.milestone IS 'The milestone';

CREATE TABLE users (
    user_id VARCHAR NOT NULL,
    first_seen_at TIMESTAMPTZ,
    last_seen_at TIMESTAMPTZ,
    sessions INTEGER NOT NULL,
    completed_sessions INTEGER NOT NULL,
    turns BIGINT NOT NULL,
    user_messages BIGINT NOT NULL
);
COMMENT ON TABLE users IS 'One row per user with a session or global variables.';
COMMENT ON COLUMN users.user_id IS 'The user';
COMMENT ON COLUMN users.first_seen_at IS 'When the first session was created; null without a session';
COMMENT ON COLUMN users.last_seen_at IS 'When a turn of any session last finished';
COMMENT ON COLUMN users.sessions IS 'Number of sessions';
COMMENT ON COLUMN users.completed_sessions IS 'Number of completed sessions';
COMMENT ON COLUMN users.turns IS 'Number of turns in all sessions';
COMMENT ON COLUMN users.user_messages IS 'Number of messages from the user in all sessions';

CREATE TABLE sessions (
    session_id UUID NOT NULL,
    user_id VARCHAR NOT NULL,
    number INTEGER NOT NULL,
    key VARCHAR,
    script_uuid VARCHAR NOT NULL,
    script_id VARCHAR NOT NULL,
    script_version INTEGER NOT NULL,
    digest VARCHAR NOT NULL,
    first_version INTEGER NOT NULL,
    locale VARCHAR,
    metadata JSON,
    forked_from UUID,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    completed_at TIMESTAMPTZ,
    seconds DOUBLE NOT NULL,
    status VARCHAR NOT NULL,
    execution_status VARCHAR NOT NULL,
    end_reason VARCHAR,
    outcome VARCHAR,
    ended_by VARCHAR,
    end_action_id VARCHAR,
    phase_id VARCHAR,
    topic_id VARCHAR,
    action_id VARCHAR,
    action_type VARCHAR,
    wait_kind VARCHAR,
    turn INTEGER NOT NULL,
    message_count INTEGER NOT NULL,
    user_messages INTEGER NOT NULL,
    event_count INTEGER NOT NULL,
    is_redacted BOOLEAN NOT NULL
);
COMMENT ON TABLE sessions IS 'One row per session: its properties at creation and its state after the latest turn.';
COMMENT ON COLUMN sessions.session_id IS 'The session';
COMMENT ON COLUMN sessions.user_id IS 'The user';
COMMENT ON COLUMN sessions.number IS 'Number of the session among the sessions of its user, from 1, in the order of creation';
COMMENT ON COLUMN sessions.key IS 'The key that the application gave it';
COMMENT ON COLUMN sessions.script_uuid IS 'The current script';
COMMENT ON COLUMN sessions.script_id IS 'The id that the author gave that script';
COMMENT ON COLUMN sessions.script_version IS 'Number of the current version of the script';
COMMENT ON COLUMN sessions.digest IS 'Digest of the text of the current script';
COMMENT ON COLUMN sessions.first_version IS 'Number of the version that it started with';
COMMENT ON COLUMN sessions.locale IS 'Locale of the conversation';
COMMENT ON COLUMN sessions.metadata IS 'The metadata that the application set';
COMMENT ON COLUMN sessions.forked_from IS 'The session that it is a fork of; null for none';
COMMENT ON COLUMN sessions.created_at IS 'When it was created';
COMMENT ON COLUMN sessions.updated_at IS 'When its latest turn finished, or a fork was created';
COMMENT ON COLUMN sessions.completed_at IS 'When it was completed; null before';
COMMENT ON COLUMN sessions.seconds IS 'Seconds from its creation to its latest turn; 0 for a fork without turns of its own';
COMMENT ON COLUMN sessions.status IS 'active, paused, completed or failed';
COMMENT ON COLUMN sessions.execution_status IS 'running, waiting_input, paused, completed or error';
COMMENT ON COLUMN sessions.end_reason IS 'Why it ended, if a reason was given; in masked files only reasons that are in a script';
COMMENT ON COLUMN sessions.outcome IS 'How it ended: the outcome of the `end` in the script; completed at the end of the script, abandoned if a question expired; null otherwise';
COMMENT ON COLUMN sessions.ended_by IS 'What ended it: script (it came to the end of the script), end_action (an end of the script), user, application, rounds (a question got no usable reply), expired (a question expired); null if it is not completed, or if retention removed it';
COMMENT ON COLUMN sessions.end_action_id IS 'The action that ended it; null if no action did';
COMMENT ON COLUMN sessions.phase_id IS 'Current phase';
COMMENT ON COLUMN sessions.topic_id IS 'Current topic';
COMMENT ON COLUMN sessions.action_id IS 'Current action';
COMMENT ON COLUMN sessions.action_type IS 'Type of the current action';
COMMENT ON COLUMN sessions.wait_kind IS 'What it waits for: text, choice, form, acknowledge, suggestion, time; null if it does not wait';
COMMENT ON COLUMN sessions.turn IS 'Number of the latest turn; 0 is the creation';
COMMENT ON COLUMN sessions.message_count IS 'Number of messages';
COMMENT ON COLUMN sessions.user_messages IS 'Number of messages from the user';
COMMENT ON COLUMN sessions.event_count IS 'Number of events';
COMMENT ON COLUMN sessions.is_redacted IS 'Whether retention has removed its texts and values; the counts are retained';

CREATE TABLE turns (
    session_id UUID NOT NULL,
    user_id VARCHAR NOT NULL,
    turn INTEGER NOT NULL,
    script_id VARCHAR NOT NULL,
    script_version INTEGER NOT NULL,
    digest VARCHAR NOT NULL,
    started_at TIMESTAMPTZ NOT NULL,
    finished_at TIMESTAMPTZ NOT NULL,
    seconds DOUBLE NOT NULL,
    status VARCHAR NOT NULL,
    execution_status VARCHAR NOT NULL,
    phase_id VARCHAR,
    topic_id VARCHAR,
    action_id VARCHAR,
    action_type VARCHAR,
    wait_kind VARCHAR,
    messages INTEGER NOT NULL,
    writes INTEGER NOT NULL,
    events INTEGER NOT NULL
);
COMMENT ON TABLE turns IS 'One row per turn.';
COMMENT ON COLUMN turns.session_id IS 'The session';
COMMENT ON COLUMN turns.user_id IS 'The user of the session';
COMMENT ON COLUMN turns.turn IS 'Number of the turn in its session; 0 is the creation';
COMMENT ON COLUMN turns.script_id IS 'The id that the author gave the script';
COMMENT ON COLUMN turns.script_version IS 'Number of the version of the script';
COMMENT ON COLUMN turns.digest IS 'Digest of the text of the script';
COMMENT ON COLUMN turns.started_at IS 'When the turn started';
COMMENT ON COLUMN turns.finished_at IS 'When it finished, just before it was committed';
COMMENT ON COLUMN turns.seconds IS 'Duration in seconds, including calls of models';
COMMENT ON COLUMN turns.status IS 'Status of the session after the turn: active, paused, completed, failed';
COMMENT ON COLUMN turns.execution_status IS 'Execution status after the turn: running, waiting_input, paused, completed, error';
COMMENT ON COLUMN turns.phase_id IS 'Phase after the turn';
COMMENT ON COLUMN turns.topic_id IS 'Topic after the turn';
COMMENT ON COLUMN turns.action_id IS 'Action after the turn';
COMMENT ON COLUMN turns.action_type IS 'Type of that action';
COMMENT ON COLUMN turns.wait_kind IS 'What the session waits for after the turn; null if it does not wait';
COMMENT ON COLUMN turns.messages IS 'Number of messages in the turn';
COMMENT ON COLUMN turns.writes IS 'Number of writes of variables in the turn';
COMMENT ON COLUMN turns.events IS 'Number of events in the turn';

CREATE TABLE failed_turns (
    session_id UUID NOT NULL,
    turn_attempted INTEGER NOT NULL,
    code VARCHAR NOT NULL,
    message VARCHAR,
    phase_id VARCHAR,
    topic_id VARCHAR,
    action_id VARCHAR,
    failed_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE failed_turns IS 'One row per turn that failed and was not committed; the session was not changed.';
COMMENT ON COLUMN failed_turns.session_id IS 'The session';
COMMENT ON COLUMN failed_turns.turn_attempted IS 'Number that the turn would have had';
COMMENT ON COLUMN failed_turns.code IS 'Code of the error';
COMMENT ON COLUMN failed_turns.message IS 'Message of the error';
COMMENT ON COLUMN failed_turns.phase_id IS 'Phase it failed in';
COMMENT ON COLUMN failed_turns.topic_id IS 'Topic it failed in';
COMMENT ON COLUMN failed_turns.action_id IS 'Action it failed at';
COMMENT ON COLUMN failed_turns.failed_at IS 'When it failed';

CREATE TABLE session_migrations (
    session_id UUID NOT NULL,
    turn INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    verdict VARCHAR NOT NULL,
    from_version INTEGER NOT NULL,
    to_version INTEGER NOT NULL,
    script_id VARCHAR NOT NULL,
    migrated_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE session_migrations IS 'One row per migration of a session to another version of its script, or undo of one.';
COMMENT ON COLUMN session_migrations.session_id IS 'The session';
COMMENT ON COLUMN session_migrations.turn IS 'The turn of the migration';
COMMENT ON COLUMN session_migrations.kind IS 'migrate or undo';
COMMENT ON COLUMN session_migrations.verdict IS 'How well the session fitted the new version';
COMMENT ON COLUMN session_migrations.from_version IS 'Number of the version before';
COMMENT ON COLUMN session_migrations.to_version IS 'Number of the version after';
COMMENT ON COLUMN session_migrations.script_id IS 'The id that the author gave the script';
COMMENT ON COLUMN session_migrations.migrated_at IS 'When it was migrated';

CREATE TABLE messages (
    session_id UUID NOT NULL,
    user_id VARCHAR NOT NULL,
    turn INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    message_id VARCHAR NOT NULL,
    role VARCHAR NOT NULL,
    content VARCHAR,
    characters INTEGER,
    action_id VARCHAR,
    is_taken_back BOOLEAN NOT NULL,
    metadata JSON,
    created_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE messages IS 'One row per message.';
COMMENT ON COLUMN messages.session_id IS 'The session';
COMMENT ON COLUMN messages.user_id IS 'The user of the session';
COMMENT ON COLUMN messages.turn IS 'The turn of the message';
COMMENT ON COLUMN messages.seq IS 'Number of the message in the session, from 1, without gaps';
COMMENT ON COLUMN messages.message_id IS 'The id of the message';
COMMENT ON COLUMN messages.role IS 'Author of the message: user or assistant; system or tool if an application added it';
COMMENT ON COLUMN messages.content IS 'The text; null if it is masked or was removed';
COMMENT ON COLUMN messages.characters IS 'Length of the text in characters';
COMMENT ON COLUMN messages.action_id IS 'The action that sent it, or that it answers';
COMMENT ON COLUMN messages.is_taken_back IS 'Whether a rewind or clear removed it from the conversation';
COMMENT ON COLUMN messages.metadata IS 'Other data about it';
COMMENT ON COLUMN messages.created_at IS 'When it was created';

CREATE TABLE events (
    session_id UUID NOT NULL,
    user_id VARCHAR NOT NULL,
    turn INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    action_id VARCHAR,
    data JSON,
    recorded_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE events IS 'One row per event, in order; the other tables are derived from events.';
COMMENT ON COLUMN events.session_id IS 'The session';
COMMENT ON COLUMN events.user_id IS 'The user of the session';
COMMENT ON COLUMN events.turn IS 'The turn of the event';
COMMENT ON COLUMN events.seq IS 'Number of the event in the session, from 1, without gaps';
COMMENT ON COLUMN events.kind IS 'Kind of the event: action_entered, action_left, wait, jump, warning, interrupted, repaired …';
COMMENT ON COLUMN events.action_id IS 'The action of the event';
COMMENT ON COLUMN events.data IS 'Data of the event; in masked files without texts of users';
COMMENT ON COLUMN events.recorded_at IS 'When its turn finished';

CREATE TABLE action_visits (
    session_id UUID NOT NULL,
    user_id VARCHAR NOT NULL,
    script_id VARCHAR NOT NULL,
    script_version INTEGER NOT NULL,
    digest VARCHAR NOT NULL,
    visit INTEGER NOT NULL,
    phase_id VARCHAR,
    topic_id VARCHAR,
    action_id VARCHAR NOT NULL,
    action_type VARCHAR NOT NULL,
    skill VARCHAR,
    interrupt VARCHAR,
    detector VARCHAR,
    seq INTEGER NOT NULL,
    entered_turn INTEGER NOT NULL,
    entered_at TIMESTAMPTZ NOT NULL,
    left_seq INTEGER,
    left_turn INTEGER,
    left_at TIMESTAMPTZ,
    seconds DOUBLE,
    rounds INTEGER NOT NULL,
    outcome VARCHAR NOT NULL,
    exit_source VARCHAR,
    exit_reason VARCHAR
);
COMMENT ON TABLE action_visits IS 'One row per visit of a session to an action.';
COMMENT ON COLUMN action_visits.session_id IS 'The session';
COMMENT ON COLUMN action_visits.user_id IS 'The user of the session';
COMMENT ON COLUMN action_visits.script_id IS 'The id that the author gave the script';
COMMENT ON COLUMN action_visits.script_version IS 'Number of the version of the script in which the action has this name';
COMMENT ON COLUMN action_visits.digest IS 'Digest of the text of the script';
COMMENT ON COLUMN action_visits.visit IS 'Number of the visit to this action at this position in the session, from 1; 0 if it was skipped';
COMMENT ON COLUMN action_visits.phase_id IS 'The phase the session was in';
COMMENT ON COLUMN action_visits.topic_id IS 'The topic it was in';
COMMENT ON COLUMN action_visits.action_id IS 'The action, by the name that it had at the end of the visit if a migration renamed it';
COMMENT ON COLUMN action_visits.action_type IS 'Its type';
COMMENT ON COLUMN action_visits.skill IS 'The skill that contains the action; null for none';
COMMENT ON COLUMN action_visits.interrupt IS 'The interrupt that contains the action; null for none';
COMMENT ON COLUMN action_visits.detector IS 'The detector that contains the action; null for none';
COMMENT ON COLUMN action_visits.seq IS 'Number of the event that began the visit';
COMMENT ON COLUMN action_visits.entered_turn IS 'The turn in which the visit began';
COMMENT ON COLUMN action_visits.entered_at IS 'When that turn finished';
COMMENT ON COLUMN action_visits.left_seq IS 'Number of the event that ended the visit; null while it is open';
COMMENT ON COLUMN action_visits.left_turn IS 'The turn in which the visit ended; null while it is open';
COMMENT ON COLUMN action_visits.left_at IS 'When that turn finished';
COMMENT ON COLUMN action_visits.seconds IS 'Seconds from entering to leaving; null while it is open';
COMMENT ON COLUMN action_visits.rounds IS 'Number of replies that it needed: 0 if it asked nothing, 1 if it was answered at once, more if it asked again';
COMMENT ON COLUMN action_visits.outcome IS 'done; skipped (its condition did not hold); cut_short (the conversation went elsewhere); open (the visit has not ended)';
COMMENT ON COLUMN action_visits.exit_source IS 'What ended an action that leads a conversation';
COMMENT ON COLUMN action_visits.exit_reason IS 'Why it ended, as the model or the script stated it';

CREATE TABLE scope_visits (
    session_id UUID NOT NULL,
    user_id VARCHAR NOT NULL,
    script_id VARCHAR NOT NULL,
    script_version INTEGER NOT NULL,
    digest VARCHAR NOT NULL,
    visit INTEGER NOT NULL,
    scope VARCHAR NOT NULL,
    phase_id VARCHAR NOT NULL,
    topic_id VARCHAR,
    seq INTEGER NOT NULL,
    entered_turn INTEGER NOT NULL,
    entered_at TIMESTAMPTZ NOT NULL,
    left_seq INTEGER,
    left_turn INTEGER,
    left_at TIMESTAMPTZ,
    seconds DOUBLE,
    outcome VARCHAR NOT NULL
);
COMMENT ON TABLE scope_visits IS 'One row per visit of a session to a phase or a topic.';
COMMENT ON COLUMN scope_visits.session_id IS 'The session';
COMMENT ON COLUMN scope_visits.user_id IS 'The user of the session';
COMMENT ON COLUMN scope_visits.script_id IS 'The id that the author gave the script';
COMMENT ON COLUMN scope_visits.script_version IS 'Number of the version of the script in which it has this name';
COMMENT ON COLUMN scope_visits.digest IS 'Digest of the text of the script';
COMMENT ON COLUMN scope_visits.visit IS 'Number of the visit to it in this session, from 1; 0 if it was skipped';
COMMENT ON COLUMN scope_visits.scope IS 'phase or topic';
COMMENT ON COLUMN scope_visits.phase_id IS 'The phase, or the phase of the topic, by the name at the end of the visit';
COMMENT ON COLUMN scope_visits.topic_id IS 'The topic, by the name at the end of the visit; null for a phase';
COMMENT ON COLUMN scope_visits.seq IS 'Number of the event that began the visit';
COMMENT ON COLUMN scope_visits.entered_turn IS 'The turn in which the visit began';
COMMENT ON COLUMN scope_visits.entered_at IS 'When that turn finished';
COMMENT ON COLUMN scope_visits.left_seq IS 'Number of the event that ended the visit; null while it is open';
COMMENT ON COLUMN scope_visits.left_turn IS 'The turn in which the visit ended; null while it is open';
COMMENT ON COLUMN scope_visits.left_at IS 'When that turn finished';
COMMENT ON COLUMN scope_visits.seconds IS 'Seconds from entering to leaving; null while it is open';
COMMENT ON COLUMN scope_visits.outcome IS 'left; skipped (its condition did not hold); open (the visit has not ended)';

CREATE TABLE waits (
    session_id UUID NOT NULL,
    user_id VARCHAR NOT NULL,
    script_id VARCHAR NOT NULL,
    script_version INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    answered_turn INTEGER,
    phase_id VARCHAR,
    topic_id VARCHAR,
    action_id VARCHAR,
    action_type VARCHAR,
    kind VARCHAR NOT NULL,
    round INTEGER NOT NULL,
    asked_at TIMESTAMPTZ NOT NULL,
    answered_at TIMESTAMPTZ,
    seconds DOUBLE,
    outcome VARCHAR NOT NULL
);
COMMENT ON TABLE waits IS 'One row per wait of a session for its user or for a moment.';
COMMENT ON COLUMN waits.session_id IS 'The session';
COMMENT ON COLUMN waits.user_id IS 'The user of the session';
COMMENT ON COLUMN waits.script_id IS 'The id that the author gave the script';
COMMENT ON COLUMN waits.script_version IS 'Number of the version of the script';
COMMENT ON COLUMN waits.turn IS 'The turn that began the wait';
COMMENT ON COLUMN waits.answered_turn IS 'The turn of the reply; null for none';
COMMENT ON COLUMN waits.phase_id IS 'The phase of the wait';
COMMENT ON COLUMN waits.topic_id IS 'The topic of the wait';
COMMENT ON COLUMN waits.action_id IS 'The action that waits, as in its visit';
COMMENT ON COLUMN waits.action_type IS 'Type of that action';
COMMENT ON COLUMN waits.kind IS 'What it waits for: text, choice, form, acknowledge, suggestion, time';
COMMENT ON COLUMN waits.round IS 'Number of the wait in this visit of the action, from 1; more than 1 means that it asked again';
COMMENT ON COLUMN waits.asked_at IS 'When the turn that began the wait finished';
COMMENT ON COLUMN waits.answered_at IS 'When the turn of the reply started';
COMMENT ON COLUMN waits.seconds IS 'Seconds between asked_at and answered_at';
COMMENT ON COLUMN waits.outcome IS 'answered; open (it still waits); ended (its moment came or the question expired, the application ended or rewound the session, a person took it over, or its topic began again)';

CREATE TABLE variable_history (
    session_id UUID,
    user_id VARCHAR NOT NULL,
    turn INTEGER,
    seq INTEGER,
    written_at TIMESTAMPTZ NOT NULL,
    scope VARCHAR NOT NULL,
    phase_id VARCHAR,
    topic_id VARCHAR,
    name VARCHAR NOT NULL,
    type VARCHAR,
    old JSON,
    new JSON,
    old_text VARCHAR,
    new_text VARCHAR,
    old_number DOUBLE,
    new_number DOUBLE,
    source VARCHAR NOT NULL,
    action_id VARCHAR,
    is_pii BOOLEAN NOT NULL
);
COMMENT ON TABLE variable_history IS 'One row per write of a variable, in all scopes, in sessions and outside.';
COMMENT ON COLUMN variable_history.session_id IS 'The session; null for a write outside sessions';
COMMENT ON COLUMN variable_history.user_id IS 'The user of the session, or the owner of the global variable';
COMMENT ON COLUMN variable_history.turn IS 'The turn of the write; null outside sessions';
COMMENT ON COLUMN variable_history.seq IS 'Number of the event of the write in the session';
COMMENT ON COLUMN variable_history.written_at IS 'When the turn finished, or when the variable was set outside sessions';
COMMENT ON COLUMN variable_history.scope IS 'global, session, phase or topic';
COMMENT ON COLUMN variable_history.phase_id IS 'The phase that owns a phase or topic variable';
COMMENT ON COLUMN variable_history.topic_id IS 'The topic that owns a topic variable';
COMMENT ON COLUMN variable_history.name IS 'Name of the variable';
COMMENT ON COLUMN variable_history.type IS 'Type of the value: text, number, boolean, date, time, datetime, timezone, choice, list, record';
COMMENT ON COLUMN variable_history.old IS 'Value before; null if it was unset';
COMMENT ON COLUMN variable_history.new IS 'Value after; null if the write unset it';
COMMENT ON COLUMN variable_history.old_text IS 'Value before as text; lists and records as JSON';
COMMENT ON COLUMN variable_history.new_text IS 'Value after as text; lists and records as JSON';
COMMENT ON COLUMN variable_history.old_number IS 'Value before if it is a number';
COMMENT ON COLUMN variable_history.new_number IS 'Value after if it is a number';
COMMENT ON COLUMN variable_history.source IS 'Source of the value: script, user, model, api, default, migrated';
COMMENT ON COLUMN variable_history.action_id IS 'The action that wrote it';
COMMENT ON COLUMN variable_history.is_pii IS 'Whether the author marked it as personal; in masked files its values are null, and so are all texts, lists and records';

CREATE TABLE variables_current (
    session_id UUID,
    user_id VARCHAR NOT NULL,
    scope VARCHAR NOT NULL,
    phase_id VARCHAR,
    topic_id VARCHAR,
    name VARCHAR NOT NULL,
    type VARCHAR,
    value JSON,
    value_text VARCHAR,
    value_number DOUBLE,
    source VARCHAR NOT NULL,
    turn INTEGER,
    written_at TIMESTAMPTZ NOT NULL,
    is_pii BOOLEAN NOT NULL
);
COMMENT ON TABLE variables_current IS 'One row per variable that has a value: in current scopes of sessions, and global variables of users.';
COMMENT ON COLUMN variables_current.session_id IS 'The session; null for a global variable';
COMMENT ON COLUMN variables_current.user_id IS 'The user';
COMMENT ON COLUMN variables_current.scope IS 'global, session, phase or topic';
COMMENT ON COLUMN variables_current.phase_id IS 'The phase that owns it';
COMMENT ON COLUMN variables_current.topic_id IS 'The topic that owns it';
COMMENT ON COLUMN variables_current.name IS 'Name of the variable';
COMMENT ON COLUMN variables_current.type IS 'Type of the value';
COMMENT ON COLUMN variables_current.value IS 'Its value';
COMMENT ON COLUMN variables_current.value_text IS 'Its value as text; lists and records as JSON';
COMMENT ON COLUMN variables_current.value_number IS 'Its value if it is a number';
COMMENT ON COLUMN variables_current.source IS 'Source of the value';
COMMENT ON COLUMN variables_current.turn IS 'The turn that wrote it';
COMMENT ON COLUMN variables_current.written_at IS 'When the turn of the write finished, or when the variable was set outside sessions';
COMMENT ON COLUMN variables_current.is_pii IS 'Whether the author marked it as personal';

CREATE TABLE llm_calls (
    session_id UUID,
    user_id VARCHAR NOT NULL,
    script_id VARCHAR,
    script_version INTEGER,
    turn INTEGER,
    number INTEGER,
    call_id VARCHAR NOT NULL,
    purpose VARCHAR NOT NULL,
    action_id VARCHAR,
    round INTEGER,
    model VARCHAR NOT NULL,
    endpoint_model VARCHAR,
    started_at TIMESTAMPTZ NOT NULL,
    ended_at TIMESTAMPTZ,
    outcome VARCHAR NOT NULL,
    error VARCHAR,
    used BOOLEAN,
    input_tokens BIGINT,
    cached_tokens BIGINT,
    output_tokens BIGINT,
    counted BOOLEAN,
    cost DOUBLE,
    latency_ms INTEGER,
    first_words_ms INTEGER,
    attempts INTEGER,
    degraded VARCHAR,
    request_digest VARCHAR,
    prompt_digest VARCHAR,
    parameters JSON,
    reply JSON
);
COMMENT ON TABLE llm_calls IS 'One row per call of a language model, including calls of turns that failed or are not committed yet, and calls for memories.';
COMMENT ON COLUMN llm_calls.session_id IS 'The session; other tables lack a session that was killed before its first turn was committed; null for a memory outside a turn';
COMMENT ON COLUMN llm_calls.user_id IS 'The user of the session, or the owner of the memory';
COMMENT ON COLUMN llm_calls.script_id IS 'The id that the author gave the script that made the call; null for a memory';
COMMENT ON COLUMN llm_calls.script_version IS 'Number of the version of that script';
COMMENT ON COLUMN llm_calls.turn IS 'The turn that made the call';
COMMENT ON COLUMN llm_calls.number IS 'Number of the call in that turn, from 1, over all attempts at the turn';
COMMENT ON COLUMN llm_calls.call_id IS 'The id of the call';
COMMENT ON COLUMN llm_calls.purpose IS 'Purpose: say, ask, extract, think, chat, route, detect, summarise, memo';
COMMENT ON COLUMN llm_calls.action_id IS 'The action that made the call; empty for the script itself';
COMMENT ON COLUMN llm_calls.round IS 'Round of that action';
COMMENT ON COLUMN llm_calls.model IS 'The name that the server uses for the model';
COMMENT ON COLUMN llm_calls.endpoint_model IS 'The name of the model in the response of the endpoint';
COMMENT ON COLUMN llm_calls.started_at IS 'When the call started';
COMMENT ON COLUMN llm_calls.ended_at IS 'When the result was known';
COMMENT ON COLUMN llm_calls.outcome IS 'done, failed, or in_doubt';
COMMENT ON COLUMN llm_calls.error IS 'Why there is no reply';
COMMENT ON COLUMN llm_calls.used IS 'Whether the committed turn used it; false: a failed attempt made it; null: the turn is not committed (yet)';
COMMENT ON COLUMN llm_calls.input_tokens IS 'Number of tokens sent';
COMMENT ON COLUMN llm_calls.cached_tokens IS 'Number of tokens sent that the endpoint had cached';
COMMENT ON COLUMN llm_calls.output_tokens IS 'Number of tokens received';
COMMENT ON COLUMN llm_calls.counted IS 'Whether the endpoint counted the tokens; false: they are estimated';
COMMENT ON COLUMN llm_calls.cost IS 'Cost in the currency of the configured prices; null if there are none';
COMMENT ON COLUMN llm_calls.latency_ms IS 'Milliseconds to the end of the reply';
COMMENT ON COLUMN llm_calls.first_words_ms IS 'Milliseconds to the first words of a streamed reply';
COMMENT ON COLUMN llm_calls.attempts IS 'Number of attempts of the client';
COMMENT ON COLUMN llm_calls.degraded IS 'Why the reply was used as plain text; in masked files only whether';
COMMENT ON COLUMN llm_calls.request_digest IS 'SHA-256 of the request, which is the same for equal requests; null if it is masked';
COMMENT ON COLUMN llm_calls.prompt_digest IS 'SHA-256 of the prompt as it was sent; null if it is masked';
COMMENT ON COLUMN llm_calls.parameters IS 'Other parameters of the request, such as the temperature';
COMMENT ON COLUMN llm_calls.reply IS 'The reply as the runtime used it; null if there is none or it is masked';

CREATE TABLE detections (
    session_id UUID NOT NULL,
    user_id VARCHAR NOT NULL,
    script_id VARCHAR NOT NULL,
    script_version INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    detector VARCHAR NOT NULL,
    label VARCHAR NOT NULL,
    score DOUBLE NOT NULL,
    severity DOUBLE NOT NULL,
    seen_by VARCHAR NOT NULL,
    message INTEGER NOT NULL,
    detected_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE detections IS 'One row per detection of a detector.';
COMMENT ON COLUMN detections.session_id IS 'The session';
COMMENT ON COLUMN detections.user_id IS 'The user of the session';
COMMENT ON COLUMN detections.script_id IS 'The id that the author gave the script';
COMMENT ON COLUMN detections.script_version IS 'Number of the version of the script';
COMMENT ON COLUMN detections.turn IS 'The turn of the detection';
COMMENT ON COLUMN detections.seq IS 'Number of the event';
COMMENT ON COLUMN detections.detector IS 'The detector';
COMMENT ON COLUMN detections.label IS 'The label that it detected';
COMMENT ON COLUMN detections.score IS 'Confidence, from 0 to 1';
COMMENT ON COLUMN detections.severity IS 'Severity, from 0 to 1';
COMMENT ON COLUMN detections.seen_by IS 'Method of the detection: rule, measure or model';
COMMENT ON COLUMN detections.message IS 'Number of the message that it was detected in';
COMMENT ON COLUMN detections.detected_at IS 'When the turn finished';

CREATE TABLE exposures (
    session_id UUID NOT NULL,
    user_id VARCHAR NOT NULL,
    script_id VARCHAR NOT NULL,
    script_version INTEGER NOT NULL,
    experiment VARCHAR NOT NULL,
    arm VARCHAR NOT NULL,
    turn INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    action_id VARCHAR,
    unit VARCHAR NOT NULL,
    exposed_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE exposures IS 'One row per session and experiment that it was exposed to.';
COMMENT ON COLUMN exposures.session_id IS 'The session';
COMMENT ON COLUMN exposures.user_id IS 'The user of the session';
COMMENT ON COLUMN exposures.script_id IS 'The id that the author gave the script';
COMMENT ON COLUMN exposures.script_version IS 'Number of the version of the script';
COMMENT ON COLUMN exposures.experiment IS 'The experiment';
COMMENT ON COLUMN exposures.arm IS 'The arm that the session was assigned to';
COMMENT ON COLUMN exposures.turn IS 'The turn of the exposure';
COMMENT ON COLUMN exposures.seq IS 'Number of the event';
COMMENT ON COLUMN exposures.action_id IS 'The action of the exposure';
COMMENT ON COLUMN exposures.unit IS 'Unit that is assigned to an arm: user or session';
COMMENT ON COLUMN exposures.exposed_at IS 'When the turn finished';

CREATE TABLE milestones (
    session_id UUID NOT NULL,
    user_id VARCHAR NOT NULL,
    script_id VARCHAR NOT NULL,
    script_version INTEGER NOT NULL,
    milestone VARCHAR NOT NULL,
    turn INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    phase_id VARCHAR,
    topic_id VARCHAR,
    action_id VARCHAR,
    reached_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE milestones IS 'One row each time that a session reached a milestone of its script.';
COMMENT ON COLUMN milestones.session_id IS 'The session';
COMMENT ON COLUMN milestones.user_id IS 'The user of the session';
COMMENT ON COLUMN milestones.script_id IS 'The id that the author gave the script';
COMMENT ON COLUMN milestones.script_version IS 'Number of the version of the script';
COMMENT ON COLUMN milestones.milestone IS 'The milestone';
COMMENT ON COLUMN milestones.turn IS 'The turn';
COMMENT ON COLUMN milestones.seq IS 'Number of the event';
COMMENT ON COLUMN milestones.phase_id IS 'The phase';
COMMENT ON COLUMN milestones.topic_id IS 'The topic';
COMMENT ON COLUMN milestones.action_id IS 'The action; null for the milestone of a topic';
COMMENT ON COLUMN milestones.reached_at IS 'When the turn finished';

CREATE TABLE ratings (
    review_id VARCHAR NOT NULL,
    review VARCHAR NOT NULL,
    session_id UUID NOT NULL,
    turn INTEGER,
    rater VARCHAR NOT NULL,
    question VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    answer VARCHAR,
    number DOUBLE,
    text VARCHAR,
    rated_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE ratings IS 'One row per answer of a rater about a session or turn of a review.';
COMMENT ON COLUMN ratings.review_id IS 'The review';
COMMENT ON COLUMN ratings.review IS 'The name of the review';
COMMENT ON COLUMN ratings.session_id IS 'The session';
COMMENT ON COLUMN ratings.turn IS 'The turn; null if the whole session was rated';
COMMENT ON COLUMN ratings.rater IS 'The rater; a pseudonym in masked files';
COMMENT ON COLUMN ratings.question IS 'The question';
COMMENT ON COLUMN ratings.kind IS 'scale, choice or text';
COMMENT ON COLUMN ratings.answer IS 'The answer to a scale or choice';
COMMENT ON COLUMN ratings.number IS 'The answer to a scale, as a number';
COMMENT ON COLUMN ratings.text IS 'The answer to a question for a text; null if it is masked';
COMMENT ON COLUMN ratings.rated_at IS 'When the rating was last changed';

CREATE TABLE memory_units (
    user_id VARCHAR NOT NULL,
    unit_id VARCHAR NOT NULL,
    sequence BIGINT NOT NULL,
    group_id VARCHAR NOT NULL,
    session_id UUID,
    turn INTEGER,
    message INTEGER,
    rank INTEGER NOT NULL,
    level INTEGER NOT NULL,
    content VARCHAR,
    characters INTEGER,
    source VARCHAR,
    creation_time TIMESTAMPTZ NOT NULL,
    end_time TIMESTAMPTZ NOT NULL,
    metadata JSON,
    parent_id VARCHAR,
    visit_count INTEGER NOT NULL,
    last_visit BIGINT NOT NULL,
    never_delete BOOLEAN NOT NULL,
    trust VARCHAR NOT NULL,
    is_extract BOOLEAN NOT NULL,
    is_stale BOOLEAN NOT NULL,
    valid_from TIMESTAMPTZ NOT NULL,
    valid_to TIMESTAMPTZ,
    superseded_by VARCHAR,
    duplicate_of VARCHAR
);
COMMENT ON TABLE memory_units IS 'One row per unit of a user''s memory. Messages become units when the memory is used: searched, changed or shown.';
COMMENT ON COLUMN memory_units.user_id IS 'The owner of the memory';
COMMENT ON COLUMN memory_units.unit_id IS 'The id of the unit; for a message the id of its session and its number, separated by a colon';
COMMENT ON COLUMN memory_units.sequence IS 'Number of the unit in the memory, in the order of creation';
COMMENT ON COLUMN memory_units.group_id IS 'The group that it belongs to; in masked files, names that applications give to groups and units, except notes, are replaced by m_ and a pseudonym';
COMMENT ON COLUMN memory_units.session_id IS 'The session that it belongs to; null for none';
COMMENT ON COLUMN memory_units.turn IS 'The turn of that session';
COMMENT ON COLUMN memory_units.message IS 'Number of the message that it is; null if it is not a message';
COMMENT ON COLUMN memory_units.rank IS '0: a message or note; 1: a summary of a group; 2: a summary of groups';
COMMENT ON COLUMN memory_units.level IS 'Height in the tree of summaries, from 0';
COMMENT ON COLUMN memory_units.content IS 'The text; null if it is masked';
COMMENT ON COLUMN memory_units.characters IS 'Length of the text in characters';
COMMENT ON COLUMN memory_units.source IS 'Source: user, assistant, a name, or summary';
COMMENT ON COLUMN memory_units.creation_time IS 'Start of the time that it describes';
COMMENT ON COLUMN memory_units.end_time IS 'End of the time that it describes';
COMMENT ON COLUMN memory_units.metadata IS 'Other data about it';
COMMENT ON COLUMN memory_units.parent_id IS 'The summary that covers it';
COMMENT ON COLUMN memory_units.visit_count IS 'Number of times that it was recalled';
COMMENT ON COLUMN memory_units.last_visit IS 'The highest number in the memory when it was last recalled';
COMMENT ON COLUMN memory_units.never_delete IS 'Whether it is protected from forgetting';
COMMENT ON COLUMN memory_units.trust IS 'own, conversation or foreign';
COMMENT ON COLUMN memory_units.is_extract IS 'Whether it is a summary that consists of sentences of the units that it covers';
COMMENT ON COLUMN memory_units.is_stale IS 'Whether it is a summary that must be rebuilt';
COMMENT ON COLUMN memory_units.valid_from IS 'When it became valid';
COMMENT ON COLUMN memory_units.valid_to IS 'When it stopped being valid; null if it is valid';
COMMENT ON COLUMN memory_units.superseded_by IS 'The unit that replaced it';
COMMENT ON COLUMN memory_units.duplicate_of IS 'An earlier unit with the same content';

-- Not part of the model: data that a refresh of the file needs.
CREATE SCHEMA internal;
CREATE TABLE internal.starts (
    session_id UUID NOT NULL,
    user_id VARCHAR NOT NULL,
    key VARCHAR,
    script_uuid VARCHAR NOT NULL,
    script_id VARCHAR NOT NULL,
    script_version INTEGER NOT NULL,
    digest VARCHAR NOT NULL,
    locale VARCHAR,
    metadata JSON,
    forked_from UUID,
    created_at TIMESTAMPTZ NOT NULL,
    is_redacted BOOLEAN NOT NULL
);
CREATE TABLE internal.outlines (digest VARCHAR NOT NULL);
CREATE TABLE internal.labels (digest VARCHAR NOT NULL, label VARCHAR NOT NULL);
CREATE TABLE internal.end_reasons (digest VARCHAR NOT NULL, reason VARCHAR NOT NULL);
CREATE TABLE internal.ends (
    session_id UUID NOT NULL,
    turn INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    ended_by VARCHAR,
    action_id VARCHAR,
    reason VARCHAR,
    outcome VARCHAR
);
