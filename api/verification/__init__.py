"""Whether the record is sound: its rows against each other, its states against its log, its scripts against both."""
