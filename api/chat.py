"""What one can do with a session: begin it, take a turn, look at it.

A turn runs in a task of its own, so that a client that goes away does not stop it, and is answered only once it is
durable. What failed before that has not happened.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from api import rows
from api.answer import Answer
from api.asking import Condition, context_settings_of, fingerprint_of, input_of, same_request, values_of
from api.catalogue import Catalogue
from api.dropped import require_text
from api.errors import ApiError
from api.hot import Failure, Hot
from api.hot_sessions import HotSessions
from api.journal import Attempts
from api.live import Live, Underway
from api.locks import Beginnings, KeysInFlight, SessionLocks
from api.running import Running, code_of
from api.schemas.sessions import NewMessage, NewSession
from api.streams import Streams
from api.turn_log import log_turn, noting_turn
from api.webhooks.book import Webhooks
from runtime.engine import Turn, TurnFailed
from runtime.inputs import Input, InputRefused, Intervention, Start
from runtime.program import Program
from runtime.scopes import Scopes, WriteRefused
from runtime.state import State, decode
from scripts.memories import DEFAULT_PLAN
from scripts.model import Locale
from store.debugging import is_debugging
from store.errors import KeyTaken, StoreError, TurnConflict
from store.rows import FailureRow, MigrationRow, SessionRow, TurnRow

T = TypeVar("T")
Take: TypeAlias = Callable[[Hot, Underway[Answer]], Awaitable[Answer]]
"""Takes a turn of a session that nothing else happens to meanwhile."""


class Chat:
    """The sessions of all tenants, over the record."""

    def __init__(self, running: Running, catalogue: Catalogue, live: Live, webhooks: Webhooks) -> None:
        settings = running.settings
        self._running = running
        self._record = running.record
        self._catalogue = catalogue
        self._live = live
        self._webhooks = webhooks
        # not a dependency of its own: with two of them a route waits for a group of tasks, 6 % of a turn
        self.streams = Streams(settings, live, running.record, running.clock, running.metrics)
        self._settings = settings
        self._clock = running.clock
        self._locks = SessionLocks(settings.queue_max, settings.queue_s)
        self._beginnings = Beginnings(settings.queue_s)
        self._in_flight = KeysInFlight()
        self._hot = HotSessions(running.record, catalogue, running.contexts, settings.hot_sessions_max)
        self._tasks: set[asyncio.Task[Any]] = set()

    async def close(self) -> None:
        """Waits for the turns that are under way."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._settings.turn_s)

    async def to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs work that goes on when whoever asked for it is gone."""
        return await asyncio.shield(self._task(work))

    def _task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _under_way(
        self,
        place: tuple[str | None, ...],
        body: Struct,
        condition: Condition,
        join: bool,
        work: Callable[[Underway[Answer]], Coroutine[Any, Any, Answer]],
    ) -> Underway[Answer]:
        """A request that is being answered, by a task that goes on when whoever sent it is gone."""
        fingerprint = fingerprint_of(body, condition)
        known = self._in_flight.get(place)
        if join and known is not None and known.fingerprint == fingerprint:
            return known
        return Underway(fingerprint, lambda own: self._task(self._live.through(own, work(own))))

    # -- begin ----------------------------------------------------------------------------------------------------

    async def start(self, tenant: str, new: NewSession, condition: Condition) -> Answer:
        """Begins a session. Raises ApiError."""
        return await self.starting(tenant, new, condition, join=False).answer()

    def starting(self, tenant: str, new: NewSession, condition: Condition, *, join: bool = True) -> Underway[Answer]:
        """Begins a session without waiting for its answer; `join` the same request, where it is being answered."""
        place = (tenant, condition.idempotency_key)

        async def start(own: Underway[Answer]) -> Answer:
            async with self._beginnings.begin((tenant, new.user_id)):
                return await self._start(tenant, new, condition, own)

        return self._under_way(place, new, condition, join, start)

    async def _start(self, tenant: str, new: NewSession, condition: Condition, underway: Underway[Answer]) -> Answer:
        key = condition.idempotency_key
        with self._in_flight.claim(None if key is None else (tenant, key), underway):
            known = None if key is None else await self._record.creation_by_key(tenant, key)
            if known is not None:
                require_text(known)
                return await self._started_before(known, underway)
            script = await self._catalogue.offered(tenant, new.script_id)
            program = await self._catalogue.valid_program(tenant, script.digest)
            locale = new.locale or self._settings.locale or program.locale
            program = await self._catalogue.program_in(locale, tenant, script.digest)
            session_id = await self._running.new_session_id(tenant, key)
            session = SessionRow(
                tenant=tenant,
                session_id=session_id,
                user_id=new.user_id,
                key=new.key,
                script_uuid=script.script_uuid,
                script_id=script.script_id,
                script_version=script.version,
                digest=script.digest,
                locale=locale,
                seed=new.seed if new.seed is not None else rows.seed_of(session_id),
                metadata=values_of(new.metadata, "metadata"),
                created_at=self._clock(),
                idempotency_key=key,
            )
            state = self._first_state(session, program, locale, new)
            hot = Hot(session, program, state, (), self._running.contexts.messages_max(program.script, state))
            if key is not None:
                hot.attempts = Attempts(await self._record.unsettled_calls(tenant, session_id))
            async with self._locks.hold((tenant, session_id), queue=True):
                return await self._begin(hot, key, underway)

    def _first_state(self, session: SessionRow, program: Program, locale: Locale, new: NewSession) -> State:
        variables = values_of(new.initial_variables, "initialVariables")
        state = State(
            seed=session.seed,
            locale=locale,
            user_id=session.user_id,
            start_variables=variables,
            context_settings=context_settings_of(new.context),
        )
        trial = Scopes(program, State(seed=0, locale=state.locale))
        for name, value in variables.items():
            try:
                trial.write("global" if name in program.global_names else "session", name, value, "api", self._clock())
            except WriteRefused as error:
                raise ApiError("REQUEST_INVALID", f"initialVariables: {error}") from error
        return state

    async def _begin(self, hot: Hot, key: str | None, underway: Underway[Answer]) -> Answer:
        """The first turn. A session whose first turn fails is kept, to be begun again."""
        hot.knows_all_keys = True
        started = self._clock()
        try:
            turn = await self.run(hot, Start(), started, underway)
        except TurnFailed as failed:
            await self.commit(hot, rows.unbegun(hot.state), started, key, underway.fingerprint, "error")
            raise await self._failed(hot, failed) from failed
        return await self.commit(hot, turn, started, key, underway.fingerprint)

    async def _started_before(self, session: SessionRow, underway: Underway[Answer]) -> Answer:
        """The recorded answer to a creation; one that failed is tried again."""
        row = same_request(await self._record.turn(session.tenant, session.session_id, 0), underway.fingerprint)
        async with self._locks.hold((session.tenant, session.session_id), queue=True):
            hot = await self._hot.load(session.tenant, session.session_id)
            if not hot.state.begun:
                return await self._take(hot, NewMessage(content=""), None, underway)
        while row.execution_status == "error":  # what began it in the end is a turn after
            following = await self._record.turn(session.tenant, session.session_id, row.turn + 1)
            if following is None:
                break
            row = following
        return Answer(session, await self.program_at(hot, row.turn), decode(bytes(row.state)), row)

    async def program_at(self, hot: Hot, turn: int) -> Program:
        """The script that a turn ran on, which is not that of now where the session has moved since."""
        moves = await self._record.migrations(hot.session.tenant, hot.session.session_id)
        digest = moves[-1].from_digest if moves else hot.session.digest
        for move in reversed(moves):
            if move.turn <= turn:
                digest = move.digest
        return await self._catalogue.program_in(hot.state.locale, hot.session.tenant, digest)

    # -- a turn -----------------------------------------------------------------------------------------------------

    async def turn(self, tenant: str, session_id: str, message: NewMessage, condition: Condition) -> Answer:
        """Takes the user's message and answers it. Raises ApiError."""
        return await self.taking(tenant, session_id, message, condition, join=False).answer()

    def taking(
        self, tenant: str, session_id: str, message: NewMessage, condition: Condition, *, join: bool = True
    ) -> Underway[Answer]:
        """Takes a message without waiting for its answer; `join` the same request, where it is being answered."""
        place = (tenant, session_id, condition.idempotency_key)

        async def take(hot: Hot, own: Underway[Answer]) -> Answer:
            return await self._take(hot, message, condition.idempotency_key, own)

        return self._under_way(
            place, message, condition, join, lambda own: self._turn(tenant, session_id, condition, own, take)
        )

    async def changing(self, tenant: str, session_id: str, asked: Struct, take: Take, condition: Condition) -> Answer:
        """Does something to a session that is a turn, as `take` takes it; `asked` tells two requests apart.

        Raises ApiError.
        """
        place = (tenant, session_id, condition.idempotency_key)
        underway = self._under_way(
            place, asked, condition, False, lambda own: self._turn(tenant, session_id, condition, own, take)
        )
        return await underway.answer()

    async def _turn(
        self, tenant: str, session_id: str, condition: Condition, underway: Underway[Answer], take: Take
    ) -> Answer:
        key = condition.idempotency_key
        with self._in_flight.claim(None if key is None else (tenant, session_id, key), underway):
            queue = condition.queue or self._settings.busy == "queue"
            async with self._locks.hold((tenant, session_id), queue=queue):
                hot = await self._hot.load(tenant, session_id)
                require_text(hot.session)
                if key is not None and (known := await self._recorded(hot, key, underway)) is not None:
                    return known
                if condition.expected_turn not in {None, hot.state.turn}:
                    raise self._conflict(hot)
                return await take(hot, underway)

    async def _recorded(self, hot: Hot, key: str, underway: Underway[Answer]) -> Answer | None:
        """The recorded answer to a request with this key, if there was one. Raises IDEMPOTENCY_MISMATCH."""
        session = hot.session
        if key not in hot.keys and hot.knows_all_keys:
            return None
        row = await self._record.turn_by_key(session.tenant, session.session_id, key)
        if row is None:
            return None
        same_request(row, underway.fingerprint)
        return Answer(session, await self.program_at(hot, row.turn), decode(bytes(row.state)), row)

    async def _take(self, hot: Hot, message: NewMessage, key: str | None, underway: Underway[Answer]) -> Answer:
        if hot.state.status == "completed":
            raise ApiError("SESSION_ENDED", "the conversation is over", context=context_of(hot))
        if hot.state.status == "paused":
            raise ApiError("SESSION_PAUSED", "the session is paused", context=context_of(hot))
        given = Start() if not hot.state.begun else input_of(message)
        started = self._clock()
        try:
            turn = await self.run(hot, given, started, underway)
        except InputRefused as error:
            raise ApiError("REQUEST_INVALID", str(error), context=context_of(hot)) from error
        except TurnFailed as failed:
            raise await self._failed(hot, failed) from failed
        fingerprint = underway.fingerprint if key is not None else None
        return await self.commit(hot, turn, started, key, fingerprint)

    async def run(self, hot: Hot, given: Input | Intervention, started: datetime, underway: Underway[Answer]) -> Turn:
        """Runs a turn that listeners hear of as it goes. Raises what `run_turn` raises, and StoreError."""
        live = self._live.begin((hot.session.tenant, hot.session.session_id), hot.state, underway)
        try:
            return await self._running.turn(hot, hot.state, given, started=started, live=live.hear)
        except StoreError:
            self._hot.forget(hot.session)  # what the record holds of its calls is read again
            raise

    async def commit(
        self,
        hot: Hot,
        turn: Turn,
        started: datetime,
        key: str | None,
        fingerprint: str | None,
        execution_status: str = "",
        migration: MigrationRow | None = None,
    ) -> Answer:
        """Makes a turn durable, and only then the session's. Raises ApiError, StoreError."""
        session = hot.session
        row = rows.turn_row(
            session,
            hot.program,
            turn,
            started_at=started,
            finished_at=self._clock(),
            idempotency_key=key,
            fingerprint=fingerprint,
            execution_status=execution_status,
        )
        start = session if row.turn == 0 else None
        try:
            with noting_turn(session, row.turn):
                told = await self._webhooks.told_of(hot, turn, row)
                await self._record.commit(
                    row, hot.state.turn, start, migration, _calls_used(hot, turn), _calls_withheld(turn), told
                )
        except TurnConflict as error:
            self._hot.forget(session)
            raise self._conflict(hot) from error
        except KeyTaken as error:
            context = {"key": session.key, "sessionId": error.session_id}
            raise ApiError("SESSION_KEY_TAKEN", "a session with this key exists", context=context) from error
        except StoreError:
            self._hot.forget(session)  # what the record holds now is read again
            raise
        has_same_past = turn.state.gaps == hot.state.gaps
        hot.follow(row, turn)
        if has_same_past:
            self._hot.put(hot)
        else:
            await self._hot.put_with_its_past(hot)
        if is_debugging():
            log_turn(session, row)
        self._live.committed(row)
        self._running.house.turned(session, is_remembering=_has_to_do_with_memory(hot, row))
        if told:
            self._webhooks.news.set()
        return Answer(session, hot.program, turn.state, row, turn.model_calls)

    async def _failed(self, hot: Hot, failed: TurnFailed) -> ApiError:
        """Records that a turn failed; the session stays where it was."""
        code = code_of(failed.kind)
        hot.failure = Failure(code, str(failed), failed.place)
        self._hot.put(hot)
        phase, topic, action = failed.place
        await self._record.save_failure(
            FailureRow(
                tenant=hot.session.tenant,
                session_id=hot.session.session_id,
                turn_attempted=hot.state.turn + 1,
                code=code,
                message=str(failed),
                phase_id=phase or None,
                topic_id=topic or None,
                action_id=action or None,
                failed_at=self._clock(),
            )
        )
        place = {"phaseId": phase, "topicId": topic, "actionId": action}
        lasting = failed.kind in {"model", "memory"} and not failed.retryable
        return ApiError(code, str(failed), context={**context_of(hot), "position": place}, lasting=lasting)

    def _conflict(self, hot: Hot) -> ApiError:
        turn = hot.state.turn
        return ApiError("TURN_CONFLICT", f"the session is at turn {turn}", context={**context_of(hot), "turn": turn})

    # -- move -------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def held(self, tenant: str, session_id: str) -> AsyncIterator[Hot]:
        """A session that nothing else happens to meanwhile.

        Raises ApiError SESSION_NOT_FOUND, SESSION_BUSY, SESSION_TEXT_DROPPED.
        """
        async with self._locks.hold((tenant, session_id), queue=True):
            hot = await self._hot.load(tenant, session_id)
            require_text(hot.session)
            try:
                yield hot
            except StoreError:
                self._hot.forget(hot.session)
                raise

    async def settle(self, hot: Hot, turn: Turn, started: datetime, migration: MigrationRow) -> Answer:
        """Makes the turn durable that moves a held session to the program and version of `hot`, which takes its place.

        Raises ApiError.
        """
        hot.history_max = self._running.contexts.messages_max(hot.program.script, turn.state)
        status = "" if turn.state.begun else "error"  # as the turn 0 of a session that could not begin
        answer = await self.commit(hot, turn, started, None, None, status, migration)
        self._hot.forget(hot.session)  # its script may have models see more of what was said
        return answer

    def relabelled(self, tenant: str, session_id: str, key: str | None, metadata: dict[str, Any]) -> None:
        """A session is called something else in the record now, or something else is noted of it."""
        self._hot.relabel(tenant, session_id, key, metadata)

    # -- remove -----------------------------------------------------------------------------------------------------

    def alone(self, tenant: str, session_id: str, *, queue: bool = True) -> AbstractAsyncContextManager[None]:
        """Nothing else happens to a session meanwhile, whether there is one or not; unless it is to `queue`, what goes
        on in it now is not waited for. Raises ApiError SESSION_BUSY.
        """
        return self._locks.hold((tenant, session_id), queue=queue)

    def unbegun(self, tenant: str, user_id: str) -> AbstractAsyncContextManager[None]:
        """No session of a user is begun meanwhile. Raises ApiError SESSION_BUSY."""
        return self._beginnings.barred((tenant, user_id))

    def beginning(self, tenant: str, user_id: str) -> AbstractAsyncContextManager[None]:
        """A session of a user comes about meanwhile; an erasure is waited for. Raises ApiError SESSION_BUSY."""
        return self._beginnings.begin((tenant, user_id))

    def removed(self, tenant: str, session_id: str) -> None:
        """Lets go of a session that the record does not have any more, or without its text; its streams end."""
        self._hot.remove(tenant, session_id)
        self._live.remove((tenant, session_id))

    # -- look -------------------------------------------------------------------------------------------------------

    async def session(self, tenant: str, session_id: str) -> Hot:
        """A session as it stands. Raises ApiError SESSION_NOT_FOUND."""
        return await self._hot.load(tenant, session_id)

    async def owner(self, tenant: str, session_id: str) -> str:
        """The user of a session, also of one that only begins. Raises ApiError SESSION_NOT_FOUND."""
        try:
            hot = await self._hot.load(tenant, session_id)
        except ApiError:
            user_id = self._live.user_of((tenant, session_id))
            if user_id is None:
                raise
            return user_id
        return hot.session.user_id

    @property
    def hot_sessions(self) -> int:
        """Sessions that are kept in memory."""
        return len(self._hot)


def _calls_used(hot: Hot, turn: Turn) -> tuple[str, ...] | None:
    """The calls of models a turn was taken with; None where there are none to settle, or the session has not begun."""
    if not hot.attempts.rows or not turn.state.begun:
        return None
    return tuple(call.intent.call_id for call in turn.model_calls if call.intent is not None)


def _calls_withheld(turn: Turn) -> tuple[str, ...]:
    """The calls of models whose words detectors kept from being said."""
    return tuple(call.intent.call_id for call in turn.model_calls if call.is_withheld and call.intent is not None)


def _has_to_do_with_memory(hot: Hot, row: TurnRow) -> bool:
    """Whether a turn is of a script that plans for memory, or has remembered or recalled anything."""
    is_planned = hot.program.script.memory is not DEFAULT_PLAN
    return is_planned or any(event.kind in {"remembered", "recalled"} for event in row.events)


def context_of(hot: Hot) -> dict[str, Any]:
    """What a client is told of the session that an error is about."""
    return {
        "scriptId": hot.session.script_uuid,
        "scriptName": hot.program.script.title or hot.session.script_id,
        "sessionId": hot.session.session_id,
    }
