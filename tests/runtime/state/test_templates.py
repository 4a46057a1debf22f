"""Texts and expressions while a session runs: what names mean, what is only data, what a warning says."""

import pytest

from tests.support.runtime_session import StartSession


async def test_variables_are_filled_in_and_their_values_not_rendered(drive: StartSession) -> None:
    session = await drive("""
        - set: {degree: '"1+1"', sum: '"{{ 2*2 }}"'}
        - say: "{{ degree }} and {{ sum }}"
    """)
    assert session.said == ["1+1 and {{ 2*2 }}"]


@pytest.mark.parametrize(
    "reply", ["{{ 7*7 }}", "{% for x in range(9) %}x{% endfor %}", "{task} ${name} $$5 and $& end", "{# no #}", "{{"]
)
async def test_what_the_user_says_stays_as_it_is_whatever_its_braces(drive: StartSession, reply) -> None:
    session = await drive("""
        - {ask: Name?, output: [{get: name}]}
        - set: {copy: name}
        - say: "{{ copy }}"
        - ai_say: "So {{ name }}."
    """)
    await session.reply(reply)
    assert session.said == [reply, f"So {reply}."]


async def test_an_unset_name_is_empty_and_leaves_a_warning(drive: StartSession) -> None:
    session = await drive("""
        - {say: "Hello {{ name }}!", id: greet}
    """)
    assert session.said == ["Hello !"]
    assert session.warnings == [("undefined_variable", "`name` has no value")]


async def test_comparison_with_an_unset_name_is_false_with_a_warning(drive: StartSession) -> None:
    session = await drive("""
        - {say: old, when: age >= 18}
        - {say: young, when: age < 18}
        - {say: unknown, when: not age}
    """)
    assert session.said == ["unknown"]
    assert session.warnings == [("undefined_variable", "`age` has no value")] * 3


async def test_failing_condition_is_false_with_a_warning(drive: StartSession) -> None:
    session = await drive("""
        - set: {age: '"old"'}
        - {say: a, when: age > 18}
        - {say: b, when: 1 / 0}
        - say: c
    """)
    assert session.said == ["c"]
    assert [code for code, _ in session.warnings] == ["not_comparable", "expression_failed"]


async def test_one_warning_says_it_for_a_whole_loop(drive: StartSession) -> None:
    session = await drive("""
        - say: "{% for x in range(100) %}{% if 'a' < x %}y{% endif %}{% endfor %}{{ name }}{{ name }}."
    """)
    assert [code for code, _ in session.warnings].count("undefined_variable") == 1
    assert len(session.warnings) == 101


async def test_the_runtime_gives_time_user_role_and_history(drive: StartSession) -> None:
    session = await drive("""
        - {say: "{{ now.year }} {{ today }} {{ user.id }} {{ role }}", role: guide}
        - user_say: hi
        - say: "{% for each in history(2) %}{{ each.role }}: {{ each.content }};{% endfor %}"
    """)
    assert session.said == ["2026 2026-03-04 ana guide"]
    await session.reply("hello")
    assert session.said == ["assistant: 2026 2026-03-04 ana guide;user: hello;"]


async def test_round_counts_the_replies_to_the_action(drive: StartSession) -> None:
    session = await drive("""
        - ask: Round {{ round }}. Age?
          output: [{get: age, type: number, validate: round > 2, invalid: "Round {{ round }}, again."}]
        - say: done in {{ round }}
    """)
    assert session.said == ["Round 0. Age?"]
    await session.reply("5")
    assert session.said == ["Round 1, again."]
    await session.reply("5")
    assert session.said == ["Round 2, again."]
    await session.reply("5")
    assert session.said == ["done in 0"]


async def test_vars_are_the_variables_in_sight_that_have_a_value(drive: StartSession) -> None:
    shown = 'say: "{% for name, value in vars | items %}{{ name }}={{ value }} {% endfor %}{{ vars | length }}"'
    session = await drive(f"""
        cuebook: 1
        script: vars
        declare: [{{var: mood, value: low}}, {{var: age, value: 3}}]
        actions:
          - {{set: {{age: null}}}}
          - {shown}
          - {{call: rest}}
        skills:
          - {{skill: rest, params: [{{var: minutes, value: 5}}], actions: [{shown}]}}
    """)
    assert session.said == ["mood=low 1", "minutes=5 1"]


async def test_vars_reads_names_that_are_no_words(drive: StartSession) -> None:
    session = await drive(
        """
        - say: "{{ vars['用户-情绪'] }}|{{ vars['none'] }}|{{ vars|length }}"
        """,
        variables={"用户-情绪": "calm"},
    )
    assert session.said == ["calm||1"]
    assert session.warnings == [("undefined_variable", "`none` has no value")]


@pytest.mark.parametrize("size", ["history(0)", "history(51)", "history('2')"])
async def test_history_is_bounded(drive: StartSession, size) -> None:
    session = await drive(f"- {{say: never, when: {size}}}")
    assert session.warnings == [("expression_failed", "line 7: history takes a number from 1 to 50")]


async def test_a_topic_may_ask_for_the_role_before_anyone_has_one(drive: StartSession) -> None:
    session = await drive("""
        script: test
        phases:
        - phase: only
          topics:
          - {topic: one, actions: [{say: hi, role: guide}]}
          - {topic: two, when: role == "guide", actions: [{say: never}]}
          - {topic: three, when: role == "", actions: [{say: here}]}
    """)
    assert session.said == ["hi", "here"]
