"""Run by test_retention: drops what is due of a record, session by session, and prints each once it is on disk."""

import asyncio
import sys
from datetime import datetime
from pathlib import Path

from store.record import Record
from store.retention import Policy


async def main(folder: Path, now: datetime, drop: str) -> None:
    policies = [Policy(after_days=30, drop=drop)]
    record = Record.open(folder)
    for due in await record.retention.due(policies, now):
        await record.retention.drop(due.tenant, [due.session_id], policies, now)
        print(due.session_id, flush=True)
    print("done", flush=True)
    await asyncio.sleep(60)


asyncio.run(main(Path(sys.argv[1]), datetime.fromisoformat(sys.argv[2]), sys.argv[3]))
