"""From topic to topic and phase to phase: `when`, `goto`, `end`, empty topics, and being completed."""

import pytest

from runtime.state.events import ActionLeft, Ended, Jumped, ScopeEntered, ScopeLeft, ScopeSkipped
from runtime.state.inputs import InputRefused
from tests.support.runtime_session import NewSession, ReadProgram, StartSession


def phases(*written):
    """Return a script of phases given as {phase: {topic: actions}} in one line each."""
    return "script: test\nphases:\n" + "\n".join(f"- {each}" for each in written)


TWO = phases(
    '{phase: first, topics: [{topic: one, actions: [{say: "1"}]}, {topic: two, actions: [{say: "2"}]}]}',
    '{phase: second, topics: [{topic: three, actions: [{say: "3"}]}]}',
)


async def test_it_goes_through_topics_and_phases_in_order(drive: StartSession) -> None:
    session = await drive(TWO)
    assert session.said == ["1", "2", "3"]
    happened = [
        (type(event.body).__name__, event.body.id)
        for event in session.turns[0].events
        if isinstance(event.body, ScopeEntered | ScopeLeft)
    ]
    assert happened == [
        ("ScopeEntered", "first"),
        ("ScopeEntered", "one"),
        ("ScopeLeft", "one"),
        ("ScopeEntered", "two"),
        ("ScopeLeft", "two"),
        ("ScopeLeft", "first"),
        ("ScopeEntered", "second"),
        ("ScopeEntered", "three"),
        ("ScopeLeft", "three"),
        ("ScopeLeft", "second"),
    ]


async def test_events_are_numbered_without_gaps(drive: StartSession) -> None:
    session = await drive("- user_say: a\n- say: b\n- user_say: c\n- say: d")
    await session.reply("x", "y")
    numbers = [event.seq for turn in session.turns for event in turn.events]
    assert numbers == list(range(1, len(numbers) + 1))


LAST = [
    "{say: x}",
    "{ai_say: x}",
    "{ai_say: x, max_rounds: 1}",
    "{ask: x}",
    "{ask: x, output: [{get: it, type: number}], max_rounds: 1}",
    "{ai_ask: x}",
    "{ai_think: x, output: [{get: it}]}",
    "{set: {a: 1}}",
    "{choose: a, choices: [b, c], max_rounds: 1}",
    "{choose: a, choices: [{b: B, actions: [{say: x}]}], max_rounds: 1}",
    "{user_say: x}",
    "{show: {image: x}}",
    "{if: true, then: [{say: x}]}",
    "{if: false, then: [{say: x}]}",
    "{foreach: '[1, 2] as n', do: [{say: x}]}",
    "{repeat: {max: 2}, do: [{user_say: x}]}",
    "{end: over}",
    "{say: never, when: false}",
]


@pytest.mark.parametrize("action", LAST)
async def test_session_is_completed_when_its_last_action_is_done(drive: StartSession, action) -> None:
    session = await drive(f"- {action}")
    while session.state.wait is not None:
        await session.reply("b")
    state = session.state
    assert (state.status, state.execution_status) == ("completed", "completed")
    assert (state.phase, state.topic, state.frames, state.progress, state.wait) == ("", "", [], None, None)
    assert (state.phase_cells, state.topic_cells) == ({}, {})
    assert isinstance(session.turns[-1].events[-1].body, Ended)
    with pytest.raises(InputRefused, match="the session is completed"):
        await session.reply("more")


@pytest.mark.parametrize(
    "script",
    [
        "script: test\nphases: []",
        phases("{phase: a, topics: []}"),
        phases("{phase: a, topics: [{topic: b}, {topic: c, actions: []}]}", "{phase: d, topics: [{topic: e}]}"),
    ],
)
async def test_a_script_without_actions_is_completed_at_once(drive: StartSession, script) -> None:
    session = await drive(script)
    assert (session.state.status, session.messages) == ("completed", [])


async def test_when_skips_phases_and_topics(drive: StartSession) -> None:
    session = await drive(
        phases(
            '{phase: a, when: false, topics: [{topic: b, actions: [{say: "1"}]}]}',
            '{phase: c, topics: [{topic: d, when: unset, actions: [{say: "2"}]}, {topic: e, actions: [{say: "3"}]}]}',
            '{phase: f, topics: [{topic: g, when: 1 > 2, actions: [{say: "4"}]}]}',
        )
    )
    assert session.said == ["3"]
    assert [(each.scope, each.id) for each in session.happened(ScopeSkipped)] == [
        ("phase", "a"),
        ("topic", "d"),
        ("topic", "g"),
    ]


async def test_a_topics_when_sees_its_phase_but_not_the_topic_before(drive: StartSession) -> None:
    session = await drive(
        phases(
            """{phase: a, declare: [{var: kept}], topics: [
                 {topic: b, actions: [{set: {kept: 1, lost: 1}}]},
                 {topic: c, when: kept, actions: [{say: kept}]},
                 {topic: d, when: lost, actions: [{say: lost}]}]}"""
        )
    )
    assert session.said == ["kept"]


@pytest.mark.parametrize(
    ("target", "said"),
    [("second/three", ["3"]), ("second", ["3"]), ("two", ["2", "3"]), ("first/two", ["2", "3"])],
)
async def test_goto_names_a_topic_or_a_phase(drive: StartSession, target, said) -> None:
    session = await drive(TWO.replace('{say: "1"}', f"{{goto: {target}, id: jump}}, {{say: never}}"))
    assert session.said == said
    assert [jumped.action_id for jumped in session.happened(Jumped)] == ["jump"]


async def test_goto_leaves_the_blocks_it_stands_in(drive: StartSession) -> None:
    inner = "{foreach: '[1, 2, 3] as n', do: [{if: n == 2, then: [{goto: two}]}, {say: 'n{{ n }}'}]}"
    session = await drive(TWO.replace('{say: "1"}', inner))
    assert session.said == ["n1", "2", "3"]


async def test_goto_enters_a_topic_whatever_its_when_says(drive: StartSession) -> None:
    session = await drive(TWO.replace('{say: "1"}', "{goto: two}").replace("topic: two,", "topic: two, when: false,"))
    assert session.said == ["2", "3"]


async def test_goto_an_empty_topic_goes_on_after_it(drive: StartSession) -> None:
    session = await drive(TWO.replace('{say: "1"}', "{goto: two}").replace('actions: [{say: "2"}]', "actions: []"))
    assert session.said == ["3"]


async def test_goto_back_may_go_round_as_long_as_the_user_has_a_say(drive: StartSession) -> None:
    session = await drive("""
        - {ask: More?, id: more, output: [{get: more, type: boolean}]}
        - {goto: talk, when: more}
        - say: bye
    """)
    for _ in range(30):
        await session.reply("yes")
        assert session.said == ["More?"]
    await session.reply("no")
    assert session.said == ["bye"]
    assert session.state.topic_entry == 31


async def test_end_finishes_from_within_blocks_with_its_reason(drive: StartSession) -> None:
    session = await drive("""
        - foreach: "[1, 2] as n"
          do: [{if: true, then: [{end: enough}]}]
        - say: never
    """)
    assert (session.said, session.state.end_reason) == ([], "enough")
    assert [(each.reason, each.by) for each in session.happened(Ended)] == [("enough", "end_action")]


async def test_completed_action_does_not_run_again_on_resuming(drive: StartSession) -> None:
    session = await drive("- {say: first, id: a}\n- {ask: second, id: b}\n- {say: third, id: c}", saved=True)
    await session.reply("ok")
    assert session.said == ["third"]
    assert [left.action_id for left in session.happened(ActionLeft)] == ["b", "c"]


async def test_a_session_begins_once_and_takes_no_reply_before(drive: StartSession, prepare: NewSession) -> None:
    session = await drive("- user_say: hi")
    with pytest.raises(InputRefused, match="has begun already"):
        await session.start()
    with pytest.raises(InputRefused, match="waits for no input"):
        await prepare("- user_say: hi").reply("too early")


async def test_a_paused_session_takes_no_reply(drive: StartSession) -> None:
    session = await drive("- user_say: hi")
    session.state.status = "paused"
    with pytest.raises(InputRefused, match="the session is paused"):
        await session.reply("hello")


async def test_a_place_is_also_given_by_its_indices(program_of: ReadProgram) -> None:
    program = program_of(TWO.replace('{say: "2"}', "{say: x}, {if: true, id: b, then: [{say: y, id: inner}]}"))
    assert program.indices("first", "two", "b") == (0, 1, 1)
    assert program.indices("first", "two", "inner") == (0, 1, 1)
    assert program.indices("second", "three", "say_1") == (1, 0, 0)
    assert program.indices("gone", "gone", "gone") == (0, 0, 0)
