"""The kinds of failures between this server and the endpoint of a model.

Clients read the text of a kind. It never contains text, address or key of the endpoint.
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
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


def failure_of(error: APIError, extra: Iterable[str] = ()) -> AttemptFailure:
    """Return the failure for an error of the client library; `extra` are the names of further fields of the request."""
    match error:
        case APITimeoutError():
            return AttemptFailure("connect" if isinstance(error.__cause__, httpx2.ConnectTimeout) else "timeout")
        case APIConnectionError():
            return AttemptFailure("connect" if isinstance(error.__cause__, httpx2.ConnectError) else "cut")
        case APIStatusError():
            return _of_status(error, extra)
        case APIResponseValidationError():
            return AttemptFailure("protocol")
        case _:  # an error event in a stream
            return reported_failure(error.body)


def reported_failure(body: object) -> AttemptFailure:
    """Return the failure for an error that an endpoint reports with status 200, instead of a reply or within one."""
    fields = body if isinstance(body, Mapping) else {}
    code = str(fields.get("code") or "")
    if re.fullmatch("[45][0-9][0-9]", code):
        return _failure_for(int(code), code, "", str(body), None)
    kind = _kind_in(code, str(body)[:REFUSAL_CHARS_MAX].casefold())
    return AttemptFailure(kind or "cut")


def _of_status(error: APIStatusError, extra: Iterable[str]) -> AttemptFailure:
    wait_s = _retry_after_s(error.response.headers)
    failure = _failure_for(error.status_code, error.code or "", str(error.param or ""), error.message, wait_s)
    if failure.kind in {"400", "422"} and not failure.refused:
        said = f"{error.param} {error.message}"[:REFUSAL_CHARS_MAX]
        failure.refused = next((name for name in extra if re.search(rf"\b{re.escape(name)}\b", said)), "")
    return failure


def _failure_for(status: int, code: str, param: str, message: str, wait_s: float | None) -> AttemptFailure:
    said = f"{param} {message}"[:REFUSAL_CHARS_MAX].casefold()
    kind = _kind_in(code, said)
    if status == 429:
        return AttemptFailure("quota") if kind == "quota" else AttemptFailure("429", retry_after_s=wait_s)
    if status == 413:
        return AttemptFailure("context")
    if status not in {400, 422} and status < 500:
        return AttemptFailure(str(status))
    if kind:
        return AttemptFailure(kind)
    refused = next((name for name, signs in _PARAMETERS.items() if param == name or _has_any(said, signs)), "")
    return AttemptFailure(str(status), refused=refused, retry_after_s=wait_s if status >= 500 else None)


_CODES: Mapping[str, str] = {
    "insufficient_quota": "quota",
    "context_length_exceeded": "context",
    "json_validate_failed": "unusable",  # the endpoint validates the model's JSON, and it was invalid
    "tool_use_failed": "unusable",  # the model called a tool in the endpoint's own form, which was not requested
    "content_filter": "filtered",
    "data_inspection_failed": "filtered",
}
# What endpoints write into errors without a code of their own, by kind; the wording differs between them.
_SIGNS: Mapping[str, tuple[str, ...]] = {
    "context": (
        "context length",
        "context size",
        "context window",
        "prompt is too long",
        "input token count",
        "range of input length",
    ),
    "limit": ("max_tokens is too large", "max_completion_tokens is too large", "invalid max_tokens", "of max_tokens"),
    "key": ("api key not valid", "invalid api key", "incorrect api key"),
    "unknown": ("model not exist", "invalid model", "not a valid model", "unexpected endpoint"),
    "filtered": ("content management policy", "content exists risk"),
}
_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "stream_options": ("stream_options", "include_usage"),
    "stream": ("to stream this model", "'stream'", "streaming is not supported", "not support streaming"),
    "max_tokens": ("max_completion_tokens",),  # named as what to use instead
    "system": (
        "system role",
        "roles must alternate",
        "does not support 'system'",
        "[0].role",
        "developer instruction",
        "system instruction",
    ),
    "response_format": (
        "response_format",
        "response format",
        "response_schema",
        "structured output",
        "grammar",
        "json_schema",
        "json schema",
        "json_object",
    ),
    "temperature": ("temperature",),
}


def _kind_in(code: str, said: str) -> str:
    """Return the kind of failure that an error names; empty if it names none."""
    return _CODES.get(code) or next((kind for kind, signs in _SIGNS.items() if _has_any(said, signs)), "")


def _has_any(said: str, signs: tuple[str, ...]) -> bool:
    return any(sign in said for sign in signs)


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the wait that the endpoint asks for, in seconds."""
    header = headers.get("retry-after", "")
    with suppress(msgspec.ValidationError):
        return max(0.0, msgspec.convert(headers.get("retry-after-ms", ""), float, strict=False) / 1_000)
    with suppress(msgspec.ValidationError):
        return max(0.0, msgspec.convert(header, float, strict=False))
    try:
        moment = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
