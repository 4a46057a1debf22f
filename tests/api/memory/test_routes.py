"""Memory over HTTP: what is added, found, looked at, pinned and removed; and how what is wrong is refused."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp

OF_ANA = {"userId": "ana"}


@pytest.fixture
async def memory(app: OpenApp, tmp_path: Path) -> AsyncIterator[ApiClient]:
    """Return the application with an embedder for tests."""
    async with app(tmp_path / "data", embedder="hashed:64") as api:
        yield api


async def added(api: ApiClient, *contents: str, user: str = "ana", group: str = "diary", **fields: Any) -> list[Any]:
    units = [{"content": content, **fields} for content in contents]
    answer = await api.post("/api/memory/units", json={"userId": user, "group": group, "units": units})
    assert answer.status_code == 201, answer.text
    return list(answer.json()["data"])


async def found(api: ApiClient, text: str, **asked: Any) -> list[list[str]]:
    """Return the chains of a search, as the texts of their units."""
    answer = await api.post("/api/memory/search", json={"userId": "ana", "text": text, **asked})
    assert answer.status_code == 200, answer.text
    return [[unit["content"] for unit in chain["units"]] for chain in answer.json()["chains"]]


async def refused(api: ApiClient, status: int, code: str, **body: Any) -> str:
    """Return what a search is refused with."""
    answer = await api.post("/api/memory/search", json={"userId": "ana", **body})
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
    return str(answer.json()["error"]["message"])


async def finished(api: ApiClient, what: str, **body: Any) -> Any:
    """Return a job, when it is done."""
    answer = await api.post(f"/api/memory/{what}", json={"userId": "ana", **body}, headers={"Prefer": "wait=60"})
    assert answer.status_code == 200, answer.text
    assert answer.headers["location"] == f"/api/memory/jobs/{answer.json()['job']['jobId']}"
    assert answer.json()["job"]["status"] == "done", answer.text
    return answer.json()["job"]


# -- units ------------------------------------------------------------------------------------------------------------


async def test_what_is_added_is_found_at_once(memory: ApiClient) -> None:
    first, second = await added(memory, "I moved to Lisbon.", "My cat is called Mo.", source="Ana")
    assert [first["sequence"], second["sequence"]] == [1, 2]
    assert (first["groupId"], first["rank"], first["source"], first["trust"]) == ("diary", 0, "Ana", "conversation")
    assert (await found(memory, "Lisbon"))[0] == ["I moved to Lisbon."]


async def test_unit_is_shown_with_its_neighbours_and_not_visited(memory: ApiClient) -> None:
    first, second, third = await added(memory, "one", "two", "three")
    for _ in range(2):
        unit = (await memory.read(f"/api/memory/units/{second['unitId']}", userId="ana"))["unit"]
        assert (unit["preId"], unit["nextId"], unit["childrenIds"]) == (first["unitId"], third["unitId"], [])
        assert unit["visitCount"] == 0


async def test_a_unit_with_an_id_of_its_own_is_added_once(memory: ApiClient) -> None:
    unit = {"content": "I moved to Lisbon.", "unitId": "moved / 2026"}
    for _ in range(2):
        answer = await memory.post("/api/memory/units", json={"userId": "ana", "group": "diary", "units": [unit]})
        assert (answer.status_code, answer.json()["data"][0]["sequence"]) == (201, 1)
        assert answer.headers["location"] == "/api/memory/units/moved%20%2F%202026?userId=ana"
    assert (await memory.get(answer.headers["location"])).json()["unit"]["unitId"] == "moved / 2026"
    other = {"userId": "ana", "group": "diary", "units": [unit | {"content": "I moved to Porto."}]}
    answer = await memory.post("/api/memory/units", json=other)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "MEMORY_UNIT_EXISTS")
    assert answer.json()["error"]["message"] == "there is another unit with the id 'moved / 2026'"


@pytest.mark.parametrize("taken", ["diary", "7d0f9f0e-4d0c-4b0e-9f3a-5d1c0a6b7e11:3"])
async def test_what_a_message_or_summary_is_called_no_unit_is(memory: ApiClient, taken: str) -> None:
    await added(memory, "x")
    body = {"userId": "ana", "group": "notes", "units": [{"content": "x", "unitId": taken}]}
    answer = await memory.post("/api/memory/units", json=body)
    assert answer.status_code == 400
    why = f"'{taken}' is reserved for a message or a summary: give the unit another id"
    assert answer.json()["error"]["message"] == why


async def test_a_collection_is_not_called_as_a_unit_is(memory: ApiClient) -> None:
    (unit,) = await added(memory, "x")
    for path, more in (("units", {"units": [{"content": "y"}]}), ("groups", {})):
        answer = await memory.post(f"/api/memory/{path}", json={"userId": "ana", "group": unit["unitId"], **more})
        assert answer.status_code == 400
        assert "give the collection another name" in answer.json()["error"]["message"]


async def test_all_units_of_a_request_are_added_or_none(memory: ApiClient) -> None:
    body = {"userId": "ana", "units": [{"content": "one"}, {"content": "  "}]}
    answer = await memory.post("/api/memory/units", json=body)
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "unit 2 has no text")
    assert (await memory.read("/api/memory/units", userId="ana"))["data"] == []


@pytest.mark.gate
@pytest.mark.parametrize(
    ("unit", "why"),
    [
        ({"content": "x", "vector": [1.0, 2.0]}, "a vector must have 64 numbers, this one has 2"),
        ({"content": "x", "vector": [0.0] * 64}, "finite numbers that are not all zero"),
        ({"content": "x", "vector": [1e300] * 64}, "finite numbers that are not all zero"),
        ({"content": "x", "supersedes": "nothing"}, "there is no unit 'nothing' to be superseded"),
        ({"content": "x", "unitId": ""}, "expected a text of 1 or more characters"),
        ({"content": "x", "metadata": {"a": "b" * 30_000}}, "a text may have at most 20000 characters"),
        ({"content": "x", "colour": "red"}, "colour: there is no such field"),
    ],
)
async def test_a_unit_that_cannot_be_is_refused(memory: ApiClient, unit: Any, why: str) -> None:
    answer = await memory.post("/api/memory/units", json={"userId": "ana", "units": [unit]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "REQUEST_INVALID"), answer.text
    assert why in answer.text


async def test_a_thousand_units_are_added_at_a_time_and_no_more(memory: ApiClient) -> None:
    assert len(await added(memory, *[f"unit {number}" for number in range(1_000)])) == 1_000
    body = {"userId": "ana", "units": [{"content": "x"}] * 1_001}
    answer = await memory.post("/api/memory/units", json=body)
    assert answer.status_code == 400
    assert "1000 or fewer items" in answer.json()["error"]["message"]


async def test_units_are_listed_page_by_page_the_oldest_first(memory: ApiClient) -> None:
    await added(memory, *[f"day {number}" for number in range(5)])
    await added(memory, "a note", group="notes")
    listed, cursor = [], None
    while True:
        asked = OF_ANA | {"limit": 2, "group": "diary"} | ({"cursor": cursor} if cursor else {})
        page = await memory.read("/api/memory/units", **asked)
        listed += [unit["content"] for unit in page["data"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert listed == [f"day {number}" for number in range(5)]
    answer = await memory.get("/api/memory/units", params=OF_ANA | {"cursor": "x"})
    assert answer.json()["error"]["message"] == "cursor: it does not belong to this list"


async def test_units_are_listed_by_filter_and_rank(memory: ApiClient) -> None:
    await added(memory, "one", source="Ana")
    await added(memory, "two", source="Ben")
    listed = await memory.read("/api/memory/units", userId="ana", filters='{"source": "Ben"}', rank=0)
    assert [unit["content"] for unit in listed["data"]] == ["two"]
    assert (await memory.read("/api/memory/units", userId="ana", rank=1))["data"] == []
    for filters, why in (("{", "`filters` is not JSON"), ('{"colour": 1}', "no field 'colour'"), ("[" * 5_000, "JSON")):
        answer = await memory.get("/api/memory/units", params=OF_ANA | {"filters": filters})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "FILTER_INVALID")
        assert why in answer.json()["error"]["message"]
        assert [each["field"] for each in answer.json()["error"]["details"]] == ["filters"]


async def test_a_unit_is_pinned_and_let_go(memory: ApiClient) -> None:
    (unit,) = await added(memory, "one")
    path = f"/api/memory/units/{unit['unitId']}"
    for never_delete in (True, False):
        answer = await memory.patch(path, params=OF_ANA, json={"neverDelete": never_delete})
        assert answer.json()["unit"]["neverDelete"] is never_delete
        assert (await memory.read(path, userId="ana"))["unit"]["neverDelete"] is never_delete


async def test_a_removed_unit_is_gone_and_its_neighbours_meet(memory: ApiClient) -> None:
    first, second, third = await added(memory, "Lisbon one", "Lisbon two", "Lisbon three")
    path = f"/api/memory/units/{second['unitId']}"
    assert (await memory.delete(path, params=OF_ANA)).status_code == 204
    for answer in (
        await memory.delete(path, params=OF_ANA),
        await memory.get(path, params=OF_ANA),
        await memory.patch(path, params=OF_ANA, json={"neverDelete": True}),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "MEMORY_UNIT_NOT_FOUND")
        assert answer.json()["error"]["context"]["unitId"] == second["unitId"]
    left = (await memory.read(f"/api/memory/units/{first['unitId']}", userId="ana"))["unit"]
    assert left["nextId"] == third["unitId"]
    assert ["Lisbon two"] not in await found(memory, "Lisbon", k=10)


# -- searches ---------------------------------------------------------------------------------------------------------


async def test_a_search_says_what_speaks_for_a_hit_where_that_is_asked(memory: ApiClient) -> None:
    await added(memory, "I moved to Lisbon.", "My cat is called Mo.")
    for explain in (True, False):
        lisbon = {"content": {"$contains": "Lisbon"}}
        body = {"userId": "ana", "text": "Lisbon", "explain": explain, "recallContext": True, "filters": lisbon}
        answer = (await memory.post("/api/memory/search", json=body)).json()
        (chain,) = answer["chains"]
        hit, beside = chain["units"]
        assert (hit["isHit"], beside["isHit"], beside["score"]) == (True, False, None)
        assert hit["score"] == chain["score"]
        assert bool(hit["signals"]) is explain
        assert answer["round"] == 2


async def test_a_search_by_a_vector_finds_what_has_the_same(memory: ApiClient) -> None:
    one, other = [1.0] + [0.0] * 63, [0.0] * 63 + [1.0]
    await added(memory, "this", vector=one)
    await added(memory, "that", vector=other)
    assert (await found(memory, "", vector=other, k=1)) == [["that"]]


@pytest.mark.gate
@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ({}, "REQUEST_INVALID", "a query needs a text or a vector"),
        ({"text": "x", "vector": [1.0]}, "REQUEST_INVALID", "a vector must have 64 numbers, this one has 1"),
        (
            {"text": "x", "shortTermOnly": True, "longTermOnly": True, "group": "diary"},
            "REQUEST_INVALID",
            "a query is short-term only or long-term only, not both",
        ),
        (
            {"text": "x", "shortTermOnly": True},
            "REQUEST_INVALID",
            "a short-term memory belongs to a session or collection: name it with `group`",
        ),
        (
            {"text": "x", "externalOnly": True},
            "REQUEST_INVALID",
            "the query is external only, but names no external memory",
        ),
        (
            {"text": "x", "external": ["never"]},
            "REQUEST_INVALID",
            "there is no external memory 'never'; the settings name none",
        ),
        ({"text": "x", "filters": {"colour": "red"}}, "FILTER_INVALID", "no field 'colour'"),
        ({"text": "x", "filters": {"source": {"$near": "red"}}}, "FILTER_INVALID", "no operator '$near'"),
        ({"text": "x", "filters": [["source", "~", "red"]]}, "FILTER_INVALID", "no operator '~'"),
        ({"text": "x", "filters": 3}, "FILTER_INVALID", "3 is not a filter"),
        ({"text": "x", "k": 0}, "REQUEST_INVALID", "expected a whole number of at least 1"),
        ({"text": "x", "strategy": "magic"}, "REQUEST_INVALID", "'magic' is not one of"),
        ({"text": "x", "ranks": []}, "REQUEST_INVALID", "expected a list of 1 or more items"),
    ],
)
async def test_a_search_that_contradicts_itself_is_refused(
    memory: ApiClient, body: Any, code: str, message: str
) -> None:
    await added(memory, "one")
    assert message in await refused(memory, 400, code, **body)


async def test_short_term_memory_that_is_off_cannot_be_searched(memory: ApiClient) -> None:
    await added(memory, "one")
    why = await refused(memory, 400, "REQUEST_INVALID", text="x", group="diary", shortTermOnly=True)
    assert why == "'diary' has no short-term memory: start the group with one, or leave out `shortTermOnly`"


@pytest.mark.parametrize("option", ["excludeContext", "shortTermOnly"])
async def test_a_search_of_a_group_that_does_not_exist_is_refused(memory: ApiClient, option: str) -> None:
    await added(memory, "one")
    why = await refused(memory, 400, "REQUEST_INVALID", text="x", group="dairy", **{option: True})
    assert why == "there is no session or collection 'dairy' in this memory"


async def test_restored_short_term_memory_has_no_superseded_units(memory: ApiClient) -> None:
    await added(memory, "Tom lives in Porto.")
    for_now = None
    for city in ("Paris", "Lisbon", "Rome"):
        (unit,) = await added(memory, f"Ana lives in {city}.", supersedes=for_now)
        for_now = unit["unitId"]
    await memory.post("/api/memory/groups", json={"userId": "ana", "group": "today", "shortTerm": 2})
    restored = await memory.post("/api/memory/groups/today/restore", json=OF_ANA | {"source": "diary"})
    assert restored.json() == {"shortTerm": 2}
    said = await found(memory, "lives", group="today", shortTermOnly=True)
    assert sorted(said) == [["Ana lives in Rome."], ["Tom lives in Porto."]]


async def test_what_was_superseded_holds_no_more_but_did(memory: ApiClient) -> None:
    (old,) = await added(memory, "Ana lives in Paris.", creationTime="2026-01-01T00:00:00Z")
    await added(memory, "Ana lives in Lisbon.", creationTime="2026-03-01T00:00:00Z", supersedes=old["unitId"])
    assert await found(memory, "Where does Ana live?") == [["Ana lives in Lisbon."]]
    then = await found(memory, "Where does Ana live?", asOf="2026-02-01T00:00:00Z")
    assert then == [["Ana lives in Paris."]]


# -- sessions and collections -----------------------------------------------------------------------------------------


async def test_what_is_said_in_a_session_is_remembered(memory: ApiClient) -> None:
    session = await memory.create_session("visit")
    await memory.send_texts(session, "Ana")
    listed = await memory.read("/api/memory/units", userId="ana", group=session["sessionId"])
    transcript = await memory.transcript(session)
    assert [unit["content"] for unit in listed["data"]] == [content for _, content in transcript]
    assert [unit["unitId"] for unit in listed["data"]] == [
        f"{session['sessionId']}:{number}" for number in range(1, len(transcript) + 1)
    ]
    (group,) = (await memory.read("/api/memory/groups", userId="ana"))["data"]
    assert (group["groupId"], group["sessionId"], group["units"]) == (*[session["sessionId"]] * 2, len(transcript))


async def test_a_sessions_units_are_what_is_said_in_it(memory: ApiClient) -> None:
    session = await memory.create_session("visit")
    body = {"userId": "ana", "group": session["sessionId"], "units": [{"content": "x"}]}
    answer = await memory.post("/api/memory/units", json=body)
    assert answer.status_code == 400
    assert "add to a collection of another name" in answer.json()["error"]["message"]


async def test_collection_is_begun_once_and_the_latest_is_found_again(memory: ApiClient) -> None:
    body = {"userId": "ana", "group": "diary", "shortTerm": 3, "contextLength": 2}
    for _ in range(2):
        begun = (await memory.post("/api/memory/groups", json=body)).json()["group"]
        assert (begun["groupId"], begun["sessionId"], begun["shortTerm"]) == ("diary", None, 0)
    latest = (await memory.post("/api/memory/groups", json={"userId": "ana", "group": "LATEST"})).json()["group"]
    assert latest["groupId"] == "diary"
    assert (await memory.read("/api/memory/groups/diary", userId="ana"))["group"] == latest
    await added(memory, *"abcd")
    assert (await memory.read("/api/memory/groups/diary", userId="ana"))["group"] == {
        **latest,
        "units": 4,
        "context": 2,
        "shortTerm": 2,
    }
    for length, said in ((None, ["c", "d"]), (1, ["d"])):
        asked = OF_ANA if length is None else OF_ANA | {"length": length}
        context = await memory.read("/api/memory/groups/diary/context", **asked)
        assert [unit["content"] for unit in context["units"]] == said


async def test_groups_are_listed_page_by_page_the_oldest_first(memory: ApiClient) -> None:
    for name in ("b", "a", "c"):
        await added(memory, "x", group=name)
    first = await memory.read("/api/memory/groups", userId="ana", limit=2)
    second = await memory.read("/api/memory/groups", userId="ana", limit=2, cursor=first["nextCursor"])
    assert [group["groupId"] for group in first["data"] + second["data"]] == ["b", "a", "c"]
    assert second["nextCursor"] is None


async def test_a_collection_bears_in_mind_what_was_said_in_another(memory: ApiClient) -> None:
    await added(memory, "Lisbon is warm.", "Porto is not.", group="last week")
    await memory.post("/api/memory/groups", json={"userId": "ana", "group": "today", "shortTerm": 10})
    restored = await memory.post("/api/memory/groups/today/restore", json=OF_ANA)
    assert restored.json() == {"shortTerm": 2}
    assert await found(memory, "Lisbon", group="today", shortTermOnly=True, k=1) == [["Lisbon is warm."]]
    answer = await memory.post("/api/memory/groups/today/restore", json={"userId": "ana", "source": "never"})
    assert answer.json()["error"]["message"] == "there is no session or collection 'never' in this memory"


async def test_a_removed_collection_is_gone_and_others_stay(memory: ApiClient) -> None:
    await added(memory, "Lisbon", group="one")
    await added(memory, "Lisbon too", group="two")
    assert (await memory.delete("/api/memory/groups/one", params=OF_ANA)).status_code == 204
    assert await found(memory, "Lisbon") == [["Lisbon too"]]
    for answer in (
        await memory.delete("/api/memory/groups/one", params=OF_ANA),
        await memory.get("/api/memory/groups/one", params=OF_ANA),
        await memory.get("/api/memory/groups/one/context", params=OF_ANA),
        await memory.post("/api/memory/groups/one/restore", json=OF_ANA),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "MEMORY_GROUP_NOT_FOUND")


# -- work -------------------------------------------------------------------------------------------------------------


async def test_summaries_are_made_and_found(memory: ApiClient) -> None:
    await added(memory, *[f"Day {number}: I walked along the river in Lisbon." for number in range(5)])
    job = await finished(memory, "summarise")
    assert (job["kind"], job["result"]["units"] > 0) == ("summarise", True)
    (root,) = (await memory.read("/api/memory/units", userId="ana", rank=1))["data"]
    assert (root["unitId"], root["isExtract"], len(root["childrenIds"])) == ("diary", True, 5)
    (top,) = (await memory.read("/api/memory/units", userId="ana", rank=2))["data"]
    status = await memory.read("/api/memory/status", userId="ana")
    assert (top["unitId"], top["childrenIds"]) == (status["memoryId"], ["diary"])
    assert status["units"] == {"said": 5, "ofGroups": 1, "ofAll": 1}


async def test_a_dry_run_tells_what_would_go_and_nothing_goes(memory: ApiClient) -> None:
    await added(memory, *[f"unit {number}" for number in range(20)], group="old")
    await memory.delete("/api/memory/groups/old", params=OF_ANA)  # its context would keep the last ones
    units = await added(memory, *[f"unit {number}" for number in range(30)])
    body = {"userId": "ana", "share": 0.1, "dryRun": True}
    answer = await memory.post("/api/memory/forget", json=body)
    document = answer.json()
    assert (answer.status_code, document["job"], document["wouldGo"]["total"]) == (200, None, 2)
    assert [unit["unitId"] for unit in document["wouldGo"]["units"]] == [unit["unitId"] for unit in units[:2]]
    assert len((await memory.read("/api/memory/units", userId="ana"))["data"]) == 30
    job = await finished(memory, "forget", share=0.1)
    assert (job["done"], job["result"]) == (2, {"units": 2})
    assert len((await memory.read("/api/memory/units", userId="ana"))["data"]) == 28


async def test_another_embedder_reads_everything_on_request(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, embedder="hashed:64") as api:
        await added(api, "I moved to Lisbon.", vector=[1.0] * 64)
        status = await api.read("/api/memory/status", userId="ana")
        assert (status["embedder"]["id"], status["vectors"], status["offers"]) == ("hashed:64", {"hashed:64": 1}, [])
    async with app(tmp_path, embedder="hashed:32") as api:
        status = await api.read("/api/memory/status", userId="ana")
        assert (status["seenOtherwise"], status["offers"]) == (1, ["embed"])
        assert await found(api, "Lisbon") == [["I moved to Lisbon."]]
        assert (await finished(api, "embed"))["result"] == {"units": 1}
        status = await api.read("/api/memory/status", userId="ana")
        assert (status["vectors"], status["seenOtherwise"], status["offers"]) == ({"hashed:32": 1}, 0, [])


async def test_work_is_listed_and_seen_by_whom_it_is_for(memory: ApiClient) -> None:
    await added(memory, "one", "two")
    job = await finished(memory, "summarise", group="diary")
    assert (await memory.read(f"/api/memory/jobs/{job['jobId']}"))["job"] == job
    assert (await memory.read("/api/memory/jobs", userId="ana"))["data"] == [job]
    assert (await memory.read("/api/memory/jobs", userId="ben"))["data"] == []
    answer = await memory.get("/api/memory/jobs/nothing")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "MEMORY_JOB_NOT_FOUND")


async def test_a_client_that_does_not_wait_gets_the_url_of_the_job(memory: ApiClient) -> None:
    await added(memory, "one", "two")
    answer = await memory.post("/api/memory/summarise", json=OF_ANA)
    assert answer.status_code == 202
    looked = await memory.get(answer.headers["location"], headers={"Prefer": "wait=60"})
    assert looked.json()["job"]["status"] == "done"


async def test_a_group_that_is_not_there_is_not_summed_up(memory: ApiClient) -> None:
    answer = await memory.post("/api/memory/summarise", json={"userId": "ana", "group": "never"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "MEMORY_GROUP_NOT_FOUND")
    assert (await memory.read("/api/memory/jobs"))["data"] == []


async def test_work_on_memories_is_counted(memory: ApiClient) -> None:
    await added(memory, "one", "two")
    await finished(memory, "embed")
    counted = (await memory.get("/metrics")).text
    for name in ("memory_units_loaded 2.0", "memory_embedded_total 2.0"):
        assert f"cuebook_{name}\n" in counted, counted
    for name in ("waiting", "done_total", "failed_total"):
        assert f"\ncuebook_memory_work_{name} " in counted
    assert "\ncuebook_memory_embedding_seconds_total " in counted


async def test_a_memory_of_nothing_is_no_error(memory: ApiClient) -> None:
    status = await memory.read("/api/memory/status", userId="nobody")
    assert (status["memoryId"], status["round"], status["groups"], status["offers"]) == (None, 0, 0, [])
    assert (await memory.read("/api/memory/units", userId="nobody"))["data"] == []
    assert (await memory.post("/api/memory/search", json={"userId": "nobody", "text": "x"})).json()["chains"] == []


async def test_whose_memory_it_is_must_be_said(memory: ApiClient) -> None:
    for answer in (
        await memory.get("/api/memory/units"),
        await memory.get("/api/memory/status"),
        await memory.post("/api/memory/search", json={"text": "x"}),
        await memory.post("/api/memory/units", json={"units": [{"content": "x"}]}),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "REQUEST_INVALID")
        assert "userId" in answer.json()["error"]["message"]


# -- whose it is ------------------------------------------------------------------------------------------------------


async def test_key_bound_to_a_user_has_only_this_users_memory(memory: ApiClient) -> None:
    (unit,) = await added(memory, "Ben's secret", user="ben", group="diary")
    ana = {"Authorization": await memory.create_key("app", user="ana")}
    own = {"userId": "ana"}
    body = own | {"group": "diary", "units": [{"content": "Ana's own"}]}
    assert (await memory.post("/api/memory/units", json=body, headers=ana)).status_code == 201
    listed = (await memory.get("/api/memory/units", params=own, headers=ana)).json()["data"]
    assert [each["content"] for each in listed] == ["Ana's own"]
    assert "secret" not in (await memory.post("/api/memory/search", json=own | {"text": "secret"}, headers=ana)).text
    for answer in (
        await memory.get("/api/memory/units", params={"userId": "ben"}, headers=ana),
        await memory.post("/api/memory/search", json={"userId": "ben", "text": "secret"}, headers=ana),
        await memory.post("/api/memory/units", json=body | {"userId": "ben"}, headers=ana),
        await memory.post("/api/memory/forget", json={"userId": "ben", "share": 1.0}, headers=ana),
        await memory.get("/api/memory/jobs", params={"userId": "ben"}, headers=ana),
    ):
        assert (answer.status_code, answer.json()["error"]["message"]) == (403, "this key is bound to another user")
    assert (await memory.get(f"/api/memory/units/{unit['unitId']}", params=own, headers=ana)).status_code == 404


async def test_key_bound_to_a_user_imports_nothing_as_the_application(memory: ApiClient) -> None:
    ana = {"Authorization": await memory.create_key("app", user="ana")}
    ours = {"Authorization": await memory.create_key("app")}
    body = {"userId": "ana", "units": [{"content": "Ana is an editor.", "trust": "own"}]}
    for answer in (
        await memory.post("/api/memory/units", json=body, headers=ana),
        await memory.post("/api/memory/import", params={"userId": "ana", "trusted": "true"}, json={}, headers=ana),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN")
    added = await memory.post("/api/memory/units", json=body, headers=ours)
    assert [unit["trust"] for unit in added.json()["data"]] == ["own"]


async def test_work_on_a_memory_is_not_for_keys_of_others(memory: ApiClient) -> None:
    await added(memory, "one")
    job = await finished(memory, "summarise")
    path = f"/api/memory/jobs/{job['jobId']}"
    ben, ana = [{"Authorization": await memory.create_key("app", user=user)} for user in ("ben", "ana")]
    assert (await memory.get(path, headers=ana)).status_code == 200
    assert (await memory.get(path, headers=ben)).status_code == 404
    assert (await memory.get("/api/memory/jobs", headers=ben)).json()["data"] == []


async def test_the_memory_of_a_user_is_exported_and_erased(memory: ApiClient) -> None:
    await added(memory, "I moved to Lisbon.")
    exported = (await memory.read("/api/users/ana/export"))["memory"]
    assert [group["groupId"] for group in exported["groups"]] == ["diary"]
    assert [unit["content"] for unit in exported["units"]] == ["I moved to Lisbon."]
    erased = (await memory.delete("/api/users/ana")).json()
    assert (erased["counts"]["units"], erased["counts"]["memories"]) == (1, 1)
    assert (await memory.read("/api/memory/units", userId="ana"))["data"] == []
    assert await found(memory, "Lisbon") == []
