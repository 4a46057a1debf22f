"""Long units are compared and summarised beside the event loop, which answers other requests meanwhile."""

import random
import time

from tests.support.opened_memory import OWNER, OpenMemory


async def test_long_units_take_little_time_of_the_event_loop(open_memory: OpenMemory) -> None:
    chosen = random.Random(1)
    words = ["".join(chosen.choices("abcdefghij", k=7)) for _ in range(20_000)]
    texts = [". ".join(" ".join(chosen.choices(words, k=20)) for _ in range(500)) for _ in range(4)]
    async with open_memory() as memory:
        await memory.add("diary", "A first one loads the embedder.")
        await memory.wait_idle()
        began = time.process_time(), time.thread_time()
        await memory.add("diary", *texts)
        await memory.wait_idle()
        async for _ in memory.memory_system.maintenance.summarise(OWNER):
            pass
        of_process, of_loop = time.process_time() - began[0], time.thread_time() - began[1]
        assert of_loop < of_process / 20, (of_loop, of_process)
