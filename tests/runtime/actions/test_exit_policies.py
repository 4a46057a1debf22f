"""What a round comes to when the model leads: it is judged, recorded, and replies that lead nowhere have a policy."""

import pytest
from msgspec import structs

from runtime.models.offline_model import OfflineModel
from runtime.state.events import Exited, Judged, Jumped, VariableChanged
from runtime.state.ports import MessageDelta, MessageReset, ModelReply, ModelRequest, OnReply
from runtime.state.state import decode, encode
from runtime.turn.exits import NOT_DONE
from tests.support.runtime_session import NewSession

HEAD = "script: t\nphases:\n  - phase: p\n    topics:\n      - topic: t\n        actions:\n"
TAIL = """
          - {say: "Thank you.", id: thanks}
      - topic: rest
        when: false
        actions: [{say: "Rest now.", id: rest}]
"""


class Judging(OfflineModel):
    """Gives the replies it was made with for what leads the conversation, and finds nothing when asked apart."""

    def __init__(self, *replies: ModelReply) -> None:
        self.replies = list(replies)

    def goes_to(self, request: ModelRequest) -> str:
        return "judge"

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        if request.purpose not in {"ask", "chat"}:
            return ModelReply()
        reply = self.replies.pop(0)
        for end in range(1, len(reply.text) + 1) if hear is not None else ():
            hear(structs.replace(reply, text=reply.text[:end]))
        return reply


def ask(more: str = "", verb: str = "ai_ask") -> str:
    output = ", output: [{get: sleep, type: number}]" if verb == "ai_ask" else ""
    return f"{HEAD}          - {{{verb}: Find out how they slept., id: slept, max_rounds: 4{output}{more}}}\n{TAIL}"


def astray(progress: str, text: str = "Hm.") -> ModelReply:
    return ModelReply(text=text, exit=False, progress=progress)


@pytest.fixture
def talk(prepare: NewSession):
    async def begun(script: str, *replies: ModelReply, saved: bool = False):
        session = prepare(script, saved=saved)
        session.model = Judging(ModelReply(text="How did you sleep?"), *replies)
        return await session.start()

    return begun


async def test_every_round_is_recorded_as_it_was_judged(talk) -> None:
    judged = ModelReply(text="More?", exit=False, progress="continue_needed", understanding=40, has_questions=True)
    done = ModelReply(text="Fine.", exit=True, exit_reason="said it", progress="completed", values={"sleep": 7})
    session = await talk(ask(), judged, done)
    await session.reply("hm")
    assert session.happened(Judged) == [Judged("slept", 1, "continue_needed", 40, True, False, NOT_DONE)]
    await session.reply("seven hours")
    assert session.happened(Judged) == [Judged("slept", 2, "completed", exit=True, reason="said it")]
    assert session.said == ["Thank you."]


async def test_a_round_that_continues_has_the_reason_of_the_model(talk) -> None:
    session = await talk(ask(), ModelReply(text="More?", exit=False, exit_reason="no hours yet"))
    await session.reply("hm")
    assert session.happened(Judged) == [Judged("slept", 1, "continue_needed", reason="no hours yet")]


async def test_model_that_reports_only_progress_ends_with_completed(talk) -> None:
    session = await talk(ask(), ModelReply(text="Fine.", progress="completed", values={"sleep": 7}))
    await session.reply("seven hours")
    assert [each.source for each in session.happened(Exited)] == ["model"]
    session = await talk(ask(), ModelReply(text="Go on.", exit=False, progress="completed"))
    await session.reply("seven hours")
    assert session.said == ["Go on."]


async def test_reply_taken_as_text_costs_one_round_and_nothing_else(talk) -> None:
    session = await talk(ask(), ModelReply(text='{"sleep": 7, "exit"', raw='{"sleep": 7, "exit"'))
    await session.reply("seven hours")
    assert session.said == ['{"sleep": 7, "exit"']
    assert session.happened(VariableChanged) == []
    assert session.happened(Judged) == [Judged("slept", 1, "continue_needed", reason=NOT_DONE)]


async def test_without_a_policy_the_model_replies_and_rounds_count(talk) -> None:
    session = await talk(ask(), *[astray("off_topic", f"Back to sleep {n}.") for n in range(4)])
    for said in range(3):
        await session.reply("my cat")
        assert session.said == [f"Back to sleep {said}."]
    await session.reply("my cat")
    assert [each.source for each in session.happened(Exited)] == ["max_rounds"]


@pytest.mark.parametrize("verb", ["ai_ask", "chat"])
@pytest.mark.parametrize("progress", ["blocked", "off_topic"])
async def test_a_policy_finds_its_own_words_each_time(talk, verb, progress) -> None:
    own = f', on_{progress}: {{say: "Let us come back to sleep ({{{{ round }}}})."}}'
    session = await talk(ask(own, verb), astray(progress), astray(progress))
    for said in (1, 2):
        await session.reply("my cat")
        assert session.said == [f"Let us come back to sleep ({said})."]
    other = "off_topic" if progress == "blocked" else "blocked"
    session = await talk(ask(own, verb), astray(other))
    await session.reply("my cat")
    assert session.said == ["Hm."]


@pytest.mark.parametrize(
    ("verb", "policy", "said", "end"),
    [
        ("ai_ask", "skip", ["Thank you."], ""),
        ("ai_ask", "goto rest", ["Rest now."], ""),
        ("ai_ask", "{goto: p/rest}", ["Rest now."], ""),
        ("ai_ask", "{say: As you like., then: skip}", ["As you like.", "Thank you."], ""),
        ("ai_ask", "{say: Bye., then: end}", ["Bye."], "no answer to slept"),
        ("chat", "skip", ["Hm.", "Thank you."], ""),
        ("chat", "{say: As you like., then: {goto: rest}}", ["As you like.", "Rest now."], ""),
        ("chat", "end", ["Hm."], "no answer to slept"),
    ],
)
async def test_a_policy_may_give_the_question_up(talk, verb, policy, said, end) -> None:
    session = await talk(ask(f", on_blocked: {policy}", verb), astray("blocked"))
    await session.reply("I can't")
    assert session.said == said
    assert [(each.source, each.reason) for each in session.happened(Exited)] == [("on_blocked", "the reply is blocked")]
    assert (session.state.status, session.state.end_reason) == ("completed", end)
    assert bool(session.happened(Jumped)) is ("goto" in policy)


async def test_it_takes_so_many_in_a_row(talk) -> None:
    for saved in (False, True):
        replies = [astray("blocked"), ModelReply(text="Go on.", exit=False), astray("blocked"), astray("blocked")]
        session = await talk(ask(", on_blocked: {then: skip, after: 2}"), *replies, saved=saved)
        await session.reply("no", "well", "no")
        assert session.state.progress.round == 3
        assert decode(encode(session.state)) == session.state
        await session.reply("no")
        assert [each.source for each in session.happened(Exited)] == ["on_blocked"]


async def test_translated_messages_stay_and_missing_lines_fall_back(talk) -> None:
    script = ask(", on_blocked: skip").replace("type: number}]", "type: number}, {get: dream, default: none}]")
    known = ModelReply(text="And dreams?", exit=False, values={"sleep": 7})
    session = await talk(script, known, astray("blocked"))
    await session.reply("seven", "I'd rather not")
    assert [(each.name, each.new, each.source) for each in session.happened(VariableChanged)] == [
        ("sleep", 7, "user"),
        ("dream", "none", "default"),
    ]


async def test_completed_question_is_done_whatever_else_the_reply_is(talk) -> None:
    done = ModelReply(text="Ah.", exit=True, progress="blocked", values={"sleep": 7})
    session = await talk(ask(", on_blocked: end"), done)
    await session.reply("seven, and leave me alone")
    assert [each.source for each in session.happened(Exited)] == ["model"]
    assert session.said == ["Thank you."]


@pytest.mark.parametrize("verb", ["ai_ask", "chat"])
@pytest.mark.parametrize(
    ("policy", "heard"), [("", ["Hm."]), (", on_blocked: continue", ["Hm."]), (", on_blocked: {say: Rest.}", ["Rest."])]
)
async def test_nobody_hears_words_that_a_policy_replaces(talk, verb, policy, heard) -> None:
    session = await talk(ask(policy, verb), astray("blocked"))
    live: list[MessageDelta | MessageReset] = []
    session.live = live.append
    await session.reply("no")
    assert not [each for each in live if isinstance(each, MessageReset)]
    assert ["".join(each.text for each in live if isinstance(each, MessageDelta))] == heard == session.said
