"""What is read of a session's conversation for its context: the newest of it, or a part of it."""

from api.rows import messages_of
from runtime.context.chosen import HEAD_MAX
from runtime.context.memory import ContextMemory, Opener
from runtime.context.windows import head_of, opener_of
from runtime.events import Message
from store.record import Record
from store.turns import Gaps

PAGE = 1_000
BETWEEN_MAX = 20_000  # messages at a time


async def newest_said(
    record: Record, tenant: str, session_id: str, messages_max: int, gaps: Gaps
) -> tuple[Message, ...]:
    """The last messages of a conversation, and those of the system's that it begins with."""
    recent = messages_of(await record.recent_messages(tenant, session_id, messages_max, without=gaps))
    if len(recent) < messages_max:
        return recent
    first = messages_of(await record.messages(tenant, session_id, limit=HEAD_MAX, without=gaps))
    return (*(each for each in head_of(first) if each.number < recent[0].number), *recent)


async def opener_said(record: Record, tenant: str, session_id: str, gaps: Gaps) -> Opener:
    """Who opened a conversation."""
    first = messages_of(await record.messages(tenant, session_id, limit=HEAD_MAX + 1, without=gaps))
    return opener_of(first, ContextMemory())


async def said_between(
    record: Record, tenant: str, session_id: str, first: int, last: int, gaps: Gaps
) -> tuple[Message, ...]:
    """The messages of a conversation from one number to another; the first of them where there are too many."""
    found: list[Message] = []
    after = first - 1
    while after < last and len(found) < BETWEEN_MAX:
        page = messages_of(await record.messages(tenant, session_id, after_seq=after, limit=PAGE, without=gaps))
        if not page:
            break
        found += [each for each in page if each.number <= last]
        after = page[-1].number
    return tuple(found[:BETWEEN_MAX])
