"""What was said in a session, for people to read: as Markdown, and as plain text."""

from collections.abc import AsyncIterator

from api.transfer.whole import Source
from store.rows import MessageRow


async def markdown_pieces(source: Source) -> AsyncIterator[bytes]:
    """A heading for the session, and one for each message."""
    yield f"# Session: {_line(source.name)}\n".encode()
    async for rows in source.messages():
        yield "".join(map(_section, rows)).encode()


def _section(row: MessageRow) -> str:
    return f"\n## {row.role.title()} ({row.created_at:%Y-%m-%d %H:%M:%S} UTC)\n\n{row.content}\n"


async def text_pieces(source: Source) -> AsyncIterator[bytes]:
    """Each message after who said it."""
    async for rows in source.messages():
        yield "".join(f"[{row.role}] {row.content}\n" for row in rows).encode()


def _line(text: str) -> str:
    return " ".join(text.split())
