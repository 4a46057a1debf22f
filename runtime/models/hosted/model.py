"""One language model: what it is asked, tried until it answers, and its reply read back."""

import time
from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

from runtime.models.hosted.abilities import Abilities, abilities_of, body_of, without
from runtime.models.hosted.endpoint import Endpoint, Said
from runtime.models.hosted.failures import Failure
from runtime.models.hosted.marks import unmarked
from runtime.models.hosted.reading import Read, nothing_read, read_reply, visible
from runtime.models.hosted.retrying import Patience, retried
from runtime.models.hosted.settings import ModelSettings
from runtime.models.hosted.tally import Tally
from runtime.models.hosted.words import Words
from runtime.ports import GivenUp, Hear, ModelFailed, ModelReply, ModelRequest
from runtime.prompts.prompt import Prompt
from runtime.prompts.rendering import Prompts
from scripts.values import Value

CHARS_PER_TOKEN_MAX = 16  # no reply within its limit of tokens is longer than that makes it, thoughts and all
CHARS_MIN = 4_000  # and none is too long below that


class HostedModel:
    """A model at an endpoint. It remembers what the endpoint does not take."""

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
        self._patience = Patience(attempts_max=settings.attempts, total_s=settings.attempts * settings.timeout_s)
        self._abilities = abilities_of(settings)

    async def complete(self, request: ModelRequest, hear: Hear | None) -> ModelReply:
        """Its reply. Raises ModelFailed, which carries what was spent."""
        prompt = self._prompts.render(request, context_tokens_max=self.settings.context_tokens_max)
        tally = Tally(self._called, prompt, self.settings, self._clock)
        spare: Read | None = None  # what to go on with where no attempt brings what was asked for

        async def attempt() -> Read:
            nonlocal spare
            try:
                said = await self._said(request, prompt, hear, tally)
                spare = nothing_read(said.text, prompt) or spare
                return _ended(read_reply(said.text, request, prompt, is_called=said.is_called), said)
            except Failure as failure:
                tally.failed(failure)
                raise

        try:
            read = await retried(attempt, self._patience)
        except Failure as failure:
            if spare is None:
                told = failure.told(self.name)
                raise ModelFailed(told, retryable=not failure.meaning.lasting, usage=tally.usage()) from None
            read = spare
        except BaseException as reason:  # a time limit of ours, or something that went wrong as the words were heard
            tally.given_up()
            raise reason from GivenUp(tally.usage())
        text = unmarked(read.reply.text, prompt.values)
        return msgspec.structs.replace(read.reply, text=text, usage=tally.usage(read.degraded))

    async def _said(self, request: ModelRequest, prompt: Prompt, hear: Hear | None, tally: Tally) -> Said:
        """One attempt at a call; it is made anew without what the endpoint turns out not to take."""
        chars_max = CHARS_MIN + CHARS_PER_TOKEN_MAX * self.settings.output_tokens_max
        while True:
            abilities = self._abilities
            body = body_of(self._called, prompt, abilities, self.settings, stream=hear is not None)
            words = Words(request, prompt, hear, tally.begun) if hear is not None else None
            tally.parameters = _parameters(body, abilities, prompt)
            try:
                said = await self.endpoint.call(body, _Listener(tally, words), chars_max)
            except Failure as failure:
                fewer = without(abilities, failure, self.settings)
                if fewer is None:
                    raise
                tally.failed(failure)
                if self._abilities == abilities:  # else another call has learned it meanwhile
                    self._abilities = fewer
            else:
                tally.said(said)
                if said.finish == "length" and not visible(said.text):
                    raise Failure("short")
                return said

    @property
    def _called(self) -> str:
        """The model as its endpoint calls it."""
        return self.settings.model or self.name


class _Listener(Struct, frozen=True):
    """Counts an attempt, and tells of its words where somebody waits for them."""

    tally: Tally
    words: Words | None

    def sent(self) -> None:
        """The endpoint is being asked."""
        self.tally.sent()

    def grew(self, text: str) -> None:
        """The reply is this long by now."""
        self.tally.grew(text)
        if self.words is not None:
            self.words.grow(text)


def _parameters(body: Mapping[str, object], abilities: Abilities, prompt: Prompt) -> dict[str, Value]:
    """What was asked besides the prompt."""
    named = {
        name: value for name in ("temperature", abilities.limit) if isinstance(value := body.get(name), int | float)
    }
    form = abilities.format if prompt.schema is not None else "text"
    return {**named, "format": form, "stream": body["stream"] is True}


def _ended(read: Read, said: Said) -> Read:
    """The reply, with a note where the limit of its tokens ended it."""
    if said.finish != "length" or read.degraded:
        return read
    return Read(read.reply, "it was cut off at its limit of tokens")
