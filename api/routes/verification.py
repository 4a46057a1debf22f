"""Whether the record is sound, for those who run the server."""

from typing import Annotated, TypeAlias

from litestar import Router, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from api.errors import described
from api.schemas.verification import Verified, flaw_view
from api.verification.run import Verifying, Wanted
from store.record import Record

After: TypeAlias = Annotated[
    str | None, QueryParameter(name="after", required=False, description="Where to go on: `next` of the last answer.")
]
Quick: TypeAlias = Annotated[
    bool, QueryParameter(name="quick", required=False, description="Of the states, look at the latest alone.")
]
Replay: TypeAlias = Annotated[
    bool, QueryParameter(name="replay", required=False, description="Also run every session again, as it was recorded.")
]


@get(
    "/operations/verify",
    summary="Check the record",
    description="Replays the log of each session against its states, and checks the tables against each other; a "
    "stretch of some seconds with each request, while turns go on. Memories are checked at `/api/operations/memory`.",
    responses=described("REQUEST_INVALID", "DATABASE_ERROR", "SERVER_BUSY"),
)
async def verify(
    verifying: NamedDependency[Verifying],
    record: NamedDependency[Record],
    after: After = None,
    quick: Quick = False,
    replay: Replay = False,
) -> Verified:
    """What is wrong."""
    stretch = await verifying.stretch(after, Wanted(quick, replay))
    return Verified(
        findings=[flaw_view(finding) for finding in stretch.findings],
        sessions=stretch.sessions,
        turns=stretch.turns,
        sessions_total=await record.verification.session_count(),
        next=stretch.next,
    )


router = Router("/api", route_handlers=[verify], tags=["Operations"])
