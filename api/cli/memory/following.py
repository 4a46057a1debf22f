"""How far work on a memory is, as long as a command waits for it."""

import asyncio
import time
from typing import Any

from api.cli.output import errors
from api.cli.progress import counted_progress
from api.cli.reach import Reach
from api.paths import in_path

JOBS = "/api/memory/jobs"
STATUS = "/api/memory/status"
LOOK_S = 0.1  # between two looks at how far it is
STILL_S = 20.0  # without anything done it is told why, and vectors are not waited for


async def finished(api: Reach, what: str, job: Any) -> Any:
    """A job at its end. One that is interrupted stays in the record, and is done all the same."""
    path, since = f"{JOBS}/{in_path(job['jobId'])}", time.monotonic()
    try:
        with counted_progress(what) as tell:
            while job["status"] not in {"done", "failed"}:
                tell(job["done"], job["total"])
                await asyncio.sleep(LOOK_S)
                before, job = job, (await api.get(path))["job"]
                if job["done"] != before["done"]:
                    since = time.monotonic()
                elif time.monotonic() - since > STILL_S:
                    since = time.monotonic()
                    await _tell_why(api, job)
    except asyncio.CancelledError:
        who = "the server goes on with it" if api.is_served else "the next command or server goes on with it"
        errors.print(f"interrupted; job {job['jobId']} stays in the record: {who}, see `cuebook memory jobs`")
        raise
    return job


async def _tell_why(api: Reach, job: Any) -> None:
    """What may keep a job from going on."""
    state = (await api.get(STATUS, userId=job["userId"]))["embedder"]["state"]
    errors.print(f"the job has not gone on for {STILL_S:.0f} s; embedder: {state}", markup=False)


async def embedded(api: Reach, user_id: str) -> None:
    """Waits until every unit has its vector, where this very process has to make them; a server does it by itself."""
    if api.is_served:
        return
    left, since = -1, time.monotonic()
    try:
        with counted_progress("embedding") as tell:
            while time.monotonic() - since < STILL_S:
                status = await api.get(STATUS, userId=user_id)
                waiting = status["withoutVector"]
                if not waiting:
                    return
                if waiting != left:
                    left, since = waiting, time.monotonic()
                tell(0, waiting)
                await asyncio.sleep(LOOK_S)
    except asyncio.CancelledError:
        errors.print("interrupted; everything is in the record, and gets its vectors from the next server")
        raise
    errors.print(f"{left:,} units have no vector yet and are found by their words: {status['embedder']['state']}")
