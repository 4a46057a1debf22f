"""Reviews: created over sessions of the tenant, rated by people, closed, exported."""

import csv
import io
import random
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import asdict

from api.auth.principal import Principal
from api.errors import ApiError, invalid_field, refusing, require_found, require_session
from api.reviews.agreement import alpha
from api.schemas.reviews import (
    TARGETS_MAX,
    Answer,
    NewRating,
    NewReview,
    Question,
    QuestionAgreement,
    RatingView,
    ReviewView,
    SessionChoice,
)
from api.schemas.timestamps import utc_text
from runtime.state.ports import Clock, Ids
from store.interface.errors import RowRefused
from store.interface.list_rows import SessionFilter
from store.interface.pages import PAGE_MAX, Page, all_pages
from store.interface.review_rows import ListedTarget, QuestionRow, RatingRow, ReviewRow, TargetRow
from store.interface.rows import is_uuid
from store.store import Store

T = TypeVar("T")
COLUMNS = ("session_id", "turn", "rater", "question", "answer", "rated_at")


class Reviews(Struct, frozen=True):
    """The reviews of all tenants."""

    store: Store
    clock: Clock
    ids: Ids

    async def create(self, tenant: str, new: NewReview) -> ReviewRow:
        """Create a review. Raises ApiError REQUEST_INVALID, SESSION_NOT_FOUND, REVIEWS_FULL."""
        questions = [_question(each) for each in new.questions]
        if len({each.question_id for each in questions}) < len(questions):
            raise invalid_field("questions", "an id occurs twice")
        row = ReviewRow(
            tenant=tenant,
            review_id=self.ids(),
            name=new.name,
            instructions=new.instructions,
            unit=new.unit,
            questions=questions,
            is_blind=new.blind,
            created_at=self.clock(),
        )
        targets = await self._targets(row, new)
        if not targets:
            raise invalid_field("sessions", "there is nothing to rate; change the conditions")
        with refusing("REVIEWS_FULL", RowRefused):
            await self.store.reviews.add(row, targets)
        return row

    async def get(self, tenant: str, review_id: str) -> ReviewRow:
        """Return a review. Raises ApiError REVIEW_NOT_FOUND."""
        return _require(await self.store.reviews.get(tenant, review_id), review_id)

    async def close(self, tenant: str, review_id: str) -> ReviewRow:
        """Close a review; without effect if it is closed. Raises ApiError REVIEW_NOT_FOUND."""
        await self.store.reviews.close(tenant, review_id, self.clock())
        return await self.get(tenant, review_id)

    async def delete(self, tenant: str, review_id: str) -> None:
        """Delete a review with its ratings. Raises ApiError REVIEW_NOT_FOUND."""
        _require(await self.store.reviews.delete(tenant, review_id), review_id)

    async def targets(self, principal: Principal, review_id: str, limit: int, cursor: str | None) -> Page[ListedTarget]:
        """Return a page of what is rated. Raises ApiError REVIEW_NOT_FOUND."""
        await self.get(principal.tenant, review_id)
        return await self.store.reviews.targets(
            principal.tenant, review_id, principal.person, limit=limit, cursor=cursor
        )

    async def rate(self, principal: Principal, review_id: str, new: NewRating) -> RatingRow:
        """Store the rating of the sender. Raises ApiError REVIEW_NOT_FOUND, REVIEW_CLOSED, TARGET_NOT_FOUND,
        REQUEST_INVALID.
        """
        review = await self.get(principal.tenant, review_id)
        answers, texts = _check_answers(review, new)
        row = RatingRow(
            tenant=principal.tenant,
            review_id=review_id,
            session_id=new.session_id,
            turn=new.turn,
            rater=principal.person,
            answers=answers,
            texts=texts,
            rated_at=self.clock(),
        )
        with refusing("REQUEST_INVALID", RowRefused):
            is_stored = await self.store.reviews.rate(row)
        if not is_stored:
            review = await self.get(principal.tenant, review_id)
            if review.closed_at is not None:
                raise ApiError("REVIEW_CLOSED", f"review {review_id} is closed")
            raise ApiError("TARGET_NOT_FOUND", "the review has no such target")
        return row

    async def ratings(
        self, principal: Principal, review_id: str, *, mine: bool, limit: int, cursor: str | None
    ) -> Page[RatingRow]:
        """Return a page of ratings; of a blind review that is open, only those of the sender, except for an admin.

        Raises ApiError REVIEW_NOT_FOUND.
        """
        review = await self.get(principal.tenant, review_id)
        rater = principal.person if mine else _only_rater(review, principal)
        return await self.store.reviews.ratings(principal.tenant, review_id, rater=rater, limit=limit, cursor=cursor)

    async def agreement(self, tenant: str, review_id: str) -> list[QuestionAgreement]:
        """Return the agreement on each scale and choice. Raises ApiError REVIEW_NOT_FOUND."""
        review = await self.get(tenant, review_id)
        rows = [row async for row in self._all_ratings(review, None)]
        asked = [each for each in review.questions if each.kind != "text"]
        return [_agreement(each, rows) for each in asked]

    async def export(self, principal: Principal, review_id: str) -> str:
        """Return the ratings that the sender may see as CSV, one row for each answer. Raises ApiError
        REVIEW_NOT_FOUND.
        """
        review = await self.get(principal.tenant, review_id)
        output = io.StringIO()
        writer = csv.writer(output, lineterminator="\n")
        writer.writerow(COLUMNS)
        async for row in self._all_ratings(review, _only_rater(review, principal)):
            for question, answer in answers_of(row).items():
                writer.writerow((row.session_id, row.turn, row.rater, question, answer, utc_text(row.rated_at)))
        return output.getvalue()

    async def _all_ratings(self, review: ReviewRow, rater: str | None) -> AsyncIterator[RatingRow]:
        read = partial(self.store.reviews.ratings, review.tenant, review.review_id, rater=rater)
        async for rows in all_pages(read, PAGE_MAX):
            for row in rows:
                yield row

    async def _targets(self, review: ReviewRow, new: NewReview) -> list[TargetRow]:
        """Return what is rated: all that is chosen, or a sample, in the order of the choice."""
        sessions = await self._sessions(review.tenant, new)
        found: list[tuple[str, int | None]] = [(each, None) for each in sessions]
        if new.unit == "turn":
            turns = await self.store.reviews.turns_of(review.tenant, sessions, TARGETS_MAX)
            place = {session_id: at for at, session_id in enumerate(sessions)}
            found = [(session_id, turn) for session_id, turn in sorted(turns, key=lambda each: place[each[0]])]
        if new.sample is not None and new.sample < len(found):
            drawn = random.Random(review.review_id).sample(range(len(found)), new.sample)  # noqa: S311  (not secret)
            found = [found[at] for at in sorted(drawn)]
        return [
            TargetRow(tenant=review.tenant, review_id=review.review_id, number=number, session_id=session_id, turn=turn)
            for number, (session_id, turn) in enumerate(found, start=1)
        ]

    async def _sessions(self, tenant: str, new: NewReview) -> list[str]:
        if new.session_ids is not None:
            for session_id in new.session_ids:
                known = await self.store.sessions.start(tenant, session_id) if is_uuid(session_id) else None
                require_session(known, session_id)
            return list(dict.fromkeys(new.session_ids))
        chosen = asdict(new.sessions or SessionChoice())
        which = SessionFilter(script=chosen.pop("script_id"), **chosen)
        page = await self.store.sessions.page(tenant, which, order="created", limit=TARGETS_MAX)
        return [row.session_id for row in page.rows]


def _require(found: T | None, review_id: str) -> T:
    return require_found(found, "REVIEW_NOT_FOUND", f"there is no review {review_id}")


def _only_rater(review: ReviewRow, principal: Principal) -> str | None:
    """Return the only rater whose ratings a sender may see; None for all of them."""
    is_blind = review.is_blind and review.closed_at is None and "admin" not in principal.roles
    return principal.person if is_blind else None


def answers_of(row: RatingRow) -> dict[str, Answer]:
    """Return all answers of a rating by question."""
    return {**row.answers, **row.texts}


def review_view(row: ReviewRow) -> ReviewView:
    """Return a review as the API shows it."""
    questions = [Question(**asdict(each)) for each in row.questions]
    return ReviewView.of(row, questions=questions, blind=row.is_blind)


def rating_view(row: RatingRow) -> RatingView:
    """Return a rating as the API shows it."""
    return RatingView.of(row, answers=answers_of(row))


def _question(new: Question) -> QuestionRow:
    """Return a question. Raises ApiError REQUEST_INVALID."""
    name = f"questions.{new.question_id}"
    if new.kind == "scale" and (new.min is None or new.max is None or new.min >= new.max):
        raise invalid_field(name, "a scale needs `min` and `max`, such as 1 and 5")
    if new.kind == "choice" and (len(new.choices) < 2 or len(set(new.choices)) < len(new.choices)):
        raise invalid_field(name, "a choice needs two or more different `choices`")
    if new.kind != "scale" and (new.min is not None or new.max is not None):
        raise invalid_field(name, "only a scale has `min` and `max`")
    if new.kind != "choice" and new.choices:
        raise invalid_field(name, "only a choice has `choices`")
    return QuestionRow(**asdict(new))


def _check_answers(review: ReviewRow, new: NewRating) -> tuple[dict[str, int | str], dict[str, str]]:
    """Return the answers to scales and choices, and those in words. Raises ApiError REQUEST_INVALID."""
    questions = {each.question_id: each for each in review.questions}
    answers: dict[str, int | str] = {}
    texts: dict[str, str] = {}
    for name, answer in new.answers.items():
        question = questions.get(name)
        if question is None:
            raise invalid_field(f"answers.{name}", f"the review has no such question; there are {', '.join(questions)}")
        problem = _problem(question, answer)
        if problem:
            raise invalid_field(f"answers.{name}", problem)
        if question.kind == "text":
            texts[name] = str(answer)
        else:
            answers[name] = answer
    return answers, texts


def _problem(question: QuestionRow, answer: Answer) -> str:
    match question.kind:
        case "scale":
            if not isinstance(answer, int) or question.min is None or question.max is None:
                return "a whole number is needed"
            is_inside = question.min <= answer <= question.max
            return "" if is_inside else f"{answer} is not from {question.min} to {question.max}"
        case "choice":
            return "" if answer in question.choices else f"{answer!r} is not one of {', '.join(question.choices)}"
        case "text":
            return "" if isinstance(answer, str) else "a text is needed"


def _agreement(question: QuestionRow, rows: Sequence[RatingRow]) -> QuestionAgreement:
    name = question.question_id
    given = [row for row in rows if name in row.answers]
    units: dict[tuple[str, int | None], list[int]] = {}
    for row in given:
        units.setdefault((row.session_id, row.turn), []).append(_number(question, row.answers[name]))
    values = list(units.values())
    is_scale = question.kind == "scale"
    return QuestionAgreement(
        question_id=name,
        kind=question.kind,
        raters=len({row.rater for row in given}),
        ratings=len(given),
        compared=sum(len(each) > 1 for each in values),
        nominal=alpha(values, "nominal"),
        ordinal=alpha(values, "ordinal") if is_scale else None,
        interval=alpha(values, "interval") if is_scale else None,
    )


def _number(question: QuestionRow, answer: int | str) -> int:
    """Return the number of a scale, or the place of a choice."""
    return answer if isinstance(answer, int) else question.choices.index(answer)
