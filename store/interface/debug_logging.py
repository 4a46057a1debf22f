"""Check whether debug lines are logged (`log_level = "debug"`). The check costs 0.1 µs when they are not."""

import logging
from functools import partial
from typing import Final

_LEVEL = logging.getLogger("cuebook")
"""Only the level comes from the standard library; structlog writes the lines."""


def set_level(level: int) -> None:
    """Set the log level, one of the standard library's. Until this call, debug lines are not logged."""
    _LEVEL.setLevel(level)


is_debugging: Final = partial(_LEVEL.isEnabledFor, logging.DEBUG)
"""Returns whether debug lines are logged."""
