"""The limit of open files: raised as far as the connections need it."""

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
    """Raise the soft limit of open files so that `connections` and a `reserve` of more fit; give how many beside it do.

    Logs a warning where the hard limit allows fewer. Raises SettingsInvalid where it allows less than CONNECTIONS_MIN.
    """
    needed = connections + reserve + OTHER_FILES + len(open_files())
    limit = _raise_to(needed)
    if limit >= needed:
        return connections
    possible = connections - (needed - limit)
    if possible < CONNECTIONS_MIN:
        raise SettingsInvalid(
            f"connections_max: the limit of open files is {limit}; raise it to {needed} (ulimit -Hn, or LimitNOFILE=)"
        )
    log.warning(
        "fewer connections fit into the limit of open files than `connections_max` allows",
        open_files=limit,
        connections=possible,
        fix=f"raise the hard limit to {needed} (ulimit -Hn, or LimitNOFILE= of systemd)",
    )
    return possible


def open_files() -> list[int]:
    """The file descriptors of the process; one of them is of this look itself, and closed."""
    return [int(name) for name in os.listdir(_OPEN)]  # noqa: PTH208  (names alone are wanted, thousands of them)


def _raise_to(needed: int) -> int:
    """The soft limit after raising it towards `needed`; it is never lowered."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return needed
    wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # a kernel's limit below the hard one, as on macOS
        return soft
    return wanted
