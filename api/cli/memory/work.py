"""``cuebook memory summarise|forget|reembed|jobs|status``: work on memories, and how they stand."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from api.cli.memory.asking import in_json, minute, of_user, print_units, read, sure, tell_more
from api.cli.memory.following import JOBS, STATUS, finished
from api.cli.options import settings_of, with_settings
from api.cli.output import confirm, console, errors, fail, print_json, print_table, told
from api.cli.reach import reach, run
from api.settings import Settings

JOB_COLUMNS = ("jobId", "userId", "kind", "status", "done", "total", "createdAt", "error")


@click.command(epilog="Example: cuebook memory summarise --user ana --group diary")
@of_user
@click.option("--group", help="One session or collection [all, and then all of them together].")
@click.option("--group-units", type=click.IntRange(2, 1_000), help="Units that one summary tells of [the settings'].")
@click.option("--group-tokens", type=click.IntRange(1), help="About how many tokens one summary tells of.")
@click.option("--history", default="", help="What was known before everything, as background of the first summaries.")
@in_json
@with_settings("data", "host", "port", "model", "embedder")
def summarise(
    user_id: str,
    group: str | None,
    group_units: int | None,
    group_tokens: int | None,
    history: str,
    as_json: bool,
    config: Path | None,
    **flags: Any,
) -> None:
    """Brings the summaries of a memory up to date; only what is not summed up yet is told.

    Without a language model they are extracts. Whenever it is interrupted, what is done is done, and the rest is done
    by the next command or server.
    """
    settings = settings_of(config, **flags)
    body = {
        "userId": user_id,
        "group": group,
        "groupUnitsMax": group_units,
        "groupTokensMax": group_tokens,
        "history": history,
    }
    job = _done(settings, "summarise", body, "summing up")
    _tell(job, as_json, f"{job['done']:,} summar{'y' if job['done'] == 1 else 'ies'} written")


@click.command(epilog="Example: cuebook memory forget --user ana --share 0.2 --dry-run")
@of_user
@click.option("--share", type=click.FloatRange(0, 1, min_open=True), default=0.1, help="Of what may go, 0 to 1 [0.1].")
@click.option(
    "--policy", type=click.Choice(["oldest", "relevance"]), default="oldest", help="What goes first [oldest]."
)
@click.option("--dry-run", is_flag=True, help="Change nothing, only list what would go.")
@sure
@in_json
@with_settings("data", "host", "port")
def forget(
    user_id: str,
    share: float,
    policy: str,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    config: Path | None,
    **flags: Any,
) -> None:
    """Forgets what matters least: what was recalled the longest time ago, the least often, and is the oldest.

    What is pinned, in the context of the open session, or has something under it stays. Messages stay in their
    sessions.
    """
    settings = settings_of(config, **flags)
    body = {"userId": user_id, "share": share, "policy": policy}
    if dry_run:
        found = _would_go(settings, body)
        if as_json:
            print_json(found)
            return
        print_units(found["units"])
        errors.print(f"{found['total']:,} unit{'s' * (found['total'] != 1)} would go")
        return
    confirm(f"Forget {share:.0%} of what may go of {user_id!r}'s memory for good?", yes=yes)
    job = _done(settings, "forget", body, "forgetting")
    _tell(job, as_json, f"{job['done']:,} unit{'s' * (job['done'] != 1)} forgotten")


@click.command(epilog="Example: cuebook memory reembed --user ana --embedder sentence-transformers:all-MiniLM-L6-v2")
@of_user
@in_json
@with_settings("data", "host", "port", "embedder")
def reembed(user_id: str, as_json: bool, config: Path | None, **flags: Any) -> None:
    """Has every unit seen by the embedder of the settings: those that only another one has seen, and those none has.

    Until then they are found by their words. Vectors of other embedders go at the end. A server works with its own
    embedder, whatever is said here. Whenever it is interrupted, it goes on where it was.
    """
    job = _done(settings_of(config, **flags), "embed", {"userId": user_id}, "embedding")
    _tell(job, as_json, f"{job['done']:,} unit{'s' * (job['done'] != 1)} embedded")


def _would_go(settings: Settings, body: dict[str, object]) -> Any:
    async def work() -> Any:
        async with reach(settings, writing=True) as api:
            return (await api.send("POST", "/api/memory/forget", body | {"dryRun": True}))["wouldGo"]

    return run(work())


def _done(settings: Settings, kind: str, body: Mapping[str, object], doing: str) -> Any:
    """The job at its end."""

    async def work() -> Any:
        async with reach(settings, writing=True, working=True) as api:
            return await finished(api, doing, (await api.send("POST", f"/api/memory/{kind}", body))["job"])

    return run(work())


def _tell(job: Any, as_json: bool, done: str) -> None:
    if as_json:
        print_json(job)
    if job["status"] == "failed":
        fail(job["error"] or "it failed", 1)
    errors.print(done)


@click.command(epilog="Example: cuebook memory jobs --user ana")
@click.option("--user", "user_id", help="Only on this user's memory.")
@click.option("--limit", type=click.IntRange(1, 200), default=50, help="How many at most [50].")
@click.option("--cursor", help="`nextCursor` of the page before.")
@in_json
@with_settings("data", "host", "port")
def jobs(user_id: str | None, limit: int, cursor: str | None, as_json: bool, config: Path | None, **flags: Any) -> None:
    """Lists work on memories that somebody asked for, the newest first, and how far it is."""
    page = read(JOBS, {"userId": user_id, "limit": limit, "cursor": cursor}, config, flags)
    if as_json:
        print_json(page)
        return
    rows = [job | {"createdAt": minute(job["createdAt"])} for job in page["data"]]
    print_table(JOB_COLUMNS, [[row[column] for column in JOB_COLUMNS] for row in rows])
    tell_more(page)


_OFFERS = {
    "embed": "another embedder made vectors of it: `cuebook memory reembed --user {user}` has this one see everything",
    "summarise": "what sums it up is out of date: `cuebook memory summarise --user {user}` brings it up to date",
}


@click.command(epilog="Example: cuebook memory status --user ana")
@of_user
@in_json
@with_settings("data", "host", "port", "embedder")
def status(user_id: str, as_json: bool, config: Path | None, **flags: Any) -> None:
    """Shows how a memory stands: what is in it, what its embedder has seen, and what would help."""
    found = read(STATUS, {"userId": user_id}, config, flags)
    if as_json:
        print_json(found)
        return
    units = found["units"]
    console.print(f"units {units['said']:,}, summaries of groups {units['ofGroups']:,}, of all {units['ofAll']:,}")
    console.print(f"groups {found['groups']:,}")
    console.print(f"embedder {told(found['embedder']['state'])}")
    for embedder, count in found["vectors"].items():
        console.print(f"vectors {count:,} of {told(embedder)}")
    console.print(f"without vector {found['withoutVector']:,}, seen by others only {found['seenOtherwise']:,}")
    for job in found["jobs"]:
        console.print(f"job {job['jobId']} {job['kind']} {job['status']}: {job['done']:,} of {job['total']:,}")
    for offer in found["offers"]:
        errors.print(told(_OFFERS[offer].format(user=user_id)))


COMMANDS = (summarise, forget, reembed, jobs, status)
