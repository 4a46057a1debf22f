"""Reads the part of a session's conversation that a context strategy needs: the newest messages or a range."""

from api.sessions.row_mapping import messages_of
from runtime.context.selection import HEAD_MAX
from runtime.context.windows import after_system, head_of, opener_of
from runtime.state.events import Message
from runtime.state.state import ContextMemory, Opener
from store.interface.rows import Gaps, LoadedSession
from store.store import Store

PAGE = 1_000
BETWEEN_MAX = 20_000  # messages in one read


async def recent_messages(
    store: Store, tenant: str, session_id: str, messages_max: int, gaps: Gaps
) -> tuple[Message, ...]:
    """Return the last messages of a conversation, and the system messages that it begins with."""
    recent = messages_of(await store.turns.recent_messages(tenant, session_id, messages_max, without=gaps))
    if len(recent) < messages_max:
        return recent
    head = head_of(messages_of(await store.turns.messages(tenant, session_id, limit=HEAD_MAX, without=gaps)))
    return (*head, *after_system([each for each in recent if each not in head]))


async def messages_of_load(store: Store, loaded: LoadedSession, messages_max: int, gaps: Gaps) -> tuple[Message, ...]:
    """Return what `recent_messages` returns, without a read unless more is needed than was loaded."""
    rows, head = loaded.recent_messages, loaded.head
    is_whole = len(rows) == head.message_count < messages_max
    begins_with_others = bool(loaded.first_messages) and loaded.first_messages[0].role != "system"
    if gaps or not (is_whole or (begins_with_others and len(rows) >= messages_max)):
        return await recent_messages(store, head.tenant, head.session_id, messages_max, gaps)
    messages = messages_of(rows[-messages_max:])
    return messages if is_whole else after_system(messages)


async def first_message(store: Store, tenant: str, session_id: str, gaps: Gaps) -> Opener:
    """Return who opened a conversation."""
    first = messages_of(await store.turns.messages(tenant, session_id, limit=HEAD_MAX + 1, without=gaps))
    return opener_of(first, ContextMemory())


async def messages_between(
    store: Store, tenant: str, session_id: str, first: int, last: int, gaps: Gaps
) -> tuple[Message, ...]:
    """Return the messages between two numbers, at most BETWEEN_MAX from the first."""
    messages: list[Message] = []
    after = first - 1
    while after < last and len(messages) < BETWEEN_MAX:
        page = messages_of(await store.turns.messages(tenant, session_id, after_seq=after, limit=PAGE, without=gaps))
        if not page:
            break
        messages += [each for each in page if each.number <= last]
        after = page[-1].number
    return tuple(messages[:BETWEEN_MAX])
