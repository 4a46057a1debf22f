"""Every field of a row of a session that may contain a personal value, or confirm a guess of one, is masked."""

from typing import Any

import msgspec
import pytest

from api.privacy.mask import HiddenValues, Mask
from api.privacy.masked_rows import mask_call, mask_message, mask_migration, mask_session, mask_turn
from runtime.prompts.prompt import PromptMessage, SentPrompt, read_prompt, stored_prompt
from store.interface.masking import HIDDEN
from store.interface.rows import EventRow, SettledCallRow
from tests.support.store_rows import Conversation

MASK = HiddenValues(Mask(frozenset({"name", "smokes"}), [("name", "Ana")]), {2: "smokes"}, frozenset({1}))
"""Ana's name is personal; message 2, of turn 1, is a yes in other words, so that texts of turn 1 may quote it."""


def call(turn: int = 0, purpose: str = "say", **reply: Any) -> SettledCallRow:
    """Return a call with a reply whose error, notes and digests name Ana."""
    conversation = Conversation()
    return conversation.settled(
        conversation.call("c"),
        turn=turn,
        purpose=purpose,
        prompt_digest="d" * 64,
        error="no answer to Ana",
        failures=["500 for Ana", "again"],
        degraded="Ana wrote no JSON",
        reply=msgspec.Raw(msgspec.json.encode(reply or None)),
    )


def reply_of(row: SettledCallRow) -> Any:
    return msgspec.json.decode(mask_call(MASK, row).reply)


def test_texts_of_a_call_are_masked_and_its_digests_removed() -> None:
    masked = mask_call(MASK, call())
    assert (masked.error, masked.failures) == ("no answer to [name]", ["500 for [name]", "again"])
    assert (masked.degraded, masked.request_digest, masked.prompt_digest) == ("[name] wrote no JSON", "", "")
    nothing = mask_call(MASK, msgspec.structs.replace(call(), prompt_digest=None, error=None, degraded=None))
    assert (nothing.prompt_digest, nothing.error, nothing.degraded) == (None, None, None)
    assert (masked.call_id, masked.model, masked.turn) == ("c", "main", 0)


def test_a_reply_is_masked_by_its_fields() -> None:
    found = reply_of(
        call(
            text="Hello Ana",
            values={"name": "Ana", "town": "Ana's town", "smokes": True},
            reasons={"town": "Ana said so"},
            exit_reason="Ana is done",
            intent="greeting",
        )
    )
    assert found == {
        "text": "Hello [name]",
        "values": {"name": "[name]", "town": "[name]'s town", "smokes": "[smokes]"},
        "reasons": {"town": "[name] said so"},
        "exit_reason": "[name] is done",
        "intent": "greeting",
    }


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ('{"text": "Hello Ana"}', '{"text": "Hello [name]"}'),
        ('{"smokes": true}', HIDDEN),  # a value that no text spells
        ('{"smokes_not": true}', '{"smokes_not": true}'),
    ],
)
def test_a_raw_reply_with_a_personal_variable_is_hidden(raw: str, shown: str) -> None:
    assert reply_of(call(raw=raw)) == {"raw": shown}


def test_a_turn_with_a_hidden_message_hides_what_may_quote_it() -> None:
    assert reply_of(call(turn=1, exit_reason="they puff away", reasons={}, understanding=80)) == {
        "exit_reason": HIDDEN,
        "reasons": {},
        "understanding": 80,
    }
    assert reply_of(call(turn=1, text="", values={"mood": "good"})) == {"text": "", "values": {"mood": "good"}}


def test_the_result_of_a_tool_is_hidden() -> None:
    assert reply_of(call(purpose="tool", result={"town": "Lisbon"}, status=200)) == {"result": HIDDEN, "status": 200}
    assert reply_of(call(purpose="tool", result=None, status=204)) == {"result": None, "status": 204}
    assert reply_of(call(purpose="tool")) is None
    assert reply_of(call()) is None


def test_of_a_prompt_only_the_instructions_are_shown() -> None:
    sent = SentPrompt((PromptMessage("system", "Greet Ana."), PromptMessage("user", "I puff away")), {"type": "object"})
    masked = mask_call(MASK, msgspec.structs.replace(call(), prompt=stored_prompt(sent)))
    assert masked.prompt is not None
    assert read_prompt(masked.prompt) == SentPrompt(
        (PromptMessage("system", "Greet [name]."), PromptMessage("user", HIDDEN)), {"type": "object"}
    )


def events(turn: int, *found: EventRow) -> list[dict[str, Any]]:
    row = msgspec.structs.replace(Conversation().next_turn(), turn=turn, events=list(found))
    return [dict(event.data) for event in mask_turn(MASK, row).events]


def test_events_are_masked_by_their_kind() -> None:
    assert events(
        0,
        EventRow(1, "message", {"message": 1}),
        EventRow(2, "emitted", {"action_id": "a", "event": "told", "data": {"name": "x", "of": ["Ana", 3]}}),
        EventRow(3, "tool_call", {"tool": "t", "arguments": {"who": "Ana", "n": 3}}),
        EventRow(4, "tool_result", {"tool": "t", "result": {"town": "Lisbon"}}),
        EventRow(5, "tool_result", {"tool": "t", "failure": {"kind": "timeout", "message": "no answer within 10 s"}}),
        EventRow(6, "recalled", {"action_id": "r", "k": 3, "query": "Ana", "units": [{"unit_id": "u", "text": "Ana"}]}),
        EventRow(7, "remembered", {"action_id": "m", "source": "note of Ana", "text": "Ana"}),
        EventRow(8, "warning", {"code": "c", "message": "Ana?", "fields": [{"name": "smokes", "value": True}]}),
    ) == [
        {"message": 1},
        {"action_id": "a", "event": "told", "data": {"name": "[name]", "of": ["[name]", 3]}},
        {"tool": "t", "arguments": {"who": HIDDEN, "n": HIDDEN}},
        {"tool": "t", "result": HIDDEN},
        {"tool": "t", "failure": {"kind": "timeout", "message": "no answer within 10 s"}},
        {"action_id": "r", "k": 3, "units": [{"unit_id": "u"}]},
        {"action_id": "m", "source": "note of [name]", "text": "[name]"},
        {"code": "c", "message": "[name]?", "fields": [{"name": "smokes", "value": "[smokes]"}]},
    ]


def test_events_of_a_turn_with_a_hidden_message_are_hidden() -> None:
    found = events(
        1,
        EventRow(1, "emitted", {"action_id": "a", "event": "told", "data": {"mood": "good"}}),
        EventRow(
            2, "warning", {"code": "c", "message": "odd", "number": 3, "fields": [{"name": "town", "value": "x"}]}
        ),
    )
    assert found == [
        {"action_id": "a", "event": "told", "data": HIDDEN},
        {"code": "c", "message": HIDDEN, "number": 3, "fields": [{"name": "town", "value": HIDDEN}]},
    ]


def test_a_turn_is_without_its_state_and_digests() -> None:
    turn = msgspec.structs.replace(Conversation().next_turn(), idempotency_key="k", fingerprint="f")
    masked = mask_turn(MASK, turn)
    assert (masked.idempotency_key, masked.fingerprint, bytes(masked.state)) == (None, None, b"null")


def test_messages_sessions_and_migrations() -> None:
    conversation = Conversation()
    message = msgspec.structs.replace(conversation.next_turn().messages[0], content="Ana!", metadata={"by": "Ana"})
    assert mask_message(MASK, msgspec.structs.replace(message, seq=1)).content == "[name]!"
    assert mask_message(MASK, msgspec.structs.replace(message, seq=1)).metadata == {"by": "[name]"}
    hidden = mask_message(MASK, msgspec.structs.replace(message, seq=2))
    assert (hidden.content, hidden.metadata) == ("[smokes]", {})
    session = msgspec.structs.replace(conversation.session(), key="telegram:1", metadata={"a": 1}, idempotency_key="k")
    masked = mask_session(session, "pseudonym")
    assert (masked.user_id, masked.key, masked.metadata, masked.idempotency_key) == ("pseudonym", None, {}, None)
    migration = conversation.migration(1, why=["Ana's question is gone"])
    assert mask_migration(MASK, migration).why == ["[name]'s question is gone"]
