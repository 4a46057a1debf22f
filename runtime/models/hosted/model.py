"""One language model: renders the prompt, calls the endpoint with retries, and parses the reply."""

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec
import tenacity

from runtime.models.hosted.capabilities import Capabilities, body_of, capabilities_of, sent_prompt, without
from runtime.models.hosted.endpoint import Endpoint, EndpointReply, Listener
from runtime.models.hosted.failures import AttemptFailure
from runtime.models.hosted.reply_reader import (
    ReplyReading,
    TextStream,
    begins_in_thought,
    fill_placeholders,
    nothing_read,
    read_reply,
    visible,
)
from runtime.models.hosted.settings import ModelSettings
from runtime.models.hosted.usage import UsageMeter
from runtime.prompts.prompt import Prompt
from runtime.prompts.rendering import Prompts
from runtime.prompts.reply_fields import offered_tool
from runtime.state.deadlines import time_left
from runtime.state.ports import GivenUp, ModelFailed, ModelReply, ModelRequest, OnReply
from scripts.expressions.values import Value, to_value

CHARS_PER_TOKEN_MAX = 16  # an upper bound for replies within their token limit, including reasoning
CHARS_MIN = 4_000  # shorter replies are never too long
FIRST_WAIT_S, WAIT_MAX_S = 0.5, 8.0  # between attempts; the waits grow and are random
RETRY_AFTER_MAX_S = 20.0  # if an endpoint asks for a longer wait, the call is not retried

_WORD = re.compile("[a-z]{1,16}")

T = TypeVar("T")


class HostedModel:
    """A model at an endpoint. It remembers the parameters that the endpoint refuses, and how its replies begin."""

    def __init__(
        self,
        name: str,
        settings: ModelSettings,
        endpoint: Endpoint,
        prompts: Prompts,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.settings = settings
        self.endpoint = endpoint
        self._prompts = prompts
        self._clock = clock
        self._capabilities = capabilities_of(settings)
        self._begins_in_thought = False  # whether replies have begun with reasoning that only its end tag marks

    async def complete(self, request: ModelRequest, hear: OnReply | None) -> ModelReply:
        """Return the model's reply. Raises ModelFailed, which contains the usage."""
        prompt = self._prompts.render(request, context_tokens_max=self.settings.context_tokens_max)
        meter = UsageMeter(self._called, prompt, self.settings, self._clock)
        spare: ReplyReading | None = None  # the reply to use if no attempt gives the requested format

        async def attempt() -> ReplyReading:
            nonlocal spare
            try:
                said = _with_call(request, await self._attempt(request, prompt, hear, meter))
                spare = nothing_read(said.text, prompt) or spare
                return _note_end(read_reply(said.text, request, prompt, is_called=said.is_called), said)
            except AttemptFailure as failure:
                meter.note_failure(failure)
                raise

        try:
            read = await _retry(attempt, self.settings.attempts, self.settings.attempts * self.settings.timeout_s)
        except AttemptFailure as failure:
            if spare is None:
                message = failure.message_for(self.name)
                raise ModelFailed(message, retryable=not failure.meaning.lasting, usage=meter.usage()) from None
            read = spare
        except BaseException as reason:  # a time limit of the turn, or an error while the reply was streamed
            meter.note_cancelled()
            raise reason from GivenUp(meter.usage())
        text = fill_placeholders(read.reply.text, prompt.values)
        return msgspec.structs.replace(read.reply, text=text, usage=meter.usage(read.degraded))

    async def _attempt(
        self, request: ModelRequest, prompt: Prompt, hear: OnReply | None, meter: UsageMeter
    ) -> EndpointReply:
        """Make one attempt; it is repeated without the parameters that the endpoint refuses."""
        chars_max = CHARS_MIN + CHARS_PER_TOKEN_MAX * self.settings.output_tokens_max
        while True:
            capabilities = self._capabilities
            meter.sent = sent_prompt(prompt, capabilities)
            stream = hear is not None
            body = body_of(self._called, meter.sent, prompt, capabilities, self.settings, stream=stream)
            words = (
                TextStream(request, prompt, hear, meter.note_first_text, begins_in_thought=self._begins_in_thought)
                if hear is not None
                else None
            )
            meter.parameters = _parameters(body, capabilities, prompt, self.settings)
            try:
                said = await self.endpoint.call(
                    body, Listener(meter.note_sent, partial(_grew, meter, words)), chars_max
                )
            except AttemptFailure as failure:
                fewer = without(capabilities, failure, self.settings)
                if fewer is None:
                    raise
                meter.note_failure(failure)
                if self._capabilities == capabilities:  # otherwise another call has changed them meanwhile
                    self._capabilities = fewer
            else:
                meter.note_reply(said)
                self._begins_in_thought = self._begins_in_thought or begins_in_thought(said.text)
                if said.finish == "length" and not visible(said.text):
                    raise AttemptFailure("short")
                return said

    @property
    def _called(self) -> str:
        """Return the model's name at its endpoint."""
        return self.settings.model or self.name


def _grew(meter: UsageMeter, words: TextStream | None, text: str) -> None:
    """Handle a streamed reply that has grown to this text."""
    meter.grew(text)
    if words is not None:
        words.grow(text)


def _with_call(request: ModelRequest, said: EndpointReply) -> EndpointReply:
    """Return a reply whose text names the tool that it calls, if that is one of those offered."""
    if said.call is None or offered_tool(request, said.call.name) is None:
        return said
    return msgspec.structs.replace(said, text=msgspec.json.encode(said.call).decode())


def _parameters(
    body: Mapping[str, object], capabilities: Capabilities, prompt: Prompt, settings: ModelSettings
) -> dict[str, Value]:
    """Return the parameters of a request besides the prompt."""
    sent = {name: body.get(name) for name in ("temperature", capabilities.limit)}
    numbers = {name: value for name, value in sent.items() if isinstance(value, int | float)}
    form = capabilities.format if prompt.schema is not None else "text"
    extra = {"extra_body": _hide_secrets(settings.extra_body)} if settings.extra_body else {}
    return {**numbers, "format": form, "stream": body["stream"] is True, **extra}


def _hide_secrets(value: Any) -> Value:
    """Return a value of `extra_body` as it is stored: a text that is not a plain word could be a secret."""
    match value:
        case dict():
            return {name: _hide_secrets(each) for name, each in value.items()}
        case list():
            return [_hide_secrets(each) for each in value]
        case str() if not _WORD.fullmatch(value):
            return "***"
        case _:
            return to_value(value)


def _note_end(read: ReplyReading, said: EndpointReply) -> ReplyReading:
    """Return the reply, with a note if the token limit ended it."""
    if said.finish != "length" or read.degraded:
        return read
    return ReplyReading(read.reply, "it was cut off at its token limit")


# -- retries ----------------------------------------------------------------------------------------------------------


class _at_deadline(tenacity.stop.stop_base):  # noqa: N801  (named as tenacity names them)
    """Stop if the next attempt would begin after the current deadline."""

    def __call__(self, retry_state: tenacity.RetryCallState) -> bool:
        return retry_state.upcoming_sleep >= time_left()


async def _retry(call: Callable[[], Awaitable[T]], attempts_max: int, total_s: float) -> T:
    """Return the result of the call. No attempt begins after `total_s`, or after the current deadline.

    Raises the AttemptFailure of its last attempt.
    """
    backing_off = tenacity.wait_random_exponential(multiplier=FIRST_WAIT_S, max=WAIT_MAX_S)

    def wait_s(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        wanted = error.retry_after_s if isinstance(error, AttemptFailure) else None
        return backing_off(state) if wanted is None else wanted + backing_off(state) / 10

    def is_worth_it(error: BaseException) -> bool:
        if not isinstance(error, AttemptFailure) or not error.meaning.again:
            return False
        return error.retry_after_s is None or error.retry_after_s <= RETRY_AFTER_MAX_S

    stop = tenacity.stop_after_attempt(attempts_max) | tenacity.stop_before_delay(total_s) | _at_deadline()
    retry = tenacity.retry_if_exception(is_worth_it)
    return await tenacity.AsyncRetrying(stop=stop, wait=wait_s, retry=retry, reraise=True)(call)
