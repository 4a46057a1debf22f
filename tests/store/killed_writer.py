"""Run by test_durability: commits turns of four sessions for ever, and prints each only once it is acknowledged."""

import asyncio
import sys
from pathlib import Path

from conftest import Conversation

from store.record import Record


async def converse(record: Record, conversation: Conversation) -> None:
    await conversation.create(record)
    print(conversation.session_id, 0, flush=True)
    while True:
        turn = await conversation.say(record, state={"text": "x" * 2_000})
        print(conversation.session_id, turn.turn, flush=True)


async def main(folder: Path) -> None:
    record = Record.open(folder)
    print("open", flush=True)
    await asyncio.gather(*(converse(record, Conversation()) for _ in range(4)))


asyncio.run(main(Path(sys.argv[1])))
