"""Trying a call again: after longer and longer waits of random length, so often and so long and no more."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec import Struct
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    stop_before_delay,
    wait_random_exponential,
)
from tenacity.stop import stop_base

from runtime.deadlines import time_left
from runtime.models.hosted.failures import Failure

T = TypeVar("T")


class Patience(Struct, frozen=True, kw_only=True):
    """How often and how long a call is tried."""

    attempts_max: int
    total_s: float  # no attempt begins after that, or after the deadline of the work at hand
    first_wait_s: float = 0.5
    wait_max_s: float = 8.0
    retry_after_max_s: float = 20.0  # an endpoint that wants to be left alone for longer is not waited for


class _at_deadline(stop_base):  # noqa: N801  (named as tenacity names them)
    """Stop where the next attempt would begin after the deadline of the work at hand."""

    def __call__(self, retry_state: RetryCallState) -> bool:
        return retry_state.upcoming_sleep >= time_left()


async def retried(call: Callable[[], Awaitable[T]], patience: Patience) -> T:
    """What the call comes to at last. Raises the Failure of its last attempt."""
    backing_off = wait_random_exponential(multiplier=patience.first_wait_s, max=patience.wait_max_s)

    def wait_s(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        wanted = error.retry_after_s if isinstance(error, Failure) else None
        return backing_off(state) if wanted is None else wanted + backing_off(state) / 10

    def is_worth_it(error: BaseException) -> bool:
        if not isinstance(error, Failure) or not error.meaning.again:
            return False
        return error.retry_after_s is None or error.retry_after_s <= patience.retry_after_max_s

    retrying = AsyncRetrying(
        stop=stop_after_attempt(patience.attempts_max) | stop_before_delay(patience.total_s) | _at_deadline(),
        wait=wait_s,
        retry=retry_if_exception(is_worth_it),
        reraise=True,
    )
    return await retrying(call)
