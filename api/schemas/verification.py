"""What answers of checks of the record look like."""

from collections.abc import Sequence

from api.schemas.base import View
from store.verification.findings import Finding


class FlawView(View, frozen=True, kw_only=True):
    """Something that is wrong with the record: where, what, and what to do.

    Where it is no damage, use of the record may have brought it about.
    """

    code: str
    table: str
    tenant: str
    session_id: str | None
    user_id: str | None
    turn: int | None
    what: str
    remedy: str
    is_damage: bool


def flaw_view(finding: Finding) -> FlawView:
    """A finding, as it is told."""
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


class Verified(View, frozen=True, kw_only=True):
    """What came of a stretch of the check: `next` is where the next stretch begins; null: that was all."""

    findings: Sequence[FlawView]
    sessions: int
    turns: int
    sessions_total: int
    next: str | None
    success: bool = True
