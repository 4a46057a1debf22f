"""What leaves masked: no personal value is in it, whatever form it has, and the rest of what was said is."""

from collections.abc import Callable
from pathlib import Path

import pytest

from api.schemas.keys import Role
from api.schemas.session_lists import FORMATS
from tests.support.api_client import ApiClient
from tests.support.private_conversation import OpenConversation

Leaks = Callable[[str], list[str]]


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": key}


@pytest.mark.gate
async def test_masked_no_form_holds_a_personal_value(
    private_conversation: OpenConversation, tmp_path: Path, leaks: Leaks, public_texts: tuple[str, ...]
) -> None:
    async with private_conversation(tmp_path) as conversation:
        for form in FORMATS:
            whole = (await conversation.api.get(f"{conversation.path}/export", params={"format": form})).text
            masked = (
                await conversation.api.get(f"{conversation.path}/export", params={"format": form, "masked": True})
            ).text
            assert len(leaks(whole)) > 6
            assert leaks(masked) == [], form
            assert [words for words in public_texts if words not in masked.lower()] == [], form


async def test_what_is_masked_says_of_which_variable_it_was(
    private_conversation: OpenConversation, tmp_path: Path
) -> None:
    async with private_conversation(tmp_path) as conversation:
        document = await conversation.api.read(f"{conversation.path}/export", masked=True)
        known = await conversation.api.post("/api/analytics/query", json={"sql": "SELECT user_id FROM users"})
    assert known.json()["rows"] == [{"user_id": document["session"]["user_id"]}]  # the same pseudonym as analysts see
    said = [message["content"] for turn in document["turns"] for message in turn["messages"]]
    assert said[:5] == [
        "What are you called?",
        "[full_name]",
        "Dear [full_name], of [home_town].",
        "When were you born?",
        "[born]",  # in other words than those of the stored value
    ]
    assert said[-2:] == ["[full_name] of [home_town] feels like a watermelon", "Goodbye, [full_name]."]
    written = {write["name"]: write["new"] for turn in document["turns"] for write in turn["variables"]}
    assert written["smokes"] == "[smokes]"
    assert written["greeting"] == "Dear [full_name]"
    assert (document["session"]["key"], document["session"]["metadata"]) == (None, {})
    assert {turn["state"] for turn in document["turns"]} == {None}


async def test_of_choices_none_is_left_out_alone(private_conversation: OpenConversation, tmp_path: Path) -> None:
    """Else what is missing among them would tell which it was."""
    async with private_conversation(tmp_path) as conversation:
        document = await conversation.api.read(f"{conversation.path}/export", masked=True)
    waits = [event["data"]["wait"] for turn in document["turns"] for event in turn["events"] if event["kind"] == "wait"]
    offered = [choice["text"] for wait in waits for choice in wait.get("choices", [])]
    assert offered == ["[illness]", "[illness]"]


@pytest.mark.gate
async def test_who_gets_a_session_whole_and_who_gets_it_masked(
    private_conversation: OpenConversation, tmp_path: Path, leaks: Leaks
) -> None:
    whole: dict[Role, bool] = {"reader": True, "admin": True, "author": False}
    async with private_conversation(tmp_path) as conversation:
        for role, is_whole in whole.items():
            headers = bearer(await conversation.api.create_key(role))
            plain = await conversation.api.get(f"{conversation.path}/export", headers=headers)
            masked = await conversation.api.get(f"{conversation.path}/export", params={"masked": True}, headers=headers)
            unmasked = await conversation.api.get(
                f"{conversation.path}/export", params={"masked": False}, headers=headers
            )
            assert bool(leaks(plain.text)) == is_whole, role
            assert leaks(masked.text) == []
            assert unmasked.status_code == (200 if is_whole else 403)
            assert bool(leaks(unmasked.text)) == is_whole


async def test_what_was_exported_masked_is_not_imported(private_conversation: OpenConversation, tmp_path: Path) -> None:
    types = {"json": "application/json", "yaml": "application/yaml", "jsonl": "application/x-ndjson"}
    async with private_conversation(tmp_path) as conversation:
        for form, media_type in types.items():
            document = await conversation.api.get(
                f"{conversation.path}/export", params={"format": form, "masked": True}
            )
            answer = await conversation.api.post(
                "/api/sessions/import",
                content=document.content,
                headers={"Content-Type": media_type},
                params={"copy": True},
            )
            error = answer.json()["error"]
            assert (answer.status_code, error["code"]) == (422, "DOCUMENT_INVALID"), form
            assert "masked" in error["message"]


async def test_raw_replies_are_for_readers_and_masked_for_authors(
    private_conversation: OpenConversation, tmp_path: Path, leaks: Leaks
) -> None:
    async with private_conversation(tmp_path) as conversation:
        seen = {}
        for roles in (("author",), ("author", "reader"), ("admin",)):
            headers = bearer(await conversation.api.create_key(*roles))
            answer = await conversation.api.get(f"{conversation.path}/calls", params={"debug": True}, headers=headers)
            seen[roles] = answer.text
            assert len(answer.json()["data"]) == 2
    assert leaks(seen[("author",)]) == []
    assert "watermelon" in seen[("author",)]
    assert leaks(seen[("author", "reader")])
    assert leaks(seen[("admin",)])


async def test_marks_of_a_later_version_mask_older_sessions_too(api: ApiClient) -> None:
    script = """
script: late
declare: [{var: name}]
phases:
  - phase: p
    topics:
      - topic: t
        actions:
          - {ask: Who are you?, id: ask, output: [{get: name}]}
          - {ask: "And now, {{ name }}?", id: more}
"""
    await api.publish_script(script)
    session = await api.create_session("late")
    await api.send_texts(session, "Wilhelmina")
    path = f"/api/sessions/{session['sessionId']}/export"
    before = await api.get(path, params={"format": "txt", "masked": True})
    await api.publish_script(script.replace("{var: name}", "{var: name, pii: true}"))
    after = await api.get(path, params={"format": "txt", "masked": True})
    assert before.text.splitlines()[1:] == ["[user] Wilhelmina", "[assistant] And now, Wilhelmina?"]
    assert after.text.splitlines()[1:] == ["[user] [name]", "[assistant] And now, [name]?"]
