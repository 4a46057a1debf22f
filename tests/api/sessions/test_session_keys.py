"""Sessions by the names applications give them, and what they note of them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from runtime.models.offline_model import OfflineModel
from runtime.state.ports import ModelFailed, ModelReply, ModelRequest, OnReply
from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp

KEYS = [
    "telegram:a_b",
    "telegram:a:b",
    "telegram:a/b",
    "telegram_a_b",
    "abc/def",
    "abc_def",
    "../../x",
    "..",
    ".",
    "a%2Fb",
    "a/b",
    "a b",
    "A b",
    "%",
    "?key=a&key=b#c",
    "'; DROP TABLE turns; --",
    "é",
    "e\u0301",
    "用户:42",
    " ",
    "x" * 200,
]
BROKEN = """
script: broken
phases: [{phase: p, topics: [{topic: t, actions: [{ai_say: Say hello., id: hello}, {ask: Name?, id: ask}]}]}]
"""


class Failing(OfflineModel):
    """The offline model, out of order for its first calls."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        if self.failures:
            self.failures -= 1
            raise ModelFailed("out of order", retryable=True)
        return await super().complete(request)


async def keyed(api: ApiClient, key: str, **fields: Any) -> tuple[int, Any]:
    answer = await api.post("/api/sessions/by-key", json={"key": key, "userId": "ana", "scriptId": "diary", **fields})
    return answer.status_code, answer.json()


async def test_a_session_is_begun_once_and_found_ever_after(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        status, begun = await keyed(api, "telegram:42", metadata={"a": 1})
        assert (status, begun["created"], begun["key"], begun["turn"]) == (201, True, "telegram:42", 0)
        assert begun["aiMessage"].startswith("Dear diary.")
        await api.send_texts(begun, "one")
    async with app(tmp_path) as api:
        status, found = await keyed(api, "telegram:42", metadata={"a": 2})
        assert (status, found["created"], found["turn"]) == (200, False, 1)
        assert (found["sessionId"], found["metadata"]["a"]) == (begun["sessionId"], 1)
        assert [message["role"] for message in found["messages"]] == ["assistant", "assistant"]
        del found["created"], found["messages"]
        assert await api.read("/api/sessions/by-key", key="telegram:42") == found
        assert await api.read(f"/api/sessions/{begun['sessionId']}") == found


async def test_fifty_requests_at_once_begin_one_session(api: ApiClient) -> None:
    answers = await asyncio.gather(*(keyed(api, "telegram:42") for _ in range(50)))
    assert sorted(status for status, _ in answers) == [200] * 49 + [201]
    assert len({found["sessionId"] for _, found in answers}) == 1
    assert len((await api.read("/api/sessions"))["data"]) == 1


@pytest.mark.gate
async def test_keys_never_meet(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        begun = {key: (await keyed(api, key))[1]["sessionId"] for key in KEYS}
        assert len(set(begun.values())) == len(KEYS)
    async with app(tmp_path) as api:
        for key in KEYS:
            found = await api.read("/api/sessions/by-key", key=key)
            assert (found["key"], found["sessionId"]) == (key, begun[key])


async def test_what_is_no_key_of_a_session_is_refused(api: ApiClient) -> None:
    assert (await keyed(api, ""))[0] == 400
    assert (await keyed(api, "x" * 201))[0] == 400
    assert (await api.post("/api/sessions/by-key", json={"userId": "ana"})).status_code == 400
    missing = await api.get("/api/sessions/by-key", params={"key": "none"})
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "SESSION_NOT_FOUND")
    assert (await keyed(api, "k", scriptId="nobody"))[1]["error"]["code"] == "SCRIPT_NOT_FOUND"
    await keyed(api, "k")
    status, refused = await keyed(api, "k", userId="ben")
    assert (status, refused["error"]["code"]) == (409, "SESSION_KEY_EXISTS")


async def test_session_that_could_not_begin_begins_at_the_next_request(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, Failing(2)) as api:
        await api.publish_script(BROKEN)
        for _ in range(2):
            status, refused = await keyed(api, "k", scriptId="broken")
            assert (status, refused["error"]["code"]) == (503, "LLM_SERVICE_ERROR")
        status, found = await keyed(api, "k", scriptId="broken")
        assert (status, found["created"], found["executionStatus"]) == (200, False, "waiting_input")
        assert len((await api.read("/api/sessions"))["data"]) == 1


async def test_free_conversation_needs_a_key_alone(api: ApiClient) -> None:
    answer = await api.post("/api/sessions/by-key", json={"key": "k", "userId": "ana"})
    assert (answer.status_code, answer.json()["wait"]) == (201, {"kind": "text"})


async def noted(api: ApiClient, session: Any, status: int = 200, **labels: Any) -> Any:
    answer = await api.patch(f"/api/sessions/{session['sessionId']}", json=labels)
    assert answer.status_code == status, answer.text
    return answer.json()


OURS = {"script", "globalVariables", "variableStore"}


def own(found: Any) -> Any:
    return {name: value for name, value in found["metadata"].items() if name not in OURS}


@pytest.mark.gate
@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [  # the cases of RFC 7396 that are about objects
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
async def test_metadata_is_merged(api: ApiClient, before: Any, patch: Any, after: Any) -> None:
    session = await api.create_session("diary", metadata=before)
    found = await noted(api, session, metadata=patch)
    assert (own(found), found["turn"]) == (after, 0)


async def test_metadata_is_stored_and_no_change_of_it_is_lost(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        session = await api.create_session("diary")
        await asyncio.gather(
            *(noted(api, session, metadata={f"n{n}": n}) for n in range(30)),
            api.send_texts(session, *map(str, range(5))),
        )
        assert own(await api.read(f"/api/sessions/{session['sessionId']}")) == {f"n{n}": n for n in range(30)}
        await api.send_texts(session, "more")
    async with app(tmp_path, session_cache_max=1) as api:
        assert own(await api.read(f"/api/sessions/{session['sessionId']}")) == {f"n{n}": n for n in range(30)}
        wide = {f"n{n}": "x" * 1_000 for n in range(900)}
        await noted(api, session, metadata=wide)
        deep: Any = 1
        for _ in range(100):
            deep = {"d": deep}
        assert (await noted(api, session, 400, metadata=deep))["error"]["code"] == "REQUEST_INVALID"


async def test_a_session_gets_a_key_once(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path) as api:
        one, two = await api.create_session("diary"), await api.create_session("diary")
        assert (await noted(api, one, key="k"))["key"] == "k"
        assert (await noted(api, one, key="k", metadata={"a": 1}))["key"] == "k"
        assert (await noted(api, two, 409, key="k", metadata={"a": 1}))["error"]["code"] == "SESSION_KEY_EXISTS"
        assert (await noted(api, one, 409, key="other"))["error"]["code"] == "INTERVENTION_REFUSED"
        assert own(await api.read(f"/api/sessions/{two['sessionId']}")) == {}
    async with app(tmp_path) as api:
        assert (await keyed(api, "k"))[1]["sessionId"] == one["sessionId"]
        assert (await noted(api, {"sessionId": "none"}, 404, key="x"))["error"]["code"] == "SESSION_NOT_FOUND"
