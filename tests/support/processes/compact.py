"""Run by test_compaction: compacts the database of a folder, and dies at a step of it, or runs into a full disk.

With a number the process kills itself when that step begins; with `full` no file may grow beyond half of what it needs.
"""

import asyncio
import os
import resource
import signal
import sys
from pathlib import Path

from store.interface.errors import StoreUnavailable
from store.interface.private_files import FILE_NAME
from store.open_store import open_store


async def die_at(folder: Path, number: int) -> None:
    store = open_store(folder)
    steps: list[str] = []

    def begin(step: str) -> None:
        steps.append(step)
        if len(steps) == number:
            print(step, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    await store.maintenance.compact(begin)
    print("done", flush=True)
    os._exit(0)


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def fill_the_disk(folder: Path) -> None:
    store = open_store(folder)
    half = (folder / FILE_NAME).stat().st_size // 2
    resource.setrlimit(resource.RLIMIT_FSIZE, (half, resource.RLIM_INFINITY))
    try:
        await store.maintenance.compact()
    except StoreUnavailable as refused:
        print(type(refused).__name__, refused, flush=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(store.ready(), left(folder), flush=True)
    await store.maintenance.compact()
    print("done", flush=True)
    os._exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    where, what = Path(sys.argv[1]), sys.argv[2]
    asyncio.run(fill_the_disk(where) if what == "full" else die_at(where, int(what)))
