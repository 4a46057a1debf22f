"""Reviews: raters answer the same questions about sessions, without seeing each other's answers."""

import csv
import io
import random
from pathlib import Path
from typing import Any

import pytest

from api.reviews import reviews
from store.sql import reviews as stored
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp
from tests.support.pairwise_agreement import by_pairs

QUESTIONS = [
    {"questionId": "warm", "text": "How warm?", "kind": "scale", "min": 1, "max": 5},
    {"questionId": "safe", "text": "Safe?", "kind": "choice", "choices": ["yes", "no"]},
    {"questionId": "remarks", "text": "What else?", "kind": "text"},
]


class Raters:
    """Sessions, a review of them, and two raters beside an admin."""

    def __init__(self, api: ApiClient, sessions: list[str], review: dict[str, Any], keys: dict[str, str]) -> None:
        self.api = api
        self.sessions = sessions
        api.headers["Authorization"] = keys["admin"]
        self.path = f"/api/reviews/{review['reviewId']}"
        self._keys = keys

    async def ask(self, who: str, method: str, path: str = "", body: Any = None, **query: Any) -> Any:
        headers = {"Authorization": self._keys[who]}
        return await self.api.request(method, self.path + path, json=body, params=query, headers=headers)

    async def rate(self, who: str, session: str, **answers: Any) -> Any:
        return await self.ask(who, "PUT", "/ratings", {"sessionId": session, "answers": answers})


@pytest.fixture
async def raters(api: ApiClient) -> Raters:
    sessions = []
    for number in range(4):
        session = await api.create_session("visit", user=f"user{number}")
        await api.send_texts(session, "Ana")
        sessions.append(session["sessionId"])
    keys = {name: await api.create_key("reader", name=name) for name in ("rita", "omar")}
    keys["admin"] = await api.create_key("admin", name="admin")
    created = await api.post(
        "/api/reviews",
        json={"name": "Warmth", "questions": QUESTIONS, "sessionIds": sessions},
        headers={"Authorization": keys["admin"]},
    )
    assert created.status_code == 201, created.text
    assert created.headers["location"] == f"/api/reviews/{created.json()['reviewId']}"
    return Raters(api, sessions, created.json(), keys)


async def test_targets_come_in_order_with_the_progress_of_who_asks(raters: Raters) -> None:
    assert (await raters.rate("rita", raters.sessions[1], warm=4)).status_code == 200
    assert (await raters.rate("omar", raters.sessions[1], warm=5)).status_code == 200
    first = (await raters.ask("rita", "GET", "/targets", limit=3)).json()
    rest = (await raters.ask("rita", "GET", "/targets", cursor=first["nextCursor"])).json()
    assert rest["nextCursor"] is None
    listed = first["data"] + rest["data"]
    assert [each["sessionId"] for each in listed] == raters.sessions
    assert [(each["number"], each["ratings"], each["isRated"]) for each in listed] == [
        (1, 0, False),
        (2, 2, True),
        (3, 0, False),
        (4, 0, False),
    ]


async def test_raters_are_blind_until_the_review_is_closed(raters: Raters) -> None:
    await raters.rate("rita", raters.sessions[0], warm=4, safe="yes", remarks="Kind words.")
    await raters.rate("omar", raters.sessions[0], warm=1)
    (seen,) = (await raters.ask("omar", "GET", "/ratings")).json()["data"]
    assert (seen["rater"], seen["answers"]) == ("omar", {"warm": 1})
    assert "Kind words." not in (await raters.ask("omar", "GET", "/export")).text
    assert len((await raters.ask("admin", "GET", "/ratings")).json()["data"]) == 2
    assert (await raters.ask("admin", "POST", "/close")).json()["closedAt"] is not None
    shown = (await raters.ask("omar", "GET", "/ratings")).json()["data"]
    assert [each["rater"] for each in shown] == ["omar", "rita"]
    assert len((await raters.ask("omar", "GET", "/ratings", mine=True)).json()["data"]) == 1


async def test_a_rating_is_replaced_until_the_review_is_closed(raters: Raters) -> None:
    for warm in (2, 3):
        await raters.rate("rita", raters.sessions[0], warm=warm, remarks="x")
    (row,) = (await raters.ask("rita", "GET", "/ratings")).json()["data"]
    assert row["answers"] == {"warm": 3, "remarks": "x"}
    await raters.ask("admin", "POST", "/close")
    refused = await raters.rate("rita", raters.sessions[0], warm=1)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "REVIEW_CLOSED")


@pytest.mark.gate
@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({"warm": 6}, "answers.warm: 6 is not from 1 to 5"),
        ({"warm": "much"}, "answers.warm: a whole number is needed"),
        ({"safe": "maybe"}, "answers.safe: 'maybe' is not one of yes, no"),
        ({"remarks": 3}, "answers.remarks: a text is needed"),
        ({"cold": 3}, "answers.cold: the review has no such question; there are warm, safe, remarks"),
    ],
)
async def test_answers_that_do_not_fit_are_refused(raters: Raters, answers: dict[str, Any], says: str) -> None:
    refused = await raters.rate("rita", raters.sessions[0], **answers)
    assert (refused.status_code, refused.json()["error"]["message"]) == (400, says)
    assert (await raters.ask("rita", "GET", "/ratings")).json()["data"] == []


@pytest.mark.parametrize(
    ("answers", "field"),
    [
        ({"warm": 3, "remarks": 2.5}, "answers.remarks"),
        ({"warm": 3, "remarks": "x" * 100_001}, "answers.remarks"),
        ({"no such name": 1}, "answers"),
        ({"cold": 3}, "answers.cold"),
    ],
)
async def test_a_refused_rating_names_its_question(raters: Raters, answers: dict[str, Any], field: str) -> None:
    refused = await raters.rate("rita", raters.sessions[0], **answers)
    (detail,) = refused.json()["error"]["details"]
    assert (refused.status_code, detail["field"]) == (400, field)


async def test_only_targets_are_rated(raters: Raters) -> None:
    other = await raters.api.create_session("visit")
    refused = await raters.rate("rita", other["sessionId"], warm=3)
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "TARGET_NOT_FOUND")


async def test_agreement_and_export_are_of_all_ratings(raters: Raters, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reviews, "PAGE_MAX", 2)
    for who, values in {"rita": (1, 2, 3, 5), "omar": (1, 2, 4, 5)}.items():
        for session, warm in zip(raters.sessions, values, strict=True):
            await raters.rate(who, session, warm=warm, safe="yes", remarks='He said "no", then left.')
    warm, safe = (await raters.ask("rita", "GET", "/agreement")).json()["data"]
    assert (warm["questionId"], warm["raters"], warm["ratings"], warm["compared"]) == ("warm", 2, 8, 4)
    assert 0.5 < warm["nominal"] < warm["ordinal"] < 1
    assert 0.5 < warm["interval"] < 1
    assert (safe["nominal"], safe["ordinal"]) == (None, None)  # all answers are the same
    rows = list(csv.DictReader(io.StringIO((await raters.ask("admin", "GET", "/export")).text)))
    assert len(rows) == 24
    assert {row["answer"] for row in rows if row["question"] == "remarks"} == {'He said "no", then left.'}
    assert all(row["rated_at"].endswith("Z") for row in rows)
    assert [row["session_id"] for row in rows[:6]] == [raters.sessions[0]] * 6


@pytest.mark.gate
async def test_agreement_of_two_raters_equals_independent_computation(api: ApiClient) -> None:
    dice = random.Random(7)
    sessions = [(await api.create_session("visit", user=f"user{number}"))["sessionId"] for number in range(40)]
    body = {"name": "Forty", "questions": QUESTIONS, "sessions": {"scriptId": "visit"}, "sample": 40}
    review = (await api.post("/api/reviews", json=body)).json()["reviewId"]
    keys = {name: {"Authorization": await api.create_key("reader", name=name)} for name in ("rita", "omar")}
    given: dict[str, list[list[int]]] = {"warm": [], "safe": []}
    for session in sessions:
        warm, safe = dice.randint(1, 5), dice.randint(0, 1)
        values = [(warm, safe), (min(5, warm + dice.randint(0, 1)), dice.choice([safe, safe, 1 - safe]))]
        for headers, (its_warm, its_safe) in zip(keys.values(), values, strict=True):
            answers = {"warm": its_warm, "safe": ["yes", "no"][its_safe]}
            rating = {"sessionId": session, "answers": answers}
            stored = await api.put(f"/api/reviews/{review}/ratings", json=rating, headers=headers)
            assert stored.status_code == 200, stored.text
        for name, pair in zip(given, zip(*values, strict=True), strict=True):
            given[name].append([*pair])
    own = (await api.get(f"/api/reviews/{review}/ratings", params={"limit": 200}, headers=keys["rita"])).json()["data"]
    assert (len(own), {row["rater"] for row in own}) == (40, {"rita"})
    agreement = (await api.get(f"/api/reviews/{review}/agreement", headers=keys["rita"])).json()["data"]
    warm_row, safe_row = agreement
    for level in ("nominal", "ordinal", "interval"):
        assert warm_row[level] == pytest.approx(by_pairs(given["warm"], level))
    assert safe_row["nominal"] == pytest.approx(by_pairs(given["safe"], "nominal"))


async def test_sessions_are_chosen_by_conditions_and_drawn_at_random(api: ApiClient) -> None:
    for number in range(6):
        session = await api.create_session("visit", user=f"user{number}")
        await api.send_texts(session, "Ana")
    body = {"name": "Drawn", "questions": QUESTIONS, "sample": 3}

    async def targets_of(**changes: Any) -> list[tuple[str, int | None]]:
        created = await api.post("/api/reviews", json=body | changes)
        assert created.status_code == 201, created.text
        rows = (await api.read(f"/api/reviews/{created.json()['reviewId']}/targets"))["data"]
        return [(row["sessionId"], row["turn"]) for row in rows]

    assert len(set(await targets_of())) == 3
    assert len(await targets_of(sample=100)) == 6
    ((_, turn),) = await targets_of(unit="turn", sessions={"userId": "user3"})
    assert turn == 1
    assert len(await targets_of(sessions={"scriptId": "visit", "status": "active"}, sample=2)) == 2
    for changes in ({"sessions": {"userId": "nobody"}}, {"sessions": {"createdAfter": "2026-01-01T00:00:00"}}):
        refused = await api.post("/api/reviews", json=body | changes)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "REQUEST_INVALID")


@pytest.mark.gate
@pytest.mark.parametrize(
    ("question", "says"),
    [
        ({"kind": "scale"}, "a scale needs `min` and `max`"),
        ({"kind": "scale", "min": 3, "max": 3}, "a scale needs `min` and `max`"),
        ({"kind": "choice", "choices": ["a"]}, "two or more different `choices`"),
        ({"kind": "text", "min": 1}, "only a scale has"),
        ({"kind": "text", "choices": ["a"]}, "only a choice has"),
    ],
)
async def test_questions_that_cannot_be_answered_are_refused(
    raters: Raters, question: dict[str, Any], says: str
) -> None:
    asked = {"questionId": "q", "text": "?", **question}
    body = {"name": "x", "questions": [asked], "sessionIds": raters.sessions}
    refused = await raters.api.post("/api/reviews", json=body)
    assert refused.status_code == 400
    assert says in refused.json()["error"]["message"]


async def test_reviews_are_listed_deleted_and_bounded(raters: Raters, monkeypatch: pytest.MonkeyPatch) -> None:
    body = {"name": "Second", "questions": QUESTIONS, "sessionIds": raters.sessions[:1]}
    second = (await raters.api.post("/api/reviews", json=body)).json()
    first = await raters.api.read("/api/reviews", limit=1)
    assert [each["name"] for each in first["data"]] == ["Second"]
    rest = await raters.api.read("/api/reviews", cursor=first["nextCursor"])
    assert [each["name"] for each in rest["data"]] == ["Warmth"]
    monkeypatch.setattr(stored.REVIEWS, "rows_max", 2)
    full = await raters.api.post("/api/reviews", json=body)
    assert (full.status_code, full.json()["error"]["code"]) == (409, "REVIEWS_FULL")
    assert (await raters.api.delete(f"/api/reviews/{second['reviewId']}")).status_code == 204
    gone = await raters.api.get(f"/api/reviews/{second['reviewId']}")
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "REVIEW_NOT_FOUND")


async def test_ratings_go_with_their_sessions(raters: Raters) -> None:
    for session in raters.sessions[:2]:
        await raters.rate("rita", session, warm=3)
    assert (await raters.api.delete(f"/api/sessions/{raters.sessions[0]}")).status_code == 204
    listed = (await raters.ask("rita", "GET", "/targets")).json()["data"]
    assert [each["sessionId"] for each in listed] == raters.sessions[1:]
    (row,) = (await raters.ask("rita", "GET", "/ratings")).json()["data"]
    assert row["sessionId"] == raters.sessions[1]


async def test_without_keys_there_is_one_rater(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "data") as api:
        session = await api.create_session("visit")
        body = {"name": "x", "questions": QUESTIONS, "sessionIds": [session["sessionId"]]}
        review = (await api.post("/api/reviews", json=body)).json()
        rated = await api.put(
            f"/api/reviews/{review['reviewId']}/ratings",
            json={"sessionId": session["sessionId"], "answers": {"warm": 2}},
        )
        assert rated.json()["rater"] == "anonymous"


async def test_analysts_query_ratings_without_the_words_of_raters(raters: Raters) -> None:
    await raters.rate("rita", raters.sessions[0], warm=4, safe="no", remarks="Angharad cried.")
    sql = "SELECT question, kind, answer, number, text, rater FROM ratings ORDER BY question"
    for masked, rater, words in ((False, "rita", "Angharad cried."), (True, None, None)):
        answer = await raters.api.post("/api/analytics/query", json={"sql": sql, "masked": masked})
        assert answer.status_code == 200, answer.text
        rows = answer.json()["rows"]
        assert [[row[name] for name in ("question", "kind", "answer", "number", "text")] for row in rows] == [
            ["remarks", "text", None, None, words],
            ["safe", "choice", "no", None, None],
            ["warm", "scale", "4", 4.0, None],
        ]
        assert {row["rater"] == rater for row in rows} == {rater is not None}
    await raters.rate("rita", raters.sessions[0], warm=5)
    fresh = {"sql": "SELECT number FROM ratings", "masked": False, "maxAgeS": 0}
    again = await raters.api.post("/api/analytics/query", json=fresh)
    assert again.json()["rows"] == [{"number": 5.0}]
