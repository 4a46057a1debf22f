"""Reviews, and the ratings of sessions and turns."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from store.interface.pages import Page
from store.interface.review_rows import RatingRow, ReviewRow, TargetListed, TargetRow


class ReviewRepository(Protocol):
    """Store and read reviews and ratings. Every method concerns one tenant."""

    async def add(self, review: ReviewRow, targets: Sequence[TargetRow]) -> None:
        """Add a review with what is rated. Raises RowRefused if its tenant has too many."""

    async def close(self, tenant: str, review_id: str, at: datetime) -> bool:
        """Close a review, so that no rating changes any more; return whether it was open."""

    async def delete(self, tenant: str, review_id: str) -> bool:
        """Delete a review with its ratings; return whether there was one."""

    async def get(self, tenant: str, review_id: str) -> ReviewRow | None:
        """Return a review."""

    async def page(self, tenant: str, *, limit: int = 50, cursor: str | None = None) -> Page[ReviewRow]:
        """Return a page of reviews, the newest first. Raises CursorInvalid."""

    async def targets(
        self, tenant: str, review_id: str, rater: str, *, limit: int = 50, cursor: str | None = None
    ) -> Page[TargetListed]:
        """Return a page of the targets of a review, in order, with the progress of a rater. Raises CursorInvalid."""

    async def turns_of(self, tenant: str, session_ids: list[str], limit: int) -> list[tuple[str, int]]:
        """Return the first `limit` turns of sessions in which the user says something, as session id and number."""

    async def rate(self, rating: RatingRow) -> bool:
        """Store a rating, in place of an earlier one of the same rater; return false if the review is not open or has
        no such target. Raises RowRefused if the review has too many raters.
        """

    async def rating(
        self, tenant: str, review_id: str, session_id: str, turn: int | None, rater: str
    ) -> RatingRow | None:
        """Return the rating of a target by a rater."""

    async def ratings(
        self, tenant: str, review_id: str, *, rater: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[RatingRow]:
        """Return a page of the ratings of a review, or of those of one rater, by target and rater.

        Raises CursorInvalid.
        """
