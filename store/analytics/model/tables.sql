-- The model: what analysts query. Names, types and meanings are a public interface; what breaks a query that worked raises
-- MODEL_VERSION (store/analytics/model.py) and is told in the README. Comments here are the reference there.

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
COMMENT ON TABLE about IS 'One row: what this file is, and how far it goes. Every table is of one tenant.';
COMMENT ON COLUMN about.model_version IS 'Version of these tables; a change that breaks a query raises it';
COMMENT ON COLUMN about.tenant IS 'Whose data it is';
COMMENT ON COLUMN about.is_masked IS 'Whether what was said, texts in variables, personal values, names and keys are left out, and users have pseudonyms';
COMMENT ON COLUMN about.as_of IS 'The moment of the record that the file shows';
COMMENT ON COLUMN about.sessions IS 'Sessions in the record at that moment';
COMMENT ON COLUMN about.turns IS 'Turns in it';
COMMENT ON COLUMN about.messages IS 'Messages in it';
COMMENT ON COLUMN about.events IS 'Events in it';

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
COMMENT ON TABLE scripts IS 'One row a version of a script in the catalogue.';
COMMENT ON COLUMN scripts.script_uuid IS 'The script, over all its versions';
COMMENT ON COLUMN scripts.script_id IS 'The id the author gave it';
COMMENT ON COLUMN scripts.name IS 'Its name';
COMMENT ON COLUMN scripts.version IS 'Number of the version, from 1';
COMMENT ON COLUMN scripts.version_label IS 'The version as the author wrote it, may be empty';
COMMENT ON COLUMN scripts.digest IS 'Its exact text';
COMMENT ON COLUMN scripts.status IS 'draft, published or archived';
COMMENT ON COLUMN scripts.created_at IS 'When the version was first saved';
COMMENT ON COLUMN scripts.updated_at IS 'When the version was last saved';
COMMENT ON COLUMN scripts.tags IS 'Its tags';
COMMENT ON COLUMN scripts.author IS 'Who wrote it';
COMMENT ON COLUMN scripts.description IS 'What it is for';

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
COMMENT ON TABLE script_actions IS 'One row an action of a script, in the order it is written in; also of versions that only sessions still run on.';
COMMENT ON COLUMN script_actions.digest IS 'The exact text it ran on';
COMMENT ON COLUMN script_actions.script_id IS 'The id the author gave the script';
COMMENT ON COLUMN script_actions.position IS 'Place of the action in the script, from 1, skills, interrupts and detectors last';
COMMENT ON COLUMN script_actions.phase_id IS 'Its phase; of a skill empty, of an interrupt :interrupts, of a detector :detectors';
COMMENT ON COLUMN script_actions.phase_position IS 'Place of the phase in the script, from 1; 0 for none';
COMMENT ON COLUMN script_actions.topic_id IS 'Its topic, skill, interrupt or detector';
COMMENT ON COLUMN script_actions.topic_position IS 'Place of the topic in the script, from 1; 0 for none';
COMMENT ON COLUMN script_actions.action_id IS 'The action';
COMMENT ON COLUMN script_actions.action_type IS 'Its type: say, ask, ai_ask, choose, form, if …';
COMMENT ON COLUMN script_actions.is_question IS 'Whether it waits for a reply';
COMMENT ON COLUMN script_actions.says IS 'What the author wrote for it to say, shortened; the same for everyone, so it is never masked';

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
COMMENT ON TABLE script_variables IS 'One row a variable that a script declares.';
COMMENT ON COLUMN script_variables.digest IS 'The exact text it ran on';
COMMENT ON COLUMN script_variables.script_id IS 'The id the author gave the script';
COMMENT ON COLUMN script_variables.scope IS 'global, session, phase or topic';
COMMENT ON COLUMN script_variables.phase_id IS 'The phase it is declared in; else empty';
COMMENT ON COLUMN script_variables.topic_id IS 'The topic or skill it is declared in; else empty';
COMMENT ON COLUMN script_variables.name IS 'Its name';
COMMENT ON COLUMN script_variables.type IS 'The declared type; null where none is';
COMMENT ON COLUMN script_variables.define IS 'What it means, as the author wrote it';
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
COMMENT ON TABLE script_arms IS 'One row an arm of an experiment that a script has.';
COMMENT ON COLUMN script_arms.digest IS 'The exact text it ran on';
COMMENT ON COLUMN script_arms.script_id IS 'The id the author gave the script';
COMMENT ON COLUMN script_arms.experiment IS 'The experiment';
COMMENT ON COLUMN script_arms.unit IS 'What is assigned to an arm: user or session';
COMMENT ON COLUMN script_arms.arm IS 'The arm';
COMMENT ON COLUMN script_arms.position IS 'Place of the arm in the experiment, from 1';
COMMENT ON COLUMN script_arms.weight IS 'Its weight among the arms';
COMMENT ON COLUMN script_arms.define IS 'What it is, as the author wrote it';

CREATE TABLE users (
    user_id VARCHAR NOT NULL,
    first_seen_at TIMESTAMPTZ,
    last_seen_at TIMESTAMPTZ,
    sessions INTEGER NOT NULL,
    completed_sessions INTEGER NOT NULL,
    turns BIGINT NOT NULL,
    user_messages BIGINT NOT NULL
);
COMMENT ON TABLE users IS 'One row a user with a session or global variables.';
COMMENT ON COLUMN users.user_id IS 'The user';
COMMENT ON COLUMN users.first_seen_at IS 'When the first session began; null without a session';
COMMENT ON COLUMN users.last_seen_at IS 'When a session last went on';
COMMENT ON COLUMN users.sessions IS 'Sessions';
COMMENT ON COLUMN users.completed_sessions IS 'Those of them that were completed';
COMMENT ON COLUMN users.turns IS 'Turns in all sessions';
COMMENT ON COLUMN users.user_messages IS 'What the user sent in them';

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
    is_reduced BOOLEAN NOT NULL
);
COMMENT ON TABLE sessions IS 'One row a session: how it was created, and where its latest turn left it.';
COMMENT ON COLUMN sessions.session_id IS 'The session';
COMMENT ON COLUMN sessions.user_id IS 'The user it talks with';
COMMENT ON COLUMN sessions.number IS 'Which session of this user it is, from 1, in the order of creation';
COMMENT ON COLUMN sessions.key IS 'The name the application gave it';
COMMENT ON COLUMN sessions.script_uuid IS 'The script it runs now';
COMMENT ON COLUMN sessions.script_id IS 'The id the author gave that script';
COMMENT ON COLUMN sessions.script_version IS 'Number of the version it runs now';
COMMENT ON COLUMN sessions.digest IS 'The exact text it runs now';
COMMENT ON COLUMN sessions.first_version IS 'Number of the version it began with';
COMMENT ON COLUMN sessions.locale IS 'Language and country of the conversation';
COMMENT ON COLUMN sessions.metadata IS 'What the application notes of it';
COMMENT ON COLUMN sessions.forked_from IS 'The session it was copied from; null for none';
COMMENT ON COLUMN sessions.created_at IS 'When it was created';
COMMENT ON COLUMN sessions.updated_at IS 'When its latest turn finished';
COMMENT ON COLUMN sessions.completed_at IS 'When it was completed; null before';
COMMENT ON COLUMN sessions.seconds IS 'From its creation to its latest turn';
COMMENT ON COLUMN sessions.status IS 'active, paused, completed or failed';
COMMENT ON COLUMN sessions.execution_status IS 'running, waiting_input, paused, completed or error';
COMMENT ON COLUMN sessions.end_reason IS 'Why it ended, where a reason is given; masked, only reasons that stand in a script';
COMMENT ON COLUMN sessions.ended_by IS 'What ended it: script (it came to the end of the script), end_action (an end of the script), user, application, rounds (a question got no usable reply); null while it is not completed, and where retention dropped it';
COMMENT ON COLUMN sessions.end_action_id IS 'The action that ended it; null where none did';
COMMENT ON COLUMN sessions.phase_id IS 'Phase it stands in';
COMMENT ON COLUMN sessions.topic_id IS 'Topic it stands in';
COMMENT ON COLUMN sessions.action_id IS 'Action it stands at';
COMMENT ON COLUMN sessions.action_type IS 'Type of that action';
COMMENT ON COLUMN sessions.wait_kind IS 'What it waits for: text, choice, form, acknowledge, suggestion; null for nothing';
COMMENT ON COLUMN sessions.turn IS 'Number of the latest turn; 0 is the creation';
COMMENT ON COLUMN sessions.message_count IS 'Messages so far';
COMMENT ON COLUMN sessions.user_messages IS 'Those of them that the user sent';
COMMENT ON COLUMN sessions.event_count IS 'Events so far';
COMMENT ON COLUMN sessions.is_reduced IS 'Whether retention has dropped its texts and values and kept the counts';

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
COMMENT ON TABLE turns IS 'One row a turn.';
COMMENT ON COLUMN turns.session_id IS 'The session';
COMMENT ON COLUMN turns.user_id IS 'The user of the session';
COMMENT ON COLUMN turns.turn IS 'Number of the turn in its session; 0 is the creation';
COMMENT ON COLUMN turns.script_id IS 'The id the author gave the script';
COMMENT ON COLUMN turns.script_version IS 'Number of the version of the script';
COMMENT ON COLUMN turns.digest IS 'The exact text it ran on';
COMMENT ON COLUMN turns.started_at IS 'When the turn started';
COMMENT ON COLUMN turns.finished_at IS 'When it finished, just before it was recorded';
COMMENT ON COLUMN turns.seconds IS 'How long it took, calls of models included';
COMMENT ON COLUMN turns.status IS 'Status of the session after it: active, paused, completed, failed';
COMMENT ON COLUMN turns.execution_status IS 'What the session then does: running, waiting_input, paused, completed, error';
COMMENT ON COLUMN turns.phase_id IS 'Phase the session then stands in';
COMMENT ON COLUMN turns.topic_id IS 'Topic it then stands in';
COMMENT ON COLUMN turns.action_id IS 'Action it then stands at';
COMMENT ON COLUMN turns.action_type IS 'Type of that action';
COMMENT ON COLUMN turns.wait_kind IS 'What it then waits for; null for nothing';
COMMENT ON COLUMN turns.messages IS 'Messages in this turn';
COMMENT ON COLUMN turns.writes IS 'Writes of variables in it';
COMMENT ON COLUMN turns.events IS 'Events in it';

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
COMMENT ON TABLE failed_turns IS 'One row a turn that failed and left no turn: the session stayed where it was.';
COMMENT ON COLUMN failed_turns.session_id IS 'The session';
COMMENT ON COLUMN failed_turns.turn_attempted IS 'Number the turn would have had';
COMMENT ON COLUMN failed_turns.code IS 'Code of the error';
COMMENT ON COLUMN failed_turns.message IS 'What went wrong';
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
COMMENT ON TABLE session_migrations IS 'One row a move of a session to another version of its script, or back.';
COMMENT ON COLUMN session_migrations.session_id IS 'The session';
COMMENT ON COLUMN session_migrations.turn IS 'The turn that moved it';
COMMENT ON COLUMN session_migrations.kind IS 'migrate or undo';
COMMENT ON COLUMN session_migrations.verdict IS 'How well the session fitted the other version';
COMMENT ON COLUMN session_migrations.from_version IS 'Number of the version it left';
COMMENT ON COLUMN session_migrations.to_version IS 'Number of the version it went to';
COMMENT ON COLUMN session_migrations.script_id IS 'The id the author gave the script';
COMMENT ON COLUMN session_migrations.migrated_at IS 'When it moved';

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
COMMENT ON TABLE messages IS 'One row a message.';
COMMENT ON COLUMN messages.session_id IS 'The session';
COMMENT ON COLUMN messages.user_id IS 'The user of the session';
COMMENT ON COLUMN messages.turn IS 'The turn it was said in';
COMMENT ON COLUMN messages.seq IS 'Number of the message in the session, from 1, without gaps';
COMMENT ON COLUMN messages.message_id IS 'The message';
COMMENT ON COLUMN messages.role IS 'Who said it: user or assistant; system or tool where an application put it there';
COMMENT ON COLUMN messages.content IS 'What was said; null where it is masked or was dropped';
COMMENT ON COLUMN messages.characters IS 'How many characters that has';
COMMENT ON COLUMN messages.action_id IS 'The action that said it, or that it answers';
COMMENT ON COLUMN messages.is_taken_back IS 'Whether a rewind or clear took it out of the conversation';
COMMENT ON COLUMN messages.metadata IS 'What else is known of it';
COMMENT ON COLUMN messages.created_at IS 'When it was said';

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
COMMENT ON TABLE events IS 'One row an event: what the other tables are made of, in the order it happened.';
COMMENT ON COLUMN events.session_id IS 'The session';
COMMENT ON COLUMN events.user_id IS 'The user of the session';
COMMENT ON COLUMN events.turn IS 'The turn it happened in';
COMMENT ON COLUMN events.seq IS 'Number of the event in the session, from 1, without gaps';
COMMENT ON COLUMN events.kind IS 'What happened: action_entered, action_left, wait, jump, warning, interrupted, repaired …';
COMMENT ON COLUMN events.action_id IS 'The action it happened at';
COMMENT ON COLUMN events.data IS 'All there is to know of it; masked, without anybody''s words';
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
COMMENT ON TABLE action_visits IS 'One row a time a session came to an action.';
COMMENT ON COLUMN action_visits.session_id IS 'The session';
COMMENT ON COLUMN action_visits.user_id IS 'The user of the session';
COMMENT ON COLUMN action_visits.script_id IS 'The id the author gave the script';
COMMENT ON COLUMN action_visits.script_version IS 'Number of the version of the script';
COMMENT ON COLUMN action_visits.digest IS 'The exact text it ran on';
COMMENT ON COLUMN action_visits.visit IS 'Which visit of the action, there, in this session it is, from 1; 0 where it was skipped';
COMMENT ON COLUMN action_visits.phase_id IS 'The phase the session was in';
COMMENT ON COLUMN action_visits.topic_id IS 'The topic it was in';
COMMENT ON COLUMN action_visits.action_id IS 'The action';
COMMENT ON COLUMN action_visits.action_type IS 'Its type';
COMMENT ON COLUMN action_visits.skill IS 'The skill it stands in, if it does';
COMMENT ON COLUMN action_visits.interrupt IS 'Or the interrupt';
COMMENT ON COLUMN action_visits.detector IS 'Or the detector';
COMMENT ON COLUMN action_visits.seq IS 'Number of the event with which it began';
COMMENT ON COLUMN action_visits.entered_turn IS 'The turn it was entered in';
COMMENT ON COLUMN action_visits.entered_at IS 'When that turn finished';
COMMENT ON COLUMN action_visits.left_seq IS 'Number of the event with which it ended; null while it lasts';
COMMENT ON COLUMN action_visits.left_turn IS 'The turn it ended in; null while it lasts';
COMMENT ON COLUMN action_visits.left_at IS 'When that turn finished';
COMMENT ON COLUMN action_visits.seconds IS 'From entering to leaving; null while it lasts';
COMMENT ON COLUMN action_visits.rounds IS 'How many replies it took: 0 asked nothing, 1 was answered at once, more were asked again';
COMMENT ON COLUMN action_visits.outcome IS 'done; skipped (its condition did not hold); cut_short (the conversation went elsewhere); open (it lasts)';
COMMENT ON COLUMN action_visits.exit_source IS 'Of an action that leads a conversation: what ended it';
COMMENT ON COLUMN action_visits.exit_reason IS 'And why, in the model''s or script''s words';

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
COMMENT ON TABLE scope_visits IS 'One row a time a session came to a phase or a topic.';
COMMENT ON COLUMN scope_visits.session_id IS 'The session';
COMMENT ON COLUMN scope_visits.user_id IS 'The user of the session';
COMMENT ON COLUMN scope_visits.script_id IS 'The id the author gave the script';
COMMENT ON COLUMN scope_visits.script_version IS 'Number of the version of the script';
COMMENT ON COLUMN scope_visits.digest IS 'The exact text it ran on';
COMMENT ON COLUMN scope_visits.visit IS 'Which visit of it in this session it is, from 1; 0 where it was skipped';
COMMENT ON COLUMN scope_visits.scope IS 'phase or topic';
COMMENT ON COLUMN scope_visits.phase_id IS 'The phase, or the phase of the topic';
COMMENT ON COLUMN scope_visits.topic_id IS 'The topic; null for a phase';
COMMENT ON COLUMN scope_visits.seq IS 'Number of the event with which it began';
COMMENT ON COLUMN scope_visits.entered_turn IS 'The turn it was entered in';
COMMENT ON COLUMN scope_visits.entered_at IS 'When that turn finished';
COMMENT ON COLUMN scope_visits.left_seq IS 'Number of the event with which it ended; null while it lasts';
COMMENT ON COLUMN scope_visits.left_turn IS 'The turn it ended in; null while it lasts';
COMMENT ON COLUMN scope_visits.left_at IS 'When that turn finished';
COMMENT ON COLUMN scope_visits.seconds IS 'From entering to leaving; null while it lasts';
COMMENT ON COLUMN scope_visits.outcome IS 'left; skipped (its condition did not hold); open (it lasts)';

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
COMMENT ON TABLE waits IS 'One row a time a session waited for its user.';
COMMENT ON COLUMN waits.session_id IS 'The session';
COMMENT ON COLUMN waits.user_id IS 'The user of the session';
COMMENT ON COLUMN waits.script_id IS 'The id the author gave the script';
COMMENT ON COLUMN waits.script_version IS 'Number of the version of the script';
COMMENT ON COLUMN waits.turn IS 'The turn that asked';
COMMENT ON COLUMN waits.answered_turn IS 'The turn that answered; null for none';
COMMENT ON COLUMN waits.phase_id IS 'The phase it waits in';
COMMENT ON COLUMN waits.topic_id IS 'The topic it waits in';
COMMENT ON COLUMN waits.action_id IS 'The action that waits';
COMMENT ON COLUMN waits.action_type IS 'Its type';
COMMENT ON COLUMN waits.kind IS 'For what: text, choice, form, acknowledge, suggestion';
COMMENT ON COLUMN waits.round IS 'Which wait of this visit of the action it is, from 1; more than 1: asked again';
COMMENT ON COLUMN waits.asked_at IS 'When the asking turn finished';
COMMENT ON COLUMN waits.answered_at IS 'When the answering turn started';
COMMENT ON COLUMN waits.seconds IS 'Between the two';
COMMENT ON COLUMN waits.outcome IS 'answered; open (it still waits); ended (the application ended or rewound the session, or its topic began again)';

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
COMMENT ON TABLE variable_history IS 'One row a write of a variable, of every scope and session, and outside of sessions.';
COMMENT ON COLUMN variable_history.session_id IS 'The session; null where no session wrote it';
COMMENT ON COLUMN variable_history.user_id IS 'The user of the session, or whose global variable was set';
COMMENT ON COLUMN variable_history.turn IS 'The turn that wrote it; null where no session did';
COMMENT ON COLUMN variable_history.seq IS 'Number of its event in the session';
COMMENT ON COLUMN variable_history.written_at IS 'When that turn finished, or it was set';
COMMENT ON COLUMN variable_history.scope IS 'global, session, phase or topic';
COMMENT ON COLUMN variable_history.phase_id IS 'The phase that owns a phase or topic variable';
COMMENT ON COLUMN variable_history.topic_id IS 'The topic that owns a topic variable';
COMMENT ON COLUMN variable_history.name IS 'Name of the variable';
COMMENT ON COLUMN variable_history.type IS 'Type of the value: text, number, boolean, date, choice, list, record';
COMMENT ON COLUMN variable_history.old IS 'Value before; null where it was unset';
COMMENT ON COLUMN variable_history.new IS 'Value after; null where the write unset it';
COMMENT ON COLUMN variable_history.old_text IS 'Value before as text, lists and records as JSON';
COMMENT ON COLUMN variable_history.new_text IS 'Value after as text, lists and records as JSON';
COMMENT ON COLUMN variable_history.old_number IS 'Value before where it is a number';
COMMENT ON COLUMN variable_history.new_number IS 'Value after where it is a number';
COMMENT ON COLUMN variable_history.source IS 'Where the value came from: script, user, model, api, default, migrated';
COMMENT ON COLUMN variable_history.action_id IS 'The action that wrote it';
COMMENT ON COLUMN variable_history.is_pii IS 'Whether the author marked it as personal; masked are its values, and those of all texts, lists and records';

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
COMMENT ON TABLE variables_current IS 'One row a variable that has a value now: of live scopes of sessions, and global ones of users.';
COMMENT ON COLUMN variables_current.session_id IS 'The session; null for a global variable';
COMMENT ON COLUMN variables_current.user_id IS 'The user';
COMMENT ON COLUMN variables_current.scope IS 'global, session, phase or topic';
COMMENT ON COLUMN variables_current.phase_id IS 'The phase that owns it';
COMMENT ON COLUMN variables_current.topic_id IS 'The topic that owns it';
COMMENT ON COLUMN variables_current.name IS 'Name of the variable';
COMMENT ON COLUMN variables_current.type IS 'Type of the value';
COMMENT ON COLUMN variables_current.value IS 'Its value';
COMMENT ON COLUMN variables_current.value_text IS 'Its value as text, lists and records as JSON';
COMMENT ON COLUMN variables_current.value_number IS 'Its value where it is a number';
COMMENT ON COLUMN variables_current.source IS 'Where the value came from';
COMMENT ON COLUMN variables_current.turn IS 'The turn that wrote it';
COMMENT ON COLUMN variables_current.written_at IS 'When the turn that wrote it finished, or it was set';
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
COMMENT ON TABLE llm_calls IS 'One row a call of a language model, also of turns that failed or are not taken yet, and for memories.';
COMMENT ON COLUMN llm_calls.session_id IS 'The session; one that was killed before its first turn was kept is in no other table; null: for a memory, off the turn';
COMMENT ON COLUMN llm_calls.user_id IS 'The user of the session, or whose memory it was made for';
COMMENT ON COLUMN llm_calls.script_id IS 'The id the author gave the script that asked; null for a memory';
COMMENT ON COLUMN llm_calls.script_version IS 'Number of the version of that script';
COMMENT ON COLUMN llm_calls.turn IS 'The turn it was made for';
COMMENT ON COLUMN llm_calls.number IS 'Number of the call in that turn, over all attempts at it, from 1';
COMMENT ON COLUMN llm_calls.call_id IS 'The call';
COMMENT ON COLUMN llm_calls.purpose IS 'What was asked: say, ask, extract, think, chat, route, detect, summarise, memo';
COMMENT ON COLUMN llm_calls.action_id IS 'The action that asked; empty for the script itself';
COMMENT ON COLUMN llm_calls.round IS 'Round of that action';
COMMENT ON COLUMN llm_calls.model IS 'The model asked, by the name the server knows it';
COMMENT ON COLUMN llm_calls.endpoint_model IS 'The model that answered, as the endpoint calls it';
COMMENT ON COLUMN llm_calls.started_at IS 'When it was about to be made';
COMMENT ON COLUMN llm_calls.ended_at IS 'When what came of it was known';
COMMENT ON COLUMN llm_calls.outcome IS 'done, failed, or in_doubt';
COMMENT ON COLUMN llm_calls.error IS 'Why there is no reply';
COMMENT ON COLUMN llm_calls.used IS 'Whether the turn was taken with it; false: a failed attempt made it; null: not taken (yet)';
COMMENT ON COLUMN llm_calls.input_tokens IS 'Tokens sent';
COMMENT ON COLUMN llm_calls.cached_tokens IS 'Those of them that the endpoint had kept';
COMMENT ON COLUMN llm_calls.output_tokens IS 'Tokens received';
COMMENT ON COLUMN llm_calls.counted IS 'Whether the endpoint counted them; false: they are estimated';
COMMENT ON COLUMN llm_calls.cost IS 'In the currency of the prices that are set; null where none are';
COMMENT ON COLUMN llm_calls.latency_ms IS 'Milliseconds to the end of the reply';
COMMENT ON COLUMN llm_calls.first_words_ms IS 'Milliseconds to its first words, where it was streamed';
COMMENT ON COLUMN llm_calls.attempts IS 'How often the client tried';
COMMENT ON COLUMN llm_calls.degraded IS 'Why the reply had to be taken as plain text; masked, only whether';
COMMENT ON COLUMN llm_calls.request_digest IS 'SHA-256 of the request: the same for two calls that ask the same; null where it is masked';
COMMENT ON COLUMN llm_calls.prompt_digest IS 'SHA-256 of the prompt as it was sent; null where it is masked';
COMMENT ON COLUMN llm_calls.parameters IS 'What else was sent: temperature and the like';
COMMENT ON COLUMN llm_calls.reply IS 'The reply as the runtime took it; null where there is none or it is masked';

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
COMMENT ON TABLE detections IS 'One row a time a detector acted.';
COMMENT ON COLUMN detections.session_id IS 'The session';
COMMENT ON COLUMN detections.user_id IS 'The user of the session';
COMMENT ON COLUMN detections.script_id IS 'The id the author gave the script';
COMMENT ON COLUMN detections.script_version IS 'Number of the version of the script';
COMMENT ON COLUMN detections.turn IS 'The turn it acted in';
COMMENT ON COLUMN detections.seq IS 'Number of the event';
COMMENT ON COLUMN detections.detector IS 'The detector';
COMMENT ON COLUMN detections.label IS 'What it saw';
COMMENT ON COLUMN detections.score IS 'How sure it was, 0 to 1';
COMMENT ON COLUMN detections.severity IS 'How grave that is, 0 to 1';
COMMENT ON COLUMN detections.seen_by IS 'rule, measure or model';
COMMENT ON COLUMN detections.message IS 'Number of the message it saw it in';
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
COMMENT ON TABLE exposures IS 'One row a session that met an experiment.';
COMMENT ON COLUMN exposures.session_id IS 'The session';
COMMENT ON COLUMN exposures.user_id IS 'The user of the session';
COMMENT ON COLUMN exposures.script_id IS 'The id the author gave the script';
COMMENT ON COLUMN exposures.script_version IS 'Number of the version of the script';
COMMENT ON COLUMN exposures.experiment IS 'The experiment';
COMMENT ON COLUMN exposures.arm IS 'The arm the session got';
COMMENT ON COLUMN exposures.turn IS 'The turn it met it in';
COMMENT ON COLUMN exposures.seq IS 'Number of the event';
COMMENT ON COLUMN exposures.action_id IS 'The action it met it at';
COMMENT ON COLUMN exposures.unit IS 'What is assigned to an arm: user or session';
COMMENT ON COLUMN exposures.exposed_at IS 'When the turn finished';

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
COMMENT ON TABLE memory_units IS 'One row a unit of a user''s memory.';
COMMENT ON COLUMN memory_units.user_id IS 'Whose memory it is';
COMMENT ON COLUMN memory_units.unit_id IS 'The unit: of a message its session and number, with a colon between them';
COMMENT ON COLUMN memory_units.sequence IS 'Its number in the memory, in the order units came';
COMMENT ON COLUMN memory_units.group_id IS 'The group it belongs to; masked are names that applications give to groups and units, other than notes: m_ and a pseudonym';
COMMENT ON COLUMN memory_units.session_id IS 'The session it is of; null for none';
COMMENT ON COLUMN memory_units.turn IS 'The turn of that session';
COMMENT ON COLUMN memory_units.message IS 'Number of the message it is; null for one that is none';
COMMENT ON COLUMN memory_units.rank IS '0: something said or noted; 1: sums up a group; 2: sums up groups';
COMMENT ON COLUMN memory_units.level IS 'Height above what was said';
COMMENT ON COLUMN memory_units.content IS 'Its words; null where they are masked';
COMMENT ON COLUMN memory_units.characters IS 'How many characters they have';
COMMENT ON COLUMN memory_units.source IS 'Who it comes from: user, assistant, a name, summary';
COMMENT ON COLUMN memory_units.creation_time IS 'When what it tells began';
COMMENT ON COLUMN memory_units.end_time IS 'When what it tells ended';
COMMENT ON COLUMN memory_units.metadata IS 'What else is known of it';
COMMENT ON COLUMN memory_units.parent_id IS 'The unit that sums it up with others';
COMMENT ON COLUMN memory_units.visit_count IS 'How often it was recalled';
COMMENT ON COLUMN memory_units.last_visit IS 'The latest number in the memory when it was last recalled';
COMMENT ON COLUMN memory_units.never_delete IS 'Whether it is kept from being forgotten';
COMMENT ON COLUMN memory_units.trust IS 'own, told or foreign';
COMMENT ON COLUMN memory_units.is_extract IS 'Whether it is a summary made of sentences of what it sums up';
COMMENT ON COLUMN memory_units.is_stale IS 'Whether it is a summary to be made anew';
COMMENT ON COLUMN memory_units.valid_from IS 'From when on it holds';
COMMENT ON COLUMN memory_units.valid_to IS 'Until when it held';
COMMENT ON COLUMN memory_units.superseded_by IS 'The unit that holds in its place';
COMMENT ON COLUMN memory_units.duplicate_of IS 'An earlier unit that says the same';

-- Not of the model: what bringing the file up to date needs to know.
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
    is_reduced BOOLEAN NOT NULL
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
    reason VARCHAR
);
