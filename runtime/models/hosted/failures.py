"""The kinds of failures between this server and the endpoint of a model.

Clients read the text of a kind. It never contains text, address or key of the endpoint.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx2
import msgspec
from msgspec import Struct
from openai import APIConnectionError, APIError, APIResponseValidationError, APIStatusError, APITimeoutError

REFUSAL_CHARS_MAX = 4_000  # of an endpoint's error message, as far as it is searched


class Kind(Struct, frozen=True):
    """One kind of failure: what the endpoint did, and how to react."""

    words: str
    again: bool = False  # the same call may succeed soon
    down: bool = False  # a sign that the endpoint is down
    lasting: bool = False  # the operator must change something first
    spent: bool = False  # the endpoint received the prompt and charges for it


KINDS = msgspec.yaml.decode(Path(__file__).with_suffix(".yaml").read_text("utf-8"), type=dict[str, Kind])


class AttemptFailure(Exception):
    """One attempt at a call failed."""

    def __init__(self, kind: str, *, retry_after_s: float | None = None, refused: str = "", cause: str = "") -> None:
        super().__init__(kind)
        self.kind = kind
        self.retry_after_s = retry_after_s
        self.refused = refused  # the parameter that the endpoint does not accept
        self.cause = cause  # the kind of the first failure in the row

    @property
    def meaning(self) -> Kind:
        """Return the kind of the failure."""
        return _meaning(self.kind)

    def message_for(self, model: str) -> str:
        """Return the failure as a message for clients."""
        what = f", which names `{self.refused}`" if self.refused else ""
        first = f"; the first time it {_meaning(self.cause).words}{_status(self.cause)}" if self.cause else ""
        return f"the endpoint of model `{model}` {self.meaning.words}{what}{_status(self.kind)}{first}"


def _meaning(kind: str) -> Kind:
    return KINDS.get(kind) or KINDS["5xx" if kind.startswith("5") else "others"]


def _status(kind: str) -> str:
    return f" ({kind})" if kind.isdigit() else ""


def failure_of(error: APIError) -> AttemptFailure:
    """Return the failure for an error of the client library."""
    match error:
        case APITimeoutError():
            return AttemptFailure("connect" if isinstance(error.__cause__, httpx2.ConnectTimeout) else "timeout")
        case APIConnectionError():
            return AttemptFailure("connect" if isinstance(error.__cause__, httpx2.ConnectError) else "cut")
        case APIStatusError():
            return _of_status(error)
        case APIResponseValidationError():
            return AttemptFailure("protocol")
        case _:  # an error event in a stream
            return AttemptFailure("cut")


def _of_status(error: APIStatusError) -> AttemptFailure:
    status = error.status_code
    if status == 429:
        if error.code == "insufficient_quota":
            return AttemptFailure("quota")
        return AttemptFailure("429", retry_after_s=_retry_after_s(error.response.headers))
    if status >= 500:
        return AttemptFailure(str(status), retry_after_s=_retry_after_s(error.response.headers))
    if status == 413 or error.code == "context_length_exceeded":
        return AttemptFailure("context")
    if error.code == "json_validate_failed":  # the endpoint validates the model's JSON, and it was invalid
        return AttemptFailure("unusable")
    if status in {400, 422}:
        return AttemptFailure(str(status), refused=_refused_parameter(error))
    return AttemptFailure(str(status))


_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "stream_options": ("stream_options", "include_usage"),
    "max_tokens": ("max_completion_tokens",),  # named as what to use instead
    "response_format": ("response_format", "response format", "json_schema", "json_object", "structured output"),
    "temperature": ("temperature",),
}


def _refused_parameter(error: APIStatusError) -> str:
    """Return the parameter that a refusal names; the wording differs between endpoints."""
    said = f"{error.param or ''} {error.message}"[:REFUSAL_CHARS_MAX].casefold()
    return next((name for name, signs in _PARAMETERS.items() if any(sign in said for sign in signs)), "")


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the wait that the endpoint asks for, in seconds."""
    header = headers.get("retry-after", "")
    try:
        return max(0.0, msgspec.convert(header, float, strict=False))
    except msgspec.ValidationError:
        pass
    try:
        moment = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
