"""Per-session broadcast state: running turns, the words they stream, and their results.

Every reader has its own position in the frames of a turn, so a slow reader needs no buffer.
"""

import asyncio
import contextlib
import itertools
from collections import Counter, OrderedDict
from collections.abc import Callable, Generator, Iterator
from functools import cached_property
from typing import Any, TypeAlias

from msgspec import Struct

from api.background import retrieve_exception
from api.errors import ApiError
from api.schemas.ids import new_id
from api.schemas.sessions import DeltaView, ResetView
from api.sessions.sse import EventPosition, encode_frame, frame_id, reset_frame
from api.settings import Settings
from runtime.state.ports import MessageDelta, MessageReset
from runtime.state.program import Program
from runtime.state.state import ExecutionStatus, State
from runtime.turn.calls import ModelCall
from store.interface.rows import SessionRow, TurnRow

FRAMES_MAX = 20_000  # word frames of one turn; beyond, its messages are sent as a whole
KNOWN_S = 60.0  # how long a session without a turn and a reader is retained
KNOWN_SESSIONS = 256  # retained sessions
ATTEMPT_CHARS = 8  # random hexadecimal digits that name a run of a turn

Key: TypeAlias = tuple[str, str]
"""The tenant and id of a session."""

Place: TypeAlias = tuple[str, ...]
"""The tenant, the session if there is one, and the idempotency key of a request."""


class Signal:
    """Wakes all tasks that wait for the next event."""

    def __init__(self) -> None:
        self._event: asyncio.Event | None = None  # None: no task waits, the usual case

    def notify(self) -> None:
        """Wake the waiting tasks."""
        if self._event is not None:
            self._event.set()
            self._event = None

    async def wait(self, timeout_s: float) -> bool:
        """Wait for the next notification; return whether it arrived in time."""
        if self._event is None:
            self._event = asyncio.Event()
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            return False
        return True


class WordFrames:
    """The frames of a turn's words, in order. Most are never read, so each is encoded when it is first read.

    `session_id` and `base`, the number of the last event before the turn, are part of their ids.
    """

    def __init__(self, session_id: str, base: int) -> None:
        self._session_id = session_id
        self._base = base
        self._frames: list[bytes | MessageDelta | MessageReset] = []

    @cached_property
    def attempt(self) -> str:
        """Return the name of this run of the turn."""
        return new_id()[-ATTEMPT_CHARS:]

    def add(self, change: MessageDelta | MessageReset) -> None:
        """Append more words, or the retraction of a message."""
        self._frames.append(change)

    def add_end(self, message: int) -> None:
        """Append the retraction of all words from a message on; a client returns to the last event before the turn."""
        self._frames.append(reset_frame(self._session_id, self._base, message))

    def __len__(self) -> int:
        return len(self._frames)

    def __getitem__(self, part: slice) -> list[bytes]:
        return [self._encode(place) for place in range(*part.indices(len(self._frames)))]

    def _encode(self, place: int) -> bytes:
        frame = self._frames[place]
        if isinstance(frame, bytes):
            return frame
        id_ = f"{frame_id(self._session_id, self._base)}.{self.attempt}.{place + 1}"
        match frame:
            case MessageDelta(number, action_id, text):
                data = DeltaView(message=number, action_id=action_id, text=text)
                frame = encode_frame("message.delta", data, id_)
            case MessageReset(number):
                frame = encode_frame("message.reset", ResetView(message=number), id_)
        self._frames[place] = frame
        return frame


NO_FRAMES = WordFrames("", 0)


class LiveTurn:
    """One run of one turn: its word frames and, once it is durable, its events.

    Its frames hold at most `chars_max` characters; at most FRAMES_MAX frames add words, and as many may retract them.
    """

    def __init__(self, key: Key, base: int, signals: tuple[Signal, ...], chars_max: int) -> None:
        self.key = key
        self.base = base
        self.frames = WordFrames(key[1], base)
        self.is_over = False
        self.happened: TurnRow | None = None  # None after its end: the turn failed and has no events
        self._signals = signals
        self._chars_left = chars_max
        self._from: int | None = None  # the first message with streamed words
        self._to = 0  # the last message with streamed words

    def on_delta(self, change: MessageDelta | MessageReset) -> None:
        """Add a frame for more words, or for the retraction of a message."""
        if isinstance(change, MessageReset):
            self._retract(change)
        elif self._chars_left >= 0:
            self._chars_left -= len(change.text)
            if self._chars_left < 0 or len(self.frames) >= FRAMES_MAX:
                self._chars_left = -1  # no more words: the messages are sent as a whole when the turn ends
                self._retract(MessageReset(change.number))
                return
            self.frames.add(change)
            self._from = self._from or change.number
            self._to = change.number
            self._notify()

    def end(self) -> None:
        """End the turn; retract its words if it failed."""
        if self._from is not None and self.happened is None:
            self.frames.add_end(self._from)
        self.is_over = True
        self._notify()

    @property
    def base_id(self) -> str:
        """Return the id of the last event before the turn."""
        return frame_id(self.key[1], self.base)

    def _retract(self, reset: MessageReset) -> None:
        if self._from is not None and reset.number <= self._to:
            self.frames.add(reset)
            self._from = None if reset.number <= self._from else self._from
            self._to = reset.number - 1
            self._notify()

    def _notify(self) -> None:
        for signal in self._signals:
            signal.notify()


class Channel:
    """State shared by the readers of one session: the last durable event number and the running turn."""

    def __init__(self, seq: int, user_id: str = "") -> None:
        self.seq = seq  # number of the last durable event
        self.user_id = user_id  # of the session
        self.is_completed = False
        self.signal = Signal()
        self.current: LiveTurn | None = None
        self.readers = 0
        self.used_at = 0.0

    def turn_at(self, place: EventPosition) -> LiveTurn | None:
        """Return the running turn if a client's position is in it."""
        turn = self.current
        return turn if turn is not None and (turn.base, turn.frames.attempt) == (place.seq, place.attempt) else None

    def follow(self, state: State) -> None:
        """Update the event number and status from a state."""
        self.seq = max(self.seq, state.event_seq)
        self.is_completed = state.status == "completed"

    def note_commit(self, row: TurnRow) -> None:
        """Record a committed turn and notify the readers."""
        if self.current is not None and row.events:
            self.current.happened = row
        self.seq = max([self.seq, *(event.seq for event in row.events[-1:])])
        self.is_completed = row.status == "completed"
        self.signal.notify()


class TurnResult(Struct):
    """A session after a turn, with the row of that turn."""

    session: SessionRow
    program: Program
    state: State
    row: TurnRow
    model_calls: tuple[ModelCall, ...] = ()
    body: bytes = b""
    """The answer to the request, if it was encoded while the turn was being committed."""
    has_failed: bool = False
    """Whether the last attempt at the next turn failed; this request has changed nothing."""

    @property
    def execution_status(self) -> ExecutionStatus:
        """Return the execution status of the session."""
        return "error" if self.has_failed else self.state.execution_status


class PendingTurn:
    """A request for a turn in progress: its live turn once it runs, and finally its answer."""

    def __init__(self, fingerprint: str | None, start: "Callable[[PendingTurn], asyncio.Task[TurnResult]]") -> None:
        self.fingerprint = fingerprint
        self.turn: LiveTurn | None = None
        self.channel: Channel | None = None
        self.signal = Signal()
        self.encode: Callable[[TurnResult], bytes] | None = None
        """Returns the answer to the request."""
        self._task = start(self)
        self._task.add_done_callback(self._note_end)

    def encode_soon(self, result: TurnResult) -> None:
        """Encode the answer once the event loop is idle, usually while the turn is being committed."""
        if self.encode is not None:
            asyncio.get_running_loop().call_soon(self._encode, self.encode, result)

    @staticmethod
    def _encode(encode: Callable[[TurnResult], bytes], result: TurnResult) -> None:
        result.body = encode(result)

    def _note_end(self, task: asyncio.Task[TurnResult]) -> None:
        retrieve_exception(task)
        self.signal.notify()

    @property
    def frames(self) -> WordFrames:
        """Return the frames that the turn has streamed so far."""
        return self.turn.frames if self.turn is not None else NO_FRAMES

    @property
    def is_answered(self) -> bool:
        """Return whether there is an answer or an error."""
        return self._task.done()

    def __await__(self) -> Generator[Any, None, TurnResult]:
        """Wait for the answer; a cancelled caller does not cancel the turn. Raises ApiError."""
        return asyncio.shield(self._task).__await__()


class LiveTurns:
    """The sessions with a running turn or with readers."""

    def __init__(self, settings: Settings) -> None:
        self.is_stopping = False
        """Whether the server ends soon, and takes requests only until a proxy has noticed it."""
        self.closing = asyncio.Event()  # set when the server stops
        self._settings = settings
        self._channels: OrderedDict[Key, Channel] = OrderedDict()
        self.readers = 0
        """Clients with an open stream."""
        self._readers_of: Counter[str] = Counter()  # by API key or client address
        self._requests = 0
        self._by_key: dict[Place, PendingTurn] = {}
        self._finished = Signal()

    # -- turns ------------------------------------------------------------------------------------------------------

    def begin(self, key: Key, state: State, pending: PendingTurn) -> LiveTurn:
        """Register a turn that begins to run."""
        channel = self._channel(key, state)
        chars_max = 2 * self._settings.output_chars_max  # retracted words count too
        turn = LiveTurn(key, state.event_seq, (pending.signal, channel.signal), chars_max)
        pending.channel = channel
        channel.current = pending.turn = turn
        return turn

    def note_commit(self, row: TurnRow) -> None:
        """Record a committed turn."""
        channel = self._channels.get((row.tenant, row.session_id))
        if channel is not None:
            channel.note_commit(row)

    def list_followed(self) -> list[Key]:
        """Return the sessions with readers and without a running turn here."""
        return [key for key, channel in self._channels.items() if channel.readers and channel.current is None]

    def note_advance(self, key: Key, seq: int, *, is_completed: bool) -> None:
        """Note how far a session has come, where another server may have committed a turn, and wake its readers."""
        channel = self._channels.get(key)
        if channel is not None and seq > channel.seq:
            channel.seq, channel.is_completed = seq, is_completed
            channel.signal.notify()

    def remove(self, key: Key) -> None:
        """Remove a deleted session, and end its streams."""
        channel = self._channels.pop(key, None)
        if channel is not None:
            channel.is_completed = True
            channel.signal.notify()

    def in_progress(self, place: Place) -> PendingTurn | None:
        """Return the request in progress with this idempotency key, if any."""
        return self._by_key.get(place)

    @contextlib.contextmanager
    def answering(self, pending: PendingTurn, place: Place | None = None) -> Iterator[None]:
        """Count a request while it is answered, alone with its idempotency key, and close its live turn at the end.

        Raises ApiError IDEMPOTENCY_IN_FLIGHT.
        """
        if place is not None:
            if place in self._by_key:
                raise ApiError("IDEMPOTENCY_IN_FLIGHT", "a request with this Idempotency-Key is in progress")
            self._by_key[place] = pending
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1
            self._finished.notify()
            if place is not None:
                del self._by_key[place]
            if (turn := pending.turn) is not None and pending.channel is not None:
                pending.channel.current = None
                turn.end()

    # -- readers ----------------------------------------------------------------------------------------------------

    def is_in_turn(self, key: Key) -> bool:
        """Return whether a turn of a session runs now."""
        channel = self._channels.get(key)
        return channel is not None and channel.current is not None

    def knows(self, key: Key) -> bool:
        """Return whether a session has, or recently had, a running turn or a reader."""
        return key in self._channels

    def user_of(self, key: Key) -> str | None:
        """Return the user of a retained session; None for any other."""
        channel = self._channels.get(key)
        return channel.user_id if channel is not None else None

    @contextlib.contextmanager
    def subscribe(
        self, key: Key | None = None, state: State | None = None, clients: tuple[str, ...] = ()
    ) -> Iterator[Channel]:
        """Count one more reader of a session, which may be about to begin, while it reads the channel.

        `state` may be None for a retained session, `key` for a session about to begin. `clients` are the API key and
        the address whose streams are counted. Raises ApiError STREAMS_FULL.
        """
        channel = Channel(0) if key is None else self._channel(key, state)
        settings = self._settings
        if self.readers >= settings.streams_max:
            raise _full("this server", self.readers, "streams_max")
        if channel.readers >= settings.session_streams_max:
            raise _full("this session", channel.readers, "session_streams_max")
        for client in clients:
            if self._readers_of[client] >= settings.client_streams_max:
                raise _full(f"this {client.partition(' ')[0]}", self._readers_of[client], "client_streams_max")
        self.readers += 1
        channel.readers += 1
        self._readers_of.update(clients)
        try:
            yield channel
        finally:
            self.readers -= 1
            channel.readers -= 1
            for client in clients:
                self._readers_of[client] -= 1
                if not self._readers_of[client]:
                    del self._readers_of[client]

    def close(self) -> None:
        """End all streams, and wake the readers that wait for a turn."""
        self.closing.set()
        for channel in self._channels.values():
            channel.signal.notify()

    async def drain(self, timeout_s: float) -> None:
        """Wait until no turn is running, at most `timeout_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._requests:
                    await self._finished.wait(timeout_s)

    def _channel(self, key: Key, state: State | None) -> Channel:
        if state is None:
            return self._channels[key]
        now = asyncio.get_running_loop().time()
        self._forget_unused(now)
        if key not in self._channels:
            self._channels[key] = Channel(state.event_seq, state.user_id)
        channel = self._channels[key]
        self._channels.move_to_end(key)
        channel.used_at = now
        channel.follow(state)
        return channel

    def _forget_unused(self, now: float) -> None:
        """Drop sessions without a turn and a reader for KNOWN_S, the least recently used first."""
        for key, channel in list(itertools.islice(self._channels.items(), 8)):
            if channel.current is not None or channel.readers:
                self._channels.move_to_end(key)
            elif channel.used_at < now - KNOWN_S or len(self._channels) > KNOWN_SESSIONS:
                del self._channels[key]
            else:
                return


def _full(of: str, streams: int, setting: str) -> ApiError:
    return ApiError("STREAMS_FULL", f"{of} has {streams} streams open already (`{setting}`)")
