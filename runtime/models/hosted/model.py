"""One language model: renders the prompt, calls the endpoint with retries, and parses the reply."""

import time
from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

from runtime.models.hosted.capabilities import Capabilities, body_of, capabilities_of, without
from runtime.models.hosted.endpoint import Endpoint, EndpointReply
from runtime.models.hosted.failures import AttemptFailure
from runtime.models.hosted.reply_reader import Read, TextStream, nothing_read, read_reply, unmarked, visible
from runtime.models.hosted.retries import RetryPolicy, retried
from runtime.models.hosted.settings import ModelSettings
from runtime.models.hosted.usage import UsageMeter
from runtime.prompts.prompt import Prompt
from runtime.prompts.rendering import Prompts
from runtime.state.ports import GivenUp, ModelFailed, ModelReply, ModelRequest, OnReply
from scripts.expressions.values import Value

CHARS_PER_TOKEN_MAX = 16  # an upper bound for replies within their token limit, including reasoning
CHARS_MIN = 4_000  # shorter replies are never too long


class HostedModel:
    """A model at an endpoint. It remembers the parameters that the endpoint refuses."""

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
        self._policy = RetryPolicy(attempts_max=settings.attempts, total_s=settings.attempts * settings.timeout_s)
        self._capabilities = capabilities_of(settings)

    async def complete(self, request: ModelRequest, hear: OnReply | None) -> ModelReply:
        """Return the model's reply. Raises ModelFailed, which contains the usage."""
        prompt = self._prompt(request)
        meter = UsageMeter(self._called, prompt, self.settings, self._clock)
        spare: Read | None = None  # the reply to use if no attempt gives the requested format

        async def attempt() -> Read:
            nonlocal spare
            try:
                said = await self._said(request, prompt, hear, meter)
                spare = nothing_read(said.text, prompt) or spare
                return _ended(read_reply(said.text, request, prompt, is_called=said.is_called), said)
            except AttemptFailure as failure:
                meter.failed(failure)
                raise

        try:
            read = await retried(attempt, self._policy)
        except AttemptFailure as failure:
            if spare is None:
                message = failure.message_for(self.name)
                raise ModelFailed(message, retryable=not failure.meaning.lasting, usage=meter.usage()) from None
            read = spare
        except BaseException as reason:  # a time limit of the turn, or an error while the reply was streamed
            meter.given_up()
            raise reason from GivenUp(meter.usage())
        text = unmarked(read.reply.text, prompt.values)
        return msgspec.structs.replace(read.reply, text=text, usage=meter.usage(read.degraded))

    def _prompt(self, request: ModelRequest) -> Prompt:
        return self._prompts.render(request, context_tokens_max=self.settings.context_tokens_max)

    async def _said(
        self, request: ModelRequest, prompt: Prompt, hear: OnReply | None, meter: UsageMeter
    ) -> EndpointReply:
        """Make one attempt; it is repeated without the parameters that the endpoint refuses."""
        chars_max = CHARS_MIN + CHARS_PER_TOKEN_MAX * self.settings.output_tokens_max
        while True:
            capabilities = self._capabilities
            body = body_of(self._called, prompt, capabilities, self.settings, stream=hear is not None)
            words = TextStream(request, prompt, hear, meter.begun) if hear is not None else None
            meter.parameters = _parameters(body, capabilities, prompt)
            try:
                said = await self.endpoint.call(body, _Listener(meter, words), chars_max)
            except AttemptFailure as failure:
                fewer = without(capabilities, failure, self.settings)
                if fewer is None:
                    raise
                meter.failed(failure)
                if self._capabilities == capabilities:  # otherwise another call has changed them meanwhile
                    self._capabilities = fewer
            else:
                meter.said(said)
                if said.finish == "length" and not visible(said.text):
                    raise AttemptFailure("short")
                return said

    @property
    def _called(self) -> str:
        """Return the model's name at its endpoint."""
        return self.settings.model or self.name


class _Listener(Struct, frozen=True):
    """Counts an attempt, and streams its text if there is a listener."""

    meter: UsageMeter
    words: TextStream | None

    def sent(self) -> None:
        """Handle the start of an attempt."""
        self.meter.sent()

    def grew(self, text: str) -> None:
        """Handle a streamed reply that has grown to this text."""
        self.meter.grew(text)
        if self.words is not None:
            self.words.grow(text)


def _parameters(body: Mapping[str, object], capabilities: Capabilities, prompt: Prompt) -> dict[str, Value]:
    """Return the parameters of a request besides the prompt."""
    named = {
        name: value for name in ("temperature", capabilities.limit) if isinstance(value := body.get(name), int | float)
    }
    form = capabilities.format if prompt.schema is not None else "text"
    return {**named, "format": form, "stream": body["stream"] is True}


def _ended(read: Read, said: EndpointReply) -> Read:
    """Return the reply, with a note if the token limit ended it."""
    if said.finish != "length" or read.degraded:
        return read
    return Read(read.reply, "it was cut off at its token limit")
