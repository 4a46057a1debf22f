"""Logging: of a server and its commands as JSON or readable lines, and of programs that embed Cuebook. Exceptions are
logged with their kind and stack, without texts that may come from a user.
"""

import asyncio
import logging
import sys
import traceback
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import structlog
from structlog.types import Processor
from structlog.typing import EventDict, WrappedLogger

from store.interface.debug_logging import set_level
from store.interface.errors import StoreError, describe_error

CHAIN_MAX = 10
"""Maximum length of a chain of causes."""


def redacted_message(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Replace `exc_info` of a log event by a stack without values, for a renderer.

    Messages of exceptions are left out, because Python and libraries quote values in them; only those about files and
    RAM, and Cuebook's own StoreError, are included.
    """
    info = event.pop("exc_info", None)
    error = info if isinstance(info, BaseException) else sys.exc_info()[1] if info else None
    if error is not None:
        event["exception"] = format_stack(error)
    return event


def log_unawaited(_: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
    """Log an error that no code of this process awaits, as asyncio reports it. Its own handler would write the message,
    which may contain a user's text.
    """
    error = context.get("exception")
    problem = "" if error is not None else str(context.get("message", ""))
    structlog.get_logger().error("an error in the background", problem=problem, exc_info=error)


def format_stack(error: BaseException) -> str:
    """Return the stack of an exception, after those of its causes."""
    return "\n".join(_format_one(each) for each in reversed(list(islice(_causes(error), CHAIN_MAX))))


def _causes(error: BaseException) -> Iterator[BaseException]:
    each: BaseException | None = error
    while each is not None:
        yield each
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)


def _format_one(error: BaseException) -> str:
    kind = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    message = _safe_message(error)
    stack = "".join(traceback.format_tb(error.__traceback__))
    grouped = error.exceptions[:CHAIN_MAX] if isinstance(error, BaseExceptionGroup) else ()
    text = f"{stack}{kind}: {message}" if message else f"{stack}{kind}"
    return "\n".join([text, *map(format_stack, grouped)])


def _safe_message(error: BaseException) -> str:
    """Return the message of an exception if it contains no user text, else an empty text."""
    if isinstance(error, StoreError):  # Cuebook's own message, see `store.interface.errors.describe_error`
        return str(error)
    message = describe_error(error) if isinstance(error, Exception) else ""
    return "" if message == type(error).__name__ else message


def warnings_only() -> None:
    """Log only warnings, on standard error, unless the program has configured structlog."""
    if not structlog.is_configured():
        structlog.configure(
            processors=_processors(structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False), text=True),
            wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        )


def is_text(log_format: str | None) -> bool:
    """Return whether lines are texts for people: by the setting, else if standard error is a terminal."""
    return sys.stderr.isatty() if log_format is None else log_format == "text"


def configure_logging(level: str, log_format: str | None = None) -> None:
    """Configure structlog at a level such as `info`. No line contains messages, values of variables or keys."""
    number = logging.getLevelNamesMapping()[level.upper()]
    set_level(number)
    structlog.configure(
        processors=_processors(structlog.processors.TimeStamper(fmt="iso", utc=True), text=is_text(log_format)),
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )


def _processors(stamp: Processor, *, text: bool) -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        stamp,
        redacted_message,
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
        if text
        else structlog.processors.JSONRenderer(ensure_ascii=False),
    ]
