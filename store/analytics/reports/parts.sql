-- Macros that several reports use. Reports do not count forks, because these repeat the turns of another session; only the
-- reports about models count them, because their calls were really made. Imported sessions count like all others. Turns that a
-- rewind removed from the conversation count.

-- The sessions of a report. `version` is the version of the script that a session started with, so that a migrated session is
-- counted once, under that version; `since` and `until` refer to its creation.
CREATE OR REPLACE MACRO chosen_sessions(script := NULL, version := NULL, since := NULL, until := NULL) AS TABLE
SELECT s.* FROM sessions AS s
WHERE s.forked_from IS NULL AND (script IS NULL OR s.script_id = script)
    AND (version IS NULL OR s.first_version = version::INTEGER)
    AND (since IS NULL OR s.created_at >= since::TIMESTAMPTZ) AND (until IS NULL OR s.created_at < until::TIMESTAMPTZ);

-- The phases, topics or actions of a script, each from the newest version that has it, except skills, interrupts and
-- detectors. Phases and topics have the position of their first action.
CREATE OR REPLACE MACRO script_steps(script := NULL, level := 'action', version := NULL) AS TABLE
WITH versions AS (
    SELECT script_id, digest, max(number) AS number FROM (
        SELECT k.script_id, k.digest, k.version AS number FROM scripts AS k
        UNION ALL SELECT DISTINCT s.script_id, s.digest, s.script_version FROM sessions AS s
    )
    WHERE (script IS NULL OR script_id = script) AND (version IS NULL OR number = version::INTEGER)
    GROUP BY ALL
), written AS (
    SELECT a.script_id, a.phase_id, CASE WHEN level != 'phase' THEN a.topic_id END AS topic_id,
        CASE WHEN level = 'action' THEN a.action_id END AS action_id, v.number, min(a.position) AS position,
        first(a.action_type) AS action_type, first(a.says) AS says
    FROM script_actions AS a JOIN versions AS v USING (script_id, digest)
    WHERE a.phase_position > 0
    GROUP BY ALL
)
SELECT script_id, phase_id, topic_id, action_id, position, CASE WHEN level = 'action' THEN action_type END AS action_type,
    CASE WHEN level = 'action' THEN says END AS says
FROM written
QUALIFY row_number() OVER (PARTITION BY script_id, phase_id, topic_id, action_id ORDER BY number DESC) = 1;

-- Whether a parameter has one of the allowed values; otherwise an error that lists them. Null means no choice.
CREATE OR REPLACE MACRO is_one_of(name, given, allowed) AS CASE WHEN given IS NULL OR list_contains(allowed, given::VARCHAR) THEN true
    ELSE error('`' || name || '` is one of ' || array_to_string(allowed, ', ') || ', not `' || given::VARCHAR || '`') END;
CREATE OR REPLACE MACRO is_not_negative(name, given) AS CASE WHEN given IS NULL OR given >= 0 THEN true
    ELSE error('`' || name || '` is a number from 0, not ' || given::VARCHAR) END;

-- Whether a name exists; otherwise an error with the most similar name, or some of the existing names.
CREATE OR REPLACE MACRO hint(given, names) AS coalesce(
    '; did you mean `' || list_sort([[lpad(damerau_levenshtein(lower(name), lower(given))::VARCHAR, 9, '0'), name] FOR name IN names
        IF damerau_levenshtein(lower(name), lower(given)) <= least(3, length(given) // 2)])[1][2] || '`?',
    '; there are ' || nullif(array_to_string(list_sort(names)[:20], ', '), ''), '');
CREATE OR REPLACE MACRO is_known(what, given, names) AS CASE WHEN given IS NULL OR list_contains(coalesce(names, []), given::VARCHAR) THEN true
    ELSE error('there is no ' || what || ' `' || given::VARCHAR || '`' || hint(given::VARCHAR, coalesce(names, []))) END;
CREATE OR REPLACE MACRO is_script(script) AS is_known('script', script, (SELECT list(DISTINCT names.script_id)
    FROM (SELECT script_id FROM scripts UNION ALL SELECT script_id FROM sessions UNION ALL SELECT script_id FROM script_actions) AS names));
CREATE OR REPLACE MACRO is_version(script, version) AS is_known('version', version::INTEGER, (SELECT list(DISTINCT numbers.number::VARCHAR) FROM (
    SELECT k.script_id, k.version AS number FROM scripts AS k UNION ALL SELECT s.script_id, s.first_version FROM sessions AS s
    UNION ALL SELECT s.script_id, s.script_version FROM sessions AS s) AS numbers WHERE script IS NULL OR numbers.script_id = script));
CREATE OR REPLACE MACRO is_period(period) AS is_one_of('period', period, ['day', 'week', 'month']);
-- A milestone is one of the script, or an action or a topic.
CREATE OR REPLACE MACRO is_milestone(script, milestone) AS is_known('milestone, action or topic', milestone, (SELECT list(DISTINCT ids.id) FROM (
    SELECT w.script_id, w.milestone AS id FROM script_milestones AS w UNION ALL
    SELECT w.script_id, w.action_id AS id FROM script_actions AS w UNION ALL SELECT w.script_id, w.topic_id FROM script_actions AS w
    WHERE w.phase_position > 0) AS ids WHERE script IS NULL OR ids.script_id = script));

-- Whether a session came to the end of its script; an earlier end by an action, the user or the application does not count. A
-- session counts if it is unknown what ended it, because retention removed the reason before `by` was recorded.
CREATE OR REPLACE MACRO is_finished(status, ended_by) AS status = 'completed' AND coalesce(ended_by, 'script') = 'script';

-- The sessions that reached a milestone of the script, or entered an action or a topic, and when; without a milestone, the finished
-- sessions.
CREATE OR REPLACE MACRO reached_sessions(milestone := NULL) AS TABLE
SELECT s.session_id, s.completed_at AS reached_at, coalesce(b.turn + 1, 0) AS reached_turn FROM sessions AS s
LEFT JOIN (SELECT t.session_id, max(t.turn) AS turn FROM turns AS t WHERE t.status != 'completed' GROUP BY t.session_id) AS b
    ON b.session_id = s.session_id
WHERE milestone IS NULL AND is_finished(s.status, s.ended_by)
UNION ALL
SELECT v.session_id, min(v.entered_at), min(v.entered_turn) FROM (
    SELECT a.session_id, a.action_id AS id, a.entered_at, a.entered_turn FROM action_visits AS a WHERE a.outcome != 'skipped'
    UNION ALL SELECT n.session_id, n.milestone, n.reached_at, n.turn FROM milestones AS n
    UNION ALL SELECT b.session_id, b.topic_id, b.entered_at, b.entered_turn FROM scope_visits AS b WHERE b.scope = 'topic' AND b.outcome != 'skipped'
) AS v WHERE v.id = milestone GROUP BY v.session_id;

-- Whether a time is at least this many days before the time of the file.
CREATE OR REPLACE MACRO is_idle(last_at, days) AS
    epoch_us((SELECT a.as_of FROM about AS a)) - epoch_us(last_at) >= days * 86_400_000_000;

-- The first day of the day, week (from Monday) or month of a time, in a time zone.
CREATE OR REPLACE MACRO period_of(moment, period, zone) AS date_trunc(period, timezone(zone, moment))::DATE;

-- The bounds of the 95 % confidence interval of a proportion by Wilson (1927), which is also valid for few cases and for
-- proportions near 0 and 1. The bounds of no case and of all cases are exact, which the formula only approximates in floats.
CREATE OR REPLACE MACRO wilson_low(hits, cases) AS if(hits = 0, 0.0::DOUBLE, (hits + 1.9207294103471005
    - 1.959963984540054 * sqrt(hits * (cases - hits) / cases + 0.9603647051735503)) / (cases + 3.841458820694201));
CREATE OR REPLACE MACRO wilson_high(hits, cases) AS if(hits = cases, 1.0::DOUBLE, (hits + 1.9207294103471005
    + 1.959963984540054 * sqrt(hits * (cases - hits) / cases + 0.9603647051735503)) / (cases + 3.841458820694201));

-- The bounds of the 95 % confidence interval of the difference of two proportions by Newcombe (1998, method 10), from the Wilson
-- intervals of both.
CREATE OR REPLACE MACRO newcombe_low(hits, cases, base_hits, base_cases) AS hits / cases - base_hits / base_cases
    - sqrt((hits / cases - wilson_low(hits, cases)) ** 2 + (wilson_high(base_hits, base_cases) - base_hits / base_cases) ** 2);
CREATE OR REPLACE MACRO newcombe_high(hits, cases, base_hits, base_cases) AS hits / cases - base_hits / base_cases
    + sqrt((wilson_high(hits, cases) - hits / cases) ** 2 + (base_hits / base_cases - wilson_low(base_hits, base_cases)) ** 2);

-- Fisher's exact test, two-sided: the probability of all tables with the same sums that are at most as likely as the observed one.
-- The logarithms of equal probabilities differ by rounding, about 1e-9 for a million cases, so differences below 1e-7 count as equal.
CREATE OR REPLACE MACRO log_choose(n, k) AS lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1);
CREATE OR REPLACE MACRO log_table(k, hits, cases, base_cases) AS
    log_choose(cases, k) + log_choose(base_cases, hits - k) - log_choose(cases + base_cases, hits);
CREATE OR REPLACE MACRO fisher_p(hits, cases, base_hits, base_cases) AS least(1, list_sum(list_transform(
    range(greatest(0, hits + base_hits - base_cases), least(hits + base_hits, cases) + 1),
    lambda k: CASE WHEN log_table(k, hits + base_hits, cases, base_cases) <= log_table(hits, hits + base_hits, cases, base_cases) + 1e-7
        THEN exp(log_table(k, hits + base_hits, cases, base_cases)) ELSE 0 END)));

-- The probability that a standard normal value is further from 0 than z: erfc(|z| / sqrt 2), by the Chebyshev approximation of
-- Numerical Recipes in C (2nd edition, 6.2), with a relative error below 1.2e-7.
CREATE OR REPLACE MACRO erfc_of(x, t) AS t * exp(-x * x - 1.26551223 + t * (1.00002368 + t * (0.37409196 + t * (0.09678418
    + t * (-0.18628806 + t * (0.27886807 + t * (-1.13520398 + t * (1.48851587 + t * (-0.82215223 + t * 0.17087277)))))))));
CREATE OR REPLACE MACRO two_sided_p(z) AS erfc_of(abs(z) / sqrt(2), 1 / (1 + 0.5 * abs(z) / sqrt(2)));

-- The words of a search, and whether a text contains the word with a number, ignoring case; true for numbers after the last word.
-- For constant words this is a constant regular expression, which is faster than lowercasing the text.
CREATE OR REPLACE MACRO words_of(words) AS string_split_regex(trim(words::VARCHAR), '\s+');
CREATE OR REPLACE MACRO has_word(content, every, number) AS
    number > len(every) OR regexp_matches(content, '(?i)' || regexp_escape(coalesce(every[number], '')));
