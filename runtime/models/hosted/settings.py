"""How a language model is reached and what it may take."""

import ipaddress
import re
from typing import Annotated, Literal, TypeAlias
from urllib.parse import SplitResult, urlsplit

from msgspec import Meta, Struct

from runtime.amounts import Amount, Count

OPENAI = "openai:"  # before the name of a model at the server's own endpoint, whichever that is
OPENAI_URL = "https://api.openai.com/v1"

Attempts: TypeAlias = Annotated[int, Meta(ge=1, le=10)]
Temperature: TypeAlias = Annotated[float, Meta(ge=0, le=2)]
Price: TypeAlias = Annotated[float, Meta(ge=0)]
FormatSetting: TypeAlias = Literal["auto", "schema", "json", "text"]

_PLAIN = re.compile(r"[!-~]*")  # what a header can hold


class Secret:
    """A text that nothing shows but `reveal`."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The text itself."""
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
        raise TypeError("a secret is not written anywhere")


class ModelSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One language model. Prices are for a million tokens, times seconds."""

    model: str = ""  # as the endpoint calls it; empty: by the name it has here
    url: str = OPENAI_URL
    key: Secret = Secret("")
    key_env: str = ""  # the variable of the environment that holds the key
    timeout_s: Amount = 30.0
    attempts: Attempts = 3
    concurrency: Count = 16
    fallback: str = ""
    format: FormatSetting = "auto"
    temperature: Temperature | None = None
    output_tokens_max: Count = 4_096
    context_tokens_max: Count = 8_000
    input_price: Price | None = None
    output_price: Price | None = None

    def __post_init__(self) -> None:
        parts = _parts(self.url)
        if parts.username is not None or parts.password is not None:
            raise ValueError("the url of a model must not hold a password; set its key instead")
        if not _PLAIN.fullmatch(self.key.reveal()):
            raise ValueError("the key of a model is written in plain characters without blanks")
        if self.key and self.key_env:
            raise ValueError("a model has its key from `key` or from `key_env`, not from both")
        if (self.key or self.key_env) and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            raise ValueError("the key of a model is not sent to another machine over http; use https")


def _parts(url: str) -> SplitResult:
    """The parts of an address that can be called. Raises ValueError."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # its words may hold all of the url
        usable = False
    if not usable or not url.isprintable() or " " in url:
        raise ValueError("the url of a model must begin with https:// or http:// and name a host")
    return parts


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
