"""A session as one YAML document, to go on with: the same as the JSON one, for people to read."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec

from api.transfer.whole import Source
from api.transfer.yaml_text import yaml_text


async def yaml_pieces(source: Source) -> AsyncIterator[bytes]:
    """The document in pieces."""
    yield await asyncio.to_thread(_written, await source.opening())
    yield b"turns:\n"
    async for turns in source.turns():
        yield await asyncio.to_thread(_written, turns)
    is_first = True
    async for calls in source.calls():
        if is_first:
            yield b"calls:\n"
        is_first = False
        yield await asyncio.to_thread(_written, calls)
    if is_first:
        yield b"calls: []\n"


def _written(part: msgspec.Struct | Sequence[msgspec.Struct]) -> bytes:
    return yaml_text(msgspec.json.decode(msgspec.json.encode(part))).encode()
