"""`call` and `emit`: a skill runs with variables of its own, returns what it declares, and can be stopped anywhere."""

import pytest

from runtime.engine.engine import TurnFailed
from runtime.state.events import Emitted, VariableChanged
from runtime.state.limits import Limits
from tests.support.runtime_session import NewSession, StartSession

SKILLS = """
skills:
- skill: breathe
  params:
  - {var: minutes, type: number}
  - {var: who, value: you}
  - {var: note, required: false}
  returns: [calm, total]
  declare: [{var: total, type: number, value: 0}]
  actions:
  - {say: "{{ who }} breathe for {{ minutes }} minutes.", id: intro}
  - {ask: "Calm now?", id: ask_calm, output: [{get: calm, type: boolean}]}
  - {set: {total: total + minutes * 2}, id: add}
- skill: twice
  params: [{var: minutes}]
  returns: [sum]
  actions:
  - {call: breathe, id: first, input: {minutes: minutes}, output: {one: total}}
  - {call: breathe, id: second, input: {minutes: minutes}, output: {two: total}}
  - {set: {sum: one + two}, id: add}
- skill: endless
  actions: [{call: endless, id: again}]
"""
HEAD = """
script: calling
declare: [{var: hidden_word, value: hidden}, {var: people, type: list, value: [{name: Ana}, {name: Bo}]}]
phases:
- phase: p
  topics:
  - topic: t
    actions:
"""


def script(*actions: str) -> str:
    return HEAD + "".join(f"    - {action}\n" for action in actions) + SKILLS


ONCE = script("{call: breathe, id: c, input: {minutes: 2 + 3}, output: {relaxed: calm, time: total}}", "{user_say: ok}")


async def test_a_skill_takes_parameters_and_returns_values(drive: StartSession) -> None:
    session = await drive(ONCE)
    assert session.said == ["you breathe for 5 minutes.", "Calm now?"]
    await session.reply("yes")
    assert session.cells("topic") == {"relaxed": True, "time": 10}


async def test_a_skill_sees_its_own_variables_and_globals_only(drive: StartSession) -> None:
    session = await drive(
        HEAD
        + "    - {call: look, id: c}\n    - {user_say: ok}\nuse: [globals.yaml]\nskills:\n- skill: look\n  actions:\n"
        '  - {say: "[{{ hidden_word }}] [{{ shared }}]", id: s}\n  - {set: {hidden_word: 1, shared: 2}, id: w}\n',
        global_variables="globals: [{var: shared, value: everywhere}]",
    )
    assert session.said == ["[] [everywhere]"]
    assert session.cells("session")["hidden_word"] == "hidden"
    assert session.cells("global") == {"shared": 2}


async def test_what_goes_on_around_a_call_is_out_of_sight(drive: StartSession) -> None:
    session = await drive(
        HEAD + "    - {foreach: people as person, id: f, do: [{call: look, id: c}]}\n    - {user_say: ok}\n"
        'skills: [{skill: look, actions: [{say: "[{{ person }}]", id: s}]}]\n'
    )
    assert session.said == ["[]", "[]"]


async def test_called_for_each_record_a_skill_returns_into_that_record(drive: StartSession) -> None:
    call = "{call: breathe, id: c, foreach: people as p, input: {minutes: 1, who: p.name}, output: {relaxed: calm}}"
    session = await drive(script(call, "{user_say: ok}"))
    assert session.said == ["Ana breathe for 1 minutes.", "Calm now?"]
    assert (await session.reply("no")).said == ["Bo breathe for 1 minutes.", "Calm now?"]
    await session.reply("yes")
    assert session.values["people"] == [{"name": "Ana", "relaxed": False}, {"name": "Bo", "relaxed": True}]


async def test_skills_call_skills_and_each_call_starts_empty(drive: StartSession) -> None:
    session = await drive(script("{call: twice, id: c, input: {minutes: 3}, output: {all: sum}}", "{user_say: ok}"))
    await session.reply("yes", "no")
    assert session.values["all"] == 12


@pytest.mark.parametrize("saved", [False, True])
async def test_a_call_stops_and_goes_on_like_anything_else(drive: StartSession, saved) -> None:
    session = await drive(
        script("{call: twice, id: c, input: {minutes: 1}, output: {all: sum}}", "{say: done}"), saved=saved
    )
    assert session.state.frames[-1].action == "ask_calm"
    assert (await session.reply("yes", "yes")).said == ["done"]
    assert session.state.status == "completed"


async def test_the_writes_of_a_skill_are_on_record_as_its_own(drive: StartSession) -> None:
    session = await drive(ONCE)
    changes = [
        (change.topic_id, change.name, change.new, change.source) for change in session.happened(VariableChanged)
    ]
    assert changes[-3:] == [
        ("breathe", "minutes", 5, "script"),
        ("breathe", "who", "you", "default"),
        ("breathe", "total", 0, "default"),
    ]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("{call: breathe, id: c, input: {minutes: nothing}}", "the skill breathe needs `minutes`"),
        ("{call: breathe, id: c, input: {minutes: \"'many'\"}}", "`minutes`: expected number"),
        ("{call: endless, id: c}", "more than 10 nested calls"),
        ('{call: breathe, id: c, foreach: "[1]" as x, input: {minutes: 1}, output: {a: calm}}', "go into records"),
    ],
)
async def test_impossible_call_fails_before_any_message(prepare: NewSession, call, says) -> None:
    session = prepare(script(call.replace('"[1]" as x', '"[1] as x"')))
    with pytest.raises(TurnFailed, match=says) as failed:
        await session.start()
        await session.reply("yes")
    assert failed.value.place == ("p", "t", "c")


@pytest.mark.parametrize(("depth", "says"), [(10, ""), (11, "more than 10 nested calls")])
async def test_ten_calls_may_be_nested(prepare: NewSession, depth: int, says: str) -> None:
    skills = "".join(f"- {{skill: s{n}, actions: [{{call: s{n + 1}, id: c}}]}}\n" for n in range(1, depth))
    session = prepare(
        f"{HEAD}    - {{call: s1, id: c}}\nskills:\n{skills}- {{skill: s{depth}, actions: [{{say: deep}}]}}\n"
    )
    if says:
        with pytest.raises(TurnFailed, match=says):
            await session.start()
    else:
        assert (await session.start()).said == ["deep"]


async def test_a_loop_within_a_skill_is_bounded_like_any_other(prepare: NewSession) -> None:
    loop = "skills: [{skill: s, actions: [{repeat: {max: 1000}, id: r, do: [{set: {x: 1}, id: a}]}]}]"
    with pytest.raises(TurnFailed, match="actions in one turn"):
        await prepare(HEAD + "    - {call: s, id: c}\n" + loop, limits=Limits(actions_max=50)).start()


async def test_emit_tells_the_application_and_not_the_user(drive: StartSession) -> None:
    session = await drive("""
        - {set: {age: 34}}
        - {emit: {event: visitor_known, data: {age: age, adult: age >= 18}}, id: tell}
        - {emit: simple}
        - user_say: ok
    """)
    emitted = [(each.action_id, each.event, each.data) for each in session.happened(Emitted)]
    assert emitted == [("tell", "visitor_known", {"age": 34, "adult": True}), ("emit_1", "simple", {})]
    assert session.said == []


WHOLE = """
cuebook: 1
script: test
skills:
  - skill: split
    params: [{var: name}]
    returns: [first, last]
    actions:
      - set: {first: "=name.split(' ')[0]", last: "=name.split(' ')[1] if ' ' in name else null"}
phases:
  - phase: main
    topics:
      - topic: main
        actions:
          - {call: split, with: {name: Ana Li}, into: parts}
          - {set: {people: [{name: Bo Y}]}}
          - {call: split, foreach: people as person, with: {name: =person.name}, into: parts}
          - say: "{{ parts.first }} {{ parts.last }} {{ people }}"
"""


async def test_all_results_may_be_stored_as_one_record(drive: StartSession) -> None:
    session = await drive(WHOLE)
    assert session.said == ["Ana Li name: Bo Y, parts: first: Bo, last: Y"]


async def test_records_have_the_results_if_the_user_ends_the_loop(drive: StartSession) -> None:
    session = await drive("""
cuebook: 1
script: pets
declare: [{var: pets, type: list, value: [{name: Rex}, {name: Tom}]}]
repairs: [cancel]
actions:
- {call: age, foreach: pets as pet, with: {name: =pet.name}, into: {age: age}, id: each}
- {say: "{{ pets }}", id: told}
skills: [{skill: age, params: [{var: name}], returns: [age], actions: [{ask: "{{ name }}?", into: age, id: q}]}]
""")
    await session.reply("7", "cancel")
    assert session.said[1:] == ["name: Rex, age: 7, name: Tom"]
