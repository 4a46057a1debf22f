"""Run by test_retention: removes the texts that are due, and prints each session once that is on disk."""

import asyncio
import sys
from datetime import datetime
from pathlib import Path
from typing import Literal, cast

from store.interface.retention_rows import Policy
from store.open_store import open_store


async def main(folder: Path, now: datetime, action: Literal["redact", "delete"]) -> None:
    policies = [Policy(after_days=30, action=action)]
    store = open_store(folder)
    for due in await store.retention.due(policies, now):
        await store.retention.apply(due.tenant, [due.session_id], policies, now)
        print(due.session_id, flush=True)
    print("done", flush=True)
    await asyncio.sleep(60)


kind = cast(Literal["redact", "delete"], sys.argv[3])
asyncio.run(main(Path(sys.argv[1]), datetime.fromisoformat(sys.argv[2]), kind))
