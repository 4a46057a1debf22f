"""Logging within programs of others."""

import logging
import sys

import structlog


def warnings_only() -> None:
    """A program that has not set up structlog hears of warnings only, on standard error."""
    if not structlog.is_configured():
        structlog.configure(
            wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        )
