"""The memory of a session's user: what turns say, note, recall and take back becomes memory, and goes with them."""

from pathlib import Path
from typing import Any

from tests.support.api_client import ApiClient
from tests.support.fixture_types import OpenApp

NOTES = """
script: notes
memory: {remember: notes}
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - repeat: {max: 20}
            id: loop
            do:
              - {ask: What is to be noted?, id: ask_note, output: [{get: word, fallback: raw}]}
              - {remember: "A note: {{ word }}", id: note}
              - {recall: "{{ word }}", id: look, into: found, k: 1}
"""


async def found(api: ApiClient, text: str, **more: Any) -> list[str]:
    answer = await api.post("/api/memory/search", json={"userId": "ana", "text": text, "k": 20, **more})
    assert answer.status_code == 200, answer.text
    chains = answer.json()["chains"]
    return [unit["content"] for chain in chains for unit in chain["units"]]


async def units(api: ApiClient, **query: Any) -> list[Any]:
    return (await api.read("/api/memory/units", userId="ana", limit=100, **query))["data"]


async def test_what_was_said_is_found_in_the_very_next_request(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, embedder="none") as api:
        session = await api.create_session("chat")
        await api.send_texts(session, "My sister plays the bassoon")
        assert "My sister plays the bassoon" in await found(api, "bassoon")
        said = await units(api, group=session["sessionId"])
        assert said[0]["unitId"] == f"{session['sessionId']}:1"


async def test_notes_are_remembered_and_recalled_units_are_visited(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, embedder="none") as api:
        await api.publish_script(NOTES)
        session = await api.create_session("notes")
        await api.send_texts(session, "lemons", "pears")
        noted = await units(api)
        assert [unit["content"] for unit in noted] == ["A note: lemons", "A note: pears"]
        await api.send_texts(session, "lemons")
        lemons, pears = (await units(api))[:2]
        assert (lemons["visitCount"], pears["visitCount"]) == (1, 0)
        assert lemons["lastVisit"] > pears["lastVisit"]
        assert lemons["trust"] in {"own", "conversation"}


async def test_a_rewind_takes_what_was_said_out_of_memory(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, embedder="none") as api:
        session = await api.create_session("chat")
        await api.send_texts(session, "I like tea", "I like coffee")
        assert len(await found(api, "coffee", strategy="lexical")) >= 1
        answer = await api.post(f"/api/sessions/{session['sessionId']}/rewind", json={"turn": 1})
        assert answer.status_code == 200, answer.text
        assert not [text for text in await found(api, "coffee", strategy="lexical") if "coffee" in text]
        assert "I like tea" in await found(api, "tea", strategy="lexical")


async def test_a_clear_takes_all_messages_out_of_memory_and_no_note(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, embedder="none") as api:
        await api.publish_script(NOTES)
        notes, other = await api.create_session("notes"), await api.create_session("chat")
        talk = await api.create_session("chat")
        await api.send_texts(notes, "lemons")
        await api.send_texts(other, "I like tea")
        await api.send_texts(talk, "I like coffee")
        await api.post("/api/memory/summarise", json={"userId": "ana"}, headers={"Prefer": "wait=30"})
        await api.send_texts(talk, "I like cocoa")
        for session in (talk, notes):
            answer = await api.post(f"/api/sessions/{session['sessionId']}/clear", json={})
            assert answer.status_code == 200, answer.text
        everything = " ".join([unit["content"] for unit in await units(api)])
        assert "coffee" not in everything
        assert "cocoa" not in everything
        assert "I like tea" in everything
        assert "A note: lemons" in everything
        await api.send_texts(talk, "I like water")
        hits = await found(api, "like", strategy="lexical", filters={"source": "user"})
        assert {*hits} == {"I like tea", "I like water"}


async def test_a_fork_does_not_remember_everything_twice(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, embedder="none") as api:
        session = await api.create_session("chat")
        await api.send_texts(session, "I like tea")
        copy = await api.post(f"/api/sessions/{session['sessionId']}/fork", json={})
        assert copy.status_code == 201, copy.text
        await api.send_texts(copy.json(), "and cake")
        contents = [unit["content"] for unit in await units(api)]
        assert contents.count("I like tea") == 1
        assert contents.count("and cake") == 1


async def test_deleted_session_is_not_in_memory_and_the_rest_is(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, embedder="none") as api:
        one, other = await api.create_session("chat"), await api.create_session("chat")
        await api.send_texts(one, "I like tea")
        await api.send_texts(other, "I like coffee")
        assert len(await found(api, "like")) >= 2
        assert (await api.delete(f"/api/sessions/{one['sessionId']}")).status_code == 204
        contents = [unit["content"] for unit in await units(api)]
        assert "I like coffee" in contents
        assert "I like tea" not in contents


async def test_an_erased_user_has_no_memory(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, embedder="none") as api:
        session = await api.create_session("chat")
        await api.send_texts(session, "I like tea")
        assert await found(api, "tea")
        assert (await api.delete("/api/users/ana")).status_code in {200, 204}
        assert await units(api) == []
        again = await api.create_session("chat")
        await api.send_texts(again, "hello")
        assert "I like tea" not in [unit["content"] for unit in await units(api)]


async def test_memory_is_the_same_after_a_restart(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, embedder="none") as api:
        await api.publish_script(NOTES)
        session = await api.create_session("notes")
        await api.send_texts(session, "lemons", "pears", "lemons")
        before = await units(api)
    async with app(tmp_path, embedder="none") as api:
        assert await units(api) == before


GOALS = """
script: goals
memory: {remember: notes}
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - repeat: {max: 20}
            id: loop
            do:
              - {ask: What is your goal?, id: ask_goal, output: [{get: word, fallback: raw}]}
              - {remember: "The goal is {{ word }}", id: note, about: goal}
"""


async def test_rewind_removes_notes_and_restores_those_they_replaced(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, embedder="none") as api:
        await api.publish_script(GOALS)
        session = await api.create_session("goals")
        await api.send_texts(session, "running", "swimming")
        assert await found(api, "goal") == ["The goal is swimming"]
        answer = await api.post(f"/api/sessions/{session['sessionId']}/rewind", json={"turn": 1})
        assert answer.status_code == 200, answer.text
        assert await found(api, "goal") == ["The goal is running"]


async def imported(api: ApiClient, document: Any, **query: Any) -> Any:
    answer = await api.post("/api/sessions/import", json=document, params=query)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def goals(api: ApiClient) -> list[str]:
    return [unit["content"].removeprefix("The goal is ") for unit in await units(api) if not unit["supersededBy"]]


async def test_a_note_of_an_older_session_replaces_no_later_one(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, embedder="none") as api:
        await api.publish_script(GOALS)
        documents = []
        for goal in ("rowing", "running", "swimming"):
            session = await api.create_session("goals")
            await api.send_texts(session, goal)
            documents.append(await api.read(f"/api/sessions/{session['sessionId']}/export"))
        for document in documents[:2]:
            assert (await api.delete(f"/api/sessions/{document['session']['session_id']}")).status_code == 204
        for document in reversed(documents[:2]):
            await imported(api, document)
            assert await goals(api) == ["swimming"]
        assert await found(api, "goal") == ["The goal is swimming"]
        for document, left in ((documents[2], ["running"]), (documents[1], ["rowing"])):
            assert (await api.delete(f"/api/sessions/{document['session']['session_id']}")).status_code == 204
            assert await goals(api) == left


async def test_the_copy_of_a_session_has_notes_of_its_own(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, embedder="none") as api:
        await api.publish_script(GOALS)
        session = await api.create_session("goals")
        await api.send_texts(session, "running")
        document = await api.read(f"/api/sessions/{session['sessionId']}/export")
        copy = await imported(api, document, copy=True)
        first, second = await units(api)
        assert (first["supersededBy"], second["supersededBy"]) == (second["unitId"], None)
        assert first["unitId"] != second["unitId"]
        assert (await api.delete(f"/api/sessions/{copy['sessionId']}")).status_code == 204
        assert [(unit["unitId"], unit["supersededBy"]) for unit in await units(api)] == [(first["unitId"], None)]


async def test_memory_without_the_original_of_a_fork_has_all_of_it(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path, embedder="none") as api:
        session = await api.create_session("chat", user="ben")
        await api.send_texts(session, "I like tea")
        fork = (await api.post(f"/api/sessions/{session['sessionId']}/fork", json={})).json()
        document = await api.read(f"/api/sessions/{fork['sessionId']}/export")
        await imported(api, document, copy=True, userId="ana")
        assert [unit["content"] for unit in await units(api)].count("I like tea") == 1


async def test_a_session_takes_its_place_in_an_imported_memory(app: OpenApp, tmp_path: Path) -> None:
    async with app(tmp_path / "one", embedder="none") as api:
        await api.publish_script(GOALS.replace("{remember: notes}", "{remember: messages}"))
        session = await api.create_session("goals")
        await api.send_texts(session, "running", "swimming")
        await found(api, "running")
        before = await units(api)
        memory = (await api.get("/api/memory/export", params={"userId": "ana"})).content
        document = await api.read(f"/api/sessions/{session['sessionId']}/export")
    async with app(tmp_path / "two", embedder="none") as api:
        kind = {"Content-Type": "application/json"}
        answer = await api.post("/api/memory/import", content=memory, params={"userId": "ana"}, headers=kind)
        assert answer.status_code == 200, answer.text
        note = {"content": "Ana can swim now", "neverDelete": True}
        answer = await api.post(
            "/api/memory/units", json={"userId": "ana", "group": session["sessionId"], "units": [note]}
        )
        assert answer.status_code == 201, answer.text
        await imported(api, document)
        after = await units(api)
        named = {unit["unitId"]: unit for unit in after}
        assert len(after) == len(named) == len(before) + 1
        for unit in before:
            same = [named[unit["unitId"]][name] for name in ("content", "supersededBy", "visitCount")]
            assert same == [unit[name] for name in ("content", "supersededBy", "visitCount")]
        group = (await api.read("/api/memory/groups", userId="ana"))["data"]
        assert [each["sessionId"] for each in group] == [session["sessionId"]]
        await api.post(f"/api/sessions/{session['sessionId']}/rewind", json={"turn": 0})
        assert [unit["content"] for unit in await units(api)] == ["Ana can swim now", "What is your goal?"]
