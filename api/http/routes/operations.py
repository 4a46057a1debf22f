"""Operator routes: liveness, readiness, metrics, models, budgets, backups, compaction, retention, verification, repair
of memories; and the schema of scripts.
"""

from datetime import UTC, datetime, time
from functools import cache
from importlib.metadata import version
from typing import Annotated, Any, Literal, TypeAlias

from litestar import Response, delete, get, post
from prometheus_client import CONTENT_TYPE_LATEST

from api.errors import invalid_field
from api.http.request import PAGE_MAX, ApiRequest, BackupId, Cursor, Limit, also, creating, page_of, query
from api.integrity.check_sessions import fix_memories
from api.models.server_model import model_names, state_of
from api.schemas.operations import (
    BackupList,
    BackupView,
    BudgetList,
    BudgetView,
    CompactionResultView,
    CompactionView,
    CopyStep,
    FixResultView,
    FlawView,
    Health,
    LanguageModelList,
    LanguageModelView,
    PolicyView,
    Readiness,
    RetentionResultView,
    RetentionStep,
    RetentionView,
    VerificationBatch,
)
from scripts.yaml.json_schema import json_schema
from store.interface.errors import CursorInvalid
from store.interface.maintenance_rows import RunningCopy
from store.interface.retention_rows import DueByPolicy, Policy

VERSION = version("cuebook")  # not read for each request: it takes longer than everything else


@get("/health", summary="Check health")
async def health() -> Health:
    """Return that the process is alive."""
    return Health(status="ok", version=VERSION)


@get("/ready", summary="Check readiness", responses=also(503, Readiness, "Turns cannot be taken."))
async def ready(request: ApiRequest) -> Response[Readiness]:
    """Return whether turns can be taken; 503 while the database cannot be written, or the server is about to stop. A
    model or an embedder that pauses after failures does not make the server unready, because many requests need
    neither. The details are shown only to callers with a key, if keys are required.
    """
    services = request.services
    store, memory_system = services.store, services.memory_system
    trouble, is_stopping = store.ready(), services.live.is_stopping
    checks = {
        "server": "stopping" if is_stopping else "ok",
        "database": trouble or "ok",
        "writerLag": f"{store.writer_lag_s:.3f} s",
        "model": state_of(services.model),
        "embedder": memory_system.embedding.state,
        "memory": f"{memory_system.worker.waiting} waiting",
    }
    details = checks if request.principal.roles else {}
    is_ready = trouble is None and not is_stopping
    return Response(Readiness(ready=is_ready, checks=details), status_code=200 if is_ready else 503)


@get("/schema/script.json", summary="Read the JSON Schema of scripts")
async def get_script_schema() -> dict[str, Any]:
    """Return the JSON Schema of scripts with `cuebook: 1`, as `cuebook schema` does. With the YAML language server, an
    editor checks and completes a script that begins with `# yaml-language-server: $schema=` and this address.
    """
    return _script_schema()


_script_schema = cache(json_schema)


@get("/metrics", summary="Read the metrics", media_type="text/plain")
async def metrics(request: ApiRequest) -> Response[bytes]:
    """Return metrics of all tenants together, therefore only for `admin` of the tenant `default`."""
    return Response(request.services.metrics.exposition(), headers={"Content-Type": CONTENT_TYPE_LATEST})


_UNITS: tuple[Literal["calls", "tokens", "cost"], ...] = ("calls", "tokens", "cost")

After: TypeAlias = Annotated[str | None, query("after", "The start of this batch: `next` of the last answer.")]
Quick: TypeAlias = Annotated[bool, query("quick", "Check only the latest state of each session.")]


@get("/api/models", summary="List language models")
async def list_models(request: ApiRequest, limit: Limit = PAGE_MAX, cursor: Cursor = None) -> LanguageModelList:
    """Return the models that scripts and sessions may name. One without an endpoint answers for all others."""
    names = model_names(request.services.model, request.services.settings)
    views = [LanguageModelView(name=name, is_default=name == names[0]) for name in names]
    return page_of(LanguageModelList, views, limit, cursor)


@get("/api/operations/budgets", summary="Read the use of language models today")
async def get_budgets(request: ApiRequest) -> BudgetList:
    """Return what the tenant has used of language models since midnight UTC, with the limits of the settings."""
    services = request.services
    day = services.clock().astimezone(UTC).date()
    spent = await services.turn_runner.spending.of_day(request.tenant, day)
    limits = services.settings.budgets
    return BudgetList(
        since=datetime.combine(day, time(), UTC),
        data=[
            BudgetView(
                unit=unit,
                used=getattr(spent, unit),
                limit=getattr(limits, f"day_{unit}"),
                user_limit=getattr(limits, f"user_day_{unit}"),
            )
            for unit in _UNITS
        ],
    )


@get("/api/operations/backups", summary="List backups")
async def list_backups(request: ApiRequest, limit: Limit = PAGE_MAX, cursor: Cursor = None) -> BackupList:
    """Return a page of the backups in the server's folder, and the progress of the one that is being written."""
    backups = request.services.backups
    others = {"folder": str(backups.folder), "running": _step(backups.progress)}
    return page_of(BackupList, await backups.all(), limit, cursor, **others)


@creating("/api/operations/backups", "Back the database up", "the backups")
async def create_backup(request: ApiRequest) -> Response[BackupView]:
    """Writes a copy of the database as it is now, with the secrets that belong to it, and deletes the oldest backups
    by `backup_keep`. Reads and turns continue meanwhile.
    """
    return Response(await request.services.backups.create(), headers={"Location": "/api/operations/backups"})


@delete("/api/operations/backups/{backupId:str}", summary="Delete a backup")
async def delete_backup(backup_id: BackupId, request: ApiRequest) -> None:
    """Delete the folder of a backup."""
    await request.services.backups.delete(backup_id)


@get("/api/operations/compact", summary="Read the state of compaction")
async def get_compaction(request: ApiRequest) -> CompactionView:
    """Return the size of the database, and the progress of a running compaction."""
    maintenance = request.services.store.maintenance
    size, running = await maintenance.size_to_copy(), maintenance.compaction
    return CompactionView(
        bytes=size.file + size.log,
        reclaimable_bytes=size.unused,
        needed_bytes=size.needed,
        disk_free_bytes=size.disk_free,
        log_bytes=size.log,
        running=_step(running),
    )


def _step(running: RunningCopy | None) -> CopyStep | None:
    return None if running is None else CopyStep.of(running)


@post("/api/operations/compact", status_code=200, summary="Compact the database")
async def run_compaction(request: ApiRequest) -> CompactionResultView:
    """Rewrites the database file so that deleted data is physically gone. Reads continue meanwhile; turns wait until it
    is done, some seconds for a gigabyte.
    """
    done = await request.services.store.maintenance.compact()
    await request.services.analytics.files.forget()  # rebuilt later, without blocks of deleted rows
    return CompactionResultView.of(done)


@get("/api/operations/retention", summary="Read the state of retention")
async def get_retention(request: ApiRequest) -> RetentionView:
    """Return what each policy would redact or delete now, and the progress of the current run. Nothing is changed."""
    retention = request.services.retention
    due_by_policy = {each.number: each for each in await retention.look()}
    running = retention.progress
    return RetentionView(
        policies=[_policy_view(policy, due_by_policy.get(number)) for number, policy in enumerate(retention.policies)],
        running=RetentionStep.of(running) if running is not None else None,
    )


def _policy_view(policy: Policy, due: DueByPolicy | None) -> PolicyView:
    if due is None:
        return PolicyView.of(policy, sessions=0, turns=0, messages=0, bytes=0, oldest=None)
    return PolicyView.of(policy, due)


@post("/api/operations/retention", status_code=200, summary="Apply the retention policies")
async def apply_retention(request: ApiRequest) -> RetentionResultView:
    """Turns continue meanwhile; a session with a running turn is left for the next run. The bytes leave the file when
    the database is compacted.
    """
    return RetentionResultView.of(await request.services.retention.apply())


@get("/api/operations/verify", summary="Verify the database")
async def verify(request: ApiRequest, after: After = None, quick: Quick = False) -> VerificationBatch:
    """Replays the log of each session against its states, and checks the tables against each other. Each request checks
    one batch for some seconds; turns continue meanwhile.
    """
    try:
        batch = await request.services.verifier.batch(after, quick=quick)
    except CursorInvalid as error:
        raise invalid_field("after", "it is not the `next` of an answer") from error
    total = await request.services.store.verification.session_count()
    findings = [FlawView.of(finding) for finding in batch.findings]
    return VerificationBatch.of(batch, findings=findings, sessions_total=total)


@post("/api/operations/verify/fix", status_code=200, summary="Fix memories")
async def fix_derived(request: ApiRequest) -> FixResultView:
    """Rebuilds rows of memories that are derived from other rows, and violate a rule of `verify`: vectors, parents of
    units, counters, short-term memory. No text is changed or removed.
    """
    fixed = await fix_memories(request.services.store.verification, request.services.memory_system)
    return FixResultView(fixed=[FlawView.of(finding) for finding in fixed])
