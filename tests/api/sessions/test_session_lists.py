"""Lists, searches and statistics of sessions over HTTP, and reading a conversation backwards."""

from typing import Any

import pytest

from tests.support.api_client import ApiClient

LISTED = {
    "sessionId", "userId", "key", "title", "preview", "lastMessage", "messageCount", "scriptId", "scriptKey",
    "scriptVersion", "locale", "metadata", "status", "executionStatus", "turn", "createdAt", "updatedAt",
    "redactedAt",
}  # fmt: skip


async def test_a_list_by_activity_with_titles_and_words(api: ApiClient) -> None:
    ana = await api.create_session("visit", key="telegram:1", metadata={"title": "  Ana's\n visit ", "shop": "north"})
    ben = await api.create_session("diary", user="ben")
    await api.send_texts(ana, "Ana " * 100)
    rows = (await api.read("/api/sessions"))["data"]
    assert [row["sessionId"] for row in rows] == [ana["sessionId"], ben["sessionId"]]
    assert all(set(row) == LISTED for row in rows)
    first, second = rows
    assert (first["title"], first["key"], first["scriptKey"], first["messageCount"]) == (
        "Ana's visit", "telegram:1", "visit", 5,
    )  # fmt: skip
    assert first["preview"] == ("Ana " * 100)[:119] + "…"
    assert first["lastMessage"].startswith("How old are you, Ana")
    assert (second["title"], second["preview"]) == ("diary", "Dear diary.")
    by_creation = (await api.read("/api/sessions", sort="created"))["data"]
    assert by_creation == rows[::-1]
    assert (await api.get("/api/users/ana/sessions")).json() == [first]


@pytest.mark.gate
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"userId": "ana"}, ["ana"]), ({"status": "completed"}, ["ben"]),
        ({"executionStatus": "waiting_input"}, ["ana"]),
        ({"scriptId": "diary"}, ["ben"]), ({"scriptVersion": 1}, ["ben", "ana"]), ({"scriptVersion": 2}, []),
        ({"key": "telegram:1"}, ["ana"]), ({"keyPrefix": "telegram:"}, ["ana"]), ({"metadata": "shop:north"}, ["ana"]),
        ({"metadata": ["shop:north", "n:1"]}, ["ana"]), ({"metadata": ["shop:north", "n:2"]}, []),
        ({"metadata": "time:10:30"}, ["ben"]), ({"metadata": "shop:null"}, ["ben"]), ({"metadata": "n:null"}, []),
        ({"metadata": r"a\:b:x:y"}, ["ana"]), ({"metadata": r"c\d\\:z"}, ["ana"]), ({"metadata": r"c\d\:z:"}, []),
        ({"createdAfter": "2020-01-01T00:00:00Z"}, ["ben", "ana"]),
        ({"createdBefore": "2020-01-01T00:00:00Z"}, []), ({"activeAfter": "2999-01-01T00:00:00+01:00"}, []),
        ({"activeBefore": "2999-01-01T00:00:00Z"}, ["ben", "ana"]),
    ],
)  # fmt: skip
async def test_filters_of_the_list(api: ApiClient, query: dict[str, Any], found: list[str]) -> None:
    await api.create_session("visit", key="telegram:1", metadata={"shop": "north", "n": 1, "a:b": "x:y", "c\\d\\": "z"})
    ben = await api.create_session("diary", user="ben", metadata={"time": "10:30", "shop": None})
    await api.send_texts(ben, "one", "stop")
    assert [row["userId"] for row in (await api.read("/api/sessions", **query))["data"]] == found


@pytest.mark.gate
@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/api/sessions", {"metadata": "shop"}), ("/api/sessions", {"metadata": ["a:b"] * 11}),
        ("/api/sessions", {"sort": "name"}), ("/api/sessions", {"createdAfter": "yesterday"}),
        ("/api/sessions", {"cursor": "WyJ4Il0="}), ("/api/sessions/search", {}), ("/api/sessions/search", {"q": " "}),
        ("/api/sessions/search", {"q": "a b c d e f g h i j k"}), ("/api/sessions/search", {"q": "x" * 201}),
        ("/api/sessions/search", {"q": "x", "cursor": "WyJ4Il0="}), ("/api/sessions/search", {"q": "x", "role": "me"}),
    ],
)  # fmt: skip
async def test_what_cannot_be_asked_is_named(api: ApiClient, path: str, query: dict[str, Any]) -> None:
    answer = await api.get(path, params=query)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "REQUEST_INVALID"), answer.text


async def test_a_search_shows_where_the_words_stand(api: ApiClient) -> None:
    diary = await api.create_session("diary", key="web:7")
    await api.send_texts(diary, "x" * 200 + " The Garden was quiet, the garden " + "y" * 300)
    page = await api.read("/api/sessions/search", q="GARDEN quiet", role="user")
    (hit,) = page["data"]
    assert page["nextCursor"] is None
    assert (hit["sessionId"], hit["key"], hit["title"], hit["turn"]) == (diary["sessionId"], "web:7", "diary", 1)
    message = hit["message"]
    assert (message["role"], message["number"]) == ("user", 3)
    assert [piece["text"] for piece in message["excerpt"] if piece["found"]] == ["Garden", "quiet", "garden"]
    assert message["excerpt"][0] == message["excerpt"][-1] == {"text": "…", "found": False}
    both = (await api.read("/api/sessions/search", q='"garden was"'))["data"]
    assert [found["message"]["role"] for found in both] == ["assistant", "user"]
    assert (await api.read("/api/sessions/search", q='"was garden"'))["data"] == []


async def test_a_search_in_pages(api: ApiClient) -> None:
    session = await api.create_session("diary")
    await api.send_texts(session, *(f"entry {number}" for number in range(5)))
    found, cursor = [], None
    while True:
        page = await api.read(
            "/api/sessions/search", q="entry", role="user", limit=2, **({"cursor": cursor} if cursor else {})
        )
        found += ["".join(piece["text"] for piece in hit["message"]["excerpt"]) for hit in page["data"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert found == [f"entry {number}" for number in reversed(range(5))]


async def test_what_a_session_came_to(api: ApiClient) -> None:
    session = await api.create_session("diary")
    await api.send_texts(session, "one", "three")
    stats = await api.read(f"/api/sessions/{session['sessionId']}/stats")
    by_role = {spoken["role"]: spoken for spoken in stats["byRole"]}
    assert (stats["turns"], stats["messages"]) == (3, by_role["assistant"]["messages"] + 2)
    assert by_role["user"] == {"role": "user", "messages": 2, "characters": 8, "meanCharacters": 4.0}
    assert stats["durationSeconds"] >= stats["meanAnswerSeconds"] >= 0
    assert stats["meanTurnSeconds"] >= 0
    assert stats["transcriptTokens"]["messages"] == stats["messages"]
    assert stats["transcriptTokens"]["estimate"] > stats["messages"]
    assert stats["models"] == {"calls": 0, "inputTokens": 0, "cachedTokens": 0, "outputTokens": 0, "cost": None}
    missing = await api.get("/api/sessions/none/stats")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "SESSION_NOT_FOUND")


async def test_a_conversation_is_read_backwards(api: ApiClient) -> None:
    session = await api.create_session("diary")
    await api.send_texts(session, "one", "two")
    path = f"/api/sessions/{session['sessionId']}/messages"
    forwards = (await api.read(path))["data"]
    for limit in (1, 3, 100):
        backwards, before = [], {}
        while True:
            page = await api.read(path, order="desc", limit=limit, **before)
            backwards += page["data"]
            if page["nextCursor"] is None:
                break
            before = {"cursor": page["nextCursor"]}
        assert backwards == forwards[::-1]
    within = await api.read(path, after=2, before=5)
    assert [message["number"] for message in within["data"]] == [3, 4]
    assert (await api.read(path, order="desc", after=2, before=5))["data"] == within["data"][::-1]


async def test_search_works_with_signs_of_every_kind(api: ApiClient) -> None:
    await api.create_session("diary")
    for sign in ("\x00", "'", '"', "\\", "%", "[", "(?i)", "\ud7ff", "🙂", "--", "$x", "\n"):
        for path, query in (
            ("/api/sessions/search", {"q": "a" + sign, "userId": sign, "scriptId": sign}),
            ("/api/sessions", {"key": sign, "keyPrefix": sign, "metadata": f"{sign}:{sign}", "scriptId": sign}),
        ):
            answer = await api.get(path, params=query)
            assert answer.status_code == (400 if sign in "\x00\n" else 200), (sign, answer.text)
