"""`set`, `if`, `foreach`, `repeat` and `when`: nested freely, each loop with an end."""

import pytest

from runtime.engine.engine import TurnFailed
from runtime.state.events import ActionEntered, ActionLeft, ActionSkipped
from runtime.state.limits import Limits
from tests.support.runtime_session import StartSession


async def test_set_assigns_in_the_order_written(drive: StartSession) -> None:
    session = await drive("- set: {a: 1, b: a + 1, c: a + b}\n- user_say: ok")
    assert session.values == {"a": 1, "b": 2, "c": 3}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("0", 0),
        ("false", False),
        ("none", None),
        ("[1, 'a']", [1, "a"]),
        ("{'a': 1}", {"a": 1}),
        ("today", "2026-03-04"),
    ],
)
async def test_set_takes_values_of_every_type(drive: StartSession, expression, value) -> None:
    session = await drive(f'- set: {{it: "{expression}"}}\n- user_say: ok')
    assert session.values == {"it": value}


@pytest.mark.parametrize(
    ("condition", "said"), [("true", ["yes", "end"]), ("false", ["no", "end"]), ("unknown > 1", ["no", "end"])]
)
async def test_if_takes_one_of_two_ways(drive: StartSession, condition, said) -> None:
    session = await drive(f"""
        - if: {condition}
          then: [{{say: "yes"}}]
          else: [{{say: "no"}}]
        - say: end
    """)
    assert session.said == said


@pytest.mark.parametrize(("age", "said"), [(8, "child"), (15, "young"), (40, "adult"), (80, "old")])
async def test_the_first_branch_whose_condition_holds_is_taken(drive: StartSession, age, said) -> None:
    session = await drive(f"""
        - set: {{age: {age}}}
        - if: age < 12
          then: [{{say: child}}]
          elif:
          - {{if: age < 20, then: [{{say: young}}]}}
          - {{if: age < 65, then: [{{say: adult}}]}}
          else: [{{say: old}}]
    """)
    assert session.said == [said]


async def test_no_branch_runs_without_a_true_condition_or_an_else(drive: StartSession) -> None:
    session = await drive("""
        - {if: false, then: [{say: one}], elif: [{if: false, then: [{say: two}]}]}
        - say: end
    """)
    assert session.said == ["end"]


async def test_an_arm_that_is_not_written_is_passed_over(drive: StartSession) -> None:
    session = await drive("- {if: false, then: [{say: never}]}\n- say: end")
    assert session.said == ["end"]


async def test_foreach_goes_through_the_list_as_it_was_when_entered(drive: StartSession) -> None:
    session = await drive("""
        - set: {list: "['a', 'b']"}
        - foreach: list as item
          do:
          - set: {list: "list + [item ~ item]"}
          - say: "{{ item }}"
        - say: "{{ list }} {{ item }}"
    """)
    assert session.said == ["a", "b", "a, b, aa, bb "]


@pytest.mark.parametrize("items", ["[]", "nothing", "none"])
async def test_foreach_over_nothing_does_nothing(drive: StartSession, items) -> None:
    session = await drive(f"- {{foreach: '{items} as item', do: [{{say: never}}]}}\n- say: end")
    assert session.said == ["end"]


@pytest.mark.parametrize("items", ["'abc'", "5", "{'a': 1}"])
async def test_foreach_over_anything_but_a_list_does_nothing_and_warns(drive: StartSession, items) -> None:
    session = await drive(f'- {{id: each, foreach: "{items} as item", do: [{{say: never}}]}}\n- say: end')
    assert session.said == ["end"]
    ((code, message),) = session.warnings
    assert code == "expression_failed"
    assert message.startswith("line 7: foreach goes through a list, not ")


async def test_item_hides_a_variable_of_its_name_inside_the_loop_only(drive: StartSession) -> None:
    session = await drive("""
        - set: {item: "'mine'"}
        - foreach: "[1, none] as item"
          do: [{say: "[{{ item }}]"}]
        - say: "[{{ item }}]"
    """)
    assert session.said == ["[1]", "[]", "[mine]"]


async def test_repeat_goes_on_until_the_condition_holds_after_a_pass(drive: StartSession) -> None:
    session = await drive("""
        - set: {n: 0}
        - repeat: {until: n >= 3, max: 10}
          do: [{set: {n: n + 1}}]
        - repeat: {until: true}
          do: [{set: {n: n + 1}}]
        - repeat: {max: 2}
          do: [{set: {n: n + 1}}]
        - user_say: ok
    """)
    assert (session.values, session.warnings) == ({"n": 6}, [])


async def test_repeat_ends_at_its_bound_with_a_warning(drive: StartSession) -> None:
    session = await drive("- {repeat: {until: false, max: 3}, do: [{say: x}]}\n- say: end")
    assert session.said == ["x", "x", "x", "end"]
    assert session.warnings == [("repeat_limit", "stopped after 3 passes; `until` never held")]


async def test_an_endless_repeat_ends_at_its_default_bound(drive: StartSession) -> None:
    session = await drive("- {repeat: {until: false}, do: [{set: {n: 1}}]}\n- say: end")
    assert session.said == ["end"]


async def test_an_action_in_a_loop_starts_again_on_each_pass(drive: StartSession) -> None:
    session = await drive("""
        - repeat: {until: "age > 17"}
          do:
          - {ask: Age?, output: [{get: age, type: number}], max_rounds: 2}
          - {say: Too young., when: age < 18}
        - say: "{{ age }}"
    """)
    await session.reply("x")
    assert session.state.progress.round == 1
    await session.reply("10")
    assert (session.said, session.state.progress.round) == (["Too young.", "Age?"], 0)
    await session.reply("20")
    assert session.said == ["20"]


NESTED = """
- foreach: "['a', 'b'] as outer"
  id: each_outer
  do:
  - repeat: {max: 2}
    id: twice
    do:
    - if: outer == "a"
      id: branch
      then:
      - foreach: "[1, 2] as inner"
        id: each_inner
        do: [{ask: "{{ outer }}{{ inner }}", id: q, output: [{get: last}]}]
      else:
      - choose: pick
        id: pick
        choices: [{x: X, actions: [{say: "{{ outer }}x", id: said}]}, {y: Y}]
- say: "end {{ last }} {{ pick }}"
  id: the_end
"""


@pytest.mark.parametrize("saved", [False, True])
async def test_blocks_nest_freely_and_keep_their_place_between_turns(drive: StartSession, saved) -> None:
    session = await drive(NESTED, saved=saved)
    asked = []
    for number in range(4):
        asked += session.said
        await session.reply(f"r{number}")
    assert asked == ["a1", "a2", "a1", "a2"]
    await session.choose("x")
    assert session.said == ["bx"]
    await session.choose("y")
    assert session.said == ["end r3 y"]
    left = [each.action_id for each in session.happened(ActionLeft)]
    assert left == ["pick", "branch", "twice", "each_outer", "the_end"]


async def test_every_action_that_is_entered_is_left(drive: StartSession) -> None:
    session = await drive(NESTED)
    await session.reply("1", "2", "3", "4", "x", "x")
    events = [event.body for turn in session.turns for event in turn.events]
    entered = [body.action_id for body in events if isinstance(body, ActionEntered)]
    left = [body.action_id for body in events if isinstance(body, ActionLeft)]
    assert sorted(entered) == sorted(left)


async def test_when_skips_an_action_and_says_so(drive: StartSession) -> None:
    session = await drive("""
        - {id: a, say: a, when: false}
        - {id: b, if: true, then: [{say: never}], when: false}
        - {id: c, say: c, when: "1 < 2"}
    """)
    assert session.said == ["c"]
    assert session.happened(ActionSkipped) == [ActionSkipped("a", "say"), ActionSkipped("b", "if")]


async def test_when_is_decided_on_entering_and_not_again_on_a_reply(drive: StartSession) -> None:
    session = await drive("""
        - set: {open: true}
        - {ask: Well?, output: [{get: it, type: number}], when: open}
        - say: "{{ it }}"
    """)
    await session.reply("x", "5")
    assert session.said == ["5"]


async def test_loops_without_a_wait_end_at_the_limit_of_a_turn(drive: StartSession) -> None:
    script = "- {repeat: {max: 1000}, id: out, do: [{repeat: {max: 1000}, id: in, do: [{set: {n: 1}, id: s}]}]}"
    with pytest.raises(TurnFailed, match="more than 1,000 actions") as failed:
        await drive(script)
    assert (failed.value.kind, failed.value.retryable) == ("limit", False)
    with pytest.raises(TurnFailed, match="more than 50 actions"):
        await drive(script, limits=Limits(actions_max=50))
