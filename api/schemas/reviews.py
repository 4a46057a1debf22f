"""Reviews, their targets and ratings."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, TypeAlias

from msgspec import Meta

from api.schemas.base import Body, Id, Index, Moment, Number, PageView, View
from runtime.state.state import Status
from store.interface.review_rows import QuestionKind, ReviewUnit

QUESTIONS_MAX = 50
TARGETS_MAX = 1_000
ANSWER_CHARS_MAX = 10_000
QuestionId: TypeAlias = Annotated[str, Meta(pattern="^[a-z][a-z0-9_]{0,63}$")]
Bound: TypeAlias = Annotated[int, Meta(ge=-1_000, le=1_000)]
Answer: TypeAlias = int | Annotated[str, Meta(max_length=ANSWER_CHARS_MAX)]


class Question(Body, frozen=True, kw_only=True):
    """A question that raters answer about each target."""

    question_id: QuestionId
    """Its name in ratings and in the analytics tables."""
    text: Annotated[str, Meta(min_length=1, max_length=2_000)]
    kind: QuestionKind
    min: Bound | None = None
    """The ends of a scale of whole numbers."""
    max: Bound | None = None
    choices: Annotated[list[Id], Meta(max_length=100)] = []
    """The answers to a choice."""


class SessionChoice(Body, frozen=True, kw_only=True):
    """Which sessions are rated; the newest that meet all conditions."""

    script_id: Id | None = None
    script_version: Number | None = None
    user_id: Id | None = None
    status: Status | None = None
    created_after: Moment | None = None
    created_before: Moment | None = None


class NewReview(Body, frozen=True, kw_only=True):
    """A review to create."""

    name: Id
    questions: Annotated[list[Question], Meta(min_length=1, max_length=QUESTIONS_MAX)]
    instructions: Annotated[str, Meta(max_length=ANSWER_CHARS_MAX)] = ""
    """What raters should know."""
    unit: ReviewUnit = "session"
    """`turn`: each turn of the sessions in which the user says something."""
    blind: bool = True
    """Raters see only their own ratings until the review is closed."""
    session_ids: Annotated[list[Id], Meta(min_length=1, max_length=TARGETS_MAX)] | None = None
    """The sessions; else those that `sessions` describes."""
    sessions: SessionChoice | None = None
    """Null: the newest of all."""
    sample: Annotated[int, Meta(ge=1, le=TARGETS_MAX)] | None = None
    """The number of sessions or turns to draw at random; null: all, at most 1,000."""


class ReviewView(View, frozen=True, kw_only=True):
    """A review."""

    review_id: str
    name: str
    instructions: str
    unit: ReviewUnit
    questions: list[Question]
    blind: bool
    created_at: datetime
    closed_at: datetime | None
    """Null while it is open."""


class ReviewList(PageView, frozen=True, kw_only=True):
    """A page of reviews, the newest first."""

    data: list[ReviewView]


class TargetView(View, frozen=True, kw_only=True):
    """A session or turn to rate."""

    number: int
    session_id: str
    turn: int | None
    """Null if the whole session is rated."""
    ratings: int
    """The number of raters who have rated it."""
    is_rated: bool
    """Whether the sender has rated it."""


class TargetList(PageView, frozen=True, kw_only=True):
    """A page of what is rated in a review, in order."""

    data: list[TargetView]


class NewRating(Body, frozen=True, kw_only=True):
    """The answers of the sender about a target, in place of earlier ones."""

    session_id: Id
    turn: Index | None = None
    answers: Annotated[dict[QuestionId, Answer], Meta(min_length=1, max_length=QUESTIONS_MAX)]
    """By question: a whole number for a scale, one of the choices, or a text. Questions may stay unanswered."""


class RatingView(View, frozen=True, kw_only=True):
    """A rating."""

    session_id: str
    turn: int | None
    rater: str
    """The name of the key of the rater."""
    answers: Mapping[str, Answer]
    rated_at: datetime


class RatingList(PageView, frozen=True, kw_only=True):
    """A page of ratings, by target and rater."""

    data: list[RatingView]


class QuestionAgreement(View, frozen=True, kw_only=True):
    """How well raters agree on a question: Krippendorff's alpha, 1 for full agreement, 0 for that of chance."""

    question_id: str
    kind: QuestionKind
    raters: int
    ratings: int
    compared: int
    """The targets with two answers or more."""
    nominal: float | None
    """Null if nothing can be compared, or if all answers are the same."""
    ordinal: float | None
    """For scales: with ranks; null for choices."""
    interval: float | None
    """For scales: with the squares of differences; null for choices."""


class AgreementList(PageView, frozen=True, kw_only=True):
    """A page of the agreement on each scale and choice."""

    data: list[QuestionAgreement]
