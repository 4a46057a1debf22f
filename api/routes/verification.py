"""Whether the record is sound, for those who run the server."""

from typing import Annotated, TypeAlias

from litestar import Router, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from api.errors import described
from api.schemas.verification import FlawView, Verified
from api.verification.run import Verifying, Wanted
from store.record import Record
from store.verification.findings import Finding

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
        findings=[_view(finding) for finding in stretch.findings],
        sessions=stretch.sessions,
        turns=stretch.turns,
        sessions_total=await record.verification.session_count(),
        next=stretch.next,
    )


def _view(finding: Finding) -> FlawView:
    return FlawView(
        code=finding.code,
        table=finding.table,
        tenant=finding.tenant,
        session_id=finding.session_id,
        user_id=finding.user_id,
        turn=finding.turn,
        what=finding.what,
        remedy=finding.remedy,
        is_damage=finding.is_damage,
    )


router = Router("/api", route_handlers=[verify], tags=["Operations"])
