"""A budget that is used up: the turn still ends well, nothing half-done stays, and the session goes on where it was."""

from datetime import UTC, datetime

import pytest
from msgspec import structs

from runtime.migration.migration import plan
from runtime.models.offline_model import OfflineModel
from runtime.state.events import ActionEntered, ActionLeft, Interrupted, Message, VariableChanged, Waiting
from runtime.state.inputs import MigrationInput
from runtime.state.limits import Bounds, Limits
from runtime.state.ports import ModelFailed, ModelReply, ModelRequest, OnReply, Usage
from runtime.state.state import Spent, decode, encode
from tests.support.runtime_session import NewSession, ReadProgram

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
BUSY = "I cannot go on just now. Please try again later."


class Paid(OfflineModel):
    """Answers as the offline model does, for 10 tokens and a cost of 0.5 a call; what it asks for in vain costs too."""

    def __init__(self) -> None:
        self.calls = 0
        self.fails = False

    def goes_to(self, request: ModelRequest) -> str:
        return "paid"

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        self.calls += 1
        usage = Usage(model="paid", input_tokens=8, output_tokens=2, cost=0.5)
        if self.fails:
            raise ModelFailed("overloaded", usage=usage)
        return structs.replace(await super().complete(request), usage=usage)


class Meter:
    """Lets so many calls pass."""

    def __init__(self, calls: int) -> None:
        self.left = calls
        self.counted: list[Usage | None] = []

    def exhausted_budget(self) -> str | None:
        return None if self.left > 0 else "day_calls"

    def count(self, usage: Usage | None) -> None:
        self.left -= 1
        self.counted.append(usage)


@pytest.fixture
def broke(prepare: NewSession):
    """Return a session that may make so many calls."""

    async def begun(script: str, calls: int = 0, **more):
        session = prepare(script, **more)
        session.model, session.meter = Paid(), Meter(calls)
        return await session.start()

    return begun


def warned(session) -> list[str]:
    return [message for code, message in session.warnings if code == "budget_exceeded"]


@pytest.mark.parametrize(
    ("action", "calls", "before", "said"),
    [
        ("{ai_ask: Your name?, id: it, output: [{get: name}]}", 0, [], []),
        ("{ai_ask: Your name?, id: it, output: [{get: name}], max_rounds: 3}", 1, [], ["Ana"]),
        ("{ai_ask: Your name?, id: it, output: [{get: age, type: number}], max_rounds: 1}", 2, [], ["well"]),
        ("{ask: Your age?, id: it, output: [{get: age, type: number}]}", 0, [], ["well"]),
        ("{ai_say: Welcome., id: it}", 0, [], []),
        ("{ai_say: Welcome., id: it, max_rounds: 3}", 1, [], ["hm"]),
        ("{ai_think: Think., id: it, output: [{get: age, type: number, default: 3}]}", 0, [], []),
        ("{chat: Talk., id: it}", 0, [], []),
        ("{chat: Talk., id: it}", 1, [], ["hm"]),
    ],
)
@pytest.mark.parametrize("saved", [False, True])
async def test_session_waits_where_the_budget_ends_and_continues_later(
    broke, prepare: NewSession, action, calls, before, said, saved
) -> None:
    script = f"- {{say: Hello.}}\n- {action}\n- {{ask: And?, id: rest, output: [{{get: rest}}]}}"
    session = await broke(script, calls, saved=saved)
    await session.reply(*said)
    assert session.said[-1] == BUSY
    assert warned(session) == ["the budget `day_calls` is used up"]
    assert [each.action_id for each in session.happened(Waiting)] == ["it"]
    assert session.happened(VariableChanged) == []
    assert session.state.spent == Spent(calls, 10 * calls, 0.5 * calls)

    session.meter.left = 100
    free = prepare(script)
    free.model = Paid()
    await free.start()
    await free.reply(*said)
    await session.reply(*(said or ["go on"]))
    assert session.said == free.said[-len(session.said) :]
    assert (session.values, session.state.frames, session.state.progress) == (
        free.values,
        free.state.frames,
        free.state.progress,
    )
    entered, left = (
        [each.body.action_id for turn in session.turns for each in turn.events if isinstance(each.body, kind)]
        for kind in (ActionEntered, ActionLeft)
    )
    assert entered.count("it") == 1 >= left.count("it")


async def test_unfinished_work_is_undone_but_its_usage_counts(broke) -> None:
    """The model judges, and then the call for what is missing is one too many."""
    session = await broke("- {ai_ask: How old?, id: it, output: [{get: age, type: number}], max_rounds: 1}", 2)
    before = session.state
    await session.reply("well")
    assert session.state.progress == before.progress
    assert session.state.visits == before.visits
    assert session.state.spent.calls == 2
    assert [each.content for each in session.messages] == ["How old?", "well", BUSY]
    assert [each.number for each in session.messages] == [1, 2, 3]
    assert len(session.turns[-1].model_calls) == 1


async def test_the_script_says_what_happens_then(broke) -> None:
    script = """
        script: t
        on_budget:
          - {say: "{{ name }}, come back tomorrow.", id: sorry}
          - {emit: {event: used_up}, id: tell}
          - {set: {times: (times or 0) + 1}, id: count}
          - {end: enough, id: enough, when: times > 1}
        declare: [{var: name, value: Ana}, times]
        phases:
          - phase: p
            topics: [{topic: t, actions: [{ai_ask: How are you?, id: how, output: [{get: mood}]}]}]
    """
    session = await broke(script)
    assert session.said == ["Ana, come back tomorrow."]
    assert session.values["times"] == 1
    await session.reply("today")
    assert (session.state.status, session.state.end_reason) == ("completed", "enough")


async def test_it_says_so_in_the_language_of_the_session(broke) -> None:
    session = await broke("- {ai_ask: 你好吗？, id: how, output: [{get: mood}]}")
    assert session.said == ["现在暂时无法继续，请稍后再试。"]


@pytest.mark.parametrize(
    ("limits", "name", "calls"),
    [
        ({"turn_budget": Bounds(calls=1)}, "turn_calls", 1),
        ({"turn_budget": Bounds(tokens=15)}, "turn_tokens", 2),
        ({"turn_budget": Bounds(cost=0.6)}, "turn_cost", 2),
        ({"session_budget": Bounds(calls=3)}, "session_calls", 3),
        ({"session_budget": Bounds(tokens=1)}, "session_tokens", 1),
        ({"session_budget": Bounds(cost=1.4)}, "session_cost", 3),
    ],
)
async def test_each_bound_has_its_name_and_the_last_call_may_exceed_it(broke, limits, name, calls) -> None:
    script = "\n".join(f"- {{ai_say: Line {n}., id: l{n}}}" for n in range(5))
    session = await broke(script, 100, limits=Limits(**limits))
    assert session.said == [*(f"Line {n}." for n in range(calls)), BUSY]
    assert warned(session) == [f"the budget `{name}` is used up"]
    await session.reply("and now?")
    assert session.said[0] == (f"Line {calls}." if name.startswith("turn") else BUSY)


async def test_a_call_that_fails_counts_as_well(broke) -> None:
    session = await broke("- {ai_ask: How old?, id: it, output: [{get: age}]}", 100)
    session.model.fails = True
    with pytest.raises(Exception, match="overloaded"):
        await session.reply("28")
    assert session.meter.counted[-1] == Usage(model="paid", input_tokens=8, output_tokens=2, cost=0.5)


async def test_auto_variables_and_detectors_do_without_the_model(broke) -> None:
    script = """
        script: t
        declare: [{var: mood, define: how they feel, auto: true}]
        detectors:
          - {detector: lonely, define: signs of loneliness, do: [{emit: lonely, id: lonely}]}
          - {detector: word, rules: [{words: [help]}], do: [{emit: word, id: word}]}
        phases:
          - phase: p
            topics: [{topic: t, actions: [{ask: How old?, id: old, output: [{get: age}]}, {say: Thanks., id: thanks}]}]
    """
    session = await broke(script)
    await session.reply("28, help")
    assert session.said == ["Thanks."]
    assert [code for code, _ in session.warnings] == ["detectors_failed", "auto_failed"]


async def test_interrupts_still_come_up_where_an_action_has_not_begun(broke) -> None:
    script = """
        script: t
        interrupts: [{interrupt: help, "on": [help], do: [{say: Call 112., id: call}]}]
        repairs: [skip]
        phases:
          - phase: p
            topics: [{topic: t, actions: [{ai_ask: How old?, id: old, output: [{get: age}]}, {say: Bye., id: bye}]}]
    """
    session = await broke(script)
    await session.reply("help")
    assert [each.interrupt for each in session.happened(Interrupted)] == ["help"]
    assert session.said == ["Call 112."]
    await session.reply("and?")
    assert session.said == [BUSY]
    await session.reply("skip")
    assert session.said == ["Bye."]


async def test_what_a_message_means_is_not_guessed_without_the_model(broke) -> None:
    script = """
        script: t
        interrupts: [{interrupt: price, "on": asks for the price, do: [{say: Ten., id: ten}]}]
        phases:
          - {phase: p, topics: [{topic: t, actions: [{ask: How old?, id: old, output: [{get: age, type: number}]}]}]}
    """
    session = await broke(script)
    await session.reply("28")
    assert session.said == [BUSY]
    assert "age" not in session.values
    session.meter.left = 1
    await session.reply("28")
    assert session.state.status == "completed"


async def test_the_state_says_what_is_waited_for(broke) -> None:
    session = await broke("- {ai_ask: How old?, id: it, output: [{get: age}]}")
    assert session.state.wait is not None
    assert session.state.wait.begins
    assert decode(encode(session.state)) == session.state
    assert [each for each in session.turns[0].messages if isinstance(each, Message)]


def test_a_state_saved_before_there_were_budgets_is_still_read() -> None:
    state = decode(b'{"seed":1,"locale":"en","version":1,"wait":{"kind":"text"},"progress":{"round":1}}')
    assert (state.spent, state.wait.begins, state.progress.astray) == (Spent(), False, {})


@pytest.mark.parametrize(("now", "verdict"), [("it", "safe"), ("other", "mapped"), ("gone", "restart_topic")])
async def test_a_session_that_waits_for_a_budget_can_move(broke, program_of: ReadProgram, now, verdict) -> None:
    script = """
        script: t
        {migrations}
        phases:
          - phase: p
            topics:
              - topic: t
                actions: [{{say: Hello., id: hi}}, {{ai_ask: How old?, id: {id}, output: [{{get: age}}]}}]
    """
    session = await broke(script.format(id="it", migrations=""))
    renamed = "migrations: {actions: {p/t/it: p/t/other}}" if now == "other" else ""
    new = program_of(script.format(id=now, migrations=renamed))
    planned = plan(session.program, new, session.state, NOON)
    assert planned.verdict == verdict
    session.program, session.state, session.meter.left = new, planned.state, 100
    await session.turn(MigrationInput(planned.account, planned.restart))
    if verdict == "restart_topic":
        assert session.said == ["Hello.", "How old?"]
    else:
        assert (session.said, session.state.wait.begins) == ([], True)
        await session.reply("now?")
        assert session.said == ["How old?"]
    await session.reply("28")
    assert session.state.status == "completed"
