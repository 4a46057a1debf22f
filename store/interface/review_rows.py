"""The row types of reviews: people rate sessions, or turns of them, by the same questions."""

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

QuestionKind: TypeAlias = Literal["scale", "choice", "text"]
ReviewUnit: TypeAlias = Literal["session", "turn"]


class QuestionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A question of a review."""

    question_id: str
    text: str
    kind: QuestionKind
    min: int | None = None
    """The bounds of a scale; null for other kinds."""
    max: int | None = None
    choices: list[str] = []
    """The answers to a choice."""


class ReviewRow(msgspec.Struct, frozen=True, kw_only=True):
    """A review: its questions, and what is rated by them."""

    tenant: str
    review_id: str
    name: str
    instructions: str
    unit: ReviewUnit
    questions: list[QuestionRow]
    is_blind: bool
    """Whether raters see only their own ratings until the review is closed."""
    created_at: datetime
    closed_at: datetime | None = None


class TargetRow(msgspec.Struct, frozen=True, kw_only=True):
    """A session or a turn to rate."""

    tenant: str
    review_id: str
    number: int
    """The place in the review, from 1."""
    session_id: str
    """A UUID."""
    turn: int | None
    """Null if the whole session is rated."""


class ListedTarget(TargetRow, frozen=True, kw_only=True):
    """A target with its progress."""

    ratings: int
    """The number of raters who have rated it."""
    is_rated: bool
    """Whether the rater who asks has rated it."""


class RatingRow(msgspec.Struct, frozen=True, kw_only=True):
    """The answers of one rater about one target."""

    tenant: str
    review_id: str
    session_id: str
    turn: int | None
    rater: str
    answers: dict[str, int | str]
    """The answers to scales and choices, by question."""
    texts: dict[str, str]
    """The answers to questions for a text, by question; apart, since they may quote the user and are redacted."""
    rated_at: datetime
