"""What the log tells of an exception: what it was and where it came from, without words that may be a user's."""

import sys
import traceback
from collections.abc import Iterator
from itertools import islice

from structlog.typing import EventDict, WrappedLogger

from store.errors import StoreError, told

CHAIN_MAX = 10
"""Exceptions that were raised one from the other."""


def without_words(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Puts the stack of `exc_info` into the event, for a renderer: lines of code, no values, and of the exceptions only
    their kind, but for those whose words are of files and memory. What Python and libraries say of a value quotes it.
    """
    given = event.pop("exc_info", None)
    error = given if isinstance(given, BaseException) else sys.exc_info()[1] if given else None
    if error is not None:
        event["exception"] = stack_of(error)
    return event


def stack_of(error: BaseException) -> str:
    """Where an exception came from, with those it was raised from before it."""
    return "\n".join(_one(each) for each in reversed(list(islice(_causes(error), CHAIN_MAX))))


def _causes(error: BaseException) -> Iterator[BaseException]:
    each: BaseException | None = error
    while each is not None:
        yield each
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)


def _one(error: BaseException) -> str:
    kind = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    words = _words(error)
    stack = "".join(traceback.format_tb(error.__traceback__))
    grouped = error.exceptions[:CHAIN_MAX] if isinstance(error, BaseExceptionGroup) else ()
    told_of = f"{stack}{kind}: {words}" if words else f"{stack}{kind}"
    return "\n".join([told_of, *map(stack_of, grouped)])


def _words(error: BaseException) -> str:
    if isinstance(error, StoreError):  # of its own, see `store.errors.told`
        return str(error)
    words = told(error) if isinstance(error, Exception) else ""
    return "" if words == type(error).__name__ else words
