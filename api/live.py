"""The turns that run now: the words of their messages for whoever listens, and what came of them.

Every reader keeps its own place in what a turn has said; there is nothing to fill up for one that does not read.
"""

import asyncio
import contextlib
import itertools
import secrets
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeAlias, TypeVar

from api.errors import ApiError
from api.frames import Frames, Place, frame_id
from api.kept import Kept
from api.schemas.base import View
from api.schemas.events import DeltaView, ResetView
from api.settings import Settings
from runtime.ports import Unsaid, Words
from runtime.state import State
from store.rows import HappenedRow, TurnRow

FRAMES_MAX = 20_000  # frames of words in one turn; beyond, its messages come whole
KNOWN_S = 60.0  # how long a session without a turn and a reader is known
KNOWN_SESSIONS = 256  # of them

Key: TypeAlias = tuple[str, str]
"""A session: its tenant and id."""

T = TypeVar("T")


class Bell:
    """Wakes everybody who waits for something to happen."""

    def __init__(self) -> None:
        self._event: asyncio.Event | None = None  # none: nobody waits, as is usual

    def ring(self) -> None:
        """Something happened."""
        if self._event is not None:
            self._event.set()
            self._event = None

    async def heard(self, timeout_s: float) -> bool:
        """Waits for the next ring; whether it came in time."""
        if self._event is None:
            self._event = asyncio.Event()
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            return False
        return True


class LiveTurn:
    """One run of one turn: its words as frames, and once it is durable, what happened in it.

    Its frames hold at most `chars_max` characters of words; FRAMES_MAX tell of them, and as many may take them back.
    """

    def __init__(self, key: Key, base: int, bells: tuple[Bell, ...], chars_max: int) -> None:
        self.key = key
        self.base = base
        self.attempt = secrets.token_hex(4)
        self.frames = Frames()
        self.is_over = False
        self.happened: HappenedRow | None = None  # none though it is over: it failed, and nothing happened
        self._bells = bells
        self._chars_left = chars_max
        self._from: int | None = None  # the first message whose words are out
        self._to = 0  # and the last

    def hear(self, heard: Words | Unsaid) -> None:
        """More words, or those of a message are taken back."""
        match heard:
            case Unsaid(number):
                self._take_back(number)
            case Words():
                self._say(heard)

    def _say(self, words: Words) -> None:
        if self._chars_left < 0:
            return
        self._chars_left -= len(words.text)
        if self._chars_left < 0 or len(self.frames) >= FRAMES_MAX:
            self._chars_left = -1  # silence: the messages come whole when the turn is over
            self._take_back(words.number)
            return
        delta = DeltaView(message=words.number, action_id=words.action_id, text=words.text)
        self._add("message.delta", delta, self._next_id())
        self._from = self._from or words.number
        self._to = words.number

    def end(self) -> None:
        """The turn is over; where it failed, it has said nothing."""
        if self._from is not None and self.happened is None:
            self._add("message.reset", ResetView(message=self._from), self.base_id)
        self.is_over = True
        self._ring()

    @property
    def base_id(self) -> str:
        """The id of the last event before the turn."""
        return frame_id(self.key[1], self.base)

    def _take_back(self, number: int) -> None:
        if self._from is not None and number <= self._to:
            self._add("message.reset", ResetView(message=number), self._next_id())
            self._from = None if number <= self._from else self._from
            self._to = number - 1

    def _next_id(self) -> str:
        return f"{self.base_id}.{self.attempt}.{len(self.frames) + 1}"

    def _add(self, event: str, data: View, id_: str) -> None:
        self.frames.add(event, data, id_)
        self._ring()

    def _ring(self) -> None:
        for bell in self._bells:
            bell.ring()


class Channel:
    """What the readers of one session share: how far it is, and the turn that runs."""

    def __init__(self, seq: int, user_id: str = "") -> None:
        self.seq = seq  # the last event that is durable
        self.user_id = user_id  # of the session
        self.is_completed = False
        self.bell = Bell()
        self.current: LiveTurn | None = None
        self.readers = 0
        self.used_at = 0.0

    def turn_at(self, place: Place) -> LiveTurn | None:
        """The turn that runs, if that is where a client stands."""
        turn = self.current
        return turn if turn is not None and (turn.base, turn.attempt) == (place.seq, place.attempt) else None

    def follow(self, state: State) -> None:
        """Takes over how far the session is."""
        self.seq = max(self.seq, state.event_seq)
        self.is_completed = state.status == "completed"

    def committed(self, row: TurnRow) -> None:
        """A turn is durable."""
        if self.current is not None and row.events:
            fields = {name: getattr(row, name) for name in HappenedRow.__struct_fields__}
            self.current.happened = HappenedRow(**fields)
        self.seq = max([self.seq, *(event.seq for event in row.events[-1:])])
        self.is_completed = row.status == "completed"
        self.bell.ring()

    def over(self, turn: LiveTurn) -> None:
        """A turn is over, durable or not."""
        self.current = None
        turn.end()


class Underway(Generic[T]):
    """A request for a turn while it is being answered: its turn as soon as it runs, its answer in the end."""

    def __init__(self, fingerprint: str | None, start: "Callable[[Underway[T]], asyncio.Task[T]]") -> None:
        self.fingerprint = fingerprint
        self.turn: LiveTurn | None = None
        self.channel: Channel | None = None
        self.bell = Bell()
        self._task = start(self)
        self._task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled():
            task.exception()  # looked at, though nobody may ask for it
        self.bell.ring()

    @property
    def frames(self) -> Frames:
        """What the turn has said so far."""
        return self.turn.frames if self.turn is not None else Frames()

    @property
    def is_answered(self) -> bool:
        """Whether there is an answer, or an error."""
        return self._task.done()

    async def answer(self) -> T:
        """The answer, which is worked out even when whoever waits for it goes away. Raises ApiError."""
        return await asyncio.shield(self._task)


class Seat:
    """A reader's place at a session, or at one that is about to begin; held until it is given back."""

    def __init__(self, live: "Live", channel: Channel, clients: tuple[str, ...]) -> None:
        self.channel = channel
        self._live = live
        self._clients = clients
        self._is_held = True

    def give_back(self) -> None:
        """Makes room for another reader; once is enough."""
        if self._is_held:
            self._is_held = False
            self._live.leave(self.channel, self._clients)


class Live:
    """The sessions that have a turn under way, or readers."""

    def __init__(self, settings: Settings) -> None:
        self.closing = asyncio.Event()  # the server stops: nobody need wait any more
        self._settings = settings
        self._channels: OrderedDict[Key, Channel] = OrderedDict()
        self._readers = 0
        self._readers_of: Counter[str] = Counter()  # by the key or address that listens
        self._requests = 0
        self._answered = Bell()
        self._kept = Kept()

    # -- turns ------------------------------------------------------------------------------------------------------

    def begin(self, key: Key, state: State, underway: Underway[T]) -> LiveTurn:
        """A turn begins to run."""
        channel = self._channel(key, state)
        chars_max = 2 * self._settings.output_chars_max  # words that are taken back count too
        turn = LiveTurn(key, state.event_seq, (underway.bell, channel.bell), chars_max)
        underway.channel = channel
        channel.current = underway.turn = turn
        return turn

    def committed(self, row: TurnRow) -> None:
        """A turn is durable."""
        channel = self._channels.get((row.tenant, row.session_id))
        if channel is not None:
            channel.committed(row)

    def remove(self, key: Key) -> None:
        """A session is no more: its streams end, and what it said is let go."""
        self._kept.remove(key)
        channel = self._channels.pop(key, None)
        if channel is not None:
            channel.is_completed = True
            channel.bell.ring()

    async def through(self, underway: Underway[T], work: Awaitable[T]) -> T:
        """Sees a request through; with it ends the turn that it began."""
        self._requests += 1
        try:
            return await work
        finally:
            self._requests -= 1
            self._answered.ring()
            if (turn := underway.turn) is not None and underway.channel is not None:
                underway.channel.over(turn)
                if turn.frames.is_read:  # else nobody can come back in the midst of them
                    run = (turn.key, turn.base, turn.attempt)
                    self._kept.keep(run, turn.frames[:], asyncio.get_running_loop().time())

    # -- readers ----------------------------------------------------------------------------------------------------

    def told(self, key: Key, place: Place) -> tuple[bytes, ...] | None:
        """The frames after a place of a turn that was over a moment ago; None where they are not kept any more."""
        frames = self._kept.frames((key, place.seq, place.attempt))
        return frames[place.frame :] if frames is not None else None

    def knows(self, key: Key) -> bool:
        """Whether a session has a turn under way, or had one or a reader a moment ago."""
        return key in self._channels

    def user_of(self, key: Key) -> str | None:
        """The user of a session that is known; None for any other."""
        channel = self._channels.get(key)
        return channel.user_id if channel is not None else None

    @property
    def readers(self) -> int:
        """Clients that listen."""
        return self._readers

    def take_seat(self, key: Key | None = None, state: State | None = None, clients: tuple[str, ...] = ()) -> Seat:
        """Lets one more client listen, for as long as it holds its seat; without a state at a session that is known,
        without a key at one that is about to begin. `clients` are the key and the address that it counts for. Raises
        ApiError STREAMS_FULL.
        """
        channel = Channel(0) if key is None else self._channel(key, state)
        settings = self._settings
        if self._readers >= settings.streams_max:
            raise _full("this server", self._readers, "streams_max")
        if channel.readers >= settings.session_streams_max:
            raise _full("this session", channel.readers, "session_streams_max")
        for client in clients:
            if self._readers_of[client] >= settings.client_streams_max:
                raise _full(f"this {client.partition(' ')[0]}", self._readers_of[client], "client_streams_max")
        self._readers += 1
        channel.readers += 1
        self._readers_of.update(clients)
        return Seat(self, channel, clients)

    def leave(self, channel: Channel, clients: tuple[str, ...]) -> None:
        """A reader has gone."""
        self._readers -= 1
        channel.readers -= 1
        for client in clients:
            self._readers_of[client] -= 1
            if not self._readers_of[client]:
                del self._readers_of[client]

    def close(self) -> None:
        """Ends every stream."""
        self.closing.set()

    async def quiet(self, timeout_s: float) -> None:
        """Waits until no turn is under way, or the time is up."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._requests:
                    await self._answered.heard(timeout_s)

    def _channel(self, key: Key, state: State | None) -> Channel:
        if state is None:
            return self._channels[key]
        now = asyncio.get_running_loop().time()
        self._forget_unused(now)
        channel = self._channels.setdefault(key, Channel(state.event_seq, state.user_id))
        self._channels.move_to_end(key)
        channel.used_at = now
        channel.follow(state)
        return channel

    def _forget_unused(self, now: float) -> None:
        """Lets go of sessions that nobody has listened or talked to for a while, the longest unused first."""
        for key, channel in list(itertools.islice(self._channels.items(), 8)):
            if channel.current is not None or channel.readers:
                self._channels.move_to_end(key)
            elif channel.used_at < now - KNOWN_S or len(self._channels) > KNOWN_SESSIONS:
                del self._channels[key]
            else:
                return


def _full(of: str, streams: int, setting: str) -> ApiError:
    return ApiError("STREAMS_FULL", f"{of} has {streams} streams open already (`{setting}`)")
