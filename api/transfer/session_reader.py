"""Reads a recorded session as it was at one moment, page by page, optionally masked."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from functools import partial
from typing import TypeVar

import msgspec
from msgspec import UNSET, Struct

from api.errors import ApiError, refusing
from api.privacy.mask import HiddenValues
from api.privacy.masked_rows import mask_call, mask_message, mask_migration, mask_session, mask_turn
from api.sessions.session_cache import require_not_redacted
from api.transfer.document import VERSION, CallPart, Head, MovePart, ScriptPart, SessionPart, TurnPart
from runtime.state.state import State, StateUnreadable, decode
from store.interface.errors import StoreUnavailable
from store.interface.pages import all_pages
from store.interface.rows import MessageRow, MigrationRow, SessionHead, SessionRow, is_uuid
from store.store import Store

R = TypeVar("R")

TURNS_A_PAGE = 50
CALLS_A_PAGE = 200
MESSAGES_A_PAGE = 500


class SessionReader(Struct, frozen=True):
    """A session up to the turn at which it was opened."""

    store: Store
    start: SessionRow
    head: SessionHead
    state: State
    moves: tuple[MigrationRow, ...]  # oldest first
    now: datetime
    hidden: HiddenValues | None = None  # its personal values, if it is masked

    async def opening(self) -> Head:
        """Return the head of the document. Raises ApiError SCRIPT_NOT_FOUND."""
        digests = dict.fromkeys([self.start.digest, *(move.digest for move in self.moves)])
        scripts = []
        for digest in digests:
            text = await self.store.scripts.text(self.start.tenant, digest)
            if text is None:
                raise ApiError("SCRIPT_NOT_FOUND", "the script's text is not in the database")
            scripts.append(ScriptPart.of(text))
        return Head(
            version=VERSION,
            exported_at=self.now,
            session=SessionPart.of(self.start),
            scripts=scripts,
            migrations=[MovePart.of(move) for move in self.moves],
            masked=UNSET if self.hidden is None else True,
        )

    async def turns(self) -> AsyncIterator[list[TurnPart]]:
        """Yield every turn, in pages. Raises StoreUnavailable if the session is removed meanwhile."""
        first, count = 0, self.head.turn + 1
        while first < count:
            size = min(TURNS_A_PAGE, count - first)
            rows = await self.store.turns.range(self.start.tenant, self.start.session_id, first=first, limit=size)
            if [row.turn for row in rows] != list(range(first, first + size)):
                raise StoreUnavailable("the session was removed while it was read")
            yield [TurnPart.of(row) for row in await self._masked(mask_turn, rows)]
            first += size

    async def calls(self) -> AsyncIterator[list[CallPart]]:
        """Yield the model calls of committed turns, in pages that are not empty."""
        read = partial(self.store.turns.calls, self.start.tenant, self.start.session_id)
        async for rows in all_pages(read, CALLS_A_PAGE):
            used = [row for row in rows if row.used is not None and row.turn <= self.head.turn]
            if used:
                yield [CallPart.of(row) for row in await self._masked(mask_call, used)]

    async def messages(self) -> AsyncIterator[list[MessageRow]]:
        """Yield the messages that are in the conversation, in pages."""
        after, last = 0, self.head.message_count
        while after < last:
            rows = await self.store.turns.messages(
                self.start.tenant,
                self.start.session_id,
                after_seq=after,
                limit=MESSAGES_A_PAGE,
                without=self.state.gaps,
            )
            rows = [row for row in rows if row.seq <= last]
            if not rows:
                return
            after = rows[-1].seq
            yield await self._masked(mask_message, rows)

    async def _masked(self, mask: Callable[[HiddenValues, R], R], rows: list[R]) -> list[R]:
        """Return rows, masked if the session is, in a thread because that takes long."""
        hidden = self.hidden
        return rows if hidden is None else await asyncio.to_thread(lambda: [mask(hidden, row) for row in rows])

    @property
    def name(self) -> str:
        """Return the key of the session, else its id."""
        return self.start.key or self.start.session_id


async def open_source(store: Store, tenant: str, session_id: str, now: datetime) -> SessionReader | None:
    """Open a session for export; None if there is none. Raises ApiError VARIABLE_STORE_INIT_ERROR, SESSION_REDACTED."""
    if not is_uuid(session_id):
        return None
    start = await store.sessions.start(tenant, session_id)
    head = await store.sessions.head(tenant, session_id)
    if start is None or head is None:
        return None
    require_not_redacted(start)
    with refusing("VARIABLE_STORE_INIT_ERROR", StateUnreadable, context={"sessionId": session_id}):
        state = decode(bytes(head.state))
    moves = await store.sessions.migrations(tenant, session_id)
    earlier = tuple(move for move in reversed(moves) if move.turn <= head.turn)  # it may have moved since
    return SessionReader(store, start, head, state, earlier, now)


def masked(source: SessionReader, hidden: HiddenValues, user_id: str) -> SessionReader:
    """Return a masked reader of the session, with a pseudonym of the user."""
    moves = tuple(mask_migration(hidden, move) for move in source.moves)
    return msgspec.structs.replace(source, start=mask_session(source.start, user_id), moves=moves, hidden=hidden)
