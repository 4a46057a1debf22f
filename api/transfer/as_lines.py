"""What was said in a session as JSON lines: one about the session, then a message a line, as nanobot has them."""

from collections.abc import AsyncIterator

import msgspec

from api.transfer.document import VERSION
from api.transfer.nanobot import METADATA
from api.transfer.whole import Source
from runtime.context.attachments import PARTS
from store.rows import MessageRow

_OWN = frozenset({"role", "content", "timestamp", "cuebook", "_type"})


async def line_pieces(source: Source) -> AsyncIterator[bytes]:
    """The lines, a page at a time."""
    start = source.start
    head = {
        "_type": METADATA,
        "key": source.name,
        "created_at": start.created_at,
        "updated_at": source.updated_at,
        "metadata": start.metadata,
        "last_consolidated": await _consolidated(source),
        "cuebook": {
            "format": "cuebook.messages",
            "version": VERSION,
            "session_id": start.session_id,
            "user_id": start.user_id,
            "script_id": source.head.script_id,
            "script_version": source.head.script_version,
            "locale": source.state.locale,
            **({"masked": True} if source.hidden is not None else {}),
        },
    }
    yield msgspec.json.encode(head) + b"\n"
    async for rows in source.messages():
        yield b"".join(map(_line, rows))


async def _consolidated(source: Source) -> int:
    """How many of the messages come before the window that the context has of them."""
    after = source.state.context.after if source.state.context is not None else 0
    count = 0
    async for rows in source.messages():
        count += sum(row.seq <= after for row in rows)
        if rows[-1].seq >= after:
            break
    return count


def _line(row: MessageRow) -> bytes:
    more = {name: value for name, value in row.metadata.items() if name not in _OWN}
    own = {"number": row.seq, "message_id": row.message_id, "action_id": row.action_id}
    said = {"role": row.role, "content": _content(row, more.pop(PARTS, None)), "timestamp": row.created_at}
    return msgspec.json.encode(said | more | {"cuebook": own}) + b"\n"


def _content(row: MessageRow, parts: object) -> object:
    """The text, or the parts it came in; where those are only what is no text, with the text before them."""
    if not isinstance(parts, list) or not parts:
        return row.content
    has_text = any(isinstance(part, str) or (isinstance(part, dict) and "text" in part) for part in parts)
    return parts if has_text or not row.content else [{"type": "text", "text": row.content}, *parts]
