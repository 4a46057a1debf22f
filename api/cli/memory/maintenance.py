"""``cuebook memory summarise|forget|reembed|jobs|status``: maintenance of memories, and their state."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import click

from api.cli.backend import Backend, backend
from api.cli.memory.options import UNIT_COLUMNS, minute, of_user, read, unit_row
from api.cli.options import in_json, json_option, page_options, skip_confirmation, with_settings
from api.cli.output import confirm, console, errors, fail, print_json, print_page, print_rows, printable
from api.cli.progress import progress_bar
from api.schemas.ids import in_path
from api.settings import Settings
from scripts.expressions.values import count_text

JOB_COLUMNS = ("jobId", "userId", "kind", "status", "done", "total", "createdAt", "error")
JOBS = "/api/memory/jobs"
STATUS = "/api/memory/status"
LOOK_S = 0.1  # between two requests for the progress
STILL_S = 20.0  # without progress: print the state of the embedder, and stop waiting for vectors
_OFFERS = {
    "embed": "another embedder computed some vectors: `cuebook memory reembed --user {user}` recomputes them",
    "summarise": "the summaries are out of date: `cuebook memory summarise --user {user}` updates them",
}


@click.command(epilog="Example: cuebook memory summarise --user ana --group diary")
@of_user
@click.option("--group", help="Only this session or collection [all, and the memory as a whole].")
@click.option(
    "--group-units",
    "groupUnitsMax",
    type=click.IntRange(2, 1_000),
    help="Maximum units per summary [that of the settings].",
)
@click.option(
    "--group-tokens", "groupTokensMax", type=click.IntRange(1), help="Approximate maximum of tokens per summary."
)
@click.option("--history", default="", help="Background for the first summaries: facts from before the first unit.")
@in_json
@with_settings("data", "model", "embedder")
async def summarise(settings: Settings, user_id: str, as_json: bool, **body: Any) -> None:
    """Update the summaries of a memory: summarise the units that no summary covers yet.

    A server does this by itself only with the setting `memory_summarise_from`. Without a language model summaries are
    extracts. If it is interrupted, finished summaries stay, and the next command or server writes the rest.
    """
    job = await _run_job(settings, "summarise", {"userId": user_id, **body}, "summarising")
    _print_result(job, as_json, f"{job['done']:,} summar{'y' if job['done'] == 1 else 'ies'} written")


@click.command(epilog="Example: cuebook memory forget --user ana --share 0.2 --dry-run")
@of_user
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.1,
    help="Share of the removable units, 0 to 1 [0.1].",
)
@click.option(
    "--policy", type=click.Choice(["oldest", "relevance"]), default="oldest", help="Order of removal [oldest]."
)
@click.option("--dry-run", is_flag=True, help="Change nothing; list the units that would be removed.")
@skip_confirmation
@in_json
@with_settings("data")
async def forget(
    settings: Settings, user_id: str, share: float, policy: str, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Remove the least useful units of a memory: those recalled longest ago, least often, and the oldest.

    Use it to limit the size of a memory. Units that are pinned, in the context of the group to which a unit was last
    added, or summaries of remaining units stay. Messages stay in their sessions.
    """
    body = {"userId": user_id, "share": share, "policy": policy}
    if dry_run:
        async with backend(settings, writing=True) as api:
            found = (await api.send("POST", "/api/memory/forget", body | {"dryRun": True}))["wouldGo"]
        if as_json:
            print_json(found)
            return
        print_rows(UNIT_COLUMNS, map(unit_row, found["units"]))
        errors.print(f"{count_text(found['total'], 'unit')} would be removed")
        return
    confirm(f"Permanently remove {share:.0%} of the removable units from {user_id!r}'s memory?", yes=yes)
    job = await _run_job(settings, "forget", body, "removing")
    _print_result(job, as_json, f"{count_text(job['done'], 'unit')} removed")


@click.command(epilog="Example: cuebook memory reembed --user ana --embedder sentence-transformers:all-MiniLM-L6-v2")
@of_user
@in_json
@with_settings("data", "embedder")
async def reembed(settings: Settings, user_id: str, as_json: bool) -> None:
    """Compute the missing vectors of a memory with the embedder of the settings.

    Use it after changing the embedder: until then units with vectors of another embedder are found only by their words.
    Vectors of other embedders are removed at the end. A server uses its own embedder, not that of --embedder. If it is
    interrupted, the next run continues.
    """
    job = await _run_job(settings, "embed", {"userId": user_id}, "embedding")
    _print_result(job, as_json, f"{count_text(job['done'], 'unit')} embedded")


async def _run_job(settings: Settings, kind: str, body: Mapping[str, object], doing: str) -> Any:
    """Start a job, wait until it ends, and return it."""
    async with backend(settings, writing=True, working=True) as api:
        return await wait_for_job(api, doing, (await api.send("POST", f"/api/memory/{kind}", body))["job"])


def _print_result(job: Any, as_json: bool, done: str) -> None:
    if as_json:
        print_json(job)
    if job["status"] == "failed":
        fail(job["error"] or "the job failed", 1)
    errors.print(done)


@click.command(epilog="Example: cuebook memory jobs --user ana")
@click.option("--user", "userId", help="Only jobs on the memory of this user.")
@page_options("jobs")
@json_option(lambda page: print_page(page, JOB_COLUMNS, _job_row))
@with_settings("data")
async def jobs(settings: Settings, **query: Any) -> Any:
    """List requested jobs on memories, newest first, with their progress."""
    return await read(settings, JOBS, **query)


def _job_row(job: Any) -> dict[str, Any]:
    return {**job, "createdAt": minute(job["createdAt"])}


def _print_status(found: Any) -> None:
    units = found["units"]
    console.print(f"units {units['said']:,}, summaries of groups {units['ofGroups']:,}, of all {units['ofAll']:,}")
    console.print(f"groups {found['groups']:,}")
    console.print(f"embedder {printable(found['embedder']['state'])}")
    for embedder, count in found["vectors"].items():
        console.print(f"vectors {count:,} of {printable(embedder)}")
    console.print(
        f"without vector {found['withoutVector']:,}, only vectors of other embedders {found['seenOtherwise']:,}"
    )
    for job in found["jobs"]:
        console.print(f"job {job['jobId']} {job['kind']} {job['status']}: {job['done']:,} of {job['total']:,}")
    for offer in found["offers"]:
        errors.print(printable(_OFFERS[offer].format(user=found["userId"])))


@click.command(epilog="Example: cuebook memory status --user ana")
@of_user
@json_option(_print_status)
@with_settings("data", "embedder")
async def status(settings: Settings, user_id: str) -> Any:
    """Show the state of a memory: its units, vectors and jobs, and the maintenance it needs."""
    return await read(settings, STATUS, userId=user_id)


# -- waiting ----------------------------------------------------------------------------------------------------------


async def wait_for_job(api: Backend, what: str, job: Any) -> Any:
    """Wait until a job ends and return it. If interrupted, the job stays in the database and is finished later."""
    path, since = f"{JOBS}/{in_path(job['jobId'])}", time.monotonic()
    try:
        with progress_bar(what) as on_progress:
            while job["status"] not in {"done", "failed"}:
                on_progress(job["done"], job["total"])
                await asyncio.sleep(LOOK_S)
                before, job = job, (await api.get(path))["job"]
                if job["done"] != before["done"]:
                    since = time.monotonic()
                elif time.monotonic() - since > STILL_S:
                    since = time.monotonic()
                    embedder = (await api.get(STATUS, userId=job["userId"]))["embedder"]  # it may wait for this
                    why = job["error"] or f"embedder: {embedder['state']}"
                    errors.print(f"the job has made no progress for {STILL_S:.0f} s; {why}", markup=False)
    except asyncio.CancelledError:
        who = "the server continues it" if api.is_served else "the next command or server continues it"
        errors.print(f"interrupted; job {job['jobId']} stays in the database: {who}, see `cuebook memory jobs`")
        raise
    return job


async def wait_for_vectors(api: Backend, user_id: str, still_s: float = STILL_S) -> None:
    """Wait until every unit has its vector, or none was computed for `still_s`, which is reported."""
    left, since = -1, time.monotonic()
    try:
        with progress_bar("embedding") as on_progress:
            while waiting := (status := await api.get(STATUS, userId=user_id))["withoutVector"]:
                if waiting != left:
                    left, since = waiting, time.monotonic()
                elif time.monotonic() - since > still_s:
                    break
                on_progress(0, waiting)
                await asyncio.sleep(LOOK_S)
            else:
                return
    except asyncio.CancelledError:
        errors.print("interrupted; all units are in the database, and the next server computes their vectors")
        raise
    without = f"{count_text(left, 'unit')} without a vector, found only by words"
    errors.print(
        f"{without}: {status['embedder']['state']}; `cuebook memory reembed` computes the vectors", markup=False
    )
