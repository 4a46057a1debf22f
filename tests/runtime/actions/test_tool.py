"""`tool`: what it passes, stores and says, and where the conversation continues after a failure."""

from typing import Any

import pytest

from runtime.engine.engine import TurnFailed
from runtime.state.events import Ended, ToolAnswered, ToolCalled
from runtime.state.limits import Limits
from runtime.state.tool_ports import ToolFailure, ToolReply
from runtime.tools.examples import ScriptedTools
from tests.support.runtime_session import Session, new_session

TOOLS = """
script: shop
tools:
  - tool: lookup_order
    define: Finds an order.
    params:
      order: {type: string}
      language: {type: string, default: en}
    result: {type: object, properties: {status: {type: string}, items: {type: array}}, required: [status]}
    changes: false
    example: {status: sent, items: [tea]}
"""
LOOK_UP = f"""{TOOLS}
phases:
  - phase: only
    topics:
      - topic: talk
        declare: [{{var: status, type: text}}]
        actions:
          - id: number
            ask: Which order?
            output: [{{get: order_number, type: text}}]
          - id: look_up
            tool: lookup_order
            with: {{order: "A-{{{{ order_number }}}}"}}
            into: {{status: status, bought: items}}
            on_fail:
              say: "I cannot look now ({{{{ failure.kind }}}})."
              do:
                - {{id: more, say: "{{{{ failure.message }}}}"}}
              then: THEN
          - id: answer
            say: "It is {{{{ status }}}}: {{{{ bought | join(', ') }}}}."
      - topic: last
        actions:
          - {{id: bye, say: Goodbye.}}
"""


def shop(text: str = LOOK_UP, *, then: str = "skip", replies: Any = None, limits: Limits = Limits()) -> Session:  # noqa: B008
    session = new_session(text.replace("THEN", then), limits=limits, saved=True)
    if replies is not None:
        session.tools = ScriptedTools({name: tuple(each) for name, each in replies.items()})
    return session


async def test_without_network_the_example_is_the_result():
    session = await (await shop().start()).reply("17")
    assert session.said == ["It is sent: tea.", "Goodbye."]
    assert session.happened(ToolCalled) == [ToolCalled("look_up", "lookup_order", {"language": "en", "order": "A-17"})]
    assert session.happened(ToolAnswered) == [
        ToolAnswered("look_up", "lookup_order", {"status": "sent", "items": ["tea"]})
    ]


async def test_result_may_be_stored_as_a_whole():
    text = f"""{TOOLS}
phases:
  - phase: only
    topics:
      - topic: talk
        actions:
          - {{id: look_up, tool: lookup_order, with: {{order: "==17"}}, into: found}}
          - {{id: stop, ask: "{{{{ found.status }}}}?"}}
"""
    session = await shop(text).start()
    assert session.said == ["sent?"]
    assert session.happened(ToolCalled)[0].arguments["order"] == "=17"


@pytest.mark.parametrize(
    ("then", "said"),
    [
        ("skip", ["It is : .", "Goodbye."]),
        ("end", []),
        ("goto last", ["Goodbye."]),
    ],
)
async def test_failure_says_and_continues_as_on_fail_says(then: str, said: list[str]):
    replies = {"lookup_order": [ToolReply(failure=ToolFailure("timeout", "no answer"))]}
    session = await (await shop(then=then, replies=replies).start()).reply("17")
    assert session.said == ["I cannot look now (timeout).", "no answer", *said]
    assert session.state.status == "completed"
    if then == "end":
        assert session.happened(Ended)[0].reason == "the tool lookup_order failed"


async def test_failure_without_on_fail_fails_the_turn_at_the_action():
    text = LOOK_UP.partition("            on_fail")[0] + "          - {id: answer, say: Done.}\n"
    replies = {
        "lookup_order": [
            ToolReply(failure=ToolFailure("timeout", "no answer", retryable=True)),
            ToolReply({"status": "x"}),
        ]
    }
    session = await shop(text, replies=replies).start()
    with pytest.raises(TurnFailed, match="the tool lookup_order failed: no answer") as failed:
        await session.reply("17")
    assert (failed.value.kind, failed.value.place[2], failed.value.retryable) == ("tool", "look_up", True)
    assert (await session.reply("17")).said == ["Done."]


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ({"items": []}, "result"),
        ({"status": 5}, "result"),
        ("a text", "result"),
        ({"status": "x" * 30_000}, "result"),
    ],
)
async def test_result_against_its_schema_is_a_failure(reply: Any, kind: str):
    session = shop(replies={"lookup_order": [ToolReply(reply)]})
    await (await session.start()).reply("17")
    assert session.said[0] == f"I cannot look now ({kind})."
    assert "x" * 100 not in session.said[1]


async def test_parameter_without_a_value_is_a_failure_and_no_call():
    text = LOOK_UP.replace('{order: "A-{{ order_number }}"}', "{order: =missing}")
    session = shop(text, replies={"lookup_order": [ToolReply({"status": "sent"})]})
    await (await session.start()).reply("17")
    assert session.said[:2] == [
        "I cannot look now (arguments).",
        "the parameters do not match the declaration: `order` is missing",
    ]


async def test_result_of_another_type_stays_unset_with_a_warning():
    text = LOOK_UP.replace("{var: status, type: text}", "{var: bought, type: text}")
    session = await (await shop(text.replace("items: {type: array}", "items: {}")).start()).reply("17")
    assert [code for code, _ in session.warnings] == ["value_missing", "undefined_variable"]


async def test_calls_of_a_turn_are_limited():
    text = f"""{TOOLS}
phases:
  - phase: only
    topics:
      - topic: talk
        actions:
          - repeat: {{max: 4}}
            id: again
            do:
              - {{id: look_up, tool: lookup_order, with: {{order: A}}, into: found}}
          - {{id: bye, say: "{{{{ found.status }}}}"}}
"""
    with pytest.raises(TurnFailed, match="more than 3 calls of tools"):
        await shop(text, limits=Limits(tool_calls_max=3)).start()
    session = await shop(text, limits=Limits(tool_calls_max=4)).start()
    assert len(session.happened(ToolCalled)) == 4


async def test_restart_of_a_turn_makes_no_call_again():
    text = f"""{TOOLS}
phases:
  - phase: only
    topics:
      - topic: talk
        actions:
          - {{id: look_up, tool: lookup_order, with: {{order: A}}, into: found}}
          - {{id: recalls, say: "{{{{ found.status }}}} {{{{ recall('tea') }}}}"}}
"""
    replies = [ToolReply({"status": "first"}), ToolReply({"status": "second"})]
    session = await shop(text, replies={"lookup_order": replies}).start()
    assert session.said == ["first "]
