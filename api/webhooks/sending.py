"""Sends a delivery once, and says what came of it in a word, never in those of whoever answers."""

import asyncio
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from typing import Literal, TypeAlias

import httpcore
import httpx
from msgspec import Struct

from api.settings import Settings
from api.webhooks.addresses import Guard, NameUnknown, Refused, Rules

CONNECT_S = 5.0
KEEP_ALIVE_S = 30.0
ANSWER_BYTES_MAX = 4_096  # what is read of an answer, so that its connection can be used again

Trouble: TypeAlias = Literal["status", "timeout", "connection", "tls", "dns", "refused", "protocol", "internal"]


class Outcome(Struct, frozen=True):
    """What came of sending: the status of the answer, or why there was none."""

    status: int | None
    trouble: Trouble | None
    retry_after_s: float | None = None

    @property
    def is_down(self) -> bool:
        """Whether the receiver cannot take anything, as it seems; not only this delivery."""
        return self.trouble is not None and (self.status is None or self.status == 429 or self.status >= 500)


class Sender:
    """The connections to receivers. No redirect is followed and no proxy used: both lead past what was checked."""

    def __init__(self, settings: Settings, rules: Rules) -> None:
        self._rules = rules
        self._was_open = False
        self._name = f"Cuebook/{version('cuebook')}"
        self._timeout_s = settings.webhook_timeout_s
        self._connections_max = settings.webhook_concurrency
        self._pool: httpcore.AsyncConnectionPool | None = None  # most servers have no webhooks, and need none

    async def close(self) -> None:
        """Closes the connections."""
        if self._pool is not None:
            await self._pool.aclose()

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> Outcome:
        """Posts a body; it takes at most `webhook_timeout_s`."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._send(url, headers, body)
        except (TimeoutError, httpcore.TimeoutException):
            return Outcome(None, "timeout")
        except Refused:
            return Outcome(None, "refused")
        except NameUnknown:
            return Outcome(None, "dns")
        except httpcore.NetworkError as error:
            return Outcome(None, "tls" if _is_of_tls(error) else "connection")
        except httpcore.ProtocolError:
            return Outcome(None, "protocol")

    async def _send(self, url: str, headers: Mapping[str, str], body: bytes) -> Outcome:
        parts = httpx.URL(url)
        wait = {"connect": min(CONNECT_S, self._timeout_s)} | dict.fromkeys(("read", "write", "pool"), self._timeout_s)
        given: dict[bytes | str, bytes | str] = {
            "host": parts.netloc,
            "user-agent": self._name,
            "content-type": "application/json",
            "content-length": str(len(body)),
        }
        async with (await self._connections()).stream(
            "POST",
            httpcore.URL(scheme=parts.raw_scheme, host=parts.raw_host, port=parts.port, target=parts.raw_path),
            headers=given | dict(headers.items()),
            content=body,
            extensions={"timeout": wait},
        ) as answer:
            read = 0
            async for piece in answer.aiter_stream():
                read += len(piece)
                if read > ANSWER_BYTES_MAX:
                    break
            return _outcome(answer)

    async def _connections(self) -> httpcore.AsyncConnectionPool:
        is_open = self._rules.is_open()
        was_open, self._was_open = self._was_open, is_open
        if self._pool is not None and was_open and not is_open:
            # connections to this machine that were permitted until there were keys
            pool, self._pool = self._pool, None
            await pool.aclose()
        if self._pool is None:
            self._pool = httpcore.AsyncConnectionPool(
                max_connections=self._connections_max,
                max_keepalive_connections=self._connections_max,
                keepalive_expiry=KEEP_ALIVE_S,
                network_backend=Guard(self._rules),
            )
        return self._pool


def _is_of_tls(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _outcome(answer: httpcore.Response) -> Outcome:
    if 200 <= answer.status < 300:
        return Outcome(answer.status, None)
    after = next((value for name, value in answer.headers if name.lower() == b"retry-after"), None)
    return Outcome(answer.status, "status", None if after is None else _seconds(after.decode("latin-1")))


def _seconds(retry_after: str) -> float | None:
    """The seconds of a `Retry-After`, which may also be a date; None where it is neither."""
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after[:9])
    try:
        at = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())
