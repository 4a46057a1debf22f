"""Replies of simulated users answer what the session waits for, unless they are drawn to be invalid."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from api.testing.plausible_replies import draw_reply, trigger_phrases
from api.testing.player import Player
from runtime.models.offline_model import OfflineModel
from runtime.state.inputs import ChoiceInput, FormInput, Input, Reply
from runtime.state.limits import Limits
from runtime.state.program import Program
from runtime.state.state import State
from scripts.parse.read_script import Source, read_script

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
TIMES = 60


def program_of(action: str, *, locale: str = "en", more: str = "") -> Program:
    """Return a program with one action."""
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


async def started(program: Program) -> Player:
    """Return a player that waits for the first reply."""
    player = Player(program, State(1, program.locale, "v"), OfflineModel(), lambda: NOW, lambda: "id", Limits())
    await player.begin()
    return player


async def replies(program: Program, invalid: float = 0.0, times: int = TIMES) -> list[Input]:
    """Draw replies to the first question."""
    state = (await started(program)).state
    assert state.wait is not None
    rng = random.Random(7)
    return [draw_reply(program, state, state.wait, NOW.date(), rng, invalid) for _ in range(times)]


async def completed(program: Program, given: Sequence[Input]) -> int:
    """Count the replies that complete a session with one question."""
    count = 0
    for each in given:
        player = await started(program)
        await player.take(each, None)
        count += player.state.status == "completed"
    return count


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
    "{ask: Which ward?, id: a, output: [{get: ward, pattern: 'W/[0-9]{2}', invalid: 'Such as W/07, please.'}]}",
    "{ask: Born when?, id: a, output: [{get: born, type: date, validate: born < '2010-01-01'}]}",
    "{ask: Which guests?, id: a, output: [{tolist: guests, fields: [{get: name}, {get: age, type: number}]}]}",
    "{user_say: Go on., id: a}",
]
FORM = """\
forms:
  - form: f
    fields:
      - {field: name, required: true}
      - {field: contact, pattern: '[^@ ]+@[^@ ]+', required: true}
      - {field: age, type: number, min: 18, max: 99, required: true}
      - {field: sure, type: boolean, required: true}
      - {field: born, type: date, validate: born < "2010-01-01", required: true}
      - {field: colour, choices: [red, blue], required: true}
      - {field: days, type: multichoice, choices: [Mon, Tue]}
      - {field: guests, type: table, max: 3, columns: [{field: guest, required: true}, {field: year, type: number}]}
      - {field: double, type: number, computed: age * 2}
"""


@pytest.mark.parametrize("action", QUESTIONS)
async def test_replies_answer_the_question(action: str) -> None:
    program = program_of(action)
    assert await completed(program, (await replies(program))[:20]) >= 19


@pytest.mark.parametrize("action", [QUESTIONS[0], QUESTIONS[2], QUESTIONS[3], QUESTIONS[9]])
@pytest.mark.parametrize("locale", ["zh", "de", "es"])
async def test_replies_answer_scripts_in_other_languages(action: str, locale: str) -> None:
    program = program_of(action, locale=locale)
    assert await completed(program, (await replies(program))[:20]) >= 19


@pytest.mark.parametrize("action", [QUESTIONS[0], QUESTIONS[4], QUESTIONS[5], QUESTIONS[6], QUESTIONS[9]])
async def test_invalid_replies_have_the_question_asked_again(action: str) -> None:
    program = program_of(action)
    assert await completed(program, (await replies(program, invalid=1.0))[:20]) == 0


async def test_choices_are_selected_or_typed() -> None:
    given = await replies(program_of(QUESTIONS[9]))
    assert sum(isinstance(each, ChoiceInput) for each in given) > TIMES / 2
    assert any(isinstance(each, Reply) for each in given)


async def test_forms_are_filled_in() -> None:
    program = program_of("{form: f, id: a}", more=FORM)
    given = await replies(program)
    assert all(isinstance(each, FormInput) for each in given)
    assert await completed(program, given[:20]) >= 19


async def test_forms_with_computed_limits_are_filled_in() -> None:
    program = program_of(
        "form: f", more="cuebook: 1\n" + FORM.replace("min: 18, max: 99", "min: =4 * 20, max: =4 * 21")
    )
    assert await completed(program, (await replies(program))[:20]) >= 19


async def test_invalid_forms_have_the_form_shown_again() -> None:
    program = program_of("{form: f, id: a}", more=FORM)
    given = await replies(program, invalid=1.0)
    assert {type(each) for each in given} == {FormInput, Reply}
    assert await completed(program, given[:20]) == 0


async def test_some_replies_are_words_that_the_script_reacts_to() -> None:
    more = "interrupts:\n  - {interrupt: price, on: [how much, 多少钱], do: [{say: Nothing., id: free}]}\n"
    program = program_of(QUESTIONS[0], more=more)
    assert trigger_phrases(program.script) == ["how much", "多少钱"]
    found = [each for each in await replies(program, times=2_000) if each in (Reply("how much"), Reply("多少钱"))]
    assert 10 < len(found) < 80


def test_examples_of_detectors_are_among_the_trigger_phrases() -> None:
    detector = "{detector: d, rules: [{words: [lost]}], examples: [{messages: [I am lost]}], do: [{say: Ok., id: s}]}"
    program = program_of(QUESTIONS[0], more=f"detectors: [{detector}]\n")
    assert trigger_phrases(program.script) == ["lost", "I am lost"]
