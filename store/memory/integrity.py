"""Whether the rows of memories agree with each other, and their repair."""

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from store.fetch import Cursor, Parameters, fetch
from store.memory.damages import DAMAGES, Damage

FOUND_MAX = 1_000
"""Of one kind, in one check."""


class Finding(msgspec.Struct, frozen=True):
    """Something that is wrong with a memory, or that is still to be done."""

    code: str
    tenant: str
    user_id: str
    subject: str
    """The unit, group, session, memory or embedder it is about."""
    sequence: int | None
    """The number of the unit, where it is about one."""
    means: str
    mended: str
    """What repairing does; empty where the server sees to it by itself."""


class _Found(msgspec.Struct, frozen=True):
    tenant: str
    user_id: str
    subject: str
    sequence: int | None


def checks(tenant: str | None, user_id: str | None, embedder: str | None) -> list[Callable[[Cursor], list[Finding]]]:
    """The reads that check one memory, those of a tenant, or all, one for each kind of damage.

    With an embedder, the memories with units that have no vector of it are found as well.
    """
    scope: Parameters = {"tenant": tenant, "user_id": user_id}
    reads = [partial(_found, damage=damage, given=scope) for damage in DAMAGES]
    if embedder is not None:
        reads.append(partial(_found, damage=_UNSEEN, given=scope | {"embedder": embedder}))
    return [*reads]


def repair(cursor: Cursor, findings: Sequence[Finding]) -> None:
    """Mend what was found, within a transaction; what has been mended meanwhile is left as it is.

    One kind may come to light only when another is mended, so a check comes after it.
    """
    for tenant, user_id in dict.fromkeys((finding.tenant, finding.user_id) for finding in findings):
        codes = {finding.code for finding in findings if (finding.tenant, finding.user_id) == (tenant, user_id)}
        for damage in DAMAGES:
            if damage.code in codes and _found(cursor, damage, {"tenant": tenant, "user_id": user_id}):
                for statement in damage.repair:
                    cursor.execute(statement, {"tenant": tenant, "user_id": user_id})


def _found(cursor: Cursor, damage: Damage, given: Parameters) -> list[Finding]:
    select = f"SELECT * FROM ({damage.found}) ORDER BY tenant, user_id, sequence, subject LIMIT {FOUND_MAX}"  # noqa: S608
    return [
        Finding(damage.code, row.tenant, row.user_id, row.subject, row.sequence, damage.means, damage.mended)
        for row in fetch(cursor, _Found, select, given)
    ]


_UNSEEN = Damage(
    "vector_missing",
    "units have no vector of the embedder",
    "",
    """SELECT tenant, user_id, count(*) || ' units' AS subject, NULL::BIGINT AS sequence, NULL::BIGINT AS place
    FROM memory_unit_rows AS u WHERE tenant = coalesce($tenant, tenant) AND user_id = coalesce($user_id, user_id)
        AND NOT is_stale AND NOT EXISTS (FROM memory_vectors AS v WHERE v.tenant = u.tenant AND v.user_id = u.user_id
            AND v.sequence = u.sequence AND v.embedder = $embedder) GROUP BY ALL""",
)
