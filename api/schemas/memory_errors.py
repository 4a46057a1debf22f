"""Errors of memory requests; their messages are shown to the client."""


class InvalidMemoryRequest(ValueError):
    """The memory request is invalid; the message says why."""


class UnitIdExists(ValueError):
    """A unit with this id exists."""


class WorkFailed(Exception):
    """A memory job that a client waits for failed or takes too long; the message says why."""


class TooManyJobs(Exception):
    """The limit of waiting jobs of one memory is reached."""
