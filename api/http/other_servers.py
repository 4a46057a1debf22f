"""What this server does for the other servers on the same PostgreSQL database, and learns of them.

It notes that it lives, reads again what others have changed and it has in memory, and wakes the streams of sessions
that had a turn on another server.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct, field

from api.analytics.pseudonyms import FILE_NAME as PSEUDONYMS
from api.analytics.pseudonyms import salt_of
from api.auth.authenticator import Authenticator
from api.background import background, cancel_all, repeat, retain, start_background
from api.local_files.atomic_files import write_whole
from api.local_files.key_file import SecretKeyFile
from api.privacy.deletion import Deletion
from api.sessions.live_turns import LiveTurns
from api.settings import SettingsInvalid
from store.interface.errors import StoreError
from store.interface.shared_database import Marks, SharedDatabase

BEAT_S = 4.0
"""How often a server notes that it lives."""
LEAD_S = 15
"""How long a server leads unless it renews that; then another one may."""
MARKS_S = 1.0
"""How soon a key, webhook or link that was revoked on another server has no effect here."""
FOLLOW_S = 0.2
"""How often the heads of sessions with open streams are read."""
_STALE = "files for analytics may contain data of an erased user; restart the server to delete them"
ERASURES = "erasures.json"
"""The file of the numbers of erasures after which the files of this server were deleted."""
KEY_FILES = ("webhook-key", "participant-key", "web-push-key")

log = structlog.get_logger()


class OtherServers(Struct):
    """The part of a server that follows the others."""

    shared: SharedDatabase
    live: LiveTurns
    authenticator: Authenticator
    deletion: Deletion
    erasures: Path
    """The file of the numbers of erasures after which the files of this server were deleted."""
    reloads: Mapping[str, Sequence[Callable[[], Awaitable[None]]]]
    """What reads again, by the mark that says that others changed it."""
    leads: bool = False
    """Whether this server does what one server at a time does: retention, snapshots, dashboards."""
    _marks: Marks = Marks("", "", "", {})
    _dropping: asyncio.Lock = field(default_factory=asyncio.Lock)
    _tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Follow the others inside the context. Raises StoreError if the database cannot be read at the start."""
        await self._beat()
        try:
            async with AsyncExitStack() as stack:
                marks = await self.shared.marks()
                self._marks = marks._replace(erasures=await asyncio.to_thread(self._known_erasures))
                for work, every_s in ((self._beat, BEAT_S), (self._follow, FOLLOW_S), (self._reload_changed, MARKS_S)):
                    repeated = repeat(work, every_s, "the database of the servers cannot be read", first_s=every_s)
                    stopped = "this server no longer follows the other servers"
                    await stack.enter_async_context(background(repeated, stopped))
                yield
        finally:
            await cancel_all(*self._tasks)
            self.leads = False
            with suppress(StoreError):  # others notice it within LEAD_S
                await self.shared.leave()

    async def _beat(self) -> None:
        self.authenticator.share_limits(await self.shared.beat())
        self.leads = await self.shared.lead("housekeeping", LEAD_S)

    async def _reload_changed(self) -> None:
        """Read again what others have changed since the last call."""
        before, now = self._marks, await self.shared.marks()
        for name, reloads in self.reloads.items():
            if getattr(now, name) != getattr(before, name):
                for reload in reloads:
                    await reload()
        if now.erasures != before.erasures:
            retain(self._tasks, start_background(self._drop_copies(now.erasures), _STALE))
        self._marks = now

    async def _drop_copies(self, erasures: Mapping[str, int]) -> None:
        """Delete the files of this server that may contain data of a user who was erased, also while it did not run."""
        async with self._dropping:
            await self.shared.drop_copies()
            known = await asyncio.to_thread(self._known_erasures)
            for tenant, count in erasures.items():
                if count != known.get(tenant):
                    await self.deletion.drop_copies(tenant)
            await asyncio.to_thread(write_whole, msgspec.json.encode(erasures).decode(), self.erasures)

    def _known_erasures(self) -> dict[str, int]:
        """Return the numbers of erasures after which the files were deleted, by tenant."""
        try:
            return msgspec.json.decode(self.erasures.read_bytes(), type=dict[str, int])
        except (FileNotFoundError, msgspec.DecodeError):
            return {}

    async def _follow(self) -> None:
        """Wake the readers of sessions that had a turn elsewhere, and end the streams of those that were deleted."""
        followed = self.live.list_followed()
        found = await self.shared.progress(followed) if followed else []
        for progress in found:
            self.live.note_advance(progress.session, progress.event_count, is_completed=progress.is_completed)
        for session in {*followed} - {progress.session for progress in found}:
            self.live.remove(session)


async def require_same_keys(shared: SharedDatabase, folder: Path) -> None:
    """Raise SettingsInvalid if a key file differs from that of the other servers, which would refuse what it signs."""
    salt = await asyncio.to_thread(salt_of, folder, "")
    digests = {PSEUDONYMS: hashlib.sha256(salt.encode()).hexdigest()}
    for name in KEY_FILES:
        key = await asyncio.to_thread(SecretKeyFile(folder / name).key)
        digests[name] = hashlib.sha256(key).hexdigest()
    for name, digest in digests.items():
        if not await shared.agree_on_key(name, digest):
            raise SettingsInvalid(
                f"{folder / name} is not the key of the other servers on this database: copy that file from one of "
                "them, and start again"
            )
