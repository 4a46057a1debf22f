"""Context strategies in turns: what a model is sent, what is stored, and that no turn fails because of it."""

import asyncio

import pytest

from runtime.context.resize import Handlers
from runtime.context.selection import Contexts
from runtime.engine.engine import TurnFailed
from runtime.models.recorded_models import ScriptedModel
from runtime.state.events import Resized
from runtime.state.inputs import Append, Clear, Compress, End, NotNow, OutsideMessage, Rewind
from runtime.state.limits import Bounds, Limits
from runtime.state.ports import ConversationSummary, ModelFailed, ModelReply, Usage
from runtime.state.state import decode, encode
from scripts.model.context_strategies import ContextSettings, Limit
from tests.support.runtime_session import NewSession, StartSession

CHAT = """
script: talk
{context}
phases:
  - phase: only
    topics:
      - topic: talk
        actions:
          - chat: Talk about their day.
            id: day
            max_rounds: 100
            {own}
"""


def script(context: str = "", own: str = "") -> str:
    return CHAT.format(context=f"context: {context}" if context else "", own=f"context: {own}" if own else "")


class StreamClient:
    """A model that answers with numbers and remembers what it was asked; accounts tell of how many messages."""

    def __init__(self, failing: int = 0, slow: bool = False) -> None:
        self.asked = []
        self.failing = failing
        self.slow = slow

    def goes_to(self, request):
        return "listener"

    async def complete(self, request, hear=None):
        self.asked.append(request)
        usage = Usage(model="m", input_tokens=10)
        if request.purpose not in ("summarise", "memo"):
            return ModelReply(text=f"answer {len(self.asked)}", usage=usage)
        if self.slow:
            await asyncio.sleep(60)
        if self.failing:
            self.failing -= 1
            raise ModelFailed("the model is away", usage=usage)
        numbers = [str(each.number) for each in request.history]
        if request.purpose == "memo":
            return ModelReply(
                values={**(request.conversation_summary.previous or {}), "told": ",".join(numbers)}, usage=usage
            )
        return ModelReply(text=" ".join([request.conversation_summary.previous or "told:", *numbers]), usage=usage)

    def of(self, *purposes):
        return [each for each in self.asked if each.purpose in purposes]


@pytest.fixture
def talk(prepare: NewSession):
    """Start a conversation: ``await talk(script(…), model)``."""

    async def started(text, model, **more):
        session = prepare(text, **more)
        session.model = model
        return await session.start()

    return started


async def say(session, count):
    for number in range(count):
        await session.reply(f"word {number}")
    return session


def resized(session):
    return [event.body for turn in session.turns for event in turn.events if isinstance(event.body, Resized)]


async def test_without_a_strategy_a_model_sees_only_the_last_messages(talk) -> None:
    model = StreamClient()
    session = await say(await talk(script(), model), 40)
    assert len(model.asked[-1].history) == 50
    assert session.state.context is None
    assert not resized(session)


@pytest.mark.parametrize(
    ("context", "most"),
    [("{strategy: window, k: 2}", 5), ("{strategy: token_buffer, max_tokens: 40}", 6), ("{strategy: buffer}", 100)],
)
async def test_a_window_shows_what_it_says(talk, context, most) -> None:
    model = StreamClient()
    session = await say(await talk(script(context), model), 40)
    seen = model.asked[-1].history
    assert len(seen) <= most
    assert seen[-1].content == "word 39"
    assert (len(seen) > 50) == ("buffer}" in context)
    assert seen[0].role == "assistant"
    assert model.of("summarise", "memo") == []
    assert session.warnings == []


async def test_a_summary_takes_the_place_of_the_older_messages(talk) -> None:
    model = StreamClient()
    session = await say(await talk(script("{strategy: summary, keep: 4}"), model, saved=True), 6)
    asked = model.of("chat")[-1]
    memory = session.state.context
    before = session.turns[-2].state.context
    assert asked.conversation_summary.summary == before.summary
    assert [each.number for each in asked.history] == [*range(before.summary_to + 1, asked.history[-1].number + 1)]
    assert memory.summary == "told: " + " ".join(str(n) for n in range(1, memory.summary_to + 1))  # each once, in order
    assert memory.summary_to == session.state.message_seq - 4
    last = resized(session)[-1]
    assert (last.strategy, last.summary_to, last.by) == ("summary", memory.summary_to, "model")
    assert last.tokens > 0


async def test_a_memo_is_part_of_the_context(talk) -> None:
    model = StreamClient()
    context = "{strategy: memo, limit: {messages: 4}, resize: {every_n_turns: 3}, instruct: Keep names.}"
    session = await say(await talk(script(context), model, saved=True), 8)
    assert model.of("memo")[0].conversation_summary.instruct == "Keep names."
    assert model.of("chat")[-1].conversation_summary.memo == session.turns[-2].state.context.memo
    assert "told" in session.state.context.memo
    assert session.state.context.last_resize is not None


async def test_without_a_language_model_summaries_are_marked_extracts(drive: StartSession) -> None:
    session = await say(await drive(script("{strategy: summary, keep: 2}")), 6)
    assert session.state.context.summary.startswith("[Extract]")
    assert {each.by for each in resized(session)} == {"extract"}


async def test_a_cassette_may_say_the_accounts_and_need_not(drive: StartSession) -> None:
    replies = {"day": [f"answer {n}" for n in range(10)]}
    plain = await say(await drive(script("{strategy: summary, keep: 2}"), replies=replies), 6)
    assert plain.state.context.summary.startswith("[Extract]")
    reported = {**replies, "context.summarise": ["First.", "Second."]}
    session = await say(await drive(script("{strategy: summary, keep: 2}"), replies=reported), 6)
    assert session.state.context.summary == "Second."


async def test_strategy_is_of_session_action_script_or_server(prepare: NewSession) -> None:
    async def in_sight(text, own=None, default=None):
        model = StreamClient()
        session = prepare(text)
        session.model, session.contexts = model, Contexts(default=default)
        session.state.context_settings = own
        await say(await session.start(), 10)
        return len(model.asked[-1].history)

    one, four = (ContextSettings(strategy="window", k=k) for k in (1, 4))
    by_script, by_action = "{strategy: window, k: 3}", "{strategy: window, k: 2}"
    assert await in_sight(script(), default=four) == 8
    assert await in_sight(script(by_script), default=four) == 6
    assert await in_sight(script(by_script, by_action), default=four) == 4
    assert await in_sight(script(by_script, by_action), own=one, default=four) == 2


async def test_unavailable_summary_is_a_warning_and_is_tried_again(talk) -> None:
    model = StreamClient(failing=2)
    session = await say(await talk(script("{strategy: summary, keep: 2}"), model), 1)
    assert session.state.context.summary == ""
    assert [each[0] for turn in [session] for each in turn.warnings] == ["context_failed"]
    assert session.state.context.failed == 1
    assert session.state.wait is not None
    await say(session, 8)
    memory = session.state.context
    assert memory.failed == 0
    assert memory.summary == "told: " + " ".join(str(n) for n in range(1, memory.summary_to + 1))


async def test_a_slow_summary_is_given_up_and_the_turn_ends(talk) -> None:
    model = StreamClient(slow=True)
    limits = Limits(context_s=0.05)
    session = await say(await talk(script("{strategy: summary, keep: 1}"), model, limits=limits), 1)
    assert session.warnings == [("context_failed", "given up before its end")]
    assert session.said == ["answer 2"]


async def test_a_summary_never_takes_the_time_the_turn_needs_to_end(talk) -> None:
    limits = Limits(context_s=100, turn_s=2.0)
    session = await say(await talk(script("{strategy: summary, keep: 1}"), StreamClient(slow=True), limits=limits), 1)
    assert session.warnings == [("context_failed", "given up before its end")]


async def test_a_budget_that_is_used_up_by_then_costs_a_warning_only(talk) -> None:
    limits = Limits(turn_budget=Bounds(calls=1))
    session = await say(await talk(script("{strategy: summary, keep: 1}"), StreamClient(), limits=limits), 1)
    assert session.warnings == [("context_failed", "the budget `turn_calls` is used up")]
    assert session.said == ["answer 2"]
    assert session.state.spent.calls == 2


async def test_what_accounts_take_counts_as_other_calls_do(talk) -> None:
    session = await say(await talk(script("{strategy: summary, keep: 1}"), StreamClient()), 1)
    assert session.state.spent.calls == 3


async def test_messages_that_an_application_adds_are_followed_too(talk) -> None:
    session = await talk(script("{strategy: summary, keep: 2}"), StreamClient())
    await session.turn(Append(tuple(OutsideMessage("user" if n % 2 else "assistant", f"m {n}") for n in range(6))))
    assert session.state.context.summary_to == session.state.message_seq - 2


async def test_system_messages_at_the_beginning_stay_first(talk) -> None:
    model = StreamClient()
    text = script("{strategy: window, k: 1}").replace("id: day", "id: day\n            opens: user")
    session = await talk(text, model)
    await session.turn(Append((OutsideMessage("system", "Be brief."),)))
    await say(session, 5)
    assert [each.role for each in model.asked[-1].history] == ["system", "user", "assistant", "user"]


async def test_rewind_restores_the_summary_and_a_clear_removes_it(talk) -> None:
    session = await say(await talk(script("{strategy: summary, keep: 2}"), StreamClient()), 5)
    then = decode(encode(session.turns[3].state))
    assert then.context.summary
    await session.turn(Rewind(then))
    assert session.state.context == then.context
    await session.turn(Clear())
    assert session.state.context is None


# -- compress -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("context", ["", "{strategy: window, k: 10}", "{strategy: summary, keep: 100}"])
async def test_compressed_part_is_shown_as_a_summary_by_any_strategy(talk, context) -> None:
    model = StreamClient()
    session = await say(await talk(script(context), model), 5)
    await session.turn(Compress(tuple(session.messages[:8]), 3, "Keep names."))
    memory = session.state.context
    assert (memory.summary, memory.summary_to) == ("told: 1 2 3 4 5 6 7 8", 8)
    assert model.of("summarise")[-1].conversation_summary.instruct == "Keep names."
    await session.reply("And then?")
    asked = model.of("chat")[-1]
    assert asked.account == ConversationSummary(summary=memory.summary)
    assert asked.history[0].number == 9
    await session.turn(Compress(tuple(session.messages[8:11]), 2))
    assert session.state.context.summary == "told: 1 2 3 4 5 6 7 8 9 10 11"


async def test_a_compression_that_fails_changes_nothing(talk) -> None:
    session = await say(await talk(script(), StreamClient(failing=9)), 5)
    with pytest.raises(TurnFailed) as failed:
        await session.turn(Compress(tuple(session.messages[:8]), 3))
    assert failed.value.kind == "model"
    assert session.state.context is None


async def test_nothing_is_compressed_once_the_conversation_is_over(talk) -> None:
    session = await say(await talk(script(), StreamClient()), 3)
    await session.turn(End(""))
    with pytest.raises(NotNow):
        await session.turn(Compress(tuple(session.messages[:2]), 3))


# -- handlers -----------------------------------------------------------------------------------------------------


async def test_an_application_decides_and_resizes_in_its_own_way(prepare: NewSession) -> None:
    async def resize(full, current, memo, settings):
        return full, current[-2:], {**memo, "kept": len(full)}

    model = StreamClient()
    session = prepare(script("lite"))
    session.model = model
    session.contexts = Contexts(
        handlers=Handlers(policy=lambda full, current, memo, settings: "mine", resize={"mine": resize})
    )
    await say(await session.start(), 4)
    assert [each.type for each in resized(session)] == ["mine"] * 5
    assert len(model.asked[-1].history) <= 3


@pytest.mark.parametrize("gives", [7, "unheard_of"])
async def test_a_handler_that_does_what_it_should_not_costs_a_warning(prepare: NewSession, gives) -> None:
    session = prepare(script("lite"))
    session.contexts = Contexts(handlers=Handlers(policy=lambda *given: gives))
    await say(await session.start(), 1)
    assert [code for code, _ in session.warnings] == ["context_failed"]
    assert session.state.context.failed == 2


async def test_a_memo_that_a_handler_cannot_make_costs_a_warning(prepare: NewSession) -> None:
    def fail(memo, messages, attachments, settings):
        raise ModelFailed("not now")

    session = prepare(script("{strategy: memo, resize: {every_n_turns: 1}}"))
    session.contexts = Contexts(handlers=Handlers(memo=fail))
    await say(await session.start(), 1)
    assert session.warnings == [("context_failed", "the memo could not be made")]
    assert session.state.context.failed == 2


async def test_settings_live_in_the_state(prepare: NewSession) -> None:
    settings = ContextSettings(strategy="lite", limit=Limit(messages=4))
    session = prepare(script(), saved=True)
    session.state.context_settings = settings
    await say(await session.start(), 2)
    assert decode(encode(session.state)).context_settings == settings


async def test_recorded_accounts_are_read_by_a_cassette(talk) -> None:
    model = ScriptedModel({"day": ["Hello."] * 3, "context.memo": []})
    session = await say(await talk(script("{strategy: memo, resize: {every_n_turns: 1}}"), model), 1)
    assert session.state.context.memo["extract"] is True
