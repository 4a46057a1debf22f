"""What an application does with sessions from Python."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from api.embedded import open_runtime
from cuebook import Client, Conversation, CuebookError
from tests.support.paths import CONVERSATIONS


@pytest.fixture
async def cuebook(tmp_path: Path) -> AsyncIterator[Client]:
    async with open_runtime(tmp_path / "data", scripts=CONVERSATIONS) as cuebook:
        yield cuebook


async def test_a_session_is_found_by_its_key_or_begun(cuebook) -> None:
    first = await cuebook.sessions.get_or_create("telegram:1", "ana", "visit")
    again = await cuebook.sessions.get_or_create("telegram:1", "ana", "visit")
    assert (first.created, again.created, again.session_id) == (True, False, first.session_id)
    assert (await cuebook.sessions.by_key("telegram:1")).session_id == first.session_id
    noted = await cuebook.sessions.update_metadata(first.session_id, {"title": "A visit"})
    assert noted.metadata["title"] == "A visit"


async def test_a_session_has_a_context_of_its_own(cuebook) -> None:
    begun = await cuebook.sessions.create("ana", context="window")
    found = await cuebook.sessions.get_or_create("k", "ana", context={"strategy": "window", "k": 3})
    for session, k in ((begun, None), (found, 3)):
        settings = (await cuebook.sessions.context(session.session_id)).settings
        assert settings is not None
        assert (settings["strategy"], settings.get("k")) == ("window", k)


async def test_a_session_is_paused_set_rewound_copied_and_deleted(cuebook) -> None:
    session = (await cuebook.sessions.create("ana", "visit")).session_id
    await cuebook.sessions.pause(session)
    with pytest.raises(CuebookError, match="SESSION_PAUSED"):
        await cuebook.sessions.send(session, "Ana")
    await cuebook.sessions.resume(session)
    await cuebook.sessions.send(session, "Ana")
    changed = await cuebook.sessions.set_variables(session, {"note": [1, 2]})
    assert changed.variables["note"] == [1, 2]
    copy = await cuebook.sessions.fork(session, before_user_message=0)
    assert copy.metadata["forkedFrom"]["sessionId"] == session
    back = await cuebook.sessions.rewind(session, turn=0)
    assert "note" not in {name for name, value in back.variables.items() if value is not None}
    assert len((await cuebook.sessions.snapshots(session)).data) == back.turn + 1
    assert (await cuebook.sessions.snapshot(session, 0)).turn == 0
    assert (await cuebook.sessions.end(session, "enough")).status == "completed"
    assert await cuebook.sessions.delete(session)
    assert not await cuebook.sessions.delete(session)


async def test_messages_that_were_said_elsewhere_are_added_and_cleared(cuebook) -> None:
    session = (await cuebook.sessions.create("ana")).session_id
    await cuebook.sessions.append(
        session, [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    )
    assert [each.role async for each in cuebook.sessions.transcript(session)] == ["user", "ai"]
    await cuebook.sessions.clear(session)
    assert [each async for each in cuebook.sessions.transcript(session)] == []


@pytest.mark.gate
@pytest.mark.parametrize("made_up", ["../scripts/visit", "a/b", "..", ".", "a?b", "a#b", "a%2Fb", "睡眠"])
async def test_an_id_that_is_no_id_leads_nowhere_else(cuebook, made_up) -> None:
    for ask in (cuebook.sessions.get, cuebook.sessions.clear):
        with pytest.raises(CuebookError, match="SESSION_NOT_FOUND"):
            await ask(made_up)
    assert not await cuebook.sessions.delete(made_up)


async def test_a_document_in_any_format_is_imported_as_text(cuebook, tmp_path: Path) -> None:
    session = (await cuebook.sessions.create("ana", "visit", key="telegram:1")).session_id
    await cuebook.sessions.send(session, "阿娜")
    said = [message.content async for message in cuebook.sessions.transcript(session)]
    for form in ("json", "yaml", "jsonl"):
        document = await cuebook.sessions.export(session, form)
        with pytest.raises(CuebookError, match="EXISTS"):
            await cuebook.sessions.import_session(document, form)
        tried = await cuebook.sessions.import_session(document, form, replace=True, dry_run=True)
        async with open_runtime(tmp_path / form) as other:
            made = await other.sessions.import_session(document.encode(), form)
            assert (made.key, made.messages, tried.messages) == ("telegram:1", len(said), len(said))
            assert [message.content async for message in other.sessions.transcript(made.session_id)] == said


async def test_sessions_of_other_programs_are_imported_as_text(cuebook) -> None:
    lines = '{"role": "user", "content": "你好"}\n{"role": "assistant", "content": "你好！"}\n'
    made = await cuebook.sessions.import_session(lines, "jsonl", file_name="cli_direct.jsonl", user_id="ana")
    assert (made.key, made.user_id, made.messages) == ("cli:direct", "ana", 2)
    spoken = Conversation("c1")
    spoken.append_message({"role": "user", "content": "Hi"})
    nested = await cuebook.sessions.import_session(spoken.to_yaml("payload.session"), "yaml", path="payload.session")
    assert (nested.key, nested.messages) == ("c1", 1)
