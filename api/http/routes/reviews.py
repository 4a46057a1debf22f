"""Routes for reviews: people rate sessions or turns by the same questions."""

from typing import Annotated

from litestar import Response, delete, get, post, put
from litestar.params import JSONBody

from api.http.request import PAGE_MAX, ApiRequest, Cursor, Limit, ReviewId, creating, page_of, query
from api.reviews.reviews import rating_view, review_view
from api.schemas.reviews import (
    AgreementList,
    NewRating,
    NewReview,
    RatingList,
    RatingView,
    ReviewList,
    ReviewView,
    TargetList,
    TargetView,
)

_CSV = "text/csv"


@get("/reviews", summary="List reviews")
async def list_reviews(request: ApiRequest, limit: Limit = 50, cursor: Cursor = None) -> ReviewList:
    """Return a page of reviews, the newest first."""
    page = await request.services.store.reviews.page(request.tenant, limit=limit, cursor=cursor)
    return ReviewList(data=[review_view(row) for row in page.rows], next_cursor=page.next)


@creating("/reviews", "Create a review", "the review")
async def create_review(data: JSONBody[NewReview], request: ApiRequest) -> Response[ReviewView]:
    """Choose sessions, or turns of them, and the questions by which people rate them. What is rated stays the same."""
    row = await request.services.reviews.create(request.tenant, data)
    return Response(review_view(row), headers={"Location": f"/api/reviews/{row.review_id}"})


@get("/reviews/{reviewId:str}", summary="Read a review")
async def get_review(review_id: ReviewId, request: ApiRequest) -> ReviewView:
    """Return a review."""
    return review_view(await request.services.reviews.get(request.tenant, review_id))


@post("/reviews/{reviewId:str}/close", status_code=200, summary="Close a review")
async def close_review(review_id: ReviewId, request: ApiRequest) -> ReviewView:
    """Close a review: no rating changes any more, and all raters see all ratings."""
    return review_view(await request.services.reviews.close(request.tenant, review_id))


@delete("/reviews/{reviewId:str}", summary="Delete a review")
async def delete_review(review_id: ReviewId, request: ApiRequest) -> None:
    """Delete a review with its ratings. The sessions stay."""
    await request.services.reviews.delete(request.tenant, review_id)


@get("/reviews/{reviewId:str}/targets", summary="List what is rated in a review")
async def list_targets(
    review_id: ReviewId, request: ApiRequest, limit: Limit = 50, cursor: Cursor = None
) -> TargetList:
    """Return a page of the sessions or turns of a review, in order."""
    page = await request.services.reviews.targets(request.principal, review_id, limit, cursor)
    return TargetList(data=[TargetView.of(row) for row in page.rows], next_cursor=page.next)


@put("/reviews/{reviewId:str}/ratings", summary="Rate a session or turn")
async def rate(review_id: ReviewId, data: JSONBody[NewRating], request: ApiRequest) -> RatingView:
    """Store the answers of the sender about one target, in place of earlier ones."""
    return rating_view(await request.services.reviews.rate(request.principal, review_id, data))


@get("/reviews/{reviewId:str}/ratings", summary="List ratings")
async def list_ratings(
    review_id: ReviewId,
    request: ApiRequest,
    mine: Annotated[bool, query("mine", "Only the ratings of the sender.")] = False,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> RatingList:
    """Return a page of ratings. While a blind review is open, raters see their own; an admin sees all."""
    page = await request.services.reviews.ratings(request.principal, review_id, mine=mine, limit=limit, cursor=cursor)
    return RatingList(data=[rating_view(row) for row in page.rows], next_cursor=page.next)


@get("/reviews/{reviewId:str}/agreement", summary="Read the agreement of raters")
async def get_agreement(
    review_id: ReviewId, request: ApiRequest, limit: Limit = PAGE_MAX, cursor: Cursor = None
) -> AgreementList:
    """Return Krippendorff's alpha for each scale and choice."""
    agreement = await request.services.reviews.agreement(request.tenant, review_id)
    return page_of(AgreementList, agreement, limit, cursor)


@get("/reviews/{reviewId:str}/export", media_type=_CSV, summary="Export ratings")
async def export_ratings(review_id: ReviewId, request: ApiRequest) -> Response[str]:
    """Return the ratings that the sender may see as CSV, one row for each answer."""
    return Response(await request.services.reviews.export(request.principal, review_id), media_type=_CSV)
