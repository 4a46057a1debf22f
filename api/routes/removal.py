"""What removes: sessions, users, and what is left of them in the file."""

from typing import Annotated, Any

from litestar import Request, Router, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter

from api.analytics.asking import Analytics
from api.caller import tenant_of
from api.errors import described
from api.removing import Removing
from api.schemas.operations import CompactedView, CompactionStep, CompactionView
from api.schemas.users import ReceiptView
from store.compaction import needed_bytes
from store.record import Record

Compact = Annotated[
    bool,
    QueryParameter(
        name="compact", description="Also rewrite the file, so that no byte of it is left; this takes longer."
    ),
]


@delete(
    "/sessions/{session_id:str}",
    summary="Delete a session",
    description="With everything that is recorded of it, once the turn it takes is over. Its keys are free again. "
    "Global variables that it wrote are the user's, and stay.",
    responses=described("REQUEST_INVALID", "SESSION_NOT_FOUND", "SESSION_BUSY", "SERVER_BUSY"),
    tags=["Sessions"],
)
async def delete_session(
    session_id: FromPath[str], removing: NamedDependency[Removing], request: Request[Any, Any, Any]
) -> None:
    """Removes a session."""
    await removing.delete(tenant_of(request), session_id)


@delete(
    "/users/{user_id:str}",
    status_code=200,
    summary="Erase a user",
    description="Everything that is recorded of the user and of the user's sessions, once the turns they take are "
    "over. The receipt is kept: it counts what was erased, and does not name the user. Who comes back is a new user.",
    responses=described("REQUEST_INVALID", "SESSION_BUSY", "COMPACTION_RUNNING", "DISK_TOO_SMALL", "SERVER_BUSY"),
    tags=["Users"],
)
async def erase_user(
    user_id: FromPath[str],
    removing: NamedDependency[Removing],
    request: Request[Any, Any, Any],
    compact: Compact = False,
) -> ReceiptView:
    """A receipt, with zeros where there was nothing."""
    receipt = await removing.erase(tenant_of(request), user_id, compact=compact)
    return ReceiptView(
        receipt_id=receipt.receipt_id,
        erased_at=receipt.erased_at,
        counts=receipt.counts,
        compacted=receipt.compacted,
    )


@get(
    "/operations/compact",
    summary="What a compaction would need",
    responses=described("SERVER_BUSY"),
    tags=["Operations"],
)
async def compaction(record: NamedDependency[Record]) -> CompactionView:
    """How large the record is, and how far the compaction is that runs."""
    size, running = await record.size(), record.compaction
    return CompactionView(
        bytes=size.file + size.log,
        reclaimable_bytes=size.unused,
        needed_bytes=needed_bytes(size),
        disk_free_bytes=size.disk_free,
        running=None
        if running is None
        else CompactionStep(
            step=running.step, bytes_written=running.bytes_written, bytes_expected=running.bytes_expected
        ),
    )


@post(
    "/operations/compact",
    status_code=200,
    summary="Compact the record",
    description="Rewrites the file, so that no byte is left in it of what was removed. Reading goes on meanwhile; "
    "turns wait until it is done, some seconds for a gigabyte.",
    responses=described("COMPACTION_RUNNING", "DISK_TOO_SMALL", "SERVER_BUSY"),
    tags=["Operations"],
)
async def compact(record: NamedDependency[Record], analytics: NamedDependency[Analytics]) -> CompactedView:
    """The bytes before and after."""
    done = await record.compact()
    await analytics.files.drop()  # they are made anew, without the blocks of what was removed
    return CompactedView(bytes_before=done.bytes_before, bytes_after=done.bytes_after)


# A session is deleted under the path it is read under, which one router must have: that of the sessions.
router = Router("/api", route_handlers=[erase_user, compaction, compact])
