"""A store in memory whose disk loses, at a crash, any commits that were not synced; failures come from a seed.

It follows the store's rules for turns (`store.interface.admission`) and has what sessions of a script without memory,
models and user variables need.
"""

import asyncio
from collections.abc import Awaitable
from datetime import datetime
from random import Random
from typing import Any, NamedTuple

import msgspec

from store.interface.admission import Head, ProposedTurn, SessionId, TurnGroup, UniqueKey, keys_of
from store.interface.errors import ReadTimedOut, StoreBusy, StoreError, StoreUnavailable
from store.interface.rows import (
    KEYED_TURNS,
    RECENT_TURNS,
    FailureRow,
    LoadedSession,
    MessageRow,
    ScriptRow,
    ScriptTextRow,
    SessionHead,
    SessionRow,
    TurnRow,
)

GROUP_MAX = 8


class Faults(NamedTuple):
    """How often something fails, each from 0 to 1."""

    read: float = 0.0
    write: float = 0.0
    hang: float = 0.0


class Disk:
    """The commits of a database, in order. The first `synced` of them survive a crash."""

    def __init__(self) -> None:
        self.commits: list[list[ProposedTurn]] = []
        self.synced = 0

    def crash(self, chance: Random) -> int:
        """Lose commits that were not synced, from any of them on; return how many."""
        end = chance.randint(self.synced, len(self.commits))
        lost = len(self.commits) - end
        del self.commits[end:]
        self.synced = end
        return lost


class Tables:
    """The rows of all commits of a disk."""

    def __init__(self, disk: Disk) -> None:
        self.sessions: dict[SessionId, SessionRow] = {}
        self.turns: dict[SessionId, list[TurnRow]] = {}
        for commit in disk.commits:
            self.add(commit)

    def add(self, commit: list[ProposedTurn]) -> None:
        """Add the rows of a commit."""
        for proposal in commit:
            if proposal.session is not None:
                self.sessions[proposal.session_id] = proposal.session
            self.turns.setdefault(proposal.session_id, []).append(proposal.turn)

    def heads(self) -> dict[SessionId, Head]:
        """Return the head of each session."""
        return {
            session: Head(
                turns[-1].turn, sum(len(turn.messages) for turn in turns), sum(len(turn.events) for turn in turns)
            )
            for session, turns in self.turns.items()
        }

    def keys(self) -> dict[UniqueKey, str]:
        """Return the unique keys of the sessions, with the ids of their sessions."""
        return {key: session.session_id for session in self.sessions.values() for key in keys_of(session)}


class SimulatedStore:
    """A store over a disk, from its opening to a crash. The parts of `store.store.Store` that sessions use."""

    shared = None
    writer_lag_s = 0.0
    writes_waiting = 0
    is_crashed = False

    def __init__(self, disk: Disk, scripts: "Scripts", chance: Random, *, syncs_late: bool = False) -> None:
        self.disk = disk
        self.tables = Tables(disk)
        self.faults = Faults()
        self.chance = chance
        self._syncs_late = syncs_late  # a defect: turns are acknowledged before they are synced
        self._queue: list[tuple[ProposedTurn, asyncio.Future[None]]] = []
        self._queued = asyncio.Event()
        self._crashed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._writer = asyncio.create_task(self._write())
        self.scripts = scripts
        self.turns = Turns(self)
        self.sessions = Sessions(self)
        self.delivery = Delivery()
        self.participants = self.memory = self.keys = self.maintenance = self.retention = self.reviews = (
            self.analytics
        ) = self.verification = None

    def crash(self) -> int:
        """End the store at once; return how many commits were lost. Its callers wait forever, as in a dead process."""
        self._writer.cancel()
        self._crashed = asyncio.get_running_loop().create_future()
        self.tables = Tables(Disk())
        self.is_crashed = True
        return self.disk.crash(self.chance)

    def lost_commits(self) -> None:
        """Nothing is known to be missing."""

    async def pause(self, longest_s: float = 0.02) -> None:
        """Take some time; forever after a crash."""
        hangs = self.chance.random() < self.faults.hang
        await asyncio.sleep(self.chance.uniform(0, longest_s) + (self.chance.uniform(1, 90) if hangs else 0))
        if self.is_crashed:
            await self._crashed

    async def reading(self) -> None:
        """Take the time of a read. Raises StoreError as often as reads fail."""
        await self.pause()
        if self.chance.random() < self.faults.read:
            raise self.chance.choice([ReadTimedOut, StoreUnavailable, StoreBusy])("a simulated failure")

    async def sync(self) -> None:
        """Sync commits whose sync failed, if any, so that what is read next is on disk. Raises StoreError."""
        if self.disk.synced < len(self.disk.commits):
            await self.pause()
            if (failure := self._failure()) is not None:
                raise failure
            self.disk.synced = len(self.disk.commits)

    async def commit(self, proposal: ProposedTurn) -> None:
        """Commit a turn with a group. Raises StoreError."""
        done = asyncio.get_running_loop().create_future()
        self._queue.append((proposal, done))
        self._queued.set()
        await done

    async def _write(self) -> None:
        while True:
            await self._queued.wait()
            self._queued.clear()
            await self.pause(0.005)
            while self._queue:
                group, self._queue = self._queue[:GROUP_MAX], self._queue[GROUP_MAX:]
                await self._write_group(group)

    async def _write_group(self, group: list[tuple[ProposedTurn, asyncio.Future[None]]]) -> None:
        checked = TurnGroup(self.tables.heads(), self.tables.keys(), len(self.disk.commits) + 1)
        outcomes = [checked.validate(proposal) for proposal, _ in group]
        accepted = [proposal for (proposal, _), refused in zip(group, outcomes, strict=True) if refused is None]
        failure = self._failure()
        if failure is None or self.chance.random() < 0.5:  # a failed write may be there nevertheless
            self.disk.commits.append(accepted)
            self.tables.add(accepted)
        if self._syncs_late:
            _answer(group, outcomes)
        await self.pause(0.01)
        if failure is None:
            self.disk.synced = len(self.disk.commits)
        _answer(group, outcomes if failure is None else [failure for _ in group])

    def _failure(self) -> StoreError | None:
        return StoreUnavailable("a simulated failure") if self.chance.random() < self.faults.write else None


def _answer(group: list[tuple[ProposedTurn, asyncio.Future[None]]], outcomes: list[StoreError | None]) -> None:
    for (_, done), outcome in zip(group, outcomes, strict=True):
        if done.done():
            continue
        if outcome is None:
            done.set_result(None)
        else:
            done.set_exception(outcome)


class Turns:
    """The turns of a simulated store."""

    def __init__(self, store: SimulatedStore) -> None:
        self._store = store

    def commit(
        self,
        turn: TurnRow,
        expected_turn: int,
        session: SessionRow | None = None,
        migration: object = None,
        calls_used: tuple[str, ...] | None = None,
        calls_withheld: tuple[str, ...] = (),
        calls_unsettled: tuple[str, ...] = (),
        prompts: object = None,
        deliveries: tuple[Any, ...] = (),
        timers: tuple[Any, ...] | None = None,
        hand_overs: tuple[Any, ...] | None = None,
    ) -> Awaitable[None]:
        return self._store.commit(ProposedTurn(turn, expected_turn, session))

    async def _of(self, tenant: str, session_id: str) -> list[TurnRow]:
        await self._store.reading()
        return list(self._store.tables.turns.get((tenant, session_id), []))

    async def get(self, tenant: str, session_id: str, number: int) -> TurnRow | None:
        return next((turn for turn in await self._of(tenant, session_id) if turn.turn == number), None)

    async def by_key(self, tenant: str, session_id: str, idempotency_key: str) -> TurnRow | None:
        turns = await self._of(tenant, session_id)
        await self._store.sync()
        return next((turn for turn in turns if turn.idempotency_key == idempotency_key), None)

    async def recent_messages(self, tenant: str, session_id: str, limit: int, **_: Any) -> list[MessageRow]:
        return [message for turn in await self._of(tenant, session_id) for message in turn.messages][-limit:]

    async def messages(
        self, tenant: str, session_id: str, *, after_seq: int = 0, limit: int = 100, **_: Any
    ) -> list[MessageRow]:
        turns = await self._of(tenant, session_id)
        return [message for turn in turns for message in turn.messages if message.seq > after_seq][:limit]

    async def unsettled_calls(self, tenant: str, session_id: str) -> list[Any]:
        return []

    async def failures(self, tenant: str, session_id: str) -> list[FailureRow]:
        return []


class Sessions:
    """The sessions of a simulated store."""

    def __init__(self, store: SimulatedStore) -> None:
        self._store = store

    async def head(self, tenant: str, session_id: str) -> SessionHead | None:
        await self._store.reading()
        session = self._store.tables.sessions.get((tenant, session_id))
        if session is None:
            return None
        turns = self._store.tables.turns[tenant, session_id]
        latest = {name: getattr(turns[-1], name) for name in TurnRow.__struct_fields__}
        names = set(SessionHead.__struct_fields__)
        return SessionHead(
            **{name: value for name, value in latest.items() if name in names}
            | msgspec.structs.asdict(session)
            | {
                "message_count": sum(len(turn.messages) for turn in turns),
                "event_count": sum(len(turn.events) for turn in turns),
                "updated_at": turns[-1].finished_at,
                "completed_at": None,
            }
        )

    async def load(self, tenant: str, session_id: str) -> LoadedSession | None:
        head = await self.head(tenant, session_id)
        if head is None:
            return None
        turns = self._store.tables.turns[tenant, session_id]
        keyed = turns if len(turns) <= KEYED_TURNS else [turns[0], *turns[-KEYED_TURNS:]]
        return LoadedSession(
            head=head,
            first_messages=list(turns[0].messages),
            recent_messages=[message for turn in turns[-RECENT_TURNS:] for message in turn.messages],
            keys=[turn.idempotency_key for turn in keyed if turn.idempotency_key is not None],
            calls=[],
            failures=[],
        )

    async def by_key(self, tenant: str, key: str) -> SessionRow | None:
        return await self._by(tenant, "key", key)

    async def by_creation_key(self, tenant: str, idempotency_key: str) -> SessionRow | None:
        return await self._by(tenant, "idempotency_key", idempotency_key)

    async def _by(self, tenant: str, field: str, value: str) -> SessionRow | None:
        await self._store.reading()
        session_id = self._store.tables.keys().get((tenant, field, value))
        await self._store.sync()
        return None if session_id is None else self._store.tables.sessions[tenant, session_id]

    async def migrations(self, tenant: str, session_id: str) -> list[Any]:
        await self._store.reading()
        return []


class Scripts:
    """The scripts of a simulated store. They were stored long ago: nothing of them is lost."""

    def __init__(self) -> None:
        self._rows: list[ScriptRow] = []
        self._texts: dict[str, ScriptTextRow] = {}

    async def save(self, script: ScriptRow, text: ScriptTextRow) -> None:
        self._rows.append(script)
        self._texts[text.digest] = text

    async def versions(self, tenant: str, script: str) -> list[ScriptRow]:
        return [row for row in reversed(self._rows) if row.script_id == script]

    async def latest_published(self, tenant: str, script: str) -> ScriptRow | None:
        return next(iter(await self.versions(tenant, script)), None)

    async def text(self, tenant: str, digest: str) -> ScriptTextRow | None:
        return self._texts.get(digest)


class Delivery:
    """No webhooks."""

    async def webhooks_of_all(self) -> list[Any]:
        return []


def moment(seconds: float) -> datetime:
    """Return a time of the simulation."""
    return datetime.fromtimestamp(1_800_000_000 + seconds).astimezone()
