"""What can go wrong between this server and the endpoint of a model, by kind.

Clients read the words of a kind. They are ours: what an endpoint says, its address and its key are in none of them.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx2
import msgspec
from msgspec import Struct
from openai import APIConnectionError, APIError, APIResponseValidationError, APIStatusError, APITimeoutError

REFUSAL_CHARS_MAX = 4_000  # of what an endpoint says, as far as it is looked at


class Kind(Struct, frozen=True):
    """One way to fail: what the endpoint did, and what that means."""

    words: str
    again: bool = False  # the same call may well succeed a moment later
    down: bool = False  # a sign that the endpoint is down
    lasting: bool = False  # nothing will change until the operator changes something
    spent: bool = False  # the endpoint had the prompt, and counts it


_TROUBLE = Kind("has trouble of its own", again=True, down=True)
_REFUSED = Kind("refused the request", lasting=True)

KINDS: Mapping[str, Kind] = {
    "timeout": Kind("did not answer in time; see timeout_s of the model", again=True, down=True, spent=True),
    "connect": Kind("cannot be reached; see the url of the model", again=True, down=True),
    "cut": Kind("broke off in the middle of its reply", again=True, down=True, spent=True),
    "protocol": Kind("does not answer as chat completions do; see the url of the model", again=True, down=True),
    "empty": Kind("gave an empty reply", again=True),
    "unusable": Kind("gave no reply that can be used", again=True),
    "short": Kind("spent its limit of tokens without a word; raise output_tokens_max of the model", lasting=True),
    "long": Kind("gave a reply without end", spent=True),
    "filtered": Kind("stopped the reply by a filter of its own", spent=True),
    "quota": Kind("has no quota left for this key", lasting=True),
    "context": Kind("takes no prompt this long; lower context_tokens_max of the model", lasting=True),
    "401": Kind("refused the key", lasting=True),
    "no_key": Kind("wants a key, and the model has none; set it", lasting=True),
    "402": Kind("wants to be paid first", lasting=True),
    "403": Kind("does not allow this with the key", lasting=True),
    "404": Kind("knows no such model or address; see model and url", lasting=True),
    "408": _TROUBLE,
    "409": _TROUBLE,
    "425": _TROUBLE,
    "429": Kind("has too much to do", again=True),
    "busy": Kind("has too many calls waiting"),
    "resting": Kind("failed several times in a row and is left alone for a moment"),
}


class Failure(Exception):
    """One attempt at a call failed."""

    def __init__(self, kind: str, *, retry_after_s: float | None = None, refused: str = "", cause: str = "") -> None:
        super().__init__(kind)
        self.kind = kind
        self.retry_after_s = retry_after_s
        self.refused = refused  # the parameter that the endpoint does not take
        self.cause = cause  # the kind of the first failure in the row that this one follows from

    @property
    def meaning(self) -> Kind:
        """What the kind means."""
        return _meaning(self.kind)

    def told(self, model: str) -> str:
        """The failure in words for clients."""
        what = f", which names `{self.refused}`" if self.refused else ""
        first = f"; the first time it {_meaning(self.cause).words}{_status(self.cause)}" if self.cause else ""
        return f"the endpoint of model `{model}` {self.meaning.words}{what}{_status(self.kind)}{first}"


def _meaning(kind: str) -> Kind:
    return KINDS.get(kind) or (_TROUBLE if kind.startswith("5") else _REFUSED)


def _status(kind: str) -> str:
    return f" ({kind})" if kind.isdigit() else ""


def failure_of(error: APIError) -> Failure:
    """What an error of the client means."""
    match error:
        case APITimeoutError():
            return Failure("connect" if isinstance(error.__cause__, httpx2.ConnectTimeout) else "timeout")
        case APIConnectionError():
            return Failure("connect" if isinstance(error.__cause__, httpx2.ConnectError) else "cut")
        case APIStatusError():
            return _of_status(error)
        case APIResponseValidationError():
            return Failure("protocol")
        case _:  # an error that is told of in a stream
            return Failure("cut")


def _of_status(error: APIStatusError) -> Failure:
    status = error.status_code
    if status == 429:
        if error.code == "insufficient_quota":
            return Failure("quota")
        return Failure("429", retry_after_s=_retry_after_s(error.response.headers))
    if status >= 500:
        return Failure(str(status), retry_after_s=_retry_after_s(error.response.headers))
    if status == 413 or error.code == "context_length_exceeded":
        return Failure("context")
    if error.code == "json_validate_failed":  # the model's own JSON did not fit, where the endpoint looks at it
        return Failure("unusable")
    if status in {400, 422}:
        return Failure(str(status), refused=_refused(error))
    return Failure(str(status))


_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "stream_options": ("stream_options", "include_usage"),
    "max_tokens": ("max_completion_tokens",),  # named as what to use instead
    "response_format": ("response_format", "response format", "json_schema", "json_object", "structured output"),
    "temperature": ("temperature",),
}


def _refused(error: APIStatusError) -> str:
    """The parameter that a refusal is about; endpoints say so in many ways."""
    said = f"{error.param or ''} {error.message}"[:REFUSAL_CHARS_MAX].casefold()
    return next((name for name, signs in _PARAMETERS.items() if any(sign in said for sign in signs)), "")


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """How long the endpoint wants to be left alone."""
    given = headers.get("retry-after", "")
    try:
        return max(0.0, msgspec.convert(given, float, strict=False))
    except msgspec.ValidationError:
        pass
    try:
        moment = parsedate_to_datetime(given)
    except ValueError:
        return None
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
