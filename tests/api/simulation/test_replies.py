"""What simulated visitors answer fits what is asked for, but for those who do not care."""

import random
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from api.playing import Player
from api.simulation.replies import Asked, listened_for, reply_to
from runtime.inputs import Chosen, Filled, Input, Reply
from runtime.models.offline import OfflineModel
from runtime.program import Program
from runtime.run import Limits
from runtime.state import State
from scripts.parse import Source, read_script

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
TIMES = 60
AskedBy = Callable[..., Asked]


def asked_by(action: str, *, locale: str = "en", more: str = "") -> Program:
    """A program with one action."""
    text = f"""\
script: one
locale: {locale}
declare: [{{var: weight, type: number, value: null}}]
{more}phases:
  - phase: main
    topics:
      - topic: all
        actions: [{action}]
"""
    script = read_script(Source(text)).script
    assert script is not None
    return Program(script)


async def replies(program: Program, care: float = 1.0) -> list[Input]:
    """What is answered to its first question, again and again."""
    player = Player(program, State(1, program.locale, "v"), OfflineModel(), lambda: NOW, lambda: "id", Limits())
    await player.begin()
    wait = player.state.wait
    assert wait is not None
    chance = random.Random(7)
    return [reply_to(Asked(program, player.state, wait, NOW.date()), care, chance) for _ in range(TIMES)]


async def taken(program: Program, given: Input) -> State:
    """The state after one answer."""
    player = Player(program, State(1, program.locale, "v"), OfflineModel(), lambda: NOW, lambda: "id", Limits())
    await player.begin()
    await player.take(given, None)
    return player.state


QUESTIONS = [
    "{ask: How old?, id: a, output: [{get: age, type: number, min: 0, max: 120}]}",
    "{ask: How heavy?, id: a, output: [{get: weight}]}",
    "{ask: 'Really?', id: a, output: [{get: sure, type: boolean}]}",
    "{ask: Since when?, id: a, output: [{get: since, type: date, validate: since <= today}]}",
    "{ask: Until when?, id: a, output: [{get: until, type: date, validate: until > today}]}",
    "{ask: Which?, id: a, output: [{get: which, choices: [red, blue]}]}",
    "{ask: Your address?, id: a, output: [{get: contact, define: email, pattern: '[^@ ]+@[^@ ]+'}]}",
    "{ask: What?, id: a, output: [{get: things, type: list, max: 5}]}",
    "{ask: 'Name and age?', id: a, output: [{get: name}, {get: age, type: number}]}",
    "{choose: colour, id: a, question: Which?, choices: [{red: Red}, {blue: Blue}]}",
]


@pytest.mark.parametrize("action", QUESTIONS)
async def test_answers_are_such_as_the_question_takes(action: str):
    program = asked_by(action)
    states = [await taken(program, given) for given in (await replies(program))[:20]]
    assert sum(state.status == "completed" for state in states) >= 19


@pytest.mark.parametrize("action", [QUESTIONS[0], QUESTIONS[2], QUESTIONS[9]])
async def test_answers_in_chinese_are_taken_as_well(action: str):
    program = asked_by(action, locale="zh")
    states = [await taken(program, given) for given in (await replies(program))[:20]]
    assert sum(state.status == "completed" for state in states) >= 19


async def test_who_does_not_care_is_asked_again():
    program = asked_by(QUESTIONS[0])
    states = [await taken(program, given) for given in (await replies(program, care=0.0))[:20]]
    assert all(state.status == "active" for state in states)


async def test_a_choice_is_mostly_pressed_and_a_form_filled_in():
    chosen = await replies(asked_by(QUESTIONS[9]))
    assert sum(isinstance(each, Chosen) for each in chosen) > TIMES / 2
    form = (
        "forms:\n  - form: f\n    fields:\n      - {field: name, required: true}\n"
        "      - {field: born, type: date}\n      - {field: days, type: multichoice, choices: [Mon, Tue]}\n"
        "      - {field: guests, type: table, max: 3, columns: [{field: guest, required: true}]}\n"
    )
    program = asked_by("{form: f, id: a}", more=form)
    filled = [each for each in await replies(program) if isinstance(each, Filled)]
    assert len(filled) > TIMES * 0.9
    states = [await taken(program, each) for each in filled[:20]]
    assert sum(state.status == "completed" for state in states) >= 19


async def test_now_and_then_a_word_is_said_that_the_script_listens_for():
    more = "interrupts:\n  - {interrupt: price, on: [how much, 多少钱], do: [{say: Nothing., id: free}]}\n"
    program = asked_by(QUESTIONS[0], more=more)
    assert listened_for(program.script, "en") == ("how much",)
    assert listened_for(program.script, "zh-Hans") == ("多少钱",)
    chance, found = random.Random(1), 0
    player = Player(program, State(1, "en", "v"), OfflineModel(), lambda: NOW, lambda: "id", Limits())
    await player.begin()
    wait = player.state.wait
    assert wait is not None
    for _ in range(2_000):
        given = reply_to(Asked(program, player.state, wait, NOW.date()), 1.0, chance)
        found += isinstance(given, Reply) and "how much" in given.content
    assert 5 < found < 80
