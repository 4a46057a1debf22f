"""A session as one JSON document, to go on with."""

from collections.abc import AsyncIterator

import msgspec

from api.transfer.whole import Source


async def json_pieces(source: Source) -> AsyncIterator[bytes]:
    """The document in pieces: what is fixed, then a page of turns after the other, then the calls of models."""
    opening = msgspec.json.encode(await source.opening())
    yield opening[:-1] + b',\n"turns":['
    separator = b"\n"
    async for turns in source.turns():
        yield separator + b",\n".join(map(msgspec.json.encode, turns))
        separator = b",\n"
    yield b'],\n"calls":['
    separator = b"\n"
    async for calls in source.calls():
        yield separator + b",\n".join(map(msgspec.json.encode, calls))
        separator = b",\n"
    yield b"]}\n"
