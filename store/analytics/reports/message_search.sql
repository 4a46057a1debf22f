-- Messages that contain all the words, ignoring case, also as parts of longer words; the newest first, at most `hits_max`.
-- Messages that a rewind removed are found too, and marked. In a masked file the search raises an error.
CREATE OR REPLACE MACRO message_search(
    words, script := NULL, role := NULL, since := NULL, until := NULL, hits_max := 100
) AS TABLE
WITH allowed AS MATERIALIZED (
    SELECT is_script(script) AND is_one_of('role', role, ['user', 'assistant', 'system', 'tool'])
        AND CASE WHEN a.is_masked THEN error('what was said is masked here: ask with --unmasked, over HTTP with masked=false') ELSE true END
        AS is_allowed FROM about AS a
)
SELECT m.created_at, s.script_id, m.session_id, m.user_id, m.turn, m.seq, m.role, m.content, m.is_taken_back
FROM messages AS m JOIN chosen_sessions(script) AS s USING (session_id)
WHERE (SELECT is_allowed FROM allowed) AND (role IS NULL OR m.role = role)
    AND (since IS NULL OR m.created_at >= since::TIMESTAMPTZ) AND (until IS NULL OR m.created_at < until::TIMESTAMPTZ)
    AND has_word(m.content, words_of(words), 1) AND has_word(m.content, words_of(words), 2)
    AND has_word(m.content, words_of(words), 3) AND has_word(m.content, words_of(words), 4)
    AND (len(words_of(words)) < 5 OR list_bool_and(
        list_transform(words_of(words)[5:], lambda word: regexp_matches(m.content, '(?i)' || regexp_escape(word)))))
ORDER BY m.created_at DESC, m.session_id, m.seq DESC LIMIT hits_max;
