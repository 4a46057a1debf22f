"""The usage of one call, summed over its attempts."""

import math
from collections.abc import Callable

from msgspec import structs

from runtime.context.text_lengths import MESSAGE_TOKENS, tokens_of
from runtime.models.hosted.endpoint import EndpointReply
from runtime.models.hosted.failures import AttemptFailure
from runtime.models.hosted.settings import ModelSettings
from runtime.prompts.prompt import Prompt, SentPrompt, stored_prompt
from runtime.state.ports import Usage
from scripts.expressions.values import Value

MILLION = 1_000_000
GIVEN_UP = "given_up"


class UsageMeter:
    """Counts the usage of one call of one model."""

    def __init__(self, model: str, prompt: Prompt, settings: ModelSettings, clock: Callable[[], float]) -> None:
        self.parameters: dict[str, Value] = {}
        self.sent: SentPrompt | None = None  # the prompt of the newest attempt
        self._model = model
        self._prompt = prompt
        self._settings = settings
        self._clock = clock
        self._began = clock()
        self._first_words_ms: int | None = None
        self._attempts = 0
        self._failures: list[str] = []
        self._input = self._cached = self._output = 0
        self._counted = True
        self._is_open = False  # an attempt was sent and has no result yet
        self._growing = ""  # the reply of the current attempt so far

    def note_sent(self) -> None:
        """Count an attempt: the request is being sent to the endpoint."""
        self._attempts += 1
        self._is_open, self._growing = True, ""

    def grew(self, text: str) -> None:
        """Store the text of a streamed reply so far."""
        self._growing = text

    def note_failure(self, failure: AttemptFailure) -> None:
        """Count a failed attempt; usage that the endpoint does not report is estimated."""
        self._failures.append(failure.kind)
        if self._is_open and failure.meaning.spent:
            self._estimate()
        self._is_open = False

    def note_cancelled(self) -> None:
        """Count an attempt that was cancelled after the endpoint received the prompt."""
        if self._is_open:
            self._failures.append(GIVEN_UP)
            self._estimate()
        self._is_open = False

    def note_first_text(self) -> None:
        """Record the time of the first text."""
        if self._first_words_ms is None:
            self._first_words_ms = self._passed_ms()

    def note_reply(self, said: EndpointReply) -> None:
        """Count the tokens of a reply, usable or not; tokens that the endpoint does not report are estimated."""
        self._model = said.model or self._model
        self._cached += said.cached_tokens
        if said.input_tokens is None or said.output_tokens is None:
            self._counted = False
        self._is_open = False
        self._input += self._prompt_tokens if said.input_tokens is None else said.input_tokens
        self._output += tokens_of(said.text) if said.output_tokens is None else said.output_tokens

    def usage(self, degraded: str = "") -> Usage:
        """Return the total usage."""
        return Usage(
            model=self._model,
            prompt_digest=self._prompt.digest,
            prompt=self._stored_prompt(),
            parameters=self.parameters,
            input_tokens=self._input,
            cached_tokens=self._cached,
            output_tokens=self._output,
            counted=self._counted,
            cost=self._cost(),
            latency_ms=self._passed_ms(),
            first_words_ms=self._first_words_ms,
            attempts=self._attempts,
            failures=tuple(self._failures),
            degraded=degraded,
        )

    @property
    def _prompt_tokens(self) -> int:
        """Return the estimated number of tokens of the prompt."""
        return sum(MESSAGE_TOKENS + tokens_of(message.content) for message in self._prompt.messages)

    def _stored_prompt(self) -> str | None:
        """Return the prompt as it is stored; None if it was never sent."""
        return stored_prompt(self.sent) if self.sent is not None and self._attempts else None

    def _estimate(self) -> None:
        self._counted = False
        self._input += self._prompt_tokens
        self._output += tokens_of(self._growing)

    def _cost(self) -> float | None:
        prices = self._settings.input_price, self._settings.output_price
        if prices == (None, None):
            return None
        return (self._input * (prices[0] or 0) + self._output * (prices[1] or 0)) / MILLION

    def _passed_ms(self) -> int:
        return math.ceil((self._clock() - self._began) * 1_000)


def together(first: Usage, then: Usage) -> Usage:
    """Return the usage of a call that failed with one model and was repeated with another."""
    costs = [each.cost for each in (first, then) if each.cost is not None]
    first_words_ms = then.first_words_ms
    return structs.replace(
        then,
        input_tokens=first.input_tokens + then.input_tokens,
        cached_tokens=first.cached_tokens + then.cached_tokens,
        output_tokens=first.output_tokens + then.output_tokens,
        counted=first.counted and then.counted,
        cost=sum(costs) if costs else None,
        latency_ms=first.latency_ms + then.latency_ms,
        first_words_ms=None if first_words_ms is None else first.latency_ms + first_words_ms,
        attempts=first.attempts + then.attempts,
        failures=(*first.failures, *then.failures),
    )
