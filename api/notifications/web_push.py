"""Reminders in browsers (Web Push): a session that speaks by itself reaches people whose page is closed.

The push service of the browser's maker carries a reminder (RFC 8030). It is encrypted for the browser (RFC 8291) and
names this server (RFC 8292, VAPID); it contains no text of the conversation.
"""

import asyncio
import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING

import httpx
import msgspec
import structlog
from msgspec import Struct

from api.background import cancel_all, retain, start_background
from api.errors import ApiError, invalid_field
from api.local_files.key_file import SecretKeyFile
from api.metrics import Metrics
from api.schemas.participants import NewPush
from api.settings import Settings
from api.webhooks.backoff import delay_s
from api.webhooks.sender import Sender
from api.webhooks.ssrf import AddressPolicy
from runtime.state.ports import Clock
from store.interface.errors import StoreError
from store.interface.participant_rows import ParticipantRow, PushSubscription
from store.store import Store

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

KEY_FILE = "web-push-key"
TTL = timedelta(days=1)
"""How long a push service tries to reach a browser."""
IDENTITY = timedelta(hours=12)
"""How long a signed name of this server is valid; RFC 8292 permits 24 hours."""
ATTEMPTS_MAX = 4
FIRST_DELAY_S = 5.0
SENDS_MAX = 16  # at one time
WAITING_MAX = 10_000  # further reminders are not sent
GONE = {404, 410}  # the browser does not want reminders any more
_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551

log = structlog.get_logger()


class Reminder(Struct, frozen=True):
    """What the worker of the chat page receives."""

    title: str
    link: str | None
    locale: str


class Reminders:
    """Sends reminders for the sessions of all tenants, if the settings have `web_push_contact`."""

    def __init__(
        self, store: Store, sender: Sender, policy: AddressPolicy, metrics: Metrics, settings: Settings, clock: Clock
    ) -> None:
        self._rows = store.participants
        self._sender = sender
        self._policy = policy
        self._metrics = metrics
        self._contact = settings.web_push_contact
        self._file = SecretKeyFile(settings.keys_in / KEY_FILE)
        self._clock = clock
        self._sessions: set[tuple[str, str]] = set()  # those with a browser that is reminded, or was
        self._sends = asyncio.Semaphore(SENDS_MAX)
        self._tasks: set[asyncio.Task[None]] = set()
        self._chance = Random()  # noqa: S311  (spreads the attempts)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send reminders inside the context."""
        await self.reload()
        try:
            yield
        finally:
            await cancel_all(*self._tasks)
            await self._sender.close()

    async def reload(self) -> None:
        """Read which sessions have a browser that is reminded."""
        if self._contact:
            self._sessions = await self._rows.reminded()

    @cached_property
    def public_key(self) -> str | None:
        """The key with which a browser subscribes, in base64url; None if no reminders are sent."""
        if not self._contact:
            return None
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat  # not needed by most servers

        point = self._key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return urlsafe_b64encode(point).decode().rstrip("=")

    @cached_property
    def _key(self) -> "EllipticCurvePrivateKey":
        from cryptography.hazmat.primitives.asymmetric import ec

        secret = int.from_bytes(self._file.key()) % (_P256_ORDER - 1) + 1
        return ec.derive_private_key(secret, ec.SECP256R1())

    # -- subscriptions ------------------------------------------------------------------------------------------------

    async def subscribe(self, row: ParticipantRow, new: NewPush) -> None:
        """Remind a participant's browser from now on. Raises ApiError REQUEST_INVALID, StoreError."""
        if not self._contact:
            raise ApiError("REQUEST_INVALID", "this server sends no reminders; `web_push_contact` is not set")
        if problem := self._policy.problem_of(new.endpoint):
            raise invalid_field("endpoint", problem)
        if problem := _problem_of_keys(new):
            raise invalid_field("keys", problem)
        push = PushSubscription(new.endpoint, new.keys.p256dh, new.keys.auth)
        await self._rows.set_push(row.tenant, row.participant_id, push)
        self._sessions.add((row.tenant, row.session_id))

    async def unsubscribe(self, row: ParticipantRow) -> None:
        """Do not remind a participant's browser any more. Raises StoreError."""
        await self._rows.set_push(row.tenant, row.participant_id, None)

    # -- reminders ----------------------------------------------------------------------------------------------------

    def announce(self, tenant: str, session_id: str, title: str, locale: str) -> None:
        """Remind the participants of a session, which has spoken by itself, in the background."""
        if (tenant, session_id) not in self._sessions:
            return
        if len(self._tasks) >= WAITING_MAX:
            log.warning("a reminder was not sent, because too many wait", session=session_id)
            return
        work = self._remind(tenant, session_id, title, locale)
        retain(self._tasks, start_background(work, "a reminder was not sent"))

    async def _remind(self, tenant: str, session_id: str, title: str, locale: str) -> None:
        try:
            rows = await self._rows.to_remind(tenant, session_id, self._clock())
            if not rows:
                self._sessions.discard((tenant, session_id))
            for row in rows:
                if row.push is not None:
                    await self._send(row, row.push, Reminder(title, row.link_id, locale))
        except StoreError as error:
            log.warning("a reminder was not sent", session=session_id, problem=str(error))

    async def _send(self, row: ParticipantRow, push: PushSubscription, reminder: Reminder) -> None:
        """Send a reminder, with further attempts while the push service is down."""
        topic = hashlib.sha256(row.session_id.encode()).hexdigest()[:32]  # replaces an earlier one that waits there
        for attempt in range(1, ATTEMPTS_MAX + 1):
            headers = {
                "authorization": self._identity(push.endpoint),
                "content-encoding": "aes128gcm",
                "content-type": "application/octet-stream",
                "ttl": str(round(TTL.total_seconds())),
                "topic": topic,
                "urgency": "normal",
            }
            async with self._sends:
                outcome = await self._sender.send(push.endpoint, headers, _encrypt(reminder, push))
            if outcome.trouble is None or outcome.status in GONE:
                break
            if not outcome.is_down or attempt == ATTEMPTS_MAX:
                log.warning("a reminder was not sent", trouble=outcome.trouble, status=outcome.status)
                break
            await asyncio.sleep(delay_s(FIRST_DELAY_S, attempt, outcome.retry_after_s, self._chance))
        self._metrics.reminders.labels("sent" if outcome.trouble is None else "failed").inc()
        if outcome.status in GONE:
            await self._rows.set_push(row.tenant, row.participant_id, None, push.endpoint)

    def _identity(self, endpoint: str) -> str:
        """Return the header that names this server to the push service of an endpoint."""
        import jwt  # not needed by most servers

        url = httpx.URL(endpoint)
        claims = {
            "aud": f"{url.scheme}://{url.netloc.decode()}",
            "exp": int((self._clock() + IDENTITY).timestamp()),
            "sub": self._contact,
        }
        return f"vapid t={jwt.encode(claims, self._key, algorithm='ES256')}, k={self.public_key}"


def _encrypt(reminder: Reminder, push: PushSubscription) -> bytes:
    """Encrypt a reminder for a browser (RFC 8291), with a key pair that is used once."""
    import http_ece  # not needed by most servers
    from cryptography.hazmat.primitives.asymmetric import ec

    once = ec.generate_private_key(ec.SECP256R1())
    dh, secret = _bytes(push.p256dh), _bytes(push.auth)
    encrypted: bytes = http_ece.encrypt(msgspec.json.encode(reminder), private_key=once, dh=dh, auth_secret=secret)
    return encrypted


def _problem_of_keys(new: NewPush) -> str:
    """Return what is wrong with the keys of a subscription; empty if they are valid."""
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), _bytes(new.keys.p256dh))
        is_valid = len(_bytes(new.keys.auth)) == 16
    except ValueError:
        is_valid = False
    return "" if is_valid else "`p256dh` is a point of P-256 and `auth` has 16 bytes, both in base64url"


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
