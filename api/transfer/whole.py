"""A recorded session as it was at one moment, read page by page; masked where it is to be."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime

import msgspec
from msgspec import UNSET, Struct

from api.dropped import require_text
from api.errors import ApiError
from api.privacy.hidden import Hidden
from api.privacy.rows import masked_call, masked_message, masked_move, masked_session, masked_turn
from api.transfer.document import FORMAT, VERSION, CallPart, Head, MovePart, ScriptPart, SessionPart, TurnPart, part_of
from runtime.state import State, StateUnreadable, decode
from store.errors import StoreUnavailable
from store.record import Record
from store.rows import MessageRow, MigrationRow, SessionHead, SessionRow, is_uuid

TURNS_A_PAGE = 50
CALLS_A_PAGE = 200
MESSAGES_A_PAGE = 500


class Source(Struct, frozen=True):
    """A session up to the turn it was at when it was opened."""

    record: Record
    start: SessionRow
    head: SessionHead
    state: State
    moves: tuple[MigrationRow, ...]  # the first one first
    now: datetime
    hidden: Hidden | None = None  # what is personal in it, where it is masked

    async def opening(self) -> Head:
        """What comes before the turns. Raises ApiError SCRIPT_NOT_FOUND."""
        digests = dict.fromkeys([self.start.digest, *(move.digest for move in self.moves)])
        scripts = []
        for digest in digests:
            text = await self.record.script_text(self.start.tenant, digest)
            if text is None:
                raise ApiError("SCRIPT_NOT_FOUND", "the script's text is not in the record")
            scripts.append(part_of(ScriptPart, text))
        return Head(
            format=FORMAT,
            version=VERSION,
            exported_at=self.now,
            session=part_of(SessionPart, self.start),
            scripts=scripts,
            migrations=[part_of(MovePart, move) for move in self.moves],
            masked=UNSET if self.hidden is None else True,
        )

    async def turns(self) -> AsyncIterator[list[TurnPart]]:
        """Every turn, in pages. Raises StoreUnavailable where the session is removed meanwhile."""
        first, count = 0, self.head.turn + 1
        while first < count:
            wanted = min(TURNS_A_PAGE, count - first)
            rows = await self.record.turns(self.start.tenant, self.start.session_id, first=first, limit=wanted)
            if [row.turn for row in rows] != list(range(first, first + wanted)):
                raise StoreUnavailable("the session was removed while it was read")
            if (hidden := self.hidden) is not None:
                rows = await asyncio.to_thread(lambda: [masked_turn(hidden, row) for row in rows])  # noqa: B023
            yield [part_of(TurnPart, row) for row in rows]
            first += wanted

    async def calls(self) -> AsyncIterator[list[CallPart]]:
        """The calls of models whose turn was taken, in pages; none of them is empty."""
        cursor: str | None = None
        while True:
            page = await self.record.calls(self.start.tenant, self.start.session_id, limit=CALLS_A_PAGE, cursor=cursor)
            taken = [row for row in page.rows if row.used is not None and row.turn <= self.head.turn]
            if (hidden := self.hidden) is not None:
                taken = await asyncio.to_thread(lambda: [masked_call(hidden, row) for row in taken])  # noqa: B023
            if taken:
                yield [part_of(CallPart, row) for row in taken]
            cursor = page.next
            if cursor is None:
                return

    async def messages(self) -> AsyncIterator[list[MessageRow]]:
        """What was said and not taken out of the conversation again, in pages."""
        after, last = 0, self.head.message_count
        while after < last:
            rows = await self.record.messages(
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
            if (hidden := self.hidden) is not None:
                rows = await asyncio.to_thread(lambda: [masked_message(hidden, row) for row in rows])  # noqa: B023
            yield rows

    @property
    def name(self) -> str:
        """What it is called: its key, or else its id."""
        return self.start.key or self.start.session_id

    @property
    def updated_at(self) -> datetime:
        """When its last turn was taken."""
        return self.head.updated_at


async def open_source(record: Record, tenant: str, session_id: str, now: datetime) -> Source | None:
    """A session to export, if there is one. Raises ApiError VARIABLE_STORE_INIT_ERROR, SESSION_TEXT_DROPPED."""
    if not is_uuid(session_id):
        return None
    start = await record.session_start(tenant, session_id)
    head = await record.session_head(tenant, session_id)
    if start is None or head is None:
        return None
    require_text(start)
    try:
        state = decode(bytes(head.state))
    except StateUnreadable as error:
        raise ApiError("VARIABLE_STORE_INIT_ERROR", str(error), context={"sessionId": session_id}) from error
    moves = await record.migrations(tenant, session_id)
    return Source(record, start, head, state, tuple(reversed(moves)), now)


def masked(source: Source, hidden: Hidden, user_id: str) -> Source:
    """The same without what is personal, with a pseudonym of the user."""
    moves = tuple(masked_move(hidden, move) for move in source.moves)
    return msgspec.structs.replace(source, start=masked_session(source.start, user_id), moves=moves, hidden=hidden)
