"""Retries of failed calls, with growing random waits, within limits of number and time."""

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

from runtime.models.hosted.failures import AttemptFailure
from runtime.state.limits import time_left

T = TypeVar("T")


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """The limits of retries."""

    attempts_max: int
    total_s: float  # no attempt begins after this time, or after the current deadline
    first_wait_s: float = 0.5
    wait_max_s: float = 8.0
    retry_after_max_s: float = 20.0  # if an endpoint asks for a longer wait, the call is not retried


class _at_deadline(stop_base):  # noqa: N801  (named as tenacity names them)
    """Stop if the next attempt would begin after the current deadline."""

    def __call__(self, retry_state: RetryCallState) -> bool:
        return retry_state.upcoming_sleep >= time_left()


async def retried(call: Callable[[], Awaitable[T]], policy: RetryPolicy) -> T:
    """Return the result of the call. Raises the AttemptFailure of its last attempt."""
    backing_off = wait_random_exponential(multiplier=policy.first_wait_s, max=policy.wait_max_s)

    def wait_s(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        wanted = error.retry_after_s if isinstance(error, AttemptFailure) else None
        return backing_off(state) if wanted is None else wanted + backing_off(state) / 10

    def is_worth_it(error: BaseException) -> bool:
        if not isinstance(error, AttemptFailure) or not error.meaning.again:
            return False
        return error.retry_after_s is None or error.retry_after_s <= policy.retry_after_max_s

    retrying = AsyncRetrying(
        stop=stop_after_attempt(policy.attempts_max) | stop_before_delay(policy.total_s) | _at_deadline(),
        wait=wait_s,
        retry=retry_if_exception(is_worth_it),
        reraise=True,
    )
    return await retrying(call)
