"""Store and list reviews, what is rated in them, and the ratings."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from store.interface.errors import RowRefused
from store.interface.pages import Page
from store.interface.review_rows import ListedTarget, RatingRow, ReviewRow, TargetRow
from store.sql.connection import Connection, Parameters, Scalar, as_uuid, delete_rows, fetch_page, find_row, update_rows
from store.sql.tenant_table import TenantTable


class _NumberedRating(RatingRow, frozen=True, kw_only=True):
    number: int  # of its target


REVIEWS = TenantTable("reviews", "review_id", ReviewRow)
RATERS_MAX = 100
"""Maximum number of raters of one review."""

_ONE = "tenant = $tenant AND review_id = $review_id"
_TARGET = f"{_ONE} AND session_id = $session_id::UUID AND turn IS NOT DISTINCT FROM $turn::INTEGER"


def add_review(connection: Connection, review: ReviewRow, targets: Sequence[TargetRow]) -> None:
    """Add a review. Raises RowRefused if its tenant has as many as it may. Within a transaction."""
    REVIEWS.add(connection, review)
    connection.insert("review_targets", targets)


def close_review(connection: Connection, tenant: str, review_id: str, at: datetime) -> bool:
    """Close a review, so that no rating changes any more; return whether it was open. Within a transaction."""
    open_one: Parameters = {"tenant": tenant, "review_id": review_id, "closed_at": None}
    return update_rows(connection, "reviews", open_one, {"closed_at": at.isoformat()}) == 1


def delete_review(connection: Connection, tenant: str, review_id: str) -> bool:
    """Delete a review with its ratings; return whether there was one. Within a transaction."""
    for table in ("ratings", "review_targets"):
        delete_rows(connection, table, {"tenant": tenant, "review_id": review_id})
    return REVIEWS.delete(connection, tenant, review_id)


def targets(
    connection: Connection, tenant: str, review_id: str, rater: str, *, limit: int = 50, cursor: str | None = None
) -> Page[ListedTarget]:
    """Return a page of what is rated in a review, in order, with the progress of a rater. Raises CursorInvalid."""
    source = f"""
        (SELECT t.*, (SELECT count(*) FROM ratings AS r WHERE {_RATED}) AS ratings,
            EXISTS (SELECT 1 FROM ratings AS r WHERE {_RATED} AND r.rater = $rater) AS is_rated
        FROM review_targets AS t) AS listed"""  # noqa: S608
    which, given = {"tenant": tenant, "review_id": review_id}, {"rater": rater}
    order = {"number": int}
    return fetch_page(connection, ListedTarget, source, which, order, limit, cursor, parameters=given, descending=False)


_RATED = """r.tenant = t.tenant AND r.review_id = t.review_id AND r.session_id = t.session_id
    AND r.turn IS NOT DISTINCT FROM t.turn"""


def turns_of(connection: Connection, tenant: str, session_ids: list[str], limit: int) -> list[tuple[str, int]]:
    """Return the first `limit` turns of sessions in which the user says something."""
    found = connection.rows(
        """SELECT session_id::VARCHAR AS id, turn FROM turns
        WHERE tenant = $tenant AND session_id IN (SELECT unnest($sessions::UUID[]))
            AND strpos(messages::VARCHAR, '"role":"user","content":') > 0
        ORDER BY id, turn LIMIT $limit""",
        {"tenant": tenant, "sessions": session_ids, "limit": limit},
    )
    return [(session_id, turn) for session_id, turn in found]


def rate(connection: Connection, rating: RatingRow) -> bool:
    """Store a rating in place of an earlier one; return false if the review is not open or has no such target.

    Raises RowRefused for one rater more than RATERS_MAX. Within a transaction.
    """
    parameters = _target(rating.tenant, rating.review_id, rating.session_id, rating.turn)
    is_open = f"""SELECT 1 FROM review_targets JOIN reviews USING (tenant, review_id)
        WHERE {_TARGET} AND closed_at IS NULL"""  # noqa: S608
    if not connection.rows(is_open, parameters):
        return False
    select = f"SELECT count(DISTINCT rater) FROM ratings WHERE {_ONE} AND rater != $rater"  # noqa: S608
    raters = connection.rows(select, {"tenant": rating.tenant, "review_id": rating.review_id, "rater": rating.rater})
    if raters[0][0] >= RATERS_MAX:
        raise RowRefused(f"a review has at most {RATERS_MAX} raters")
    delete_rows(connection, "ratings", parameters | {"rater": rating.rater})
    connection.insert("ratings", [rating])
    return True


def rating(
    connection: Connection, tenant: str, review_id: str, session_id: str, turn: int | None, rater: str
) -> RatingRow | None:
    """Return the rating of a target by a rater."""
    values = _target(tenant, review_id, session_id, turn) | {"rater": rater}
    return find_row(connection, RatingRow, "ratings", values)


def ratings(
    connection: Connection,
    tenant: str,
    review_id: str,
    *,
    rater: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Page[RatingRow]:
    """Return a page of the ratings of a review, or of those of one rater, by target and rater.

    Raises CursorInvalid.
    """
    source = f"(SELECT r.*, t.number FROM ratings AS r JOIN review_targets AS t ON {_RATED}) AS listed"  # noqa: S608
    which: Parameters = {"tenant": tenant, "review_id": review_id, "rater": rater}
    order = {"number": int, "rater": str}
    found = fetch_page(connection, _NumberedRating, source, which, order, limit, cursor, descending=False)
    return Page(msgspec.convert(found.rows, list[RatingRow], from_attributes=True), found.next)


def _target(tenant: str, review_id: str, session_id: str, turn: int | None) -> dict[str, Scalar]:
    return {"tenant": tenant, "review_id": review_id, "session_id": as_uuid(session_id), "turn": turn}
