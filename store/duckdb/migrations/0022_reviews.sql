-- Reviews: people rate sessions, or turns of them, by the same questions.

CREATE TABLE reviews (
    tenant VARCHAR NOT NULL,
    review_id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    instructions VARCHAR NOT NULL,
    unit VARCHAR NOT NULL,
    questions JSON NOT NULL,
    is_blind BOOLEAN NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    closed_at TIMESTAMPTZ
);
COMMENT ON TABLE reviews IS 'One row per review of a tenant';
COMMENT ON COLUMN reviews.tenant IS 'The tenant of the review';
COMMENT ON COLUMN reviews.review_id IS 'The id of the review';
COMMENT ON COLUMN reviews.name IS 'Its name, for people';
COMMENT ON COLUMN reviews.instructions IS 'What raters should know';
COMMENT ON COLUMN reviews.unit IS 'What is rated: session or turn';
COMMENT ON COLUMN reviews.questions IS 'The questions: id, text, kind, bounds and choices';
COMMENT ON COLUMN reviews.is_blind IS 'Whether raters see only their own ratings until it is closed';
COMMENT ON COLUMN reviews.created_at IS 'When it was created';
COMMENT ON COLUMN reviews.closed_at IS 'When it was closed; null while it is open';

CREATE TABLE review_targets (
    tenant VARCHAR NOT NULL,
    review_id VARCHAR NOT NULL,
    number INTEGER NOT NULL,
    session_id UUID NOT NULL,
    turn INTEGER
);
COMMENT ON TABLE review_targets IS 'One row per session or turn that is rated in a review';
COMMENT ON COLUMN review_targets.tenant IS 'The tenant of the review';
COMMENT ON COLUMN review_targets.review_id IS 'The review';
COMMENT ON COLUMN review_targets.number IS 'The place in the review, from 1';
COMMENT ON COLUMN review_targets.session_id IS 'The session';
COMMENT ON COLUMN review_targets.turn IS 'The turn; null if the whole session is rated';

CREATE TABLE ratings (
    tenant VARCHAR NOT NULL,
    review_id VARCHAR NOT NULL,
    session_id UUID NOT NULL,
    turn INTEGER,
    rater VARCHAR NOT NULL,
    answers JSON NOT NULL,
    texts JSON NOT NULL,
    rated_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE ratings IS 'One row per review, target and rater';
COMMENT ON COLUMN ratings.tenant IS 'The tenant of the review';
COMMENT ON COLUMN ratings.review_id IS 'The review';
COMMENT ON COLUMN ratings.session_id IS 'The session';
COMMENT ON COLUMN ratings.turn IS 'The turn; null if the whole session is rated';
COMMENT ON COLUMN ratings.rater IS 'The name of the key of the rater';
COMMENT ON COLUMN ratings.answers IS 'The answers to scales and choices, by question';
COMMENT ON COLUMN ratings.texts IS 'The answers in words, by question';
COMMENT ON COLUMN ratings.rated_at IS 'When the rating was last changed';
