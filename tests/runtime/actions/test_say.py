"""What the assistant says without asking, and how it waits: `say`, `ai_say`, `show`, `user_say`."""

import pytest

from runtime.state.events import Exited, VariantChosen
from runtime.state.state import Wait
from tests.support.runtime_session import StartSession

ACKNOWLEDGE = Wait("acknowledge")


async def test_all_messages_of_a_turn_come_in_order_and_numbered(drive: StartSession) -> None:
    session = await drive("""
        - {say: one, id: a}
        - {say: two, id: b}
        - {ai_say: three, id: c}
        - {user_say: ok, id: d}
        - {say: four, id: e}
    """)
    assert session.said == ["one", "two", "three"]
    await session.reply("fine")
    assert [(m.number, m.role, m.content, m.action_id) for m in session.messages] == [
        (1, "assistant", "one", "a"),
        (2, "assistant", "two", "b"),
        (3, "assistant", "three", "c"),
        (4, "user", "fine", "d"),
        (5, "assistant", "four", "e"),
    ]
    assert len({m.message_id for m in session.messages}) == 5


async def test_a_text_that_comes_out_blank_is_not_said(drive: StartSession) -> None:
    session = await drive("""
        - say: " {{ nothing }} "
        - say: "."
    """)
    assert session.said == ["."]


async def test_one_of_several_texts_is_chosen_by_the_seed_and_recorded(drive: StartSession) -> None:
    script = """
        - {say: [a, b, c], id: vary}
        - {say: [a, b, c], id: again}
    """
    seen = set()
    for seed in range(30):
        session = await drive(script, seed=seed)
        chosen = session.happened(VariantChosen)
        assert session.said == ["abc"[each.index] for each in chosen]
        assert (await drive(script, seed=seed)).said == session.said
        seen.add(tuple(session.said))
    assert len(seen) == 9


@pytest.mark.parametrize(
    ("keys", "utterances", "replies"),
    [
        ("", 1, 0),
        (", max_rounds: 0", 1, 0),
        (", require_acknowledgment: false", 1, 0),
        (", max_rounds: 1, require_acknowledgment: false", 1, 0),
        (", max_rounds: 1", 1, 1),
        (", require_acknowledgment: true", 1, 1),
        (", max_rounds: 2", 2, 1),
        (", max_rounds: 3", 3, 2),
    ],
)
async def test_how_often_it_speaks_and_waits(drive: StartSession, keys, utterances, replies) -> None:
    session = await drive(f"- {{ai_say: Breathe., id: b{keys}}}\n- say: end")
    for _ in range(replies):
        assert session.state.wait == ACKNOWLEDGE
        assert session.said == ["Breathe."]
        await session.reply("")
    said = [message.content for message in session.messages if message.role == "assistant"]
    assert said == ["Breathe."] * utterances + ["end"]
    assert session.state.status == "completed"


async def test_the_last_utterance_and_the_next_action_come_in_one_turn(drive: StartSession) -> None:
    session = await drive("- {ai_say: Explain., max_rounds: 2}\n- {ask: Clear?, output: [{get: clear}]}")
    await session.reply("I see")
    assert session.said == ["Explain.", "Clear?"]
    assert [m.content for m in session.messages if m.role == "user"] == ["I see"]


async def test_the_model_words_it_and_hears_the_reply(drive: StartSession) -> None:
    session = await drive("- {ai_say: Greet., id: greet, max_rounds: 3}", replies={"greet": ["Hi!", "Good.", "Bye."]})
    await session.reply("hello", "well")
    assert [m.content for m in session.messages] == ["Hi!", "hello", "Good.", "well", "Bye."]
    call = session.turns[1].model_calls[0].request
    assert (call.purpose, call.round, call.reply, call.task) == ("say", 1, "hello", "Greet.")
    assert [message.content for message in call.history] == ["Hi!", "hello"]


async def test_the_model_may_stop_before_the_last_utterance(drive: StartSession) -> None:
    session = await drive(
        "- {ai_say: Explain., id: explain, max_rounds: 5}\n- say: end",
        replies={"explain": ["It is so.", {"text": "Then we are done.", "exit": "yes", "exit_reason": "understood"}]},
    )
    await session.reply("clear")
    assert session.said == ["Then we are done.", "end"]
    assert session.happened(Exited) == [Exited("explain", "model", "understood")]


async def test_met_criteria_stop_it_without_another_word(drive: StartSession) -> None:
    session = await drive(
        """
        - ai_say: Explain.
          id: explain
          max_rounds: 5
          exit_criteria: {understanding_threshold: 80, has_questions: false}
        - say: end
        """,
        replies={
            "explain": [
                "It is so.",
                {"text": "Again.", "understanding": 40},
                {"text": "Unsaid.", "understanding": 90, "has_questions": False},
            ]
        },
    )
    await session.reply("hm")
    assert session.said == ["Again."]
    await session.reply("ah")
    assert session.said == ["end"]
    assert [exited.source for exited in session.happened(Exited)] == ["exit_criteria"]


async def test_a_picture_is_a_message_with_its_addresses(drive: StartSession) -> None:
    session = await drive("""
        - set: {file: '"calm.png"'}
        - show: {image: "/pictures/{{ file }}", caption: Look.}
        - show: {url: "https://example.org/"}
    """)
    assert [(m.content, m.metadata["media"]) for m in session.messages] == [
        ("Look.", {"image": "/pictures/calm.png", "caption": "Look."}),
        ("", {"url": "https://example.org/"}),
    ]


async def test_a_suggested_reply_takes_any_text(drive: StartSession) -> None:
    session = await drive("""
        - set: {name: '"Ana"'}
        - user_say: I am {{ name }}
        - say: ok
    """)
    assert session.state.wait == Wait("suggestion", suggestion="I am Ana")
    await session.reply("")
    assert session.said == ["ok"]


MESSAGES = {
    "say": "{say: Read this.}",
    "show": "{show: {image: a.png, caption: Read this.}}",
    "ai_say": "{ai_say: Read this.}",
}


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
@pytest.mark.parametrize(
    ("written", "kind", "button"), [("true", "acknowledge", ""), ("Got it", "suggestion", "Got it")]
)
async def test_a_message_may_wait_for_any_reply(drive: StartSession, message, written, kind, button) -> None:
    script = f"actions: [{message[:-1]}, acknowledge: {written}}}, {{say: Next.}}]"
    session = await drive(script, saved=True)
    assert session.said == ["Read this."]
    assert (session.state.wait.kind, session.state.wait.suggestion) == (kind, button)
    await session.reply("ok")
    assert session.said == ["Next."]


async def test_every_one_of_several_messages_may_wait(drive: StartSession) -> None:
    session = await drive("actions: [{ai_say: Breathe., utterances: 2, acknowledge: Done}, {say: Next.}]", saved=True)
    await session.reply("ok")
    assert (session.said, session.state.wait.kind) == (["Breathe."], "suggestion")
    await session.reply("ok")
    assert session.said == ["Next."]


async def test_a_message_that_waits_may_be_reminded_of(drive: StartSession) -> None:
    script = "actions: [{say: Read this., acknowledge: true, remind: [{after: 1 day, say: Did you?}]}, {say: Next.}]"
    session = await drive(script, saved=True)
    await session.pass_time(days=1)
    assert session.said == ["Did you?"]
    await session.reply("yes")
    assert session.said == ["Next."]
