"""Run by test_durability: commits turns of four sessions for ever, and prints each only once it is acknowledged."""

import asyncio
import sys
from pathlib import Path

from store.open_store import open_store
from store.store import Store
from tests.support.store_rows import Conversation


async def converse(store: Store, conversation: Conversation) -> None:
    await conversation.create(store)
    print(conversation.session_id, 0, flush=True)
    while True:
        turn = await conversation.say(store, state={"text": "x" * 2_000})
        print(conversation.session_id, turn.turn, flush=True)


async def main(folder: Path) -> None:
    store = open_store(folder)
    print("open", flush=True)
    await asyncio.gather(*(converse(store, Conversation()) for _ in range(4)))


asyncio.run(main(Path(sys.argv[1])))
