"""Store and list reviews, what is rated in them, and the ratings."""

from collections.abc import Sequence
from datetime import datetime

from store.duckdb.fetch import Cursor, Parameters, fetch, fetch_one, fetch_page, utc
from store.duckdb.insert import as_list, insert, insert_statement
from store.interface.encoding import encode
from store.interface.errors import RowRefused
from store.interface.pages import Page, bounded, cursor_of, position_of
from store.interface.review_rows import RatingRow, ReviewRow, TargetListed, TargetRow


class _Numbered(RatingRow, frozen=True, kw_only=True):
    number: int  # of its target


REVIEWS_MAX = 1_000
"""Maximum number of reviews of one tenant."""
RATERS_MAX = 100
"""Maximum number of raters of one review."""

_REVIEWS = f"SELECT * {utc('created_at', 'closed_at')} FROM reviews"  # noqa: S608
_RATINGS = f"SELECT * {utc('rated_at')} FROM ratings"  # noqa: S608
_ONE = "tenant = $tenant AND review_id = $review_id"
_TARGET = f"{_ONE} AND session_id = try_cast($session_id AS UUID) AND turn IS NOT DISTINCT FROM $turn"


def add_review(cursor: Cursor, review: ReviewRow, targets: Sequence[TargetRow]) -> None:
    """Add a review. Raises RowRefused if its tenant has REVIEWS_MAX. Within a transaction."""
    found = cursor.execute("SELECT count(*) FROM reviews WHERE tenant = ?", [review.tenant]).fetchall()
    if found[0][0] >= REVIEWS_MAX:
        raise RowRefused(f"there are {REVIEWS_MAX} reviews already; delete some")
    insert(cursor, "reviews", review)
    cursor.execute(insert_statement(cursor, "review_targets"), [as_list(map(encode, targets))])


def close_review(cursor: Cursor, tenant: str, review_id: str, at: datetime) -> bool:
    """Close a review; return whether it was open. Within a transaction."""
    found = cursor.execute(
        f"UPDATE reviews SET closed_at = $at::TIMESTAMPTZ WHERE {_ONE} AND closed_at IS NULL",  # noqa: S608
        {"tenant": tenant, "review_id": review_id, "at": at.isoformat()},
    )
    return found.fetchall() == [(1,)]


def delete_review(cursor: Cursor, tenant: str, review_id: str) -> bool:
    """Delete a review with its ratings; return whether there was one. Within a transaction."""
    parameters = {"tenant": tenant, "review_id": review_id}
    for table in ("ratings", "review_targets"):
        cursor.execute(f"DELETE FROM {table} WHERE {_ONE}", parameters)  # noqa: S608
    return cursor.execute(f"DELETE FROM reviews WHERE {_ONE}", parameters).fetchall() == [(1,)]  # noqa: S608


def review(cursor: Cursor, tenant: str, review_id: str) -> ReviewRow | None:
    """Return a review of a tenant."""
    return fetch_one(cursor, ReviewRow, f"{_REVIEWS} WHERE {_ONE}", {"tenant": tenant, "review_id": review_id})


def reviews(reader: Cursor, tenant: str, *, limit: int = 50, cursor: str | None = None) -> Page[ReviewRow]:
    """Return a page of a tenant's reviews, the newest first."""
    select = f"""
        {_REVIEWS} WHERE tenant = $tenant
            AND ($after_time IS NULL OR (reviews.created_at, review_id) < ($after_time::TIMESTAMPTZ, $after_id))
        ORDER BY reviews.created_at DESC, review_id DESC LIMIT $limit"""
    return fetch_page(
        reader, ReviewRow, select, {"tenant": tenant}, limit, cursor, lambda row: (row.created_at, row.review_id)
    )


def targets(
    reader: Cursor, tenant: str, review_id: str, rater: str, *, limit: int = 50, cursor: str | None = None
) -> Page[TargetListed]:
    """Return a page of what is rated in a review, in order, with the progress of a rater."""
    limit = bounded(limit)
    (after,) = (0,) if cursor is None else position_of(cursor, tuple[int])
    select = f"""
        SELECT t.*, (SELECT count(*) FROM ratings AS r WHERE {_RATED}) AS ratings,
            EXISTS (FROM ratings AS r WHERE {_RATED} AND r.rater = $rater) AS is_rated
        FROM review_targets AS t WHERE t.tenant = $tenant AND t.review_id = $review_id AND t.number > $after
        ORDER BY t.number LIMIT $limit"""  # noqa: S608
    parameters: Parameters = {"tenant": tenant, "review_id": review_id, "rater": rater}
    rows = fetch(reader, TargetListed, select, parameters | {"after": after, "limit": limit + 1})
    return Page(rows[:limit], cursor_of((rows[limit - 1].number,)) if len(rows) > limit else None)


_RATED = """r.tenant = t.tenant AND r.review_id = t.review_id AND r.session_id = t.session_id
    AND r.turn IS NOT DISTINCT FROM t.turn"""


def turns_of(cursor: Cursor, tenant: str, session_ids: list[str], limit: int) -> list[tuple[str, int]]:
    """Return the first `limit` turns of sessions in which the user says something."""
    return cursor.execute(
        """SELECT session_id::VARCHAR AS id, turn FROM turns
        WHERE tenant = $tenant AND session_id IN (SELECT unnest($sessions::UUID[]))
            AND contains(messages, '"role":"user","content":')
        ORDER BY id, turn LIMIT $limit""",
        {"tenant": tenant, "sessions": session_ids, "limit": limit},
    ).fetchall()


def rate(cursor: Cursor, rating: RatingRow) -> bool:
    """Store a rating in place of an earlier one; return false if the review is not open or has no such target.

    Raises RowRefused for one rater more than RATERS_MAX. Within a transaction.
    """
    parameters = _target(rating.tenant, rating.review_id, rating.session_id, rating.turn)
    is_open = f"""SELECT 1 FROM review_targets JOIN reviews USING (tenant, review_id)
        WHERE {_TARGET} AND closed_at IS NULL"""  # noqa: S608
    if not cursor.execute(is_open, parameters).fetchall():
        return False
    raters = cursor.execute(
        f"SELECT count(DISTINCT rater) FROM ratings WHERE {_ONE} AND rater != $rater",  # noqa: S608
        {"tenant": rating.tenant, "review_id": rating.review_id, "rater": rating.rater},
    ).fetchall()
    if raters[0][0] >= RATERS_MAX:
        raise RowRefused(f"a review has at most {RATERS_MAX} raters")
    cursor.execute(f"DELETE FROM ratings WHERE {_TARGET} AND rater = $rater", parameters | {"rater": rating.rater})  # noqa: S608
    insert(cursor, "ratings", rating)
    return True


def rating(
    cursor: Cursor, tenant: str, review_id: str, session_id: str, turn: int | None, rater: str
) -> RatingRow | None:
    """Return the rating of a target by a rater."""
    parameters = _target(tenant, review_id, session_id, turn) | {"rater": rater}
    return fetch_one(cursor, RatingRow, f"{_RATINGS} WHERE {_TARGET} AND rater = $rater", parameters)


def ratings(
    reader: Cursor,
    tenant: str,
    review_id: str,
    *,
    rater: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Page[RatingRow]:
    """Return a page of the ratings of a review, or of those of one rater, by target and rater."""
    limit = bounded(limit)
    number, after = (0, "") if cursor is None else position_of(cursor, tuple[int, str])
    select = f"""
        SELECT r.*, t.number FROM ({_RATINGS} WHERE {_ONE} AND ($rater IS NULL OR rater = $rater)) AS r
        JOIN review_targets AS t ON {_RATED} WHERE (t.number, r.rater) > ($number, $after)
        ORDER BY t.number, r.rater LIMIT $limit"""  # noqa: S608
    parameters: Parameters = {"tenant": tenant, "review_id": review_id, "rater": rater}
    found = fetch(reader, _Numbered, select, parameters | {"number": number, "after": after, "limit": limit + 1})
    rows = [RatingRow(**{name: getattr(row, name) for name in RatingRow.__struct_fields__}) for row in found[:limit]]
    last = found[limit - 1] if len(found) > limit else None
    return Page(rows, None if last is None else cursor_of((last.number, last.rater)))


def _target(tenant: str, review_id: str, session_id: str, turn: int | None) -> Parameters:
    return {"tenant": tenant, "review_id": review_id, "session_id": session_id, "turn": turn}
