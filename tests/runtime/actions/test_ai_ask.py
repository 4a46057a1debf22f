"""`ai_ask` and `ai_think`: the model leads, the deciding reply wins, and nothing comes from another action."""

import pytest

from runtime.state.events import Exited
from tests.support.runtime_session import StartSession

NAME = """
- ai_ask: Find out the name.
  id: name
  %s
  output: [{get: name}]
- user_say: go on
"""


async def test_the_deciding_reply_wins_over_an_earlier_one(drive: StartSession) -> None:
    session = await drive(
        NAME % "",
        replies={
            "name": ["Name?", {"text": "Sure?", "values": {"name": "OLD"}}, {"exit": True, "values": {"name": "NEW"}}]
        },
    )
    await session.reply("old", "new")
    assert session.values == {"name": "NEW"}
    assert session.turns[-1].changes[0].source == "model"


async def test_value_of_an_earlier_round_counts_if_the_last_has_none(drive: StartSession) -> None:
    session = await drive(
        NAME % "",
        replies={
            "name": ["Name?", {"text": "Sure?", "values": {"name": "Ana"}}, {"exit": True, "values": {"name": ""}}]
        },
    )
    await session.reply("Ana", "yes")
    assert session.values == {"name": "Ana"}


async def test_a_second_action_never_inherits_the_first_ones_values(drive: StartSession) -> None:
    session = await drive(
        """
        - {ai_ask: Name., id: first, output: [{get: name}, {get: age, type: number}]}
        - {ai_ask: Age., id: second, output: [{get: age, type: number}], max_rounds: 1}
        - user_say: go on
        """,
        replies={
            "first": ["?", {"exit": True, "values": {"name": "Ana"}}],
            "second": ["?", {"exit": True, "values": {}}],
        },
    )
    await session.reply("Ana, 28", "no")
    assert session.values == {"name": "Ana"}
    assert session.turns[-1].model_calls[-1].request.replies == ("no",)


async def test_missing_value_is_requested_once_and_then_reported(drive: StartSession) -> None:
    session = await drive(
        """
        - {ai_ask: All of it., id: q, output: [{get: name}, {get: age, type: number}, {get: town}]}
        - user_say: go on
        """,
        replies={
            "q": ["?", {"exit": True, "values": {"name": "Ana"}, "exit_reason": "enough"}],
            "q.extract": [{"values": {"age": "28 years"}}],
        },
    )
    await session.reply("I am Ana")
    asked = session.turns[-1].model_calls[-1].request
    assert (asked.purpose, [output.get for output in asked.outputs]) == ("extract", ["age", "town"])
    assert session.values == {"name": "Ana", "age": 28}
    assert session.warnings == [("value_missing", "`town` stays unset: the reply did not give it")]


async def test_without_a_model_an_exit_of_conditions_ends_the_question(drive: StartSession) -> None:
    session = await drive(
        """
        - ai_ask: How do you feel?
          id: mood
          output: [{get: mood}]
          exit_criteria: {custom_conditions: [{variable: mood, operator: contains, value: calm}]}
          max_rounds: 3
        - user_say: go on
        """
    )
    await session.reply("nervous")
    assert session.said == ["How do you feel?"]
    await session.reply("quite calm")
    assert session.values == {"mood": "quite calm"}
    assert [exited.source for exited in session.happened(Exited)] == ["exit_when"]


async def test_without_a_model_the_first_valid_reply_meets_an_exit(drive: StartSession) -> None:
    session = await drive(
        """
        - {ai_ask: How do you feel?, id: mood, output: [{get: mood}], exit: a feeling was named, exit_when: round > 5}
        - user_say: go on
        """
    )
    await session.reply("nervous")
    assert session.values == {"mood": "nervous"}


async def test_the_offline_model_says_why_a_value_is_missing(drive: StartSession) -> None:
    session = await drive("- {ai_ask: All of it., output: [{get: name}, {get: age, type: number}]}\n- user_say: go on")
    await session.reply("age: 28")
    assert session.values == {"age": 28}
    assert session.warnings == [("value_missing", "`name` stays unset: the reply has no part labelled name")]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("{get: it}", {"it": "no idea"}),
        ("{get: it, type: text}", {"it": "no idea"}),
        ("{get: it, type: number}", {}),
        ("{get: it, pattern: '\\d+'}", {}),
        ("{get: it, type: list, fallback: raw}", {}),
        ("{get: it}, {get: other}", {}),
        ("{get: it, fallback: raw}, {get: other}", {"it": "no idea"}),
    ],
)
async def test_user_messages_are_stored_only_if_the_script_allows_it(drive: StartSession, output, expected) -> None:
    session = await drive(
        f"- {{ai_ask: Well., id: q, output: [{output}]}}\n- user_say: go on", replies={"q": ["?", {"exit": True}]}
    )
    await session.reply(" no idea ")
    assert session.values == expected


async def test_blank_reply_prompts_again_without_a_round_or_call(drive: StartSession) -> None:
    session = await drive(NAME % "", replies={"name": ["Name?", {"text": "Sure?"}, {"exit": True}]})
    for blank in ("  ", "\u200b", "\u2060\n\ufffc"):
        await session.reply(blank)
        assert (session.said, session.state.progress.round, session.turns[-1].model_calls) == (["Name?"], 0, ())
    await session.reply("x", "")
    assert (session.said, session.state.progress.round) == (["Sure?"], 1)


async def test_reply_in_plain_words_is_said_and_the_session_continues(drive: StartSession) -> None:
    session = await drive(NAME % "", replies={"name": ["Name?", "I mean your first name.", {"exit": True}]})
    await session.reply("guess")
    assert session.said == ["I mean your first name."]


async def test_the_prompt_has_the_task_the_exit_and_all_replies(drive: StartSession) -> None:
    session = await drive(
        """
        script: test
        phases:
        - phase: only
          topics:
          - topic: talk
            goal: trust
            strategy: slowly
            actions:
            - {ai_ask: "Find out the name of {{ user.id }}.", id: q, exit: "{{ user.id }} said it", tone: warm,
               role: guide, output: [{get: name, define: first name}]}
        """,
        replies={"q": ["?", "Really?", {"exit": True, "values": {"name": "Bo"}}]},
    )
    await session.reply("{{ a }}", "b")
    request = session.turns[-1].model_calls[0].request
    assert (request.task, request.exit) == ("Find out the name of ana.", "ana said it")
    assert (request.goal, request.strategy, request.tone, request.role) == ("trust", "slowly", "warm", "guide")
    assert (request.reply, request.replies, request.round) == ("b", ("{{ a }}", "b"), 2)
    assert [message.content for message in request.history] == ["?", "{{ a }}", "Really?", "b"]


async def test_invalid_value_is_asked_again_even_if_the_model_is_done(drive: StartSession) -> None:
    session = await drive(
        """
        - {ai_ask: Age., id: q, output: [{get: age, type: number, max: 120, invalid: Truly?}]}
        - user_say: go on
        """,
        replies={"q": ["Age?", {"exit": True, "values": {"age": 500}}, {"exit": True, "values": {"age": 50}}]},
    )
    await session.reply("500")
    assert (session.said, session.values) == (["Truly?"], {})
    await session.reply("50")
    assert session.values == {"age": 50}


async def test_a_required_value_keeps_the_model_asking(drive: StartSession) -> None:
    session = await drive(
        """
        - {ai_ask: Age., id: q, output: [{get: age, type: number, required: true}, {get: name}]}
        - user_say: go on
        """,
        replies={"q": ["?", {"exit": True}, {"exit": True, "values": {"age": 50}}]},
    )
    await session.reply("hm")
    assert session.said == ["Sorry, I need a number here."]
    await session.reply("50")
    assert session.values == {"age": 50}


@pytest.mark.parametrize("required", ["", ", required: true"])
@pytest.mark.parametrize(
    ("policy", "said"), [("default", ["[18]"]), ("skip", ["[]"]), ("end", []), ("goto only/bye", ["bye"])]
)
async def test_what_follows_when_the_rounds_are_used_up(drive: StartSession, policy, said, required) -> None:
    session = await drive(f"""
        script: test
        phases:
        - phase: only
          topics:
          - topic: talk
            actions:
            - {{ai_ask: Age., max_rounds: 2, output: [{{get: age, type: number, default: 18{required}}}],
               on_fail: {policy}}}
            - say: "[{{{{ age }}}}]"
            - end: ""
          - topic: bye
            actions: [{{say: bye}}]
    """)
    await session.reply("old", "very")
    assert (session.said, session.state.status) == (said, "completed")
    assert [exited.source for exited in session.happened(Exited)] == ["max_rounds"]


async def test_an_optional_value_does_not_count_as_a_failure(drive: StartSession) -> None:
    session = await drive("""
        - {ai_ask: Age., max_rounds: 1, output: [{get: age, type: number, required: false}], on_fail: end}
        - say: go on
    """)
    await session.reply("old")
    assert session.said == ["go on"]


async def test_ai_think_fills_its_outputs_in_silence(drive: StartSession) -> None:
    session = await drive(
        """
        - {user_say: hi}
        - ai_think: Judge the mood.
          id: judge
          output:
          - {get: mood, choices: [low, good]}
          - {get: energy, type: number, default: 5}
          - {get: sleep, type: number, min: 0}
          - {set: fine, value: mood == "good"}
        - user_say: go on
        """,
        replies={"judge": [{"values": {"mood": "rather good", "sleep": -1}}]},
    )
    await session.reply("I feel great")
    assert (session.said, session.values) == ([], {"mood": "good", "energy": 5, "fine": True})
    assert session.warnings == [("value_missing", "`sleep` stays unset: the model gave no usable value")]
    assert [(change.name, change.source) for change in session.turns[-1].changes] == [
        ("energy", "default"),
        ("mood", "model"),
        ("fine", "script"),
    ]


@pytest.mark.parametrize(("required", "asked"), [("", 1), (", required: false", 0)])
async def test_offline_a_reply_without_any_value_is_no_answer(drive: StartSession, required, asked) -> None:
    outputs = f"[{{get: age, type: number{required}}}, {{get: mood, choices: [low, good]{required}}}]"
    session = await drive(f"- {{ai_ask: How old, output: {outputs}}}\n- user_say: go on")
    await session.reply("Why?")
    assert session.said == ["How old"] * asked


async def test_ai_think_offline_reads_labelled_parts_of_the_last_reply(drive: StartSession) -> None:
    session = await drive("""
        - user_say: tell
        - user_say: more
        - {ai_think: The age., output: [{get: age, type: number}, {get: mood}]}
        - user_say: go on
    """)
    await session.reply("age: 20", "my age: 30")
    assert session.values == {"age": 30}
    assert session.warnings == [("value_missing", "`mood` stays unset: there is no model, and no reply names it")]
