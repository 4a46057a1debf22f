"""The sessions that are kept in memory, the last used, and those that come back from the record."""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from api import rows
from api.catalogue import Catalogue
from api.contexts import newest_said
from api.errors import ApiError
from api.hot import Failure, Hot
from api.journal import Attempts
from runtime.context.chosen import Contexts
from runtime.state import StateUnreadable, decode
from store.errors import StoreError
from store.record import Record
from store.rows import FailureRow, SessionHead, SessionRow, is_uuid


class _Load:
    """A session that is being read from the database; not current once the session has changed since."""

    is_current = True


class HotSessions:
    """At most `sessions_max` sessions of all tenants, over the record; the longest unused is let go first."""

    def __init__(self, record: Record, catalogue: Catalogue, contexts: Contexts, sessions_max: int) -> None:
        self._record = record
        self._catalogue = catalogue
        self._contexts = contexts
        self._sessions_max = sessions_max
        self._hot: OrderedDict[tuple[str, str], Hot] = OrderedDict()
        self._loads: dict[tuple[str, str], set[_Load]] = {}  # as many as there are requests in them

    def __len__(self) -> int:
        return len(self._hot)

    async def load(self, tenant: str, session_id: str) -> Hot:
        """A session as it stands. Raises ApiError SESSION_NOT_FOUND, VARIABLE_STORE_INIT_ERROR."""
        key = (tenant, session_id)
        while True:
            hot = self._hot.get(key)
            if hot is not None:
                self._hot.move_to_end(key)
                return hot
            with self._loading(key) as load:
                head = await self._record.session_head(tenant, session_id) if is_uuid(session_id) else None
                if head is None:
                    raise ApiError("SESSION_NOT_FOUND", "Session not found", context={"sessionId": session_id})
                hot = await self._thaw(head)
            if load.is_current:  # else it may be gone, renamed or a turn further since it was read
                return self._remember(hot)

    @contextmanager
    def _loading(self, key: tuple[str, str]) -> Iterator[_Load]:
        """Note a load, so that a change of its session while it lasts is known."""
        load = _Load()
        loads = self._loads.setdefault(key, set())
        loads.add(load)
        try:
            yield load
        finally:
            loads.discard(load)
            if not loads:
                self._loads.pop(key, None)

    def _note_change(self, key: tuple[str, str]) -> None:
        for load in self._loads.get(key, ()):
            load.is_current = False

    async def _thaw(self, head: SessionHead) -> Hot:
        try:
            state = decode(bytes(head.state))
        except StateUnreadable as error:
            context = {"sessionId": head.session_id}
            raise ApiError("VARIABLE_STORE_INIT_ERROR", str(error), context=context) from error
        program = await self._catalogue.program_in(state.locale, head.tenant, head.digest)
        most = self._contexts.messages_max(program.script, state)
        said = await newest_said(self._record, head.tenant, head.session_id, most, state.gaps)
        hot = Hot(rows.session_of(head), program, state, said, most)
        hot.updated_at = head.updated_at
        hot.attempts = Attempts(await self._record.unsettled_calls(head.tenant, head.session_id))
        failures = await self._record.failures(head.tenant, head.session_id)
        if failures and failures[0].turn_attempted == head.turn + 1:
            hot.failure = _failure(failures[0])
        return hot

    def put(self, hot: Hot) -> None:
        """Remembers a session as a turn left it, not as it was read while that turn was under way."""
        known = self._hot.get((hot.session.tenant, hot.session.session_id), hot).session
        hot.session = msgspec.structs.replace(hot.session, key=known.key, metadata=known.metadata)
        self.forget(hot.session)
        self._remember(hot)

    async def put_with_its_past(self, hot: Hot) -> None:
        """Remembers a session whose conversation is not what it was: what was said last is read again."""
        session = hot.session
        try:
            said = await newest_said(self._record, session.tenant, session.session_id, hot.history_max, hot.state.gaps)
        except StoreError:
            self.forget(session)
            raise
        hot.history = said
        self.put(hot)

    def relabel(self, tenant: str, session_id: str, key: str | None, metadata: dict[str, Any]) -> None:
        """Follows what a session is called and what is noted of it, also while a turn of it is under way."""
        self._note_change((tenant, session_id))
        hot = self._hot.get((tenant, session_id))
        if hot is not None:
            hot.session = msgspec.structs.replace(hot.session, key=key, metadata=metadata)

    def forget(self, session: SessionRow) -> None:
        """Lets go of a session: it is read from the record again."""
        self.remove(session.tenant, session.session_id)

    def remove(self, tenant: str, session_id: str) -> None:
        """Lets go of a session that the record does not have any more, or not as it was."""
        self._note_change((tenant, session_id))
        self._hot.pop((tenant, session_id), None)

    def _remember(self, hot: Hot) -> Hot:
        key = (hot.session.tenant, hot.session.session_id)
        kept = self._hot.setdefault(key, hot)
        self._hot.move_to_end(key)
        if len(self._hot) > self._sessions_max:
            self._hot.popitem(last=False)
        return kept


def _failure(row: FailureRow) -> Failure:
    return Failure(row.code, row.message, (row.phase_id or "", row.topic_id or "", row.action_id or ""))
