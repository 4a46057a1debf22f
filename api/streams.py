"""Streams of frames: one turn from its first word to its answer, or a session from any place on."""

import asyncio
from collections.abc import AsyncGenerator, Callable

import structlog
from msgspec import Struct

from api import errors
from api.answer import Answer
from api.event_stream import EventStream, Pace
from api.frames import KEEP_ALIVE, Place, encoded, frame_id, happened_frames, taken_back
from api.hot import Hot
from api.live import Channel, Key, Live, Seat, Underway
from api.metrics import Metrics
from api.schemas.events import EventList, EventView
from api.settings import Settings
from api.views import event_views
from runtime.ports import Clock
from store.errors import StoreError
from store.record import Record

log = structlog.get_logger()

FRAMES_A_CHUNK = 100
TURNS_A_READ = 20
WAIT_S_MAX = 60
BEGINNING = b"retry: 1000\n\n"

Chunks = AsyncGenerator[bytes, None]


class Asked(Struct, frozen=True):
    """The request that a stream answers."""

    request_id: str
    route: str
    clients: tuple[str, ...] = ()
    """The key and the address that its stream counts for."""


class Streams:
    """What clients can listen to."""

    def __init__(self, settings: Settings, live: Live, record: Record, clock: Clock, metrics: Metrics) -> None:
        self._settings = settings
        self._live = live
        self._record = record
        self._clock = clock
        self._metrics = metrics
        self._pace = Pace(settings.stream_write_s, settings.stream_s)

    # -- a turn -----------------------------------------------------------------------------------------------------

    async def of_turn(
        self,
        begin: Callable[[], Underway[Answer]],
        shown: Callable[[Answer], Struct],
        asked: Asked,
        hot: Hot | None = None,
    ) -> EventStream:
        """The stream of a turn that `begin` begins, `hot` being its session where there is one; last comes the answer.

        Raises what the turn raises before its first word.
        """
        seat = self._seat(hot, asked.clients)
        try:
            underway = begin()
            await self._first_words(underway)
            if underway.is_answered:
                await underway.answer()
        except BaseException:
            seat.give_back()
            raise
        return EventStream(self._turn(underway, shown, asked), seat.give_back, self._live.closing, self._pace)

    async def _first_words(self, underway: Underway[Answer]) -> None:
        """Waits for the first words or the answer, though not so long that somebody on the way would give up."""
        deadline = self._now() + self._settings.keep_alive_s
        while not underway.is_answered and not underway.frames:
            left = deadline - self._now()
            if left <= 0 or not await underway.bell.heard(left):
                return

    async def _turn(self, underway: Underway[Answer], shown: Callable[[Answer], Struct], asked: Asked) -> Chunks:
        sent = 0
        while True:
            if frames := underway.frames[sent : sent + FRAMES_A_CHUNK]:
                yield b"".join(frames)
                sent += len(frames)
            elif underway.is_answered:
                break
            elif not await underway.bell.heard(self._settings.keep_alive_s):
                yield KEEP_ALIVE
        yield await self._ending(underway, shown, asked)

    async def _ending(self, underway: Underway[Answer], shown: Callable[[Answer], Struct], asked: Asked) -> bytes:
        """What happened in the turn, and its answer; or why there is none."""
        try:
            answer = await underway.answer()
        except Exception as error:  # noqa: BLE001  (the outermost place: the answer has begun, so this is its end)
            failure = errors.translate(error)
            errors.log_failure(failure, error, asked.request_id, asked.route)
            self._metrics.count_error(failure.code)
            body = errors.answer(failure, asked.request_id, self._clock().isoformat())
            return encoded("error", body, underway.turn.base_id if underway.turn is not None else "")
        session_id, events = answer.session.session_id, answer.row.events
        last = frame_id(session_id, events[-1].seq) if events else ""
        return b"".join([*happened_frames(session_id, answer.row), encoded("turn", shown(answer), last)])

    # -- a session --------------------------------------------------------------------------------------------------

    def begins(self, key: Key) -> bool:
        """Whether a session that is not in the record yet takes its first turn."""
        return self._live.knows(key)

    def of_session(self, key: Key, hot: Hot | None, place: Place, clients: tuple[str, ...]) -> EventStream | None:
        """The stream of a session from a place on; none where it is over and nothing is left to tell.

        There is no `hot` where it only begins. Raises ApiError STREAMS_FULL.
        """
        if hot is not None and hot.state.status == "completed" and place.seq >= hot.state.event_seq:
            return None
        seat = self._live.take_seat(key, hot.state if hot is not None else None, clients)
        next_message = hot.state.message_seq + 1 if hot is not None else 1
        place = Place(min(place.seq, seat.channel.seq), place.attempt, place.frame)  # from now on, not from later on
        chunks = self._session(key, seat.channel, place, next_message)
        return EventStream(chunks, seat.give_back, self._live.closing, self._pace)

    async def _session(self, key: Key, channel: Channel, place: Place, next_message: int) -> Chunks:
        yield BEGINNING
        seq, sent, turn = place.seq, place.frame, channel.turn_at(place)
        if place.attempt and turn is None:
            told = self._live.told(key, place)
            if told is None:
                told = (taken_back(key[1], seq, await self._first_message_after(key, seq) or next_message),)
            for first in range(0, len(told), FRAMES_A_CHUNK):
                yield b"".join(told[first : first + FRAMES_A_CHUNK])
        while True:
            if turn is None and channel.current is not None and channel.current.base == seq:
                turn, sent = channel.current, 0
            if turn is not None and (frames := turn.frames[sent : sent + FRAMES_A_CHUNK]):
                yield b"".join(frames)
                sent += len(frames)
            elif turn is not None and turn.is_over:
                if turn.happened is not None:
                    yield b"".join(happened_frames(key[1], turn.happened, seq))
                    seq = turn.happened.events[-1].seq
                turn = None
            elif turn is None and seq < channel.seq:
                try:
                    rows = await self._record.happened(*key, after_seq=seq, limit=TURNS_A_READ)
                except StoreError as error:
                    log.warning("a stream was broken off", problem=str(error), session=key[1])
                    return  # the client comes back with the last id it has
                for row in rows:
                    yield b"".join(happened_frames(key[1], row, seq))
                    seq = row.events[-1].seq
                seq = seq if rows else channel.seq
            elif turn is None and channel.is_completed:
                return
            elif not await channel.bell.heard(self._settings.keep_alive_s):
                yield KEEP_ALIVE

    async def _first_message_after(self, key: Key, seq: int) -> int | None:
        rows = await self._record.happened(*key, after_seq=seq, limit=TURNS_A_READ)
        return next((row.messages[0].seq for row in rows if row.messages), None)

    async def page(self, hot: Hot, after: int, limit: int, wait_s: int, clients: tuple[str, ...]) -> EventList:
        """What happened after an event; where that is nothing, waits a while for the next turn. Raises ApiError."""
        key = (hot.session.tenant, hot.session.session_id)
        if wait_s and after >= hot.state.event_seq and hot.state.status != "completed":
            seat = self._seat(hot, clients)
            try:
                await self._next_turn(seat.channel, after, wait_s)
            finally:
                seat.give_back()
        found: list[EventView] = []
        last = after
        while len(found) <= limit:
            rows = await self._record.happened(*key, after_seq=last, limit=TURNS_A_READ)
            if not rows:
                break
            found += [event for row in rows for event in event_views(row) if event.seq > last]
            last = found[-1].seq
        more = len(found) > limit
        return EventList(data=found[:limit], next_after=found[limit - 1].seq if more else None)

    async def _next_turn(self, channel: Channel, after: int, wait_s: int) -> None:
        deadline = self._now() + min(wait_s, WAIT_S_MAX)
        closing = asyncio.ensure_future(self._live.closing.wait())
        try:
            while channel.seq <= after and not closing.done():
                heard = asyncio.ensure_future(channel.bell.heard(max(deadline - self._now(), 0)))
                await asyncio.wait({heard, closing}, return_when=asyncio.FIRST_COMPLETED)
                if not heard.done():
                    heard.cancel()
                elif not heard.result():
                    return
        finally:
            closing.cancel()

    def _seat(self, hot: Hot | None, clients: tuple[str, ...]) -> Seat:
        if hot is None:
            return self._live.take_seat(clients=clients)
        return self._live.take_seat((hot.session.tenant, hot.session.session_id), hot.state, clients)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
