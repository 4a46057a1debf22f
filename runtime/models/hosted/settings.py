"""Settings of a language model: its endpoint and its limits."""

import ipaddress
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import SplitResult, urlsplit

from msgspec import Meta, Struct

from scripts.expressions.values import ValueRefused, to_value

OPENAI = "openai:"  # the prefix of names of models at the server's own endpoint
OPENAI_URL = "https://api.openai.com/v1"

Count: TypeAlias = Annotated[int, Meta(ge=1)]
Amount: TypeAlias = Annotated[float, Meta(gt=0)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=1_000_000_000)]
"""31 years at most: no time can be computed with an endless one."""
"""Seconds, or an amount of money."""
Attempts: TypeAlias = Annotated[int, Meta(ge=1, le=10)]
Temperature: TypeAlias = Annotated[float, Meta(ge=0, le=2)]
Price: TypeAlias = Annotated[float, Meta(ge=0)]
FormatSetting: TypeAlias = Literal["auto", "schema", "json", "text"]
ExtraBody: TypeAlias = dict[str, Any]

_PLAIN = re.compile(r"[!-~]*")  # valid in a header
_OWN_FIELDS: Mapping[str, str] = {
    "model": "set `model` of the model",
    "messages": "write your own prompts",
    "stream": "leave it out",
    "stream_options": "leave it out",
    "n": "leave it out",  # only one reply is read
    "response_format": "set `format` of the model",
    "max_tokens": "set `output_tokens_max` of the model",
    "max_completion_tokens": "set `output_tokens_max` of the model",
    "temperature": "set `temperature` of the model",
}
"""Fields of a request that `extra_body` cannot contain, and what to do instead."""


class Secret:
    """A text that only `reveal` returns."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the text itself."""
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return "Secret(***)" if self._value else "Secret()"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a secret cannot be serialised")


class ModelSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One language model. Prices are for a million tokens; times are seconds."""

    model: str = ""
    """The name at the endpoint; the default is the name of the table."""
    url: str = OPENAI_URL
    """The endpoint."""
    key: Secret = Secret("")
    """The key of the endpoint."""
    key_env: str = ""
    """The environment variable that contains the key, instead of `key`."""
    timeout_s: Seconds = 30.0
    """The longest wait for the first text of a reply, and for each further one (a reply without streaming comes at
    once)."""
    attempts: Attempts = 3
    """Attempts for a call."""
    concurrency: Count = 16
    """Calls at a time."""
    fallback: str = ""
    """The model that answers when this one fails."""
    cassette: str = ""
    """A file of replies, as `cuebook play --record` writes it; the model then needs no endpoint."""
    format: FormatSetting = "auto"
    """How structured replies are requested; `auto` tries `schema`, `json` and `text` in this order."""
    temperature: Temperature | None = None
    """The temperature of replies. The default is the endpoint's."""
    extra_body: ExtraBody = {}
    """Further fields of the request that the endpoint takes, such as `{reasoning_effort = "low"}`."""
    output_tokens_max: Count = 4_096
    """The longest reply; the model must have room for it."""
    context_tokens_max: Count = 8_000
    """The longest prompt; the model must have room for it."""
    input_price: Price | None = None
    """Price of a million tokens of prompts, in any currency; with prices, calls have a cost."""
    output_price: Price | None = None
    """Price of a million tokens of replies."""

    def __post_init__(self) -> None:
        parts = _parts(self.url)
        if parts.username is not None or parts.password is not None:
            raise ValueError("the url of a model must not contain a password; set its key instead")
        if parts.path.rstrip("/").endswith("/chat/completions"):
            raise ValueError("the url of a model must not end with /chat/completions; leave that out")
        if not _PLAIN.fullmatch(self.key.reveal()):
            raise ValueError("the key of a model must contain only printable ASCII characters without blanks")
        if self.key and self.key_env:
            raise ValueError("a model has its key from `key` or from `key_env`, not from both")
        if (self.key or self.key_env) and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            raise ValueError("the key of a model is not sent to another machine over http; use https")
        _check_extra(self.extra_body)


def _parts(url: str) -> SplitResult:
    """Return the parts of a valid address. Raises ValueError."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # its message may contain the url
        usable = False
    if not usable or not url.isprintable() or " " in url:
        raise ValueError("the url of a model must begin with https:// or http:// and name a host")
    return parts


def _check_extra(fields: ExtraBody) -> None:
    """Raise ValueError if fields of a request cannot be sent, or are those that Cuebook sets itself."""
    for name, value in fields.items():
        if name in _OWN_FIELDS:
            raise ValueError(f"`{name}` in the extra_body of a model: Cuebook sets it itself; {_OWN_FIELDS[name]}")
        try:
            is_json = to_value(value) == value  # otherwise it is a date
        except ValueRefused as error:
            raise ValueError(f"`{name}` in the extra_body of a model must be a JSON value: {error}") from None
        if not is_json:
            raise ValueError(f"`{name}` in the extra_body of a model must be a JSON value, so a date is a text")


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable only from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
