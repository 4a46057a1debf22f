"""Event streams: of one turn from its first words to its answer, or of a session from any position."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import structlog
from litestar import Response
from litestar.types import Receive
from msgspec import UNSET, Struct
from msgspec.structs import replace

from api import errors
from api.errors import ApiError
from api.schemas.base import View
from api.schemas.errors import StreamedError
from api.schemas.sessions import EventList, EventView, ProactiveView, TurnPlace
from api.schemas.timestamps import utc_text
from api.sessions.live_turns import Channel, Key, LiveTurns, PendingTurn, TurnResult
from api.sessions.session_cache import CachedSession
from api.sessions.sse import (
    KEEP_ALIVE,
    EventPosition,
    SendPace,
    SseResponse,
    encode_frame,
    frame_id,
    reset_frame,
    while_connected,
)
from api.sessions.turn_runner import TurnRunner
from api.sessions.views import event_views, message_view, proactive_messages
from store.interface.errors import StoreError
from store.interface.rows import MessageRow, TurnEventsRow, TurnRow

log = structlog.get_logger()

FRAMES_A_CHUNK = 100
TURNS_A_READ = 20
FIRST_TURNS = 4
"""Turns of the first read of a stream; each read has at most twice the turns that the one before could send."""
CHUNK_BYTES = 65_536
WAIT_S_MAX = 60
BEGINNING = b"retry: 1000\n\n"

Chunks = AsyncGenerator[bytes, None]


class Audience(Struct, frozen=True, kw_only=True):
    """What the readers of a stream get: frames of words, the frames of a turn's events after a number, and errors."""

    words: Callable[[bytes], bytes]
    happened: Callable[[str, TurnRow | TurnEventsRow, int], Iterator[bytes]]
    failure: Callable[[ApiError], ApiError]


class StreamRequest(Struct, frozen=True, kw_only=True):
    """The request that a stream of a turn answers."""

    request_id: str
    route: str
    clients: tuple[str, ...]
    """The key and the address for which its stream counts."""
    to_view: Callable[[TurnResult], Struct]
    """Returns the answer of the turn, the last event."""
    audience: Audience


class Streams:
    """Creates the event streams and event pages of clients."""

    def __init__(self, runner: TurnRunner, live: LiveTurns) -> None:
        self._runner = runner
        self._store = runner.store
        self._settings = runner.settings
        self._live = live
        self._pace = SendPace(runner.settings.stream_write_s, runner.settings.stream_s)

    # -- a turn -----------------------------------------------------------------------------------------------------

    async def of_turn(
        self, begin: Callable[[], PendingTurn], request: StreamRequest, cached: CachedSession | None
    ) -> SseResponse:
        """Stream the turn that `begin` starts, followed by its answer; `cached` is its session if there is one.

        Raises the errors of the turn that occur before its first words.
        """
        with ExitStack() as subscription:
            subscription.enter_context(self._subscribe(cached, request.clients))
            pending = begin()
            await self._first_words(pending)
            if pending.is_answered:
                await pending
            return self._response(self._turn(pending, request), subscription)

    def _response(self, chunks: Chunks, subscription: ExitStack) -> SseResponse:
        """Return a response that ends the subscription once it is sent."""
        return SseResponse(chunks, subscription.pop_all().close, self._live.closing, self._pace)

    async def _first_words(self, pending: PendingTurn) -> None:
        """Wait for the first words or the answer, at most `keep_alive_s`, so that no proxy closes the connection."""
        deadline = self._now() + self._settings.keep_alive_s
        while not pending.is_answered and not pending.frames:
            left = deadline - self._now()
            if left <= 0 or not await pending.signal.wait(left):
                return

    async def _turn(self, pending: PendingTurn, request: StreamRequest) -> Chunks:
        sent = 0
        while True:
            if frames := pending.frames[sent : sent + FRAMES_A_CHUNK]:
                yield b"".join(map(request.audience.words, frames))
                sent += len(frames)
            elif pending.is_answered:
                break
            elif not await pending.signal.wait(self._settings.keep_alive_s):
                yield KEEP_ALIVE
        yield await self._ending(pending, request)

    async def _ending(self, pending: PendingTurn, request: StreamRequest) -> bytes:
        """Return the events of the turn and its answer, or the error that ended it."""
        try:
            answer = await pending
        except Exception as error:  # noqa: BLE001  (the response has begun, so the error is its last frame)
            failure = errors.translate(error)
            errors.log_failure(failure, error, request.request_id, request.route)
            self._runner.metrics.errors.labels(failure.code).inc()
            shown = request.audience.failure(failure)
            body = errors.answer(shown, request.request_id, utc_text(self._runner.clock()))
            streamed = StreamedError(body.success, body.error, shown.kind.status)
            return encode_frame("error", streamed, pending.turn.base_id if pending.turn is not None else "")
        session_id, events = answer.session.session_id, answer.row.events
        last = frame_id(session_id, events[-1].seq) if events else ""
        return b"".join(
            [*request.audience.happened(session_id, answer.row, 0), encode_frame("turn", request.to_view(answer), last)]
        )

    # -- a session --------------------------------------------------------------------------------------------------

    def of_session(
        self,
        key: Key,
        cached: CachedSession | None,
        place: EventPosition,
        clients: tuple[str, ...],
        audience: Audience | None = None,
    ) -> Response[Any]:
        """Stream a session from a position; 204 if it is completed and the client has all events.

        `cached` is None while the first turn runs. Raises ApiError STREAMS_FULL.
        """
        if cached is not None and cached.state.status == "completed" and place.seq >= cached.state.event_seq:
            return Response(None, status_code=204)
        next_message = cached.state.message_seq + 1 if cached is not None else 1
        with ExitStack() as subscription:
            state = cached.state if cached is not None else None
            channel = subscription.enter_context(self._live.subscribe(key, state, clients))
            # a position beyond the last event counts as the last event
            place = replace(place, seq=min(place.seq, channel.seq))
            return self._response(self._session(key, channel, place, next_message, audience or PROGRAMS), subscription)

    async def _session(
        self, key: Key, channel: Channel, place: EventPosition, next_message: int, audience: Audience
    ) -> Chunks:
        yield BEGINNING
        seq, sent, turn, turns = place.seq, place.frame, channel.turn_at(place), FIRST_TURNS
        if place.attempt and turn is None:
            first_message = await self._first_message_after(key, seq) or next_message
            yield audience.words(reset_frame(key[1], seq, first_message))  # the turn has ended: its messages follow
        while True:
            if turn is None and channel.current is not None and channel.current.base == seq:
                turn, sent = channel.current, 0
            if turn is not None and (frames := turn.frames[sent : sent + FRAMES_A_CHUNK]):
                yield b"".join(map(audience.words, frames))
                sent += len(frames)
            elif turn is not None and turn.is_over:
                if turn.happened is not None:
                    yield b"".join(audience.happened(key[1], turn.happened, seq))
                    seq = turn.happened.events[-1].seq
                turn = None
            elif turn is None and seq < channel.seq:
                try:
                    chunk, seq, count = await self._recorded_frames(key, seq, turns, audience)
                except StoreError as error:
                    log.warning("a stream was interrupted", problem=str(error), session=key[1])
                    return  # the client reconnects with its last id
                turns = min(2 * count, TURNS_A_READ)
                if count:
                    yield chunk
                else:
                    seq, turns = channel.seq, FIRST_TURNS
            elif turn is None and channel.is_completed:
                return
            elif not await channel.signal.wait(self._settings.keep_alive_s):
                yield KEEP_ALIVE

    async def _recorded_frames(self, key: Key, seq: int, turns: int, audience: Audience) -> tuple[bytes, int, int]:
        """Return the frames of the next turns, the number of their last event, and how many turns these are: at most
        `turns`, and none after CHUNK_BYTES. A stream that nobody reads holds no more than this. Raises StoreError.
        """
        frames: list[bytes] = []
        for row in await self._store.turns.events(*key, after_seq=seq, limit=turns):
            frames.append(b"".join(audience.happened(key[1], row, seq)))
            seq = row.events[-1].seq
            if sum(map(len, frames)) > CHUNK_BYTES:
                break
        return b"".join(frames), seq, len(frames)

    async def _first_message_after(self, key: Key, seq: int) -> int | None:
        rows = await self._store.turns.events(*key, after_seq=seq, limit=TURNS_A_READ)
        return next((row.messages[0].seq for row in rows if row.messages), None)

    async def page(
        self, cached: CachedSession, after: int, limit: int, wait_s: int, clients: tuple[str, ...], receive: Receive
    ) -> EventList:
        """Return the events after a number; if there are none, wait for the next turn, unless the client leaves, which
        `receive` tells. Raises ApiError.
        """
        if wait_s and after >= cached.state.event_seq and cached.state.status != "completed":
            with self._subscribe(cached, clients) as channel:
                await while_connected(receive, self._next_turn(channel, after, wait_s))
        events: list[EventView] = []
        last = after
        while len(events) <= limit:
            rows = await self._store.turns.events(*cached.key, after_seq=last, limit=TURNS_A_READ)
            if not rows:
                break
            events += [event for row in rows for event in event_views(row) if event.seq > last]
            last = events[-1].seq
        more = len(events) > limit
        return EventList(data=events[:limit], next_cursor=str(events[limit - 1].seq) if more else None)

    async def _next_turn(self, channel: Channel, after: int, wait_s: int) -> None:
        deadline = self._now() + min(wait_s, WAIT_S_MAX)
        while channel.seq <= after and not (channel.is_completed or self._live.closing.is_set()):
            if not await channel.signal.wait(max(deadline - self._now(), 0)):
                return

    def _subscribe(self, cached: CachedSession | None, clients: tuple[str, ...]) -> AbstractContextManager[Channel]:
        if cached is None:
            return self._live.subscribe(clients=clients)
        return self._live.subscribe(cached.key, cached.state, clients)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def happened_frames(session_id: str, row: TurnRow | TurnEventsRow, after: int = 0) -> Iterator[bytes]:
    """Yield the frames of a turn's events after `after`. Before the last event are the position and, if the session
    spoke by itself, its messages.
    """
    events = [event for event in event_views(row) if event.seq > after]
    for event in events:
        if event is events[-1]:
            if said := proactive_messages(row):
                yield encode_frame("message.proactive", _proactive(row, said))
            yield encode_frame("position", _place(row))
        yield encode_frame(event.kind, event.data, frame_id(session_id, event.seq))


def _proactive(row: TurnRow | TurnEventsRow, said: list[MessageRow]) -> View:
    first = row.events[0]
    timer = first.data if first.kind == "timer" else None
    return ProactiveView(
        turn=row.turn,
        cause="person" if timer is None else "timer",
        timer=UNSET if timer is None else timer["timer"],
        timer_id=UNSET if timer is None else timer["timer_id"],
        messages=[message_view(message) for message in said],
    )


def _place(row: TurnRow | TurnEventsRow) -> View:
    return TurnPlace(
        turn=row.turn,
        status=row.status,
        execution_status=row.execution_status,
        phase_id=row.phase_id or "",
        topic_id=row.topic_id or "",
        action_id=row.action_id or "",
        action_type=row.action_type or "",
    )


PROGRAMS = Audience(words=bytes, happened=happened_frames, failure=lambda error: error)
"""The streams of programs: everything."""
