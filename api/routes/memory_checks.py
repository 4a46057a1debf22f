"""Whether memories are sound, for those who run the server."""

from typing import Annotated, TypeAlias

from litestar import Router, get, post
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from api.errors import described
from api.memory.doctor import Doctor
from api.schemas.memory_care import Checked, FindingView, Repaired
from store.memory.integrity import Finding

_RECORD = ("REQUEST_INVALID", "DATABASE_ERROR", "SERVER_BUSY")
OfTenant: TypeAlias = Annotated[
    str | None, QueryParameter(name="tenant", required=False, description="Only of this tenant.")
]
OfUser: TypeAlias = Annotated[
    str | None, QueryParameter(name="userId", required=False, description="Only of this user.")
]


@get(
    "/operations/memory",
    summary="Check memories",
    description="Whether rows agree with each other, and what is saved of indexes with them.",
    responses=described(*_RECORD),
)
async def check_memories(doctor: NamedDependency[Doctor], tenant: OfTenant = None, user_id: OfUser = None) -> Checked:
    """What is wrong."""
    return Checked(findings=[_view(finding) for finding in await doctor.check(tenant, user_id)])


@post(
    "/operations/memory/repair",
    status_code=200,
    summary="Mend memories",
    description="Mends what can be mended from other rows. Words that stand nowhere else are never removed.",
    responses=described(*_RECORD),
)
async def repair_memories(doctor: NamedDependency[Doctor], tenant: OfTenant = None, user_id: OfUser = None) -> Repaired:
    """What was mended, and what is left."""
    outcome = await doctor.repair(tenant, user_id)
    return Repaired(
        mended=[_view(finding) for finding in outcome.mended], left=[_view(finding) for finding in outcome.left]
    )


def _view(finding: Finding) -> FindingView:
    return FindingView(
        code=finding.code,
        tenant=finding.tenant,
        user_id=finding.user_id,
        subject=finding.subject,
        sequence=finding.sequence,
        means=finding.means,
        mended=finding.mended,
    )


router = Router("/api", route_handlers=[check_memories, repair_memories], tags=["Operations"])
