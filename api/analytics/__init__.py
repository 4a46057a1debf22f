"""What analysts ask of the record, and the processes that answer."""
