"""An agent's history, by itself and with a conversation attached; the cases are those of Agently."""

import pytest

from runtime.context.agent_history import AgentHistory
from runtime.context.conversation import Conversation
from scripts.expressions.values import ValueRefused


def texts(messages) -> list[str]:
    return [each.content for each in messages]


def said(*contents: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": each} for each in contents]


def test_messages_are_added_to_the_attached_conversation() -> None:
    agent = AgentHistory()
    agent.add_chat_history({"role": "user", "content": "before"})
    session = agent.attach_session()
    agent.add_chat_history(said("a", "a"))
    assert texts(session.full_chat_history) == texts(agent.chat_history) == ["a", "a"]
    agent.detach_session()
    assert agent.session is None
    agent.add_chat_history({"role": "user", "content": "after"})
    assert texts(agent.chat_history) == ["before", "after"]
    assert texts(session.full_chat_history) == ["a", "a"]


@pytest.mark.parametrize("is_attached", [True, False])
def test_setting_replaces_and_keeps_what_is_said_twice(is_attached) -> None:
    agent = AgentHistory()
    if is_attached:
        agent.attach_session()
    agent.add_chat_history(said("old"))
    agent.set_chat_history(said("x", "x", "y"))
    assert texts(agent.chat_history) == ["x", "x", "y"]
    assert [each.number for each in agent.chat_history] == [1, 2, 3]
    agent.reset_chat_history()
    assert agent.chat_history == ()


def test_a_window_that_is_cleared_leaves_the_full_history() -> None:
    session = Conversation()
    agent = AgentHistory()
    assert agent.attach_session(session) is session
    agent.add_chat_history(said("a", "b"))
    agent.reset_chat_history()
    agent.add_chat_history(said("c"))
    assert texts(session.full_chat_history) == ["a", "b", "c"]
    assert texts(session.current_chat_history) == ["c"]


def test_a_mode_is_set_with_attaching() -> None:
    assert AgentHistory().attach_session(mode="memo").settings.strategy == "memo"


def test_the_prompt_gets_the_window_whatever_stood_there() -> None:
    agent = AgentHistory()
    agent.attach_session()
    agent.add_chat_history(said("now"))
    prompt = {"input": "next", "chat_history": [{"role": "user", "content": "stale"}]}
    made = agent.request_prefix(prompt)
    assert made == {"input": "next", "chat_history": [{"role": "user", "content": "now"}]}
    assert prompt["chat_history"][0]["content"] == "stale"


async def test_afterwards_question_and_answer_are_added() -> None:
    agent = AgentHistory(output_keys=["answer.text", "other"])
    session = agent.attach_session()
    await agent.finally_({"input": "question"}, {"answer": {"text": "picked"}, "other": "not this"})
    assert [(each.role, each.content) for each in session.full_chat_history] == [
        ("user", "question"),
        ("assistant", "picked"),
    ]
    both = AgentHistory(output_keys=["answer.text", "other"], output_mode="all")
    await both.finally_({"input": "question"}, {"answer": {"text": "picked"}, "other": "this too"})
    assert both.chat_history[-1].content == "picked\n\nthis too"
    plain = AgentHistory(output_keys=["nowhere"])
    await plain.finally_({"input": "question"}, "all of it")
    assert plain.chat_history[-1].content == "all of it"


@pytest.mark.parametrize(
    ("keys", "prompt", "answer", "expected"),
    [
        ((), {"input": "q"}, None, [("user", "q")]),
        ((), {"instruct": "Go on."}, "a", [("assistant", "a")]),
        (("city",), {"input": {}}, "a", [("assistant", "a")]),
        ((), {"input": ""}, "", [("user", ""), ("assistant", "")]),
        (("²", "1"), {"input": ["Rome", "Oslo"]}, None, [("user", "[1]\nOslo")]),
    ],
)
async def test_a_missing_side_adds_no_message(keys, prompt, answer, expected) -> None:
    agent = AgentHistory(input_keys=keys)
    await agent.finally_(prompt, answer)
    assert [(each.role, each.content) for each in agent.chat_history] == expected


async def test_several_inputs_become_blocks_named_by_their_keys() -> None:
    agent = AgentHistory(input_keys=["city", ".agent.system", "input.code", "nothing"])
    prompt = {"input": {"city": "Rome", "code": [1, 2]}, "agent": {"system": "Be kind."}}
    await agent.finally_(prompt, "ok")
    assert agent.chat_history[0].content == "[city]\nRome\n\n[agent.system]\nBe kind.\n\n[input.code]\n[1,2]"


async def test_input_and_part_of_the_prompt_may_have_the_same_name() -> None:
    agent = AgentHistory(input_keys=["city", ".city"])
    await agent.finally_({"input": {"city": "Rome"}, "city": "Oslo"}, "ok")
    assert agent.chat_history[0].content == "[city]\nRome\n\n[city]\nOslo"


@pytest.mark.parametrize("is_attached", [True, False])
def test_the_history_is_replaced_by_a_single_message(is_attached) -> None:
    agent = AgentHistory()
    if is_attached:
        agent.attach_session()
    agent.set_chat_history({"role": "user", "content": "only"})
    assert texts(agent.chat_history) == ["only"]


async def test_a_handler_of_its_own_overrides_everything() -> None:
    async def record(prompt, answer):
        return said(f"{prompt['input']} -> {answer}")

    for handler in (record, lambda prompt, answer: said(f"{prompt['input']} -> {answer}")):
        agent = AgentHistory(input_keys=["city"], output_keys=["x"], record=handler)
        await agent.finally_({"input": "q"}, "a")
        assert texts(agent.chat_history) == ["q -> a"]


async def test_the_window_of_an_attached_conversation_is_resized() -> None:
    agent = AgentHistory()
    session = agent.attach_session()
    session.configure(limit={"messages": 4})
    for number in range(5):
        await agent.finally_({"input": f"q{number}"}, f"a{number}")
    assert len(session.current_chat_history) == 4
    assert len(session.full_chat_history) == 10


PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 50_000}}
CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "function": {"name": "clock"}}]}


@pytest.mark.parametrize("is_attached", [True, False])
def test_a_prompt_has_messages_as_they_were_added(is_attached) -> None:
    agent = AgentHistory()
    if is_attached:
        agent.attach_session()
    messages = [{"role": "user", "content": [{"type": "text", "text": "Look"}, PICTURE]}, CALL]
    messages += [{"role": "tool", "content": "12:00", "tool_call_id": "c1"}, {"role": "user", "content": [PICTURE]}]
    agent.add_chat_history(messages)
    assert agent.request_prefix({})["chat_history"] == messages


@pytest.mark.parametrize("is_attached", [True, False])
def test_of_several_messages_all_or_none_are_added(is_attached) -> None:
    agent = AgentHistory()
    if is_attached:
        agent.attach_session()
    with pytest.raises(TypeError, match="king"):
        agent.add_chat_history([*said("a"), {"role": "king", "content": "b"}])
    assert agent.chat_history == ()


def test_metadata_replaces_no_role_or_text_in_a_prompt() -> None:
    agent = AgentHistory()
    metadata = {"role": "king", "content": "other", "name": "Ana"}
    agent.add_chat_history({"role": "user", "content": "Hi", "metadata": metadata})
    assert agent.request_prefix({})["chat_history"] == [{"role": "user", "content": "Hi", "name": "Ana"}]


def test_a_prompt_has_the_shortened_text_of_a_message_with_parts() -> None:
    session = Conversation(settings={"session.limit": {"chars": 1_000}})
    agent = AgentHistory()
    agent.attach_session(session)
    agent.add_chat_history({"role": "user", "content": [{"type": "text", "text": "a" * 2_000}, PICTURE]})
    assert session.resize() is not None
    [message] = agent.request_prefix({})["chat_history"]
    assert message == {"role": "user", "content": [{"type": "text", "text": "a" * 1_000}, PICTURE]}
    again = Conversation()
    again.load_json(session.to_json())
    assert again.full_chat_history == session.full_chat_history


def test_parts_that_are_no_json_or_too_long_are_refused() -> None:
    for part in ({"type": "image", "data": object()}, {"type": "image", "data": "A" * 20_000_001}):
        with pytest.raises(ValueRefused, match="the parts of a message"):
            Conversation().append_message({"role": "user", "content": [part]})
