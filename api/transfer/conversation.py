"""A conversation that was held elsewhere, and the turns it becomes: one for each exchange, made by the engine."""

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from api import rows
from api.transfer.document import in_utc
from runtime.context.attachments import PARTS
from runtime.context.memory import ContextMemory
from runtime.engine import Turn, run_turn
from runtime.events import Role
from runtime.inputs import Append, Appended, Input, Intervention, Start
from runtime.models.offline import OfflineModel
from runtime.ports import Ids
from runtime.program import Program
from runtime.run import Limits
from runtime.state import State, encode
from scripts.values import Value, ValueRefused, bounded, is_unicode
from store.rows import SessionRow, TurnRow

MESSAGES_MAX = 100_000
CONTENT_CHARS_MAX = 1_000_000
EXCHANGE_MESSAGES_MAX = 200
"""A longer exchange becomes several turns."""
TURNS_BETWEEN_YIELDS = 20

ROLES: Mapping[str, Role] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
"""What others call who says something."""
_OWN = ("role", "content", "cuebook", "number", "message_id", "action_id")


class Said(Struct, frozen=True):
    """A message of another system's; without a time that can be read it has that of the one before."""

    role: Role
    content: str
    at: datetime | None
    metadata: Mapping[str, Value]


class Conversation(Struct, frozen=True, kw_only=True):
    """What another system kept of a session."""

    format: str
    messages: Sequence[Said]
    key: str | None = None
    user_id: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    metadata: Mapping[str, Value] = {}
    memory: ContextMemory | None = None


class Unusable(ValueError):
    """A message that cannot be taken; the message says why."""


def message_of(given: object, timestamp: str = "timestamp") -> tuple[Said, list[str]]:
    """A message as most systems write one, and what was left out of it. Raises Unusable."""
    if not isinstance(given, dict):
        raise Unusable("a message is an object with `role` and `content`")
    role = ROLES.get(str(given.get("role")).lower())
    if role is None:
        raise Unusable(f"nobody has the role {str(given.get('role'))[:40]!r}")
    content, parts = _content(given.get("content"))
    if len(content) > CONTENT_CHARS_MAX:
        raise Unusable(f"a message has at most {CONTENT_CHARS_MAX:,} characters, this one has {len(content):,}")
    if not is_unicode(content):
        raise Unusable("its text is not valid Unicode")
    rest = {name: value for name, value in given.items() if name not in {*_OWN, timestamp}}
    nested = rest.pop("metadata", None)
    rest |= nested if isinstance(nested, dict) else {}
    metadata, left_out = kept_of(rest | ({PARTS: parts} if parts else {}))
    if not content and not metadata:
        raise Unusable("it has no content")
    at = moment_of(given.get(timestamp))
    if at is None and given.get(timestamp) is not None:
        left_out.append("its time cannot be read, so it has that of the message before")
    return Said(role, content, at, metadata), left_out


def _content(given: object) -> tuple[str, list[object]]:
    """The text of a message, and the parts it came in, where it did. Raises Unusable."""
    if given is None:
        return "", []
    if isinstance(given, str):
        return given, []
    if not isinstance(given, list):
        raise Unusable("its content is neither a text nor a list of parts")
    texts = [part.get("text") if isinstance(part, dict) else part for part in given]
    return "\n".join(text for text in texts if isinstance(text, str) and text), given


def kept_of(given: Mapping[str, object]) -> tuple[dict[str, Value], list[str]]:
    """What of some values can be kept, each by itself, and what is said of the others."""
    kept: dict[str, Value] = {}
    left_out: list[str] = []
    for name, value in given.items():
        try:
            kept.update(_record({name: value}))
        except ValueRefused as refused:
            left_out.append(f"{name[:60]} is left out: {refused}")
    try:
        return _record(kept), left_out
    except ValueRefused as refused:
        return {}, [*left_out, f"all beside the text is left out: {refused}"]


def _record(given: Mapping[str, object]) -> dict[str, Value]:
    found = bounded(dict(given))
    return found if isinstance(found, dict) else {}


def moment_of(given: object) -> datetime | None:
    """A time as ISO 8601 text, in UTC where it names no zone, or in seconds since 1970; None where it is neither."""
    try:
        if isinstance(given, str):
            moment = datetime.fromisoformat(given.strip())
            return in_utc(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))
        if isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given):
            return in_utc(datetime.fromtimestamp(given, UTC))
    except (ValueError, OverflowError, OSError):
        pass
    return None


# -- turns ------------------------------------------------------------------------------------------------------------


async def turns_of(conversation: Conversation, session: SessionRow, program: Program, ids: Ids) -> list[TurnRow]:
    """The turns of a session of the script for free conversation in which this was said."""
    maker = _Maker(session, program, ids)
    exchanges = list(_exchanges(conversation.messages))
    memory = conversation.memory
    ended = max(session.created_at, conversation.updated_at or session.created_at)
    await maker.take(Start(), [], memory if not exchanges else None, ended if not exchanges else None)
    for number, exchange in enumerate(exchanges, start=1):
        is_last = number == len(exchanges)
        given = Append(tuple(Appended(each.role, each.content, each.metadata) for each in exchange))
        await maker.take(given, exchange, memory if is_last else None, ended if is_last else None)
        if number % TURNS_BETWEEN_YIELDS == 0:
            await asyncio.sleep(0)
    return maker.rows


def _exchanges(messages: Sequence[Said]) -> Iterator[list[Said]]:
    """What the user said each time, with all that followed."""
    exchange: list[Said] = []
    for message in messages:
        if exchange and (message.role == "user" or len(exchange) == EXCHANGE_MESSAGES_MAX):
            yield exchange
            exchange = []
        exchange.append(message)
    if exchange:
        yield exchange


class _Maker:
    """The turns so far, and the state they left."""

    def __init__(self, session: SessionRow, program: Program, ids: Ids) -> None:
        self._session = session
        self._program = program
        self._ids = ids
        self._model = OfflineModel()
        self._limits = Limits(output_chars_max=CONTENT_CHARS_MAX)
        self._state = State(seed=session.seed, locale=session.locale or program.locale, user_id=session.user_id)
        self._now = session.created_at
        self.rows: list[TurnRow] = []

    async def take(
        self,
        given: Input | Intervention,
        messages: Sequence[Said],
        memory: ContextMemory | None,
        ended: datetime | None,
    ) -> None:
        """One turn more, in which these messages were said; the last one has what a strategy keeps."""
        times = list(self._times(messages))
        started = min(times, default=self._now)
        self._now = max([self._now, *times, *([ended] if ended is not None else [])])
        turn = await self._run(given, started)
        if memory is not None:
            state = msgspec.structs.replace(turn.state, context=memory)
            turn = msgspec.structs.replace(turn, state=state, saved=encode(state))
        row = rows.turn_row(
            self._session,
            self._program,
            turn,
            started_at=started,
            finished_at=self._now,
            idempotency_key=None,
            fingerprint=None,
        )
        said = [
            msgspec.structs.replace(message, created_at=at)
            for message, at in zip(row.messages, times or [self._now] * len(row.messages), strict=True)
        ]
        self.rows.append(msgspec.structs.replace(row, messages=said))
        self._state = turn.state

    def _times(self, messages: Sequence[Said]) -> Iterator[datetime]:
        last = self.rows[-1].messages[-1].created_at if self.rows and self.rows[-1].messages else self._now
        for message in messages:
            last = message.at or last
            yield last

    async def _run(self, given: Input | Intervention, now: datetime) -> Turn:
        return await run_turn(
            self._program,
            self._state,
            given,
            model=self._model,
            clock=lambda: now,
            ids=self._ids,
            limits=self._limits,
        )
