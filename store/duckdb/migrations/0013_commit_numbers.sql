-- The number of the last commit: a database that lost acknowledged commits is noticed when it is opened.

ALTER TABLE turns ADD COLUMN commit_number BIGINT;
COMMENT ON COLUMN turns.commit_number IS 'Number of the commit that wrote the row; turns of one commit have the same number; null: imported, or written before commits had numbers';

CREATE TABLE commits (
    number BIGINT NOT NULL
);
COMMENT ON TABLE commits IS 'One row: the number of the last commit that wrote no turn';
COMMENT ON COLUMN commits.number IS 'The number; the largest number of this table and of turns is that of the last commit';
INSERT INTO commits VALUES (0);
