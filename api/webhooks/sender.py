"""Sends a delivery once and returns its outcome as a code, never as text of the receiver."""

import asyncio
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal, TypeAlias

import httpcore
import httpx
from msgspec import Struct

from api.settings import Settings
from api.webhooks.ssrf import CONNECT_S, AddressPolicy, HostUnknown, SafeConnections, TargetForbidden, user_agent

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
    """Posts to receivers."""

    def __init__(self, settings: Settings, rules: AddressPolicy) -> None:
        self._timeout_s = settings.webhook_timeout_s
        self._connections = SafeConnections(rules, settings.webhook_concurrency)

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.close()

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
        target = httpx.URL(url)
        wait = {"connect": min(CONNECT_S, self._timeout_s)} | dict.fromkeys(("read", "write", "pool"), self._timeout_s)
        base_headers = {
            "host": target.netloc.decode("ascii"),
            "user-agent": user_agent(),
            "content-type": "application/json",
            "content-length": str(len(body)),
        }
        async with self._connections.request("POST", target, base_headers | dict(headers), body, wait) as answer:
            read = 0
            async for piece in answer.aiter_stream():
                read += len(piece)
                if read > ANSWER_BYTES_MAX:
                    break
            return _outcome(answer)


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
