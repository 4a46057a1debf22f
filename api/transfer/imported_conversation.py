"""Converts a conversation from elsewhere to turns: one per exchange, produced by the engine."""

import asyncio
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from api.sessions import row_mapping
from api.transfer.document import in_utc
from api.transfer.import_report import DocumentInvalid, ImportReport
from runtime.context.messages import PARTS
from runtime.engine.engine import run_turn
from runtime.models.offline_model import OfflineModel
from runtime.state.events import Role
from runtime.state.inputs import Append, OutsideMessage, Start
from runtime.state.limits import Limits
from runtime.state.ports import Ids
from runtime.state.program import Program
from runtime.state.state import ContextMemory, State, encode
from runtime.turn.context import TurnEnvironment
from scripts.expressions.values import Value, ValueRefused, is_unicode, to_value
from scripts.model.context_strategies import ContextSettings
from scripts.model.script import Locale
from scripts.translations.localisation import is_chinese
from store.interface.rows import SessionRow, TurnRow

MESSAGES_MAX = 100_000
CONTENT_CHARS_MAX = 1_000_000
EXCHANGE_MESSAGES_MAX = 200
"""The greatest number of messages in a turn; a longer exchange becomes several turns."""
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
"""Roles of other systems and their names here."""
_KANA = re.compile("[\u3040-\u30ff]")
OWN = ("role", "content", "timestamp", "cuebook", "number", "message_id", "action_id")
"""Fields of a message that are no metadata."""


class ImportedMessage(Struct, frozen=True):
    """A message of another system; without a readable time it has that of the previous message."""

    role: Role
    content: str
    at: datetime | None
    metadata: Mapping[str, Value]


class ImportedConversation(Struct, frozen=True, kw_only=True):
    """The session data of another system."""

    format: str
    messages: Sequence[ImportedMessage]
    key: str | None = None
    user_id: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    metadata: Mapping[str, Value] = {}
    memory: ContextMemory | None = None
    settings: ContextSettings | None = None  # None: those of the server


class MessageUnusable(ValueError):
    """A message cannot be imported; the message says why."""


class MessageReader:
    """Reads the messages of a conversation in order, and reports those that cannot be imported."""

    def __init__(self, what: str, report: ImportReport) -> None:
        self._what = what
        self._report = report
        self._places: list[int] = []
        self.messages: list[ImportedMessage] = []

    def take(self, number: int, data: object, place: int | None = None) -> None:
        """Read what the report names by this number; `place` is its position among all messages, imported or not.

        Raises DocumentInvalid if there are too many.
        """
        try:
            message, left_out = _message_of(data)
        except MessageUnusable as error:
            self._report.skip(number, str(error))
            return
        if len(self.messages) == MESSAGES_MAX:
            raise DocumentInvalid(f"{self._what} {number}: a session has at most {MESSAGES_MAX:,} messages")
        self.messages.append(message)
        self._places.append(number if place is None else place)
        self._report.remark_all(f"{self._what} {number}", left_out)

    def count_to(self, place: int) -> int:
        """Return the number of imported messages up to a position among all messages."""
        return sum(each <= place for each in self._places)

    @property
    def begins_at(self) -> datetime | None:
        """The first known time."""
        return next((each.at for each in self.messages if each.at is not None), None)


def _message_of(data: object) -> tuple[ImportedMessage, list[str]]:
    """Convert a message in a common format; also return what was left out. Raises MessageUnusable."""
    if not isinstance(data, dict):
        raise MessageUnusable("a message must be an object with `role` and `content`")
    if data.get("role") is None:
        raise MessageUnusable("it has no role")
    role = ROLES.get(str(data["role"]).lower())
    if role is None:
        raise MessageUnusable(f"the role {str(data['role'])[:40]!r} is unknown")
    content, parts = _content(data.get("content"))
    if len(content) > CONTENT_CHARS_MAX:
        raise MessageUnusable(f"a message has at most {CONTENT_CHARS_MAX:,} characters, this one has {len(content):,}")
    if not is_unicode(content):
        raise MessageUnusable("its text is not valid Unicode")
    rest = {name: value for name, value in data.items() if name not in OWN}
    nested = rest.pop("metadata", None)
    rest |= nested if isinstance(nested, dict) else {}
    metadata, left_out = usable_metadata(rest | ({PARTS: parts} if parts else {}))
    if not metadata and data.get("content") in (None, []):  # an empty text is a reply without words
        raise MessageUnusable("it has no content")
    at = moment_of(data.get("timestamp"))
    if at is None and data.get("timestamp") is not None:
        left_out.append("its time cannot be read; it has that of the previous message")
    return ImportedMessage(role, content, at, metadata), left_out


def _content(value: object) -> tuple[str, list[object]]:
    """Return the text of a message, and its parts if it has any; a record is its JSON. Raises MessageUnusable."""
    if value is None:
        return "", []
    if isinstance(value, dict):
        return msgspec.json.encode(value).decode(), []
    if isinstance(value, str):
        return value, []
    if not isinstance(value, list):
        raise MessageUnusable("its content is neither a text, a record nor a list of parts")
    texts = [part.get("text") if isinstance(part, dict) else part for part in value]
    return "\n".join(text for text in texts if isinstance(text, str) and text), value


def usable_metadata(values: Mapping[str, object]) -> tuple[dict[str, Value], list[str]]:
    """Return the values that can be stored, and remarks about the others."""
    usable: dict[str, Value] = {}
    left_out: list[str] = []
    for name, value in values.items():
        try:
            usable.update(_store({name: value}))
        except ValueRefused as refused:
            left_out.append(f"{name[:60]} is left out: {refused}")
    try:
        return _store(usable), left_out
    except ValueRefused as refused:
        return {}, [*left_out, f"all fields except the text are left out: {refused}"]


def _store(values: Mapping[str, object]) -> dict[str, Value]:
    stored = to_value(dict(values))
    return stored if isinstance(stored, dict) else {}


def moment_of(value: object) -> datetime | None:
    """Parse a time as ISO 8601 text (UTC by default) or seconds since 1970; None if it is neither."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value.strip())
            return in_utc(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return in_utc(datetime.fromtimestamp(value, UTC))
    except (ValueError, OverflowError, OSError):
        pass
    return None


def language_of(messages: Sequence[ImportedMessage]) -> Locale | None:
    """Return `zh` if most of the assistant's messages are Chinese; None: unknown."""
    said = [each.content for each in messages if each.role == "assistant" and each.content]
    chinese = [text for text in said if is_chinese(text) and _KANA.search(text) is None]
    return "zh" if 2 * len(chinese) > len(said) else None


# -- turns ------------------------------------------------------------------------------------------------------------


async def turns_of(
    conversation: ImportedConversation, session: SessionRow, program: Program, ids: Ids
) -> list[TurnRow]:
    """Return the turns of a free conversation with these messages; the last gets the context memory."""
    limits = Limits(output_chars_max=CONTENT_CHARS_MAX)
    environment = TurnEnvironment(model=OfflineModel(), ids=ids, limits=limits, now=session.created_at)
    state = State(seed=session.seed, locale=session.locale or program.locale, user_id=session.user_id)
    now = last = session.created_at  # the end of the last turn, and the time of the last message
    rows: list[TurnRow] = []
    exchanges = [[], *_exchanges(conversation.messages)]  # the script begins before the first message
    for number, exchange in enumerate(exchanges):
        times = []
        for message in exchange:
            last = message.at or last
            times.append(last)
        started, now = min(times, default=now), max([now, *times])
        append = Append(tuple(OutsideMessage(each.role, each.content, each.metadata) for each in exchange))
        turn = await run_turn(program, state, append if number else Start(), replace(environment, now=started))
        state = turn.state
        if number == len(exchanges) - 1:
            now = max(now, conversation.updated_at or now)
            state = _with_memory(state, conversation)
            turn = replace(turn, state=state, saved=encode(state))
        row = row_mapping.turn_row(session, program, turn, started_at=started, finished_at=now)
        created = zip(row.messages, times or [now] * len(row.messages), strict=True)
        rows.append(replace(row, messages=[replace(each, created_at=at) for each, at in created]))
        if number % TURNS_BETWEEN_YIELDS == 0:
            await asyncio.sleep(0)
    return rows


def _with_memory(state: State, conversation: ImportedConversation) -> State:
    """Return the state with the context memory and settings; a conversation with a memo continues with it."""
    memory, settings = conversation.memory, conversation.settings
    if memory is None:
        return state
    if memory.memo:
        settings = replace(settings or ContextSettings(), strategy="memo")
    return replace(state, context=memory, context_settings=settings or state.context_settings)


def _exchanges(messages: Sequence[ImportedMessage]) -> Iterator[list[ImportedMessage]]:
    """Yield each message of the user with the messages that follow it."""
    exchange: list[ImportedMessage] = []
    for message in messages:
        if exchange and (message.role == "user" or len(exchange) == EXCHANGE_MESSAGES_MAX):
            yield exchange
            exchange = []
        exchange.append(message)
    if exchange:
        yield exchange
