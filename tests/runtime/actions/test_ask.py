"""`ask`: a fixed question whose answers are parsed, typed and validated, with so many rounds to get it right."""

import time

import pytest

from runtime.answers.languages import phrase
from runtime.state.events import Jumped, VariableChanged, Warned
from runtime.state.state import Wait
from tests.support.runtime_session import StartSession

AGE = "- {ask: Age?, id: age, output: [{get: age, type: number%s}]%s}\n- say: '[{{ age }}]'"


@pytest.mark.parametrize(
    ("output", "reply", "value"),
    [
        ("type: number", "I am twenty-eight", 28),
        ("type: number", "我28岁", 28),
        ("type: number", "zero, 0", 0),
        ("type: boolean", "not really, no", False),
        ("type: boolean", "是的", True),
        ("type: date", "2026-01-31", "2026-01-31"),
        ("type: list", "a，b、c", ["a", "b", "c"]),
        ("type: record", '{"a": 1}', {"a": 1}),
        ("choices: [tea, green tea]", "some green tea please", "green tea"),
        ("choices: [tea, coffee]", "2", "coffee"),
        ("type: text", "  as it is  ", "as it is"),
        ("define: what they said", "as it is", "as it is"),
        ("pattern: '[A-Z]{2}\\d+'", "it is AB12, I think", "AB12"),
    ],
)
async def test_a_reply_becomes_a_value_of_the_type(drive: StartSession, output, reply, value) -> None:
    session = await drive(f"- {{ask: Well?, output: [{{get: it, {output}}}]}}\n- user_say: go on")
    await session.reply(reply)
    assert session.cells("topic") == {"it": value}


@pytest.mark.parametrize(
    ("output", "reply"),
    [
        ("type: number", "no idea"),
        ("type: number, min: 18", "17"),
        ("type: number, max: 99", "120"),
        ("type: boolean", "maybe"),
        ("type: date", "someday"),
        ("type: date, min: '2026-01-01'", "2025-12-31"),
        ("type: date, max: '20260101'", "2026-01-02"),
        ("choices: [tea, coffee]", "water"),
        ("type: text, min: 3", "ab"),
        ("type: text, max: 3", "abcd"),
        ("type: list, max: 2", "a, b, c"),
        ("type: text, pattern: '\\d+'", "none"),
        ("type: number, validate: it % 2 == 0", "3"),
        ("type: number, validate: it > limit", "3"),
    ],
)
async def test_what_does_not_fit_is_asked_again_and_not_stored(drive: StartSession, output, reply) -> None:
    session = await drive(f"- {{ask: Well?, id: q, output: [{{get: it, {output}, invalid: No.}}]}}\n- say: end")
    await session.reply(reply)
    assert session.said == ["No."]
    assert (session.values, session.state.progress.round) == ({}, 1)


@pytest.mark.parametrize("limits", ["min: '2026-01-01'", "max: '20260101'"])
async def test_the_limits_of_a_date_are_days(drive: StartSession, limits) -> None:
    session = await drive(f"- {{ask: When?, output: [{{get: day, type: date, {limits}}}]}}\n- user_say: go on")
    await session.reply("2026-01-01")
    assert session.values == {"day": "2026-01-01"}


async def test_the_value_may_be_compared_with_what_was_known_before(drive: StartSession) -> None:
    session = await drive("""
        - set: {lowest: 18}
        - {ask: Age?, output: [{get: age, type: number, validate: age >= lowest}]}
    """)
    await session.reply("17")
    assert session.values == {"lowest": 18}
    await session.reply("18")
    assert session.state.status == "completed"


async def test_one_answer_may_be_compared_with_another(drive: StartSession) -> None:
    session = await drive("""
        - ask: From when to when?
          output:
          - {get: first, type: date}
          - {get: last, type: date, validate: last >= first, invalid: It ends before it begins.}
        - user_say: go on
    """)
    await session.reply("first: 2026-02-01, last: 2026-01-01")
    assert session.said == ["It ends before it begins."]
    await session.reply("last: 2026-03-01")
    assert session.values == {"first": "2026-02-01", "last": "2026-03-01"}


@pytest.mark.parametrize(
    ("extra", "action", "locale", "said"),
    [
        ("", "", "en", "Sorry, I need a number here."),
        ("", "", "zh", "抱歉，这里需要一个数字。"),
        ("", ", invalid: A number.", "en", "A number."),
        (", invalid: A good number.", ", invalid: A number.", "en", "A good number."),
    ],
)
async def test_invalid_text_is_of_the_output_the_action_or_the_locale(
    drive: StartSession, extra, action, locale, said
) -> None:
    body = (AGE % (extra, action)).replace("\n", "\n    ")
    session = await drive(
        f"script: t\nlocale: {locale}\nphases:\n- phase: p\n  topics:\n  - topic: t\n    actions:\n    {body}"
    )
    await session.reply("old")
    assert session.said == [said]


SCORED = "{get: score, type: number, choices: [{0: Never}, {1: Some days}, {10: Always}]}"


@pytest.mark.parametrize(
    ("reply", "score"), [("some days", 1), ("Always", 10), ("10", 10), ("about 1", 1), ("the last one", 10)]
)
async def test_a_choice_may_stand_for_a_number(drive: StartSession, reply, score) -> None:
    session = await drive(
        f"- {{ask: How often?, output: [{SCORED}]}}\n- say: 'Twice is {{{{ score * 2 }}}}.'\n- user_say: ok"
    )
    assert [(each.key, each.text) for each in session.state.wait.choices] == [
        ("0", "Never"),
        ("1", "Some days"),
        ("10", "Always"),
    ]
    await session.reply(reply)
    assert (session.values, session.said) == ({"score": score}, [f"Twice is {score * 2}."])


@pytest.mark.parametrize("reply", ["7", "sometimes"])
async def test_a_number_that_is_no_choice_is_refused(drive: StartSession, reply) -> None:
    session = await drive(f"- {{ask: How often?, output: [{SCORED}]}}\n- say: done")
    await session.reply(reply)
    assert session.said == ["Sorry, please choose one of these: Never, Some days, Always."]


async def test_labels_of_a_declaration_are_offered(drive: StartSession) -> None:
    session = await drive("""
        script: declared
        declare: [{var: mood, choices: [{low: Not so well}, ok]}]
        phases: [{phase: p, topics: [{topic: t, actions: [{ask: "How are you?", output: [{get: mood}]}]}]}]
    """)
    assert [(each.key, each.text) for each in session.state.wait.choices] == [("low", "Not so well"), ("ok", "ok")]
    assert (await session.reply("not so well")).values == {"mood": "low"}


async def test_the_choices_are_named_when_none_was_taken(drive: StartSession) -> None:
    session = await drive("- {ask: Which?, output: [{get: drink, choices: [tea, coffee]}]}")
    assert [choice.key for choice in session.state.wait.choices] == ["tea", "coffee"]
    await session.reply("water")
    assert session.said == ["Sorry, please choose one of these: tea, coffee."]


@pytest.mark.parametrize("choice", ["1.0", "10", "drink: tea", "+", " tea"])
async def test_a_choice_taken_by_its_key_is_that_choice(drive: StartSession, choice) -> None:
    session = await drive(
        "- {ask: Which?, output: [{get: drink, choices: ['1.0', '10', 'drink: tea', '+', ' tea']}]}\n- user_say: ok"
    )
    await session.choose(choice)
    assert session.values == {"drink": choice}
    assert (session.messages[1].content, session.messages[1].metadata) == (choice, {"choice": choice})


async def test_a_blank_reply_asks_again_and_costs_no_round(drive: StartSession) -> None:
    session = await drive(AGE % ("", ", max_rounds: 1"))
    await session.reply("", "  ", "\n", "\u200b", "\ufffc \ufeff")
    assert (session.said, session.state.progress.round) == (["Age?"], 0)
    await session.reply("28")
    assert session.said == ["[28]"]


async def test_every_answer_counts_and_only_missing_ones_are_asked(drive: StartSession) -> None:
    session = await drive("""
        - ask: Name and age?
          output: [{get: name}, {get: age, type: number, invalid: And the age?}]
        - user_say: go on
    """)
    await session.reply("name: Ana, age: ?")
    assert (session.said, session.values) == (["And the age?"], {})
    await session.reply("28")
    assert session.values == {"name": "Ana", "age": 28}


async def test_the_deciding_reply_wins_over_an_earlier_one(drive: StartSession) -> None:
    session = await drive("""
        - ask: Name and age?
          output: [{get: name, invalid: And the name?}, {get: age, type: number}]
        - user_say: go on
    """)
    await session.reply("age: 25")
    assert session.said == ["And the name?"]
    await session.reply("name: Bo, age: 30")
    assert session.values == {"name": "Bo", "age": 30}


async def test_an_optional_answer_may_be_missing_and_is_reported(drive: StartSession) -> None:
    session = await drive("""
        - {ask: "Name, age?", output: [{get: name}, {get: age, type: number, required: false}], id: q}
    """)
    await session.reply("name: Ana")
    assert session.happened(Warned) == [Warned("value_missing", "`age` stays unset: the reply did not give it", "q")]
    assert session.state.status == "completed"


async def test_the_model_finds_what_the_parsers_do_not(drive: StartSession) -> None:
    session = await drive(
        AGE % ("", ""), replies={"age.extract": [{"values": {"age": "twenty-eight years", "other": "ignored"}}]}
    )
    await session.reply("older than my brother")
    assert session.said == ["[28]"]


async def test_a_reply_of_another_action_is_never_inherited(drive: StartSession) -> None:
    session = await drive("""
        - {ask: Name and age?, output: [{get: name}, {get: age, type: number}]}
        - {ask: Sure?, output: [{get: age, type: number, invalid: Age again?}], max_rounds: 2}
        - user_say: go on
    """)
    await session.reply("name: Ana, age: 28", "what?")
    assert session.said == ["Age again?"]
    await session.reply("what?")
    assert session.values == {"name": "Ana", "age": 28}
    assert session.warnings == [("value_missing", "`age` keeps its earlier value: no valid answer within the rounds")]


async def test_values_are_computed_from_the_answers_last(drive: StartSession) -> None:
    session = await drive("""
        - ask: Age?
          output:
          - {set: adult, value: age >= 18}
          - {set: note, value: '"minor"', when: not adult}
          - {get: age, type: number}
        - user_say: go on
    """)
    await session.reply("28")
    assert session.values == {"age": 28, "adult": True}


@pytest.mark.parametrize(
    ("keys", "said", "reason"),
    [
        (", on_fail: default", ["[18]"], ""),
        (", on_fail: skip", ["[]"], ""),
        (", on_fail: end", [], "no valid answer to age"),
        (", on_fail: {goto: bye}", ["bye"], ""),
        (", on_fail: goto only/bye", ["bye"], ""),
    ],
)
async def test_what_follows_when_the_rounds_are_used_up(drive: StartSession, keys, said, reason) -> None:
    session = await drive(f"""
        script: test
        phases:
        - phase: only
          topics:
          - topic: talk
            actions:
            - {{ask: Age?, id: age, max_rounds: 2, output: [{{get: age, type: number, default: 18}}]{keys}}}
            - say: "[{{{{ age }}}}]"
            - end: ""
          - topic: bye
            actions: [{{say: bye}}]
    """)
    await session.reply("old")
    assert session.state.wait == Wait("text")
    await session.reply("very")
    assert (session.said, session.state.end_reason) == (said, reason)
    assert session.state.status == "completed"
    assert bool(session.happened(Jumped)) == ("goto" in keys)


async def test_valid_answers_are_retained_when_the_rounds_are_used_up(drive: StartSession) -> None:
    session = await drive("""
        - ask: Name and age?
          max_rounds: 1
          output: [{get: name}, {get: age, type: number, default: 18}]
        - user_say: go on
    """)
    await session.reply("name: Ana")
    assert session.values == {"name": "Ana", "age": 18}
    assert [change.source for change in session.turns[-1].changes] == ["user", "default"]


async def test_a_question_without_outputs_takes_any_reply(drive: StartSession) -> None:
    session = await drive("- ask: How are you?\n- say: good")
    await session.reply("fine")
    assert session.said == ["good"]


async def test_a_pattern_that_never_ends_refuses_the_value_in_time(drive: StartSession) -> None:
    session = await drive(r"- {ask: Code?, output: [{get: code, type: text, pattern: '(a|aa)+$'}]}")
    began = time.process_time()
    await session.reply("a" * 60 + "b")
    assert time.process_time() - began < 20
    assert session.said == ["Sorry, that does not fit. Could you answer again?"]


@pytest.mark.parametrize(
    ("output", "reply", "said"),
    [
        ("type: number, min: 0, max: 10", "12", "Sorry, I need a value in this range: 0 – 10."),
        ("type: number, min: 1.5", "1", "Sorry, I need a value in this range: ≥ 1.5."),
        ("type: time, min: '9:00', max: '17:00'", "8 pm", "Sorry, I need a value in this range: 9:00 – 17:00."),
        ("type: text, max: 3", "hello", "Sorry, that does not fit. Could you answer again?"),
        ("type: number, max: 4, invalid: Up to four!", "5", "Up to four!"),
    ],
)
async def test_a_value_outside_its_range_is_answered_with_it(
    drive: StartSession, output: str, reply: str, said: str
) -> None:
    session = await drive(f"- {{ask: 'How much?', output: [{{get: x, {output}}}]}}")
    assert (await session.reply(reply)).said == [said]


def test_own_words_for_invalid_answers_are_for_ranges_too() -> None:
    assert phrase("en", "range", ("≤ 9",), own={"invalid": "Pardon?"}) == "Pardon?"
    assert phrase("en", "range", ("≤ 9",), own={"invalid": "Pardon?", "range": "Up to {choices}!"}) == "Up to ≤ 9!"


async def test_an_answer_takes_the_type_its_variable_is_declared_with(drive: StartSession) -> None:
    session = await drive("""
        script: declared
        declare: [{var: age, type: number}, {var: mood, choices: [low, ok]}]
        phases:
        - phase: p
          topics:
          - topic: t
            actions:
            - {ask: "How old?", output: [{get: age, max: 120}]}
            - {ask: "How are you?", output: [{get: mood}]}
            - say: done
    """)
    assert (await session.reply("300")).said == ["Sorry, I need a value in this range: ≤ 120."]
    await session.reply("I'm 30")
    assert [choice.key for choice in session.state.wait.choices] == ["low", "ok"]
    await session.reply("OK")
    assert session.values == {"age": 30, "mood": "ok"}


async def test_the_first_condition_that_does_not_hold_says_its_text(drive: StartSession) -> None:
    session = await drive("""
        - ask: How many?
          output:
          - get: n
            type: number
            invalid: Another number, please.
            validate:
            - {unless: n > 0, say: "More than none, please."}
            - {unless: n < 10, say: Fewer than ten.}
            - n != 5
          max_rounds: 10
        - user_say: go on
    """)
    said = []
    for reply in ("-3", "12", "5", "many", "7"):
        await session.reply(reply)
        said += session.said
    assert said == ["More than none, please.", "Fewer than ten.", *["Another number, please."] * 2]
    assert session.values == {"n": 7}


COMPUTED = """
cuebook: 1
script: test
actions:
  - set: {low: 3}
  - ask: Which?
    into: {var: it, type: number, min: =low, max: "=low * 2", default: =low + 1, invalid: No.}
    rounds: 2
  - set: {low: 100}
  - ask: "Born?"
    into: {var: born, type: date, max: =today, invalid: Not yet.}
  - say: "{{ it }} {{ born }}"
"""


async def test_limits_and_defaults_are_computed_from_variables(drive: StartSession) -> None:
    session = await drive(COMPUTED)
    await session.reply("2")
    assert session.said == ["No."]
    await session.reply("7")
    assert session.values["it"] == 4
    await session.reply("2999-01-01")
    assert session.said == ["Not yet."]
    await session.reply("1990-05-03")
    assert session.said == ["4 1990-05-03"]


async def test_fields_of_records_have_computed_limits(drive: StartSession) -> None:
    records = "into: {add_to: sizes, fields: [{var: size, type: number, max: =low, invalid: Too big.}]}"
    session = await drive(COMPUTED.split("  - ask")[0] + f"  - {{ask: Sizes?, {records}}}\n  - say: '{{{{ sizes }}}}'")
    await session.reply("9")
    assert session.said == ["Too big."]


@pytest.mark.parametrize(("limit", "code"), [("=missing", "undefined_variable"), ("='x'", "expression_failed")])
async def test_a_limit_that_cannot_be_computed_is_none_with_a_warning(drive: StartSession, limit, code) -> None:
    session = await drive(
        f"cuebook: 1\nscript: test\nactions: [{{ask: Which?, into: {{var: it, type: number, max: {limit}}}}}]"
    )
    assert {found for found, _ in session.warnings} == {code}
    await session.reply("9")
    assert [each.new for each in session.happened(VariableChanged)] == [9]


async def test_an_incomplete_reply_is_followed_by_the_missing_names(
    drive: StartSession,
) -> None:
    values = "[{get: name, type: text}, {get: age, type: number}, {get: job, define: your job, type: text}]"
    session = await drive(f"- {{ask: Who are you?, id: q, output: {values}}}\n- say: '{{{{ job }}}}'")
    await session.reply("hello")
    assert session.said == ["Still needed: name, age, your job."]
    await session.reply("age: 30")
    assert session.said == ["Still needed: name, your job."]
    await session.reply("name: Ana, job: cook")
    assert session.said == ["cook"]


async def test_the_missing_values_of_a_record_are_named(drive: StartSession) -> None:
    fields = "{tolist: family, fields: [{get: name, type: text}, {get: age, type: number, required: false}]}"
    session = await drive(f"- {{ask: Who is in your family?, id: q, output: [{fields}]}}\n- user_say: end")
    await session.reply("Eva, 12")
    assert session.said == ["Still needed: name."]
    await session.reply("Eva")
    assert session.cells("topic")["family"] == [{"name": "Eva", "age": 12}]


RANGE = """
actions:
- ask: From and to?
  id: q
  into:
  - {var: low, type: number, validate: [{unless: low < high, say: "{{ low }} is not below {{ high }}."}]}
  - {var: high, type: number, max: 9, invalid: "{{ high }} is too much."}
- {say: "{{ low }} to {{ high }}", id: told, acknowledge: true}
"""


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("low: 2, high: 5", "2 to 5"),
        ("low: 7, high: 5", "7 is not below 5."),
        ("low: 7, high: 70", "70 is too much."),
    ],
)
async def test_validation_and_its_text_read_the_values_of_the_reply(drive: StartSession, reply, said) -> None:
    session = await (await drive(RANGE)).reply(reply)
    assert session.said == [said]


@pytest.mark.parametrize("high", ["9", "5"])
async def test_a_validation_waits_for_the_other_value_that_it_reads(drive: StartSession, high) -> None:
    session = await (await drive(RANGE.replace(', invalid: "{{ high }} is too much."', ""))).reply("low: 7")
    assert session.said == ["Still needed: high."]
    await session.reply(f"high: {high}")
    assert session.said == (["7 to 9"] if high == "9" else ["7 is not below 5."])


async def test_the_last_reply_as_a_whole_is_the_fallback_of_a_value(drive: StartSession) -> None:
    session = await drive("""
actions:
- {ask: When and why?, id: q, rounds: 2, into: [{var: day, type: date}, {var: why, fallback: raw}], on_fail: end}
- {say: "{{ day }}, {{ why }}", id: told, acknowledge: true}
""")
    await session.reply("2026-05-03")
    assert session.said == ["Still needed: why."]
    await session.reply("because I must")
    assert session.said == ["2026-05-03, because I must"]


OFFERED = """
cuebook: 1
script: test
repairs: [correct]
actions:
  - {ask: "Which may it be?", into: {var: cities, type: list}}
  - {ask: Which city?, into: {var: city, CHOICES, invalid: One of these.}}
  - say: "{{ city }}"
"""


@pytest.mark.parametrize("choices", ["choices: =cities", "type: choice, choices: =cities"])
async def test_choices_are_computed_when_the_question_is_put(drive: StartSession, choices: str) -> None:
    session = await drive(OFFERED.replace("CHOICES", choices))
    await session.reply("Rome, Oslo")
    assert [choice.key for choice in session.state.wait.choices] == ["Rome", "Oslo"]
    await session.reply("Lima")
    assert session.said == ["One of these."]
    await session.reply("the second")
    assert session.said == ["Oslo"]


async def test_choices_of_a_question_have_a_maximum(drive: StartSession) -> None:
    session = await drive(OFFERED.replace("CHOICES", "choices: =cities"))
    await session.reply(", ".join(f"place {number}" for number in range(150)))
    assert len(session.state.wait.choices) == 100


async def test_a_correction_changes_the_choices_that_are_offered(drive: StartSession) -> None:
    session = await drive(OFFERED.replace("CHOICES", "choices: =cities"))
    await session.reply("Rome, Oslo")
    await session.reply("change cities to Lima, Bern")
    assert [choice.key for choice in session.state.wait.choices] == ["Lima", "Bern"]
    await session.reply("Bern")
    assert session.said == ["Bern"]


@pytest.mark.parametrize(
    "choices", ["choices: =missing", "type: choice, choices: '=cities | length'", "choices: '=[1]'"]
)
async def test_choices_that_are_no_list_of_texts_leave_the_value_open(drive: StartSession, choices: str) -> None:
    session = await drive(OFFERED.replace("CHOICES", choices))
    await session.reply("Rome, Oslo")
    assert session.state.wait.choices == ()
    assert "expression_failed" in dict(session.warnings)
    await session.reply("Lima")
    assert session.said == ["Lima"]


@pytest.mark.parametrize(
    ("reply", "value"), [("7/10", 7), ("7 out of 10", 7), ("满分10分，我打7分", 7), ("7/12", None), ("10/10", 10)]
)
async def test_a_number_may_be_given_beside_the_highest_one(drive: StartSession, reply, value) -> None:
    question = "ask: From 0 to 10?, output: [{get: score, type: number, min: 0, max: 10}]"
    session = await drive(f"- {{{question}}}\n- user_say: go on")
    await session.reply(reply)
    assert session.values.get("score") == value
