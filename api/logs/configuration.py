"""Logging: of a server and its commands as JSON or readable lines, and of programs that embed Cuebook."""

import logging
import sys

import structlog
from structlog.types import Processor

from api.logs.redaction import redacted_message
from store.interface.debug_logging import set_level


def warnings_only() -> None:
    """Log only warnings, on standard error, unless the program has configured structlog."""
    if not structlog.is_configured():
        structlog.configure(
            processors=_processors(structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False), terminal=True),
            wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        )


def configure_logging(level: str) -> None:
    """Configure structlog at a level such as `info`. No line contains messages, values of variables or keys."""
    number = logging.getLevelNamesMapping()[level.upper()]
    set_level(number)
    structlog.configure(
        processors=_processors(structlog.processors.TimeStamper(fmt="iso", utc=True), terminal=sys.stderr.isatty()),
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )


def _processors(stamp: Processor, *, terminal: bool) -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        stamp,
        redacted_message,
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        if terminal
        else structlog.processors.JSONRenderer(ensure_ascii=False),
    ]
