-- Types of dates and times that variables can have.
COMMENT ON COLUMN user_variables.type IS 'Type of the value: text, number, boolean, date, time, datetime, timezone, choice, list, record';
COMMENT ON COLUMN variable_history.type IS 'Type of the value: text, number, boolean, date, time, datetime, timezone, choice, list, record';
