"""A turn that cannot be finished: a named error at its action, the state untouched, and the session still answers."""

import asyncio
import time

import pytest

from runtime.engine.engine import TurnFailed
from runtime.models.offline_model import OfflineModel
from runtime.state.inputs import InputRefused, Reply
from runtime.state.limits import Limits
from runtime.state.ports import ModelFailed, ModelReply
from runtime.state.state import encode
from runtime.turn.calls import GIVEN_UP
from tests.support.runtime_session import NewSession, ReadProgram, StartSession

SCRIPT = """
- {ask: Name?, id: name, output: [{get: name}]}
- set: {asked: asked|default(0) + 1}
- {ai_say: "Greet {{ name }}.", id: greet}
- user_say: go on
"""
GREETING = {"greet": ["Hello Ana."]}


async def failed_turn(session, given):
    """Return the failure of a turn, after making sure that it left no trace."""
    before = encode(session.state)
    with pytest.raises(TurnFailed) as failed:
        await session.turn(given)
    assert encode(session.state) == before
    return failed.value


async def test_model_that_fails_at_first_leaves_the_session_unchanged(drive: StartSession, prepare: NewSession) -> None:
    session = prepare(
        "- {set: {a: 1}}\n- {ai_ask: Well., id: q}\n- user_say: later", replies={"q": [{"fail": "no answer"}]}
    )
    before = encode(session.state)
    with pytest.raises(TurnFailed, match="no answer") as failed:
        await session.start()
    assert (failed.value.kind, failed.value.place, failed.value.retryable) == ("model", ("only", "talk", "q"), True)
    assert encode(session.state) == before


async def test_retry_has_the_result_of_a_turn_without_the_failure(drive: StartSession) -> None:
    session = await drive(SCRIPT, replies={"greet": [{"fail": "overloaded"}]})
    failure = await failed_turn(session, Reply("Ana"))
    assert (failure.kind, failure.retryable, failure.place[2]) == ("model", True, "greet")
    untroubled = await drive(SCRIPT, replies=GREETING)
    session.model = untroubled.model
    await session.reply("Ana")
    await untroubled.reply("Ana")
    assert session.state == untroubled.state
    assert [turn.events for turn in session.turns] == [turn.events for turn in untroubled.turns]


async def test_a_reply_nobody_wrote_names_the_nearest(drive: StartSession) -> None:
    session = await drive(SCRIPT, replies={"great": ["Hello"]})
    failure = await failed_turn(session, Reply("Ana"))
    assert str(failure) == "no reply is written for greet; the nearest is great"
    assert failure.retryable is False


async def test_model_that_never_answers_ends_with_the_time_of_the_turn(drive: StartSession) -> None:
    class Silent(OfflineModel):
        def goes_to(self, request):
            return "silent"

        async def complete(self, request, hear=None):
            await asyncio.sleep(60)

    session = await drive(SCRIPT, limits=Limits(turn_s=2))
    session.model = Silent()
    failure = await failed_turn(session, Reply("Ana"))
    assert (failure.kind, failure.retryable) == ("model", True)
    assert "before the turn's time was over" in str(failure)
    assert [call.ended.error for call in failure.model_calls] == [GIVEN_UP]
    session.model = OfflineModel()
    await session.reply("Ana")
    assert session.state.turn == 1


async def test_a_long_turn_lets_others_run_and_ends_with_its_time(drive: StartSession) -> None:
    heavy = "{% for a in range(90) %}{% for b in range(90) %}{{ a }}{% endfor %}{% endfor %}"
    session = await drive(
        f"- user_say: go\n- {{repeat: {{max: 900}}, id: r, do: [{{say: '{heavy}', id: s}}]}}",
        limits=Limits(turn_s=0.5, output_chars_max=10**9),
    )
    began = time.process_time()
    failure = await failed_turn(session, Reply("ok"))
    assert failure.kind == "limit"
    assert time.process_time() - began < 200


async def test_others_run_after_each_action_that_takes_long(drive: StartSession) -> None:
    steps, others = 10, 0
    heavy = "(range(3000)|map('string')|list|length) < 1"
    session = await drive("- user_say: go\n" + f'- {{if: "{heavy}", then: [{{say: Never.}}]}}\n' * steps)
    turn = asyncio.create_task(session.reply("ok"))
    while not turn.done():
        await asyncio.sleep(0)
        others += 1
    await turn
    assert others >= steps


@pytest.mark.parametrize(
    "bomb",
    [
        "{{ 'a' * 10**9 }}",
        "{{ range(10**9) | list }}",
        "{{ 9 ** 9 ** 9 }}",
        "{% for a in range(5000) %}{% for b in range(5000) %}x{% endfor %}{% endfor %}",
        "{% for a in range(4000) %}{{ 'xxxxxxxxxxxx' }}{% endfor %}",
        "{{ name.__class__ }}",
        "{{ 1 / 0 }}",
        "{{ '%1000000000d' % 1 }}",
    ],
)
async def test_a_failed_text_stops_at_its_action_and_ends_no_session(drive: StartSession, bomb) -> None:
    session = await drive(
        f"""
        - {{ask: Name?, id: name, output: [{{get: name}}]}}
        - {{say: "{bomb}", id: bomb, when: name == "bomb"}}
        - user_say: fine
        """
    )
    began = time.process_time()
    failure = await failed_turn(session, Reply("bomb"))
    assert time.process_time() - began < 20
    assert (failure.kind, failure.place, failure.retryable) == ("action", ("only", "talk", "bomb"), False)
    assert str(failure).startswith("line 9: ")
    await session.reply("Ana")
    assert session.values == {"name": "Ana"}


@pytest.mark.parametrize(
    ("script", "limits", "message"),
    [
        ("- {goto: talk, id: round, when: not over}", Limits(), "more than 1,000 actions"),
        (
            "- {say: '{{ \"x\" * 60 }}', id: round}\n- {goto: talk, when: not over}",
            Limits(output_chars_max=1_000),
            "1,000 characters said",
        ),
        (
            "- {show: {url: '{{ \"x\" * 60 }}'}, id: r}\n- {goto: talk, when: not over}",
            Limits(output_chars_max=1_000),
            "characters said",
        ),
        (
            "- {ai_think: Think., id: round}\n- {goto: talk, when: not over}",
            Limits(model_calls_max=5),
            "more than 5 calls of the model",
        ),
        (
            "- {say: '{{ unset }}', id: round}\n- {goto: talk, when: not over}",
            Limits(events_max=100),
            "more than 100 events",
        ),
    ],
)
async def test_a_turn_past_a_limit_names_it(prepare: NewSession, script, limits, message) -> None:
    with pytest.raises(TurnFailed, match=message) as failed:
        await prepare(script, limits=limits).start()
    assert (failed.value.kind, failed.value.retryable, failed.value.place[:2]) == ("limit", False, ("only", "talk"))


async def test_value_of_a_wrong_type_stops_at_its_action(drive: StartSession) -> None:
    session = await drive("""
        script: test
        declare: [{var: age, type: number}]
        phases:
        - phase: only
          topics:
          - topic: talk
            actions:
            - {ask: Age?, output: [{get: said}]}
            - {set: {age: said}, id: keep}
            - user_say: go on
    """)
    failure = await failed_turn(session, Reply("old"))
    assert (failure.kind, failure.place[2]) == ("action", "keep")
    assert str(failure) == "`age`: expected number, found text 'old'"
    await session.reply("28")
    assert session.values["age"] == 28


async def test_initial_variable_of_a_wrong_type_fails_the_first_turn(prepare: NewSession) -> None:
    session = prepare("script: t\ndeclare: [{var: age, type: number}]\nphases: []", variables={"age": "old"})
    with pytest.raises(TurnFailed, match="`age`: expected number"):
        await session.start()


@pytest.mark.parametrize(
    ("phase", "topic", "action"), [("gone", "talk", "q"), ("only", "gone", "q"), ("only", "talk", "gone")]
)
async def test_a_place_the_script_no_longer_has_is_named(drive: StartSession, phase, topic, action) -> None:
    session = await drive("- {ask: Well?, id: q}")
    session.state.phase, session.state.topic, session.state.frames[0].action = phase, topic, action
    failure = await failed_turn(session, Reply("x"))
    assert (failure.kind, str(failure)) == ("place", f"the script has no action {phase}/{topic}/{action}")


async def test_an_action_that_became_another_takes_no_reply(drive: StartSession, program_of: ReadProgram) -> None:
    session = await drive("- {ask: Well?, id: q}")
    session.program = program_of("- {say: Well., id: q}")
    failure = await failed_turn(session, Reply("x"))
    assert (failure.kind, str(failure)) == ("action", "`say` takes no reply")


async def test_what_is_no_text_is_refused(drive: StartSession) -> None:
    session = await drive("- user_say: hi")
    with pytest.raises(InputRefused, match="not valid Unicode"):
        await session.reply("\ud800")


async def test_a_model_may_give_anything_and_nothing_crashes(drive: StartSession) -> None:
    class Odd(OfflineModel):
        async def complete(self, request, hear=None):
            values = {"age": object(), "name": ["\ud800"], "list": float("nan"), "extra": 1}
            return ModelReply(text="hm", values=values, exit=True)

    session = await drive("""
        - {ai_ask: All., output: [{get: age, type: number}, {get: name}, {get: list, type: list}], max_rounds: 1}
        - user_say: go on
    """)
    session.model = Odd()
    await session.reply("x")
    assert session.values == {}
    assert [code for code, _ in session.warnings] == ["value_missing"] * 3


async def test_failures_of_a_model_differ_by_whether_a_retry_may_help(drive: StartSession) -> None:
    class Refusing(OfflineModel):
        async def complete(self, request, hear=None):
            raise ModelFailed("no key", retryable=False)

    session = await drive(SCRIPT)
    session.model = Refusing()
    assert (await failed_turn(session, Reply("Ana"))).retryable is False
