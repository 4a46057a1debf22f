"""Text that is streamed while a turn still runs: it is the text of the message in the end, or is reset."""

import itertools
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import Struct

from runtime.engine.engine import Turn, TurnFailed, run_turn
from runtime.models.recorded_models import ScriptedModel
from runtime.state.events import Message
from runtime.state.inputs import Input, Reply, Start
from runtime.state.limits import Limits
from runtime.state.ports import MessageDelta, MessageReset, ModelFailed, ModelReply, ModelRequest, OnReply
from runtime.state.program import PlaceLost, Program
from runtime.state.scopes import WriteRefused
from runtime.state.state import State
from runtime.turn.calls import BudgetExceeded, CallInterrupted
from runtime.turn.context import ActionFailed, LimitExceeded, TurnContext, TurnEnvironment
from runtime.turn.message_stream import MessageStream
from runtime.turn.model_requests import complete
from scripts.expressions.expressions import Evaluation
from tests.support.runtime_session import ReadProgram

AGE = """
    - {say: Welcome., id: welcome}
    - ai_ask: Ask for the age.
      id: age
      output: [{get: age, type: number, min: 0, max: 120, invalid: "Between 0 and 120, please."}]
      exit: the age is known
      max_rounds: 3
    - {say: "{{ age }}, noted.", id: noted}
    - user_say: ok
"""

INTERRUPTED = """
cuebook: 1
script: private
interrupts: [{interrupt: private, on: [private], do: [{say: It stays here., id: here}]}]
actions:
  - {ask: Your age?, into: {var: age, type: number, max: 120, invalid: "At most 120, please."}, id: age}
"""


def _noon() -> datetime:
    return datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


class Telling(Struct, frozen=True):
    """What the model lets hear of a reply before it gives it."""

    reply: ModelReply
    heard: tuple[ModelReply, ...] = ()
    fails: bool = False


class Teller:
    """A model that lets hear whatever a test wants to be heard."""

    def __init__(self, *reported: Telling) -> None:
        self._replies = list(reported)

    def goes_to(self, request: ModelRequest) -> str:
        return "teller"

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        reported = self._replies.pop(0)
        for each in reported.heard if hear is not None else ():
            hear(each)
        if reported.fails:
            raise ModelFailed("gone")
        return reported.reply


def growing(text: str, *cuts: int, **verdict: Any) -> Telling:
    """Return a text heard up to each of the cuts, and then whole; the verdict is there from the first word on."""
    reply = ModelReply(text=text, **verdict)
    return Telling(reply, tuple(ModelReply(text=text[:cut], **verdict) for cut in (*cuts, len(text))))


class Talk:
    """A session of which the test hears everything."""

    def __init__(self, program: Program, model: Any) -> None:
        self.program = program
        self.model = model
        self.state = State(seed=1, locale=program.locale, user_id="ana")
        self.history: tuple[Message, ...] = ()
        self.heard: list[MessageDelta | MessageReset] = []

    async def turn(self, given: Input) -> Turn:
        self.heard = []
        ids = itertools.count()
        turn = await run_turn(
            self.program,
            self.state,
            given,
            TurnEnvironment(
                model=self.model,
                now=_noon(),
                ids=lambda: str(next(ids)),
                limits=Limits(),
                history=self.history,
                live=self.heard.append,
            ),
        )
        self.state, self.history = turn.state, (*self.history, *turn.messages)
        assert self.standing == {
            message.number: message.content for message in turn.messages if message.number in self.standing
        }
        assert all(
            self.program.script.detectors or message.number in self.standing
            for message in turn.messages
            if message.role == "assistant" and message.content
        )
        return turn

    @property
    def standing(self) -> dict[int, str]:
        """Return the text that was not reset, by message."""
        words: dict[int, str] = {}
        for each in self.heard:
            if isinstance(each, MessageReset):
                words.pop(each.number)
            else:
                words[each.number] = words.get(each.number, "") + each.text
        return words

    @property
    def parts(self) -> list[str | None]:
        """Return the streamed text in pieces; None where a message was reset."""
        return [each.text if isinstance(each, MessageDelta) else None for each in self.heard]


@pytest.fixture
def talk(program_of: ReadProgram) -> Callable[..., Any]:
    """Begin a session with a model that tells this: ``await talk(yaml, growing(...))``."""

    async def started(text: str, *reported: Telling, model: Any = None) -> Talk:
        session = Talk(program_of(text), model or Teller(*reported))
        await session.turn(Start())
        return session

    return started


async def say(session: Talk, text: str) -> list[str | None]:
    await session.turn(Reply(text))
    return session.parts


OPENING = growing("How old are you?", 3, 9)


async def test_script_texts_are_sent_whole_and_model_texts_in_parts(talk: Any) -> None:
    session = await talk(AGE, OPENING)
    assert session.parts == ["Welcome.", "How", " old a", "re you?"]
    assert [each.number for each in session.heard] == [1, 2, 2, 2]
    assert [each.action_id for each in session.heard] == ["welcome", "age", "age", "age"]


async def test_the_next_question_is_heard_when_it_is_sure_to_be_asked(talk: Any) -> None:
    session = await talk(AGE, OPENING, growing("In years, please?", 3, exit=False))
    assert await say(session, "old") == ["In ", "years, please?"]


async def test_words_that_come_with_the_end_are_not_heard(talk: Any) -> None:
    session = await talk(AGE, OPENING, growing("Thank you!", 3, 5, exit=True, values={"age": 34}))
    assert await say(session, "34") == ["34, noted."]


async def test_text_that_comes_with_a_refused_value_is_not_streamed(talk: Any) -> None:
    session = await talk(AGE, OPENING, growing("Wonderful!", 3, exit=False, values={"age": 340}))
    assert await say(session, "340") == ["Between 0 and 120, please."]


async def test_text_before_its_verdict_is_reset(talk: Any) -> None:
    reply = ModelReply(text="Thank you!", exit=True, values={"age": 34})
    session = await talk(
        AGE, OPENING, Telling(reply, (ModelReply(text="Thank"), ModelReply(text="Thank you", exit=True)))
    )
    heard = await say(session, "34")
    assert (heard, session.standing) == (["Thank", None, "34, noted."], {4: "34, noted."})


async def test_a_text_that_restarts_is_reset(talk: Any) -> None:
    final = ModelReply(text="And your age?")
    restart = Telling(final, tuple(ModelReply(text=text) for text in ("How", "How old", "", "And", "And your age?")))
    session = await talk(AGE, restart)
    assert session.parts == ["Welcome.", "How", " old", None, "And", " your age?"]


async def test_a_text_that_ends_otherwise_than_streamed_is_sent_again(talk: Any) -> None:
    session = await talk(AGE, Telling(ModelReply(text="How old?"), (ModelReply(text="How old? "),)))
    assert session.parts == ["Welcome.", "How old? ", None, "How old?"]


async def test_words_of_a_text_that_is_not_said_do_not_stay(talk: Any) -> None:
    script = """
        - {chat: Talk., id: talk, max_rounds: 2}
        - user_say: ok
    """
    session = await talk(script, growing("Hello."), Telling(ModelReply(text=" ", exit=True), (ModelReply(text=" "),)))
    await say(session, "bye")
    assert session.standing == {}


async def test_a_turn_that_fails_says_so_by_its_failure_alone(talk: Any) -> None:
    broken = Telling(ModelReply(), (ModelReply(text="In years", exit=False),), fails=True)
    session = await talk(AGE, OPENING, broken, growing("In years?", exit=False))
    with pytest.raises(TurnFailed):
        await say(session, "old")
    assert session.parts == ["In years"]
    assert await say(session, "old") == ["In years?"]


async def test_the_judgement_that_lets_words_through_leaves_no_trace(talk: Any) -> None:
    script = AGE.replace("exit: the age is known", 'exit_when: "nothing > 3"')
    verdict = {"exit": False, "values": {"age": 3}}
    heard = await talk(script, OPENING, growing("And?", 1, 2, **verdict))
    turn = await heard.turn(Reply("3"))
    silent = await talk(script, Telling(OPENING.reply), Telling(ModelReply(text="And?", **verdict)))
    same = await silent.turn(Reply("3"))
    assert (turn.events, turn.saved) == (same.events, same.saved)


FAILURES = [
    ActionFailed("an expression"),
    LimitExceeded("too many events"),
    WriteRefused("a word in place of a number"),
    ModelFailed("gone"),
    CallInterrupted("in doubt"),
    BudgetExceeded("turn_tokens"),
    PlaceLost("a topic"),
]


async def hear_judged(session: Talk, error: Exception) -> list[MessageDelta | MessageReset]:
    """Return what is heard of a reply whose judgement fails."""
    heard: list[MessageDelta | MessageReset] = []
    run = TurnContext(
        session.program,
        session.state,
        TurnEnvironment(
            model=Teller(growing("Hello.", 2, 4)),
            ids=lambda: "id",
            limits=Limits(),
            now=_noon(),
            live=heard.append,
        ),
    )

    def fail(verdict: ModelReply) -> bool:
        raise error

    action = session.program.action(*session.state.home(), "age")
    assert (await complete(run, "ask", action, Evaluation("Ask."), speak=fail)).text == "Hello."
    return heard


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
async def test_words_whose_judgement_fails_are_not_heard(talk: Any, error: Exception) -> None:
    assert await hear_judged(await talk(AGE, OPENING), error) == []


async def test_a_defect_in_a_judgement_is_not_passed_over(talk: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        await hear_judged(await talk(AGE, OPENING), ZeroDivisionError())


async def test_where_detectors_watch_nobody_hears_a_word(talk: Any) -> None:
    script = (
        "script: t\nphases: [{phase: p, topics: [{topic: t, actions: [{say: Hi., id: w}, {chat: Talk., id: c}]}]}]\n"
        "detectors: [{detector: d, on: assistant, rules: [{words: [secret], label: s}], replace: No.}]\n"
    )
    session = await talk(script, growing("The secret is out.", 4, 9))
    assert session.heard == []
    assert [message.content for message in session.history] == ["Hi.", "No."]


async def test_the_scripted_model_speaks_word_by_word(talk: Any) -> None:
    model = ScriptedModel({"c": ["How are  you,\nAna?", "今天过得怎么样？ Fine"]})
    session = await talk("- {chat: Talk., id: c}", model=model)
    assert session.parts == ["How ", "are  ", "you,\n", "Ana?"]
    assert await say(session, "hm") == ["今天过", "得怎么", "样？ ", "Fine"]


@pytest.mark.parametrize("seed", range(50))
async def test_final_text_is_what_was_said_whatever_a_model_streams(talk: Any, seed: int) -> None:
    chance = random.Random(seed)

    def anything() -> Telling:
        def verdict() -> dict[str, Any]:
            values = chance.choice([{}, {}, {"age": chance.choice([3, 300, "x", None])}])
            return {"exit": chance.choice([None, False, True]), "values": values}

        text = chance.choice(["", " ", "Yes?", "How old are you, then?", "多大了？"])
        final = ModelReply(text=text, **verdict())
        heard = [
            ModelReply(text=chance.choice([text, text[: chance.randrange(9)], "Else", ""]), **verdict())
            for _ in range(chance.randrange(6))
        ]
        return Telling(final, tuple(heard))

    session = await talk(AGE, *(anything() for _ in range(30)))
    for reply in ("one", "34", "two", "ok"):
        if session.state.status == "active":
            await session.turn(Reply(reply))


async def test_complaint_that_an_interrupt_replaces_is_reset(talk: Any) -> None:
    session = await talk(INTERRUPTED)
    assert await say(session, "300, is this private?") == ["At most 120, please.", None, "It stays here.", "Your age?"]


def test_text_of_another_action_starts_a_new_message() -> None:
    heard: list[MessageDelta | MessageReset] = []
    speech = MessageStream(heard.append)
    speech.grow(1, "a", "Hel")
    speech.finish(1, "b", "Hello")
    assert heard == [MessageDelta(1, "a", "Hel"), MessageReset(1), MessageDelta(1, "b", "Hello")]
    speech.drop()
    assert len(heard) == 3
