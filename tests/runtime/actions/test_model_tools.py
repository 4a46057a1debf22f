"""Tools that the model of `chat` and `ai_ask` calls before it replies."""

from typing import Any

import pytest

from runtime.engine.engine import TurnFailed
from runtime.models.cassette_file import ScriptedCall, ScriptedReply, cassette_text
from runtime.models.offline_model import OfflineModel
from runtime.models.recorded_models import RecordingModel, ScriptedModel
from runtime.state.events import ToolAnswered, ToolCalled, VariableChanged
from runtime.state.limits import Limits
from runtime.state.ports import ModelReply, ModelRequest, OnReply, ToolCall
from runtime.state.tool_ports import ToolFailure, ToolReply
from runtime.tools.examples import ScriptedTools
from runtime.turn.tool_use import CALLS_OF_REPLY_MAX
from tests.support.runtime_session import Session, new_session

SHOP = """
cuebook: 1
script: shop
declare: [{var: status, type: text}, {var: wish}]
tools:
  - tool: lookup_order
    define: Finds an order.
    params:
      order: {type: string}
      language: {type: string, default: en}
    result: {type: object, properties: {status: {type: string}}, required: [status]}
    changes: false
    example: {status: sent}
actions:
"""
CHAT = f"""{SHOP}
  - {{id: help, chat: Help with the order., tools: [{{tool: lookup_order, into: {{status: status}}}}], rounds: 2}}
  - {{id: answer, say: "Status: {{{{ status or 'unknown' }}}}."}}
"""
ASK = f"""{SHOP}
  - id: help
    ai_ask: Find out what the visitor wants to do with the order.
    into: {{var: wish, type: choice, choices: [return, keep]}}
    tools: [lookup_order]
"""
CALL = ScriptedCall("lookup_order", {"order": "4711"})


def shop(text: str, *replies: Any, results: Any = (), model: Any = None, limits: Limits = Limits()) -> Session:  # noqa: B008
    session = new_session(text, replies={"help": list(replies)}, limits=limits, saved=True)
    session.model = model or session.model
    if results:
        session.tools = ScriptedTools({"lookup_order": tuple(results)})
    return session


def tool_events(session: Session) -> list[Any]:
    return bodies(session, ToolCalled | ToolAnswered)


def bodies(session: Session, kind: Any) -> list[Any]:
    return [each.body for each in session.turns[-1].events if isinstance(each.body, kind)]


class Curious:
    """A model that calls a tool whenever it may, and then says how often it did; it finds no values."""

    def __init__(self, *calls: ToolCall) -> None:
        self.calls = calls
        self.requests: list[ModelRequest] = []

    def goes_to(self, request: ModelRequest) -> str:
        return "curious"

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        self.requests.append(request)
        done = len(request.outcomes)
        if request.offers and (not self.calls or done < len(self.calls)):
            call = self.calls[done] if self.calls else ToolCall("lookup_order", {"order": str(done)})
            reply = ModelReply(text="One moment.", tool_call=call)
        else:
            reply = ModelReply(text=f"After {done}.", exit=request.round > 0)
        if hear is not None:
            hear(reply)
        return reply


async def test_call_is_recorded_and_its_result_stored_before_the_reply():
    reply = ScriptedReply(calls=(CALL,), text="It was sent.", exit=True)
    session = await shop(CHAT, "How can I help?", reply, results=[ToolReply({"status": "on its way"})]).start()
    await session.reply("Where is 4711?")
    assert session.said == ["It was sent.", "Status: on its way."]
    assert tool_events(session) == [
        ToolCalled("help", "lookup_order", {"order": "4711", "language": "en"}),
        ToolAnswered("help", "lookup_order", {"status": "on its way"}),
    ]
    changed = bodies(session, VariableChanged)
    assert [(each.name, each.new) for each in changed] == [("status", "on its way")]


async def test_calls_take_no_rounds():
    calls = ScriptedReply(calls=(CALL, CALL, CALL), text="First.")
    session = await shop(CHAT, "How can I help?", calls, ScriptedReply(calls=(CALL,), text="Second.")).start()
    await session.reply("one")
    assert (session.said, len(tool_events(session))) == (["First."], 6)
    await session.reply("two")
    assert session.said == ["Second.", "Status: sent."]


async def test_model_is_asked_again_with_the_outcomes_of_its_calls():
    model = Curious(ToolCall("lookup_order", {"order": "1"}), ToolCall("lookup_order", {}))
    session = await shop(CHAT, model=model).start()
    assert session.said == ["After 2."]
    last = model.requests[-1]
    assert [each.call.arguments for each in last.outcomes] == [{"order": "1"}, {}]
    assert last.outcomes[0].result == {"status": "sent"}
    problem = "the parameters do not match the declaration: `order` is missing"
    assert last.outcomes[1].failure == ToolFailure("arguments", problem)


async def test_text_beside_a_call_is_neither_said_nor_streamed():
    session = shop(CHAT, model=Curious(ToolCall("lookup_order", {"order": "1"})))
    heard: list[Any] = []
    session.live = heard.append
    await session.start()
    assert [each.text for each in heard if hasattr(each, "text")] == ["After 1."]


async def test_failure_of_a_tool_is_the_models_to_handle():
    failed = ToolReply(failure=ToolFailure("timeout", "no answer in time"))
    session = await shop(CHAT, ScriptedReply(calls=(CALL,), text="I cannot look now."), results=[failed]).start()
    assert session.said == ["I cannot look now."]
    assert session.values.get("status") is None


async def test_number_of_calls_before_a_reply_is_bounded():
    model = Curious()
    session = await shop(CHAT, model=model).start()
    assert session.said == [f"After {CALLS_OF_REPLY_MAX}."]
    assert [len(each.offers) for each in model.requests] == [1] * CALLS_OF_REPLY_MAX + [0]


async def test_limit_of_a_turn_counts_the_calls_of_models():
    with pytest.raises(TurnFailed, match="more than 2 calls of tools in one turn"):
        await shop(CHAT, model=Curious(), limits=Limits(tool_calls_max=2)).start()


async def test_an_ai_ask_calls_tools_before_question_and_verdict():
    first = ScriptedReply(calls=(CALL,), text="It was sent. Return or keep it?")
    verdict = ScriptedReply(calls=(CALL,), values={"wish": "keep"}, exit=True)
    session = await shop(ASK, first, verdict).start()
    assert (session.said, len(tool_events(session))) == (["It was sent. Return or keep it?"], 2)
    await session.reply("keep")
    assert (session.values["wish"], len(tool_events(session))) == ("keep", 2)


async def test_requests_beside_the_conversation_offer_no_tool():
    model = Curious()
    await (await shop(ASK, model=model).start()).reply("keep it")
    assert {each.purpose for each in model.requests if each.offers} == {"ask"}
    assert "extract" in {each.purpose for each in model.requests}


async def test_without_a_language_model_no_tool_is_called():
    session = await shop(ASK, model=OfflineModel()).start()
    await session.reply("keep")
    assert (session.values["wish"], tool_events(session)) == ("keep", [])


async def test_written_reply_with_another_tool_fails_with_its_name():
    with pytest.raises(TurnFailed, match="calls find_order, which the action does not offer here"):
        await shop(CHAT, ScriptedReply(calls=(ScriptedCall("find_order"),), text="?")).start()


async def test_recorded_calls_replay_to_the_same_conversation():
    written = (ScriptedReply(calls=(CALL,), text="It was sent."), ScriptedReply(calls=(CALL, CALL), text="Yes, sent."))
    recorded = RecordingModel(ScriptedModel({"help": written}))
    first = await (await shop(CHAT, model=recorded).start()).reply("sure?")
    assert recorded.replies == {"help": list(written)}
    assert "calls: [{tool: lookup_order" in cassette_text(recorded.replies)
    again = await (await shop(CHAT, *recorded.replies["help"]).start()).reply("sure?")
    assert [turn.events for turn in again.turns] == [turn.events for turn in first.turns]
