-- What several reports are made of. Reports are about sessions that were begun, so a fork, which repeats the turns it was
-- copied from, is left out of all of them but those of models, whose calls were really made. A session that was brought in
-- from elsewhere counts like any other. What a rewind took back did happen, and counts.

-- The sessions a report is about. `version` is the version of the script that a session began with, so that one which
-- moved to a later version is still counted once, where it began; `since` and `until` are about when it was created.
CREATE OR REPLACE MACRO chosen_sessions(script := NULL, version := NULL, since := NULL, until := NULL) AS TABLE
SELECT s.* FROM sessions AS s
WHERE s.forked_from IS NULL AND (script IS NULL OR s.script_id = script)
    AND (version IS NULL OR s.first_version = version::INTEGER)
    AND (since IS NULL OR s.created_at >= since::TIMESTAMPTZ) AND (until IS NULL OR s.created_at < until::TIMESTAMPTZ);

-- The phases, topics or actions of a script as the newest version that has them was written, but for skills, interrupts
-- and detectors. Phases and topics are numbered by the first of their actions.
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

-- Whether nothing has happened for so many days up to the moment the file shows.
CREATE OR REPLACE MACRO is_idle(last_at, days) AS
    epoch_us((SELECT a.as_of FROM about AS a)) - epoch_us(last_at) >= days * 86_400_000_000;

-- The day on which the day, week (from Monday) or month of a moment begins, by the clocks of a time zone.
CREATE OR REPLACE MACRO period_of(moment, period, zone) AS date_trunc(period, timezone(zone, moment))::DATE;

-- The ends of the 95 % confidence interval of a share, after Wilson (1927): it holds for few cases and for shares near 0
-- and 1 too.
CREATE OR REPLACE MACRO wilson_low(hits, cases) AS greatest(0, (hits + 1.9207294103471005
    - 1.959963984540054 * sqrt(hits * (cases - hits) / cases + 0.9603647051735503)) / (cases + 3.841458820694201));
CREATE OR REPLACE MACRO wilson_high(hits, cases) AS least(1, (hits + 1.9207294103471005
    + 1.959963984540054 * sqrt(hits * (cases - hits) / cases + 0.9603647051735503)) / (cases + 3.841458820694201));

-- The chance that a standard normal value lies further from 0 than z: erfc(|z| / sqrt 2), by the Chebyshev fit of Numerical
-- Recipes in C (2nd edition, 6.2), whose relative error is below 1.2e-7.
CREATE OR REPLACE MACRO erfc_of(x, t) AS t * exp(-x * x - 1.26551223 + t * (1.00002368 + t * (0.37409196 + t * (0.09678418
    + t * (-0.18628806 + t * (0.27886807 + t * (-1.13520398 + t * (1.48851587 + t * (-0.82215223 + t * 0.17087277)))))))));
CREATE OR REPLACE MACRO two_sided_p(z) AS erfc_of(abs(z) / sqrt(2), 1 / (1 + 0.5 * abs(z) / sqrt(2)));

-- What is searched for, one by one; and whether a text holds the one of a number, in either case. A number past the last holds.
-- Once the words are known this is one regular expression, which is read faster than a text is folded.
CREATE OR REPLACE MACRO words_of(words) AS string_split_regex(trim(words::VARCHAR), '\s+');
CREATE OR REPLACE MACRO has_word(content, every, number) AS
    number > len(every) OR regexp_matches(content, '(?i)' || regexp_escape(coalesce(every[number], '')));
