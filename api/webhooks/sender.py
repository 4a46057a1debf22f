"""Sends a delivery once and returns its outcome as a code, never as text of the receiver."""

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
from api.webhooks.ssrf import AddressPolicy, HostUnknown, SafeNetworkBackend, TargetForbidden

CONNECT_S = 5.0
KEEP_ALIVE_S = 30.0
ANSWER_BYTES_MAX = 4_096  # bytes of a response that are read, so that its connection can be reused

Trouble: TypeAlias = Literal["status", "timeout", "connection", "tls", "dns", "refused", "protocol", "internal"]


class DeliveryOutcome(Struct, frozen=True):
    """The outcome of sending: the status of the response, or why there was none."""

    status: int | None
    trouble: Trouble | None
    retry_after_s: float | None = None

    @property
    def is_down(self) -> bool:
        """Return whether the receiver seems to be down, so that no delivery can succeed."""
        return self.trouble is not None and (self.status is None or self.status == 429 or self.status >= 500)


class Sender:
    """The connections to receivers. No redirects and proxies are used, because both bypass the address check."""

    def __init__(self, settings: Settings, rules: AddressPolicy) -> None:
        self._rules = rules
        self._was_open = False
        self._name = f"Cuebook/{version('cuebook')}"
        self._timeout_s = settings.webhook_timeout_s
        self._connections_max = settings.webhook_concurrency
        self._pool: httpcore.AsyncConnectionPool | None = None  # created on first use: most servers have no webhooks

    async def close(self) -> None:
        """Close the connections."""
        if self._pool is not None:
            await self._pool.aclose()

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> DeliveryOutcome:
        """Post a body, in at most `webhook_timeout_s`."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._send(url, headers, body)
        except (TimeoutError, httpcore.TimeoutException):
            return DeliveryOutcome(None, "timeout")
        except TargetForbidden:
            return DeliveryOutcome(None, "refused")
        except HostUnknown:
            return DeliveryOutcome(None, "dns")
        except httpcore.NetworkError as error:
            return DeliveryOutcome(None, "tls" if _is_of_tls(error) else "connection")
        except httpcore.ProtocolError:
            return DeliveryOutcome(None, "protocol")

    async def _send(self, url: str, headers: Mapping[str, str], body: bytes) -> DeliveryOutcome:
        parts = httpx.URL(url)
        wait = {"connect": min(CONNECT_S, self._timeout_s)} | dict.fromkeys(("read", "write", "pool"), self._timeout_s)
        base_headers: dict[bytes | str, bytes | str] = {
            "host": parts.netloc,
            "user-agent": self._name,
            "content-type": "application/json",
            "content-length": str(len(body)),
        }
        async with (await self._connections()).stream(
            "POST",
            httpcore.URL(scheme=parts.raw_scheme, host=parts.raw_host, port=parts.port, target=parts.raw_path),
            headers=base_headers | dict(headers.items()),
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
            # connections to this machine that were permitted until keys existed
            pool, self._pool = self._pool, None
            await pool.aclose()
        if self._pool is None:
            self._pool = httpcore.AsyncConnectionPool(
                max_connections=self._connections_max,
                max_keepalive_connections=self._connections_max,
                keepalive_expiry=KEEP_ALIVE_S,
                network_backend=SafeNetworkBackend(self._rules),
            )
        return self._pool


def _is_of_tls(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _outcome(answer: httpcore.Response) -> DeliveryOutcome:
    if 200 <= answer.status < 300:
        return DeliveryOutcome(answer.status, None)
    after = next((value for name, value in answer.headers if name.lower() == b"retry-after"), None)
    return DeliveryOutcome(answer.status, "status", None if after is None else _seconds(after.decode("latin-1")))


def _seconds(retry_after: str) -> float | None:
    """Return the seconds of a `Retry-After`, which may also be a date; None if it is neither."""
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after[:9])
    try:
        at = parsedate_to_datetime(retry_after)
    except (ValueError, OverflowError):
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())
