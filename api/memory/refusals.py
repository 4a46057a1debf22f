"""What cannot be done to a memory; the messages are for whoever asked."""


class MemoryRefused(ValueError):
    """What was asked cannot be done; the message says why."""


class UnitTaken(ValueError):
    """There is another unit with this id."""


class WorkFailed(Exception):
    """Work on a memory that somebody waits for was given up, or takes too long; the message says why."""


class TooManyJobs(Exception):
    """So many jobs of one memory are waiting that no other is taken."""
