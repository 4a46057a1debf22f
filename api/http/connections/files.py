"""Raises the limit of open files as far as the connections need it."""

import os
import resource

import structlog

from api.settings import SettingsInvalid

OTHER_FILES = 512
"""Files that the process opens beside its connections: the database, models, webhooks, analytics."""
CONNECTIONS_MIN = 64
_OPEN = "/dev/fd"

log = structlog.get_logger()


def raise_open_files(connections: int, reserve: int) -> int:
    """Raise the soft limit of open files for `connections` and `reserve` more files; return the files left beside them.

    Log a warning if the hard limit allows fewer. Raises SettingsInvalid if it allows less than CONNECTIONS_MIN.
    """
    open_files = len(os.listdir(_OPEN))  # noqa: PTH208  (only their number is needed)
    needed = connections + reserve + OTHER_FILES + open_files
    limit = _raise_to(needed)
    if limit >= needed:
        return connections
    possible = connections - (needed - limit)
    if possible < CONNECTIONS_MIN:
        raise SettingsInvalid(
            f"connections_max: the limit of open files is {limit}; raise it to {needed} (ulimit -Hn, or LimitNOFILE=)"
        )
    log.warning(
        "the limit of open files allows fewer connections than `connections_max`",
        open_files=limit,
        connections=possible,
        fix=f"raise the hard limit to {needed} (ulimit -Hn, or LimitNOFILE= of systemd)",
    )
    return possible


def _raise_to(needed: int) -> int:
    """Raise the soft limit towards `needed` and return it; never lower it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return needed
    limit = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    except (OSError, ValueError):  # a kernel's limit below the hard one, as on macOS
        return soft
    return limit
