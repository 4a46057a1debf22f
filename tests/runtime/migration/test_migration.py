"""A session moves to another version by ids: as it stands, by renames, with its topic begun again, or not at all."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from runtime.engine.engine import TurnFailed
from runtime.migration.migration import Plan, plan, undo
from runtime.migration.state_validation import check
from runtime.state.events import ActionLeft, Emitted, Migrated, ScopeEntered, ScopeLeft, VariableChanged, Waiting
from runtime.state.inputs import FormInput, MigrationInput, TakeOver
from runtime.state.state import decode, encode
from tests.support.runtime_session import NewSession, ReadProgram, StartSession

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)

VISIT = """\
script: visit
declare:
  - {var: name}
  - {var: age, type: number}
phases:
  - phase: hello
    declare: [{var: mood, type: choice, choices: [low, ok], value: ok}]
    topics:
      - topic: who
        declare: [{var: tries, type: number, value: 0}]
        actions:
          - {say: Welcome., id: welcome}
          - {ask: Your name?, id: ask_name, output: [{get: name}]}
          - {ask: Your age?, id: ask_age, output: [{get: age, type: number}]}
          - choose: plan
            id: ask_plan
            choices: [{A: Sleep}, {B: Coffee, actions: [{ask: Which?, id: which, output: [{get: bean}]}]}]
      - topic: more
        actions:
          - foreach: "['a', 'b'] as item"
            id: each
            do:
              - if: true
                id: always
                then: [{call: breathe, id: calm, output: {tension: level}}]
          - {say: Done., id: done}
skills:
  - skill: breathe
    returns: [level]
    actions: [{ask: How tense?, id: ask_level, output: [{get: level, type: number}]}]
"""


def changed(*swaps: tuple[str, str]) -> str:
    text = VISIT
    for old, new in swaps:
        assert old in text, old
        text = text.replace(old, new)
    return text


@pytest.fixture
def move(program_of: ReadProgram) -> Callable[..., Plan]:
    """Plan the move of a session to a text, and checks that nothing else was touched."""

    def move(session: Any, text: str) -> Plan:
        before = encode(session.state)
        planned = plan(session.program, program_of(text), session.state, NOON)
        assert encode(session.state) == before
        return planned

    return move


@pytest.fixture
def moved(program_of: ReadProgram, move: Callable[..., Plan]) -> Callable[..., Any]:
    """Move a session, as an edge would do it."""

    async def moved(session: Any, text: str) -> Plan:
        planned = move(session, text)
        session.program, session.state = program_of(text), planned.state
        await session.turn(MigrationInput(planned.account, planned.restart))
        return planned

    return moved


async def test_a_corrected_text_leaves_a_session_where_it_is(drive: StartSession, moved) -> None:
    session = await (await drive(VISIT)).reply("Ana")
    planned = await moved(session, changed(("Your age?", "How old are you?"), ("Sleep", "Sleeping")))
    assert (planned.verdict, planned.why) == ("safe", ())
    assert session.said == []
    await session.reply("x")
    assert session.state.frames[0].action == "ask_age"
    await session.reply("34")
    assert session.state.wait.choices[0].text == "Sleeping"


RENAMES = """\
migrations:
  phases: {hello: opening}
  topics: {hello/who: opening/person}
  actions: {opening/person/ask_age: opening/person/how_old}
  variables: {name: user_name, tries: attempts, age: years}
"""


async def test_renames_lead_a_session_to_where_it_stood(drive: StartSession, moved) -> None:
    session = await (await drive(VISIT)).reply("Ana", "no idea")
    text = changed(
        ("phase: hello", "phase: opening"),
        ("topic: who", "topic: person"),
        ("id: ask_age", "id: how_old"),
        ("get: age", "get: years"),
        ("var: age", "var: years"),
        ("get: name", "get: user_name"),
        ("var: name", "var: user_name"),
        ("var: tries", "var: attempts"),
    )
    planned = await moved(session, text + RENAMES)
    assert planned.verdict == "mapped"
    assert "hello/who is opening/person now" in planned.why
    assert (session.state.phase, session.state.topic, session.state.frames[0].action) == (
        "opening",
        "person",
        "how_old",
    )
    assert session.state.progress.round == 1
    assert session.values == {"user_name": "Ana", "mood": "ok", "attempts": 0}
    (event,) = session.happened(Migrated)
    assert (event.old_place, event.new_place) == ("hello/who/ask_age", "opening/person/how_old")
    writes = {(each.name, each.old, each.new, each.source) for each in session.happened(VariableChanged)}
    assert {("name", "Ana", None, "migrated"), ("user_name", None, "Ana", "migrated")} <= writes
    await session.reply("34")
    assert session.values["years"] == 34


async def test_the_same_renames_count_once(drive: StartSession, move, program_of: ReadProgram) -> None:
    """The newest version keeps every rename: a session that has the new id already is not renamed again."""
    first = changed(("id: ask_age", "id: how_old")) + "migrations: {actions: {hello/who/ask_age: hello/who/how_old}}\n"
    session = await (await drive(first)).reply("Ana")
    second = first.replace("{say: Welcome., id: welcome}", "{say: Welcome., id: ask_age}")
    assert move(session, second).verdict == "safe"
    old = await (await drive(VISIT)).reply("Ana")
    planned = move(old, second)
    assert (planned.verdict, planned.state.frames[0].action) == ("mapped", "how_old")


async def test_a_chain_of_renames_leads_to_its_end_and_back(drive: StartSession, move) -> None:
    third = changed(("id: ask_age", "id: years")) + (
        "migrations:\n  actions: {hello/who/ask_age: hello/who/how_old, hello/who/how_old: hello/who/years}\n"
    )
    session = await (await drive(VISIT)).reply("Ana")
    assert move(session, third).state.frames[0].action == "years"
    later = await (await drive(third)).reply("Ana")
    assert move(later, VISIT).state.frames[0].action == "ask_age"


ASK_AGE = "{ask: Your age?, id: ask_age, output: [{get: age, type: number}]}"
COFFEE = "{B: Coffee, actions: [{ask: Which?, id: which, output: [{get: bean}]}]}"
ELSEWHERE = "{A: Sleep, actions: [{ask: Which?, id: which, output: [{get: bean}]}]}, B"


@pytest.mark.parametrize(
    ("replies", "old", "new", "why"),
    [
        (["Ana"], "id: ask_age", "id: other", "hello/who/ask_age is gone"),
        (["Ana"], ASK_AGE, "{say: Hm, id: ask_age}", "was `ask` and is `say`"),
        (["Ana"], "{get: age, type: number}", "{get: age, type: text}", "`age` as text"),
        (["Ana", "34"], "{A: Sleep}, ", "", "no longer offers A"),
        (["Ana", "34", "B"], COFFEE, "B", "hello/who/which is gone"),
        (["Ana", "34", "B"], "{A: Sleep}, " + COFFEE, ELSEWHERE, "another place"),
    ],
)
async def test_where_its_action_is_another_the_topic_begins_again(
    drive: StartSession, moved, replies, old, new, why
) -> None:
    session = await (await drive(VISIT)).reply(*replies)
    standing = [frame.action for frame in reversed(session.state.frames)]
    planned = await moved(session, changed((old, new)))
    assert planned.verdict == "restart_topic"
    assert why in " ".join(planned.why)
    assert session.said[0] == "Welcome."
    assert session.state.frames[0].action == "ask_name"
    assert [(each.id, each.entry) for each in session.happened(ScopeLeft)] == [("who", 1)]
    assert [(each.id, each.entry) for each in session.happened(ScopeEntered)] == [("who", 2)]
    assert len(session.happened(Waiting)) == 1
    assert session.cells("session")["name"] == "Ana"
    assert session.cells("topic") == {"tries": 0}
    assert [each.action_id for each in session.happened(ActionLeft)][: len(standing)] == standing
    numbers = [each.seq for turn in session.turns for each in turn.events]
    assert numbers == list(range(1, len(numbers) + 1))


async def test_in_blocks_loops_and_skills_renames_are_followed(drive: StartSession, moved) -> None:
    session = await (await drive(VISIT)).reply("Ana", "34", "A", "3")
    text = changed(
        ("skill: breathe", "skill: breathing"),
        ("call: breathe", "call: breathing"),
        ("id: ask_level", "id: how_tense"),
        ("get: level", "get: degree"),
        ("returns: [level]", "returns: [degree]"),
        ("tension: level", "tension: degree"),
        ("as item", "as thing"),
        ("id: always", "id: ever"),
    )
    renames = """\
migrations:
  skills: {breathe: breathing}
  actions: {breathing/ask_level: breathing/how_tense, hello/more/always: hello/more/ever}
  variables: {level: degree}
"""
    planned = await moved(session, text + renames)
    assert planned.verdict == "mapped"
    assert [frame.action for frame in session.state.frames] == ["each", "ever", "calm", "how_tense"]
    assert (session.state.frames[1].item_name, session.state.frames[3].skill) == ("thing", "breathing")
    await session.reply("7")
    assert session.state.status == "completed"
    assert session.happened(VariableChanged)[-1].new == 7


OTHER_SKILL = [("skill: breathe", "skill: other"), ("call: breathe", "call: other")]
REPEAT = [("foreach: \"['a', 'b'] as item\"", "repeat: {max: 2}")]


@pytest.mark.parametrize(
    ("swaps", "verdict", "why"),
    [
        (OTHER_SKILL, "restart_topic", "the skill breathe is gone"),
        (REPEAT, "restart_topic", "was `foreach` and is `repeat`"),
        ([("topic: more", "topic: rest")], "blocked", "the topic hello/more is gone"),
        ([("phase: hello", "phase: bye")], "blocked", "the phase hello is gone"),
        ([("{var: name}", "{var: name, type: number}")], "blocked", "`name`: expected number"),
    ],
)
async def test_what_is_gone_inside_a_call_is_named(drive: StartSession, move, swaps, verdict, why) -> None:
    session = await (await drive(VISIT)).reply("Ana", "34", "A")
    planned = move(session, changed(*swaps))
    assert (planned.verdict, why in " ".join(planned.why)) == (verdict, True), planned.why
    if verdict == "blocked":
        assert planned.state is session.state


async def test_variables_are_fitted_moved_dropped_and_given_defaults(drive: StartSession, moved) -> None:
    session = await (await drive(VISIT)).reply("Ana", "34")
    text = changed(
        ("- {var: age, type: number}", "- {var: age, type: text}\n  - {var: city, value: Paris}"),
        ("get: age, type: number", "get: years, type: number"),
        ("[{var: mood, type: choice, choices: [low, ok], value: ok}]", "[{var: tries, type: number, value: 5}]"),
        ("        declare: [{var: tries, type: number, value: 0}]\n", ""),
    )
    planned = await moved(session, text)
    assert planned.verdict == "safe"
    assert session.cells("session") == {"name": "Ana", "age": "34", "city": "Paris"}
    assert session.cells("phase") == {"tries": 0}
    assert session.cells("topic") == {}
    written = {(each.scope, each.name): (each.old, each.new) for each in session.happened(VariableChanged)}
    assert written == {
        ("session", "age"): (34, "34"),
        ("session", "city"): (None, "Paris"),
        ("phase", "mood"): ("ok", None),
        ("phase", "tries"): (None, 0),
        ("topic", "tries"): (0, None),
    }


async def test_a_variable_that_an_inner_one_hides_stays_where_it_is(drive: StartSession, moved) -> None:
    script = """\
        script: two
        default_scope: session
        phases:
        - phase: p
          topics:
          - {topic: a, actions: [{set: {x: "'outer'"}, id: first}]}
          - {topic: b, declare: [{var: x, value: inner}], actions: [{user_say: Hm., id: hm}]}
          - {topic: c, actions: [{say: "{{ x }}", id: tell}]}
        """
    session = await drive(script)
    planned = await moved(session, script)
    assert (planned.verdict, planned.why) == ("safe", ())
    assert (await session.reply("ok")).said == ["outer"]


async def test_a_renamed_global_variable_is_copied(drive: StartSession, program_of: ReadProgram) -> None:
    old = "globals:\n- {var: visits, type: number, value: 0}\n"
    new = "globals:\n- {var: times, type: number, value: 0}\n"
    actions = "[{set: {visits: visits + 1}, id: a}, {ask: Hm?, id: b}]"
    text = f"script: s\nuse: [globals.yaml]\nphases: [{{phase: p, topics: [{{topic: t, actions: {actions}}}]}}]\n"
    session = await drive(program_of(text, old))
    renamed = program_of(text.replace("visits", "times") + "migrations: {variables: {visits: times}}\n", new)
    planned = plan(session.program, renamed, session.state, NOON)
    assert {name: cell.value for name, cell in planned.state.global_cells.items()} == {"visits": 1, "times": 1}
    assert [(each.scope, each.name) for each in planned.account[1:]] == [("global", "times")]
    assert len(undo(planned.state, session.state).account) == 1


async def test_a_paused_session_does_not_begin_a_topic_again(drive: StartSession, move) -> None:
    session = await (await drive(VISIT)).reply("Ana")
    session.state.status = "paused"
    assert move(session, VISIT).verdict == "safe"
    planned = move(session, changed(("id: ask_age", "id: other")))
    assert (planned.verdict, "paused" in planned.why[0]) == ("blocked", True)


TIMED = """
cuebook: 1
script: timed
declare: [{var: appointment, type: date, value: "2026-03-20"}]
actions:
  - {ask: How are you?, into: mood, id: mood}
  - {wait: {until: =appointment}, id: pause}
  - {say: "It is today.", id: back}
"""


async def test_a_question_gets_the_reminders_of_the_new_version(drive: StartSession, moved) -> None:
    session = await drive(TIMED.split("  - {wait")[0])
    await moved(session, TIMED.replace("id: mood", "id: mood, remind: [{after: 1 day, say: Hello?}]"))
    assert session.timers == [("remind", "2026-03-05 12:00")]


async def test_a_wait_lasts_until_the_date_of_the_new_version(drive: StartSession, moved) -> None:
    session = await (await drive(TIMED)).reply("fine")
    await moved(session, TIMED.replace("=appointment", "=appointment - days(1)"))
    assert session.timers == [("wait", "2026-03-19 00:00")]
    assert f"{session.state.wait.until:%Y-%m-%d}" == "2026-03-19"
    await session.pass_time(days=20)
    assert session.said == ["It is today."]


ANSWERED = """
cuebook: 1
script: answered
phases:
  - phase: p
    topics:
      - {topic: rest, actions: [{wait: 3 days, on_message: answers, id: pause}, {say: Back., id: back}]}
      - {topic: answers, actions: [{ask: What is it?, into: it, id: what}, {say: I see., id: see}]}
"""


async def test_wait_continues_although_its_topic_is_renamed(drive: StartSession, moved) -> None:
    session = await (await drive(ANSWERED)).pass_time(days=1)
    await session.reply("Hello?")
    assert session.said == ["What is it?"]
    renames = "migrations: {topics: {p/answers: p/replies}, actions: {p/replies/what: p/replies/why}}\n"
    planned = await moved(session, ANSWERED.replace("answers", "replies").replace("id: what", "id: why") + renames)
    assert (planned.verdict, planned.why[0]) == ("mapped", "p/answers is p/replies now")
    await session.reply("Nothing.")
    assert session.said == ["I see."]
    assert session.timers == [("wait", "2026-03-07 12:00")]


TEA = """
cuebook: 1
script: tea
phases:
  - phase: p
    topics:
      - {topic: rest, actions: [{wait: 3 days, on_message: answers, id: pause}]}
      - topic: answers
        actions:
          - {ask: Your name?, into: name, id: name}
          - {choose: Drink?, into: drink, choices: [{key: tea, text: Tea, once: true}, milk], id: drink}
          - {ask: "{{ name }}?", into: name, id: again}
repairs: [correct]
"""


async def test_answers_during_a_wait_follow_renames_of_their_topic(drive: StartSession, moved) -> None:
    session = await (await drive(TEA)).reply("Hello?", "Ana", "tea")
    await moved(session, TEA.replace("answers", "replies") + "migrations: {topics: {p/answers: p/replies}}\n")
    await session.reply("actually, name: Bo")
    assert session.values["name"] == "Bo"
    await session.reply("Bo", "Hello?", "Cy")
    assert [each.key for each in session.state.wait.choices] == ["milk"]


async def test_only_moments_that_change_are_named(drive: StartSession, move) -> None:
    reminded = TIMED.replace("id: mood", "id: mood, remind: [{after: 1 h, say: Oh?}, {after: 2 h, say: Hello?}]")
    session = await drive(reminded)
    assert move(session, reminded.replace("How are you?", "Well?")).why == ()
    assert move(session, reminded.replace("2 h", "3 h")).why == (
        "remind of mood: 2026-03-04 14:00 → 2026-03-04 15:00 UTC",
    )


HUB = """
cuebook: 1
script: hub
phases:
  - phase: day
    topics:
      - topic: hub
        actions:
          - {say: "{{ visits('day/hub') }}", id: count}
          - {choose: What now?, into: what, choices: [{key: tea, text: Tea, once: true}, {key: nap, text: Nap}], id: q}
          - {goto: hub, id: again}
"""


async def test_choices_made_once_and_visits_follow_renames(drive: StartSession, moved) -> None:
    session = await (await drive(HUB)).choose("tea")
    text = HUB.replace("hub", "room").replace("id: q", "id: what")
    renames = "migrations: {topics: {day/hub: day/room}, actions: {day/room/q: day/room/what}}\n"
    assert (await moved(session, text + renames)).verdict == "mapped"
    await session.choose("nap")
    assert session.said == ["3", "What now?"]
    assert [each.key for each in session.state.wait.choices] == ["nap"]


async def test_session_taken_over_by_a_person_begins_no_topic_again(drive: StartSession, move) -> None:
    session = await (await drive(VISIT)).reply("Ana")
    await session.turn(TakeOver("Kim"))
    assert move(session, VISIT).verdict == "safe"
    planned = move(session, changed(("id: ask_age", "id: other")))
    assert (planned.verdict, "taken it over" in planned.why[0]) == ("blocked", True)


KNOWN = """
actions:
  - {ask: Your age?, into: age, if_known: {confirm: "Still {{ age }}?"}, id: age}
  - {choose: Tea?, into: drink, choices: [tea, water], if_known: {confirm: "Still {{ drink }}?"}, id: drink}
  - {say: "{{ age }}, {{ drink }}", id: both}
"""


async def test_session_that_confirms_known_values_stays_there(drive: StartSession, moved) -> None:
    session = await drive(KNOWN, variables={"age": 30, "drink": "tea"})
    for said in ["Still tea?"], ["30, tea"]:
        assert (await moved(session, KNOWN.replace("Your age?", "How old are you?"))).verdict == "safe"
        await session.choose("yes")
        assert session.said == said


async def test_an_ended_session_stays(drive: StartSession, move) -> None:
    session = await (await drive(VISIT)).reply("Ana", "34", "A", "1", "2")
    assert move(session, changed(("phase: hello", "phase: bye"))).verdict == "ended"


async def test_a_session_that_has_not_begun_begins_in_the_new_version(prepare: NewSession, moved) -> None:
    session = prepare(VISIT, variables={"name": "Ana"})
    planned = await moved(
        session,
        changed(("var: name", "var: who"), ("get: name", "get: who")) + "migrations: {variables: {name: who}}\n",
    )
    assert (planned.verdict, session.state.start_variables, session.state.begun) == ("mapped", {"who": "Ana"}, False)
    await session.start()
    assert session.values["who"] == "Ana"
    session = prepare(VISIT, variables={"name": "Ana"})
    with pytest.raises(AssertionError, match="blocked"):
        assert (await moved(session, changed(("{var: name}", "{var: name, type: date}")))).verdict == "safe"


async def test_the_way_back_is_to_the_very_state(drive: StartSession, moved, program_of: ReadProgram) -> None:
    session = await (await drive(VISIT)).reply("Ana", "34")
    before, old = session.state, session.program
    await moved(session, changed(("{A: Sleep}, ", "")))
    back = undo(session.state, before)
    session.program, session.state = old, back.state
    await session.turn(MigrationInput(back.account))
    assert [(each.scope, each.id, each.entry) for each in session.happened(ScopeLeft)] == [("topic", "who", 2)]
    assert [(each.scope, each.id, each.entry) for each in session.happened(ScopeEntered)] == [("topic", "who", 1)]
    assert same_but_for_numbers(session.state, before)
    await session.reply("A")
    assert session.state.topic == "more"


def same_but_for_numbers(state: Any, other: Any) -> bool:
    for each in (state := decode(encode(state))), (other := decode(encode(other))):
        each.turn = each.event_seq = each.message_seq = 0
    return encode(state) == encode(other)


async def test_topic_that_cannot_begin_again_fails_without_changes(
    drive: StartSession, move, program_of: ReadProgram
) -> None:
    session = await (await drive(VISIT)).reply("Ana")
    text = changed(
        ("id: ask_age", "id: other"), ("{say: Welcome., id: welcome}", "{set: {tries: \"'many'\"}, id: welcome}")
    )
    planned = move(session, text)
    before = encode(planned.state)
    session.program, session.state = program_of(text), planned.state
    with pytest.raises(TurnFailed, match="number"):
        await session.turn(MigrationInput(planned.account, planned.restart))
    assert encode(session.state) == before


INTERRUPTED = """\
interrupts:
  - interrupt: sad
    on: [sad]
    do: [{ask: What happened?, id: ask_what, output: [{get: event}]}, {say: I see., id: see}]
"""


async def test_interrupt_and_suspended_action_are_both_followed(drive: StartSession, moved) -> None:
    session = await (await drive(VISIT + INTERRUPTED)).reply("Ana", "so sad")
    assert session.state.frames[-1].interrupt == "sad"
    text = changed(("id: ask_age", "id: how_old"), ("get: age", "get: years"), ("var: age", "var: years"))
    renames = (
        "migrations:\n  actions: {hello/who/ask_age: hello/who/how_old}\n  variables: {age: years, event: cause}\n"
    )
    planned = await moved(session, text + INTERRUPTED.replace("get: event", "get: cause") + renames)
    assert planned.verdict == "mapped"
    await session.reply("rain")
    assert session.said[0] == "I see."
    await session.reply("34")
    assert session.values["years"] == 34


@pytest.mark.parametrize(
    ("swaps", "interrupts", "why"),
    [
        ([("id: ask_age", "id: other")], INTERRUPTED, "ask_age"),
        ([], INTERRUPTED.replace("interrupt: sad", "interrupt: low"), "the interrupt sad is gone"),
        ([], INTERRUPTED.replace("id: ask_what", "id: other"), "sad/ask_what is gone"),
    ],
)
async def test_an_interrupt_that_cannot_go_on_begins_the_topic_again(
    drive: StartSession, moved, swaps, interrupts, why
) -> None:
    session = await (await drive(VISIT + INTERRUPTED)).reply("Ana", "so sad")
    planned = await moved(session, changed(*swaps) + interrupts)
    assert (planned.verdict, why in " ".join(planned.why)) == ("restart_topic", True), planned.why
    assert [frame.action for frame in session.state.frames] == ["ask_name"]


async def test_who_wrote_a_variable_is_known_by_its_new_name(drive: StartSession, move) -> None:
    session = await (await drive(VISIT)).reply("Ana")
    renamed = changed(("id: ask_name", "id: who")) + "migrations: {actions: {hello/who/ask_name: hello/who/who}}\n"
    assert move(session, renamed).state.session_cells["name"].by == ("hello", "who", "who")
    assert move(session, changed(("id: ask_name", "id: who"))).state.session_cells["name"].by is None


FORM = """\
script: sheet
declare: [{var: height, type: number}, {var: mood, type: choice, choices: [low, ok]}, {var: note}]
phases:
  - phase: p
    topics:
      - topic: t
        actions: [{form: body, id: fill}, {say: "{{ height }} {{ mood }}", id: tell}]
forms:
  - form: body
    fields:
      - {field: height, type: number, required: true}
      - {field: mood, choices: [low, ok], required: true}
      - {field: note, label: A note}
"""


def fields_of(session: Any) -> list[str]:
    return [field.name for field in session.state.wait.form.fields]


async def half_filled(drive: Any, text: str = FORM) -> Any:
    session = await drive(text)
    await session.turn(FormInput({"height": 180, "mood": "grim"}))
    return session


async def test_a_changed_form_is_shown_again_with_its_values(drive: StartSession, moved) -> None:
    session = await half_filled(drive)
    planned = await moved(session, FORM.replace("label: A note", "label: A word"))
    assert (planned.verdict, planned.why) == ("safe", ("the form body is rendered again",))
    drawn = session.state.wait.form
    assert [field.label for field in drawn.fields][2] == "A word"
    assert (drawn.fields[0].value, [*drawn.errors]) == (180, ["mood"])
    assert [event.wait.form for event in session.happened(Waiting)] == [drawn]
    await session.turn(FormInput({"mood": "ok"}))
    assert session.said == ["180 ok"]


async def test_the_fields_of_a_waiting_form_are_followed_by_name(drive: StartSession, moved) -> None:
    session = await half_filled(drive)
    renamed = FORM.replace("height", "size").replace("mood", "spirits")
    renames = "migrations: {variables: {height: size, mood: spirits}}\n"
    planned = await moved(session, renamed + renames)
    assert planned.verdict == "mapped"
    assert "the field `height` is `size` now" in planned.why
    assert (fields_of(session), [*session.state.wait.form.errors]) == (["size", "spirits", "note"], ["spirits"])
    await session.turn(FormInput({"spirits": "low"}))
    assert session.said == ["180 low"]


async def test_a_field_that_is_gone_takes_what_was_given_with_it(drive: StartSession, moved) -> None:
    session = await half_filled(drive)
    await moved(session, FORM.replace("      - {field: height, type: number, required: true}\n", ""))
    assert (fields_of(session), session.state.progress.values) == (["mood", "note"], {})
    await session.turn(FormInput({"mood": "ok"}))
    assert session.said == [" ok"]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("{field: height, type: number", "{field: height, type: text", "fill takes `height` in another way"),
        ("form: body, id", "form: other, id", "fill showed the form body and shows other"),
        ("{form: body, id: fill}", "{ask: Height?, id: fill, output: [height]}", "was `form` and is `ask`"),
    ],
)
async def test_form_with_other_fields_begins_the_topic_again(drive: StartSession, moved, old, new, why) -> None:
    session = await half_filled(drive)
    text = FORM.replace(old, new) + "  - {form: other, fields: [{field: note}]}\n"
    planned = await moved(session, text)
    assert planned.verdict == "restart_topic"
    assert why in planned.why[0]
    assert session.state.progress.values == {}


async def test_a_form_is_shown_again_after_an_interrupt(drive: StartSession, moved) -> None:
    session = await (await half_filled(drive, FORM + INTERRUPTED)).reply("so sad")
    changed_form = FORM.replace("label: A note", "label: A word")
    sadly = INTERRUPTED.replace("interrupt: sad", "interrupt: low")
    planned = await moved(session, changed_form + sadly + "migrations: {interrupts: {sad: low}}\n")
    assert (planned.verdict, planned.why) == ("mapped", ("the form body is rendered again", "sad is low now"))
    check(session.program, session.state)  # so that an export of the session is imported
    await session.reply("rain")
    assert (session.state.wait.form.fields[2].label, session.state.wait.form.fields[0].value) == ("A word", 180)


CHAT = """\
script: chat
phases: [{phase: p, topics: [{topic: t, actions: [{chat: Anything else?, id: talk, max_rounds: 9}]}]}]
detectors:
  - {detector: crisis, rules: [{words: [die], score: 0.8}], cooldown: 5, do: [{emit: {event: crisis}, id: call}]}
"""


async def test_chat_and_resting_detectors_continue_under_new_names(drive: StartSession, moved) -> None:
    session = await (await drive(CHAT)).reply("I want to die", "well")
    assert session.state.visits == {"talk": 1}
    renames = "migrations: {actions: {p/t/talk: p/t/chat}, detectors: {crisis: danger}}\n"
    planned = await moved(
        session, CHAT.replace("id: talk", "id: chat").replace("detector: crisis", "detector: danger") + renames
    )
    assert planned.verdict == "mapped"
    assert (session.state.progress.round, session.state.visits) == (2, {"chat": 1})
    await session.reply("die")
    assert session.happened(Emitted) == []


async def test_a_detector_that_is_gone_is_forgotten(drive: StartSession, move) -> None:
    session = await (await drive(CHAT)).reply("I want to die")
    assert [*session.state.watches] == ["crisis"]
    planned = move(session, CHAT.partition("detectors")[0])
    assert (planned.verdict, planned.state.watches) == ("safe", {})


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [("Which?", "Which of these?", "safe"), ("=cities", "[Oslo, Lima]", "restart_topic")],
)
async def test_computed_choices_remain_offered(drive: StartSession, moved, old: str, new: str, verdict: str) -> None:
    text = """\
cuebook: 1
script: trip
actions:
  - set: {cities: [Rome, Oslo]}
  - {ask: Which?, id: which, into: {var: city, choices: =cities}}
  - say: "{{ city }}"
"""
    session = await drive(text)
    planned = await moved(session, text.replace(old, new))
    assert planned.verdict == verdict
    wanted = ["Rome", "Oslo"] if verdict == "safe" else ["Oslo", "Lima"]
    assert [choice.key for choice in session.state.wait.choices] == wanted
