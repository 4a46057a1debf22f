"""Replies of random walks: mostly plausible answers, also at the limits of a question, sometimes unexpected texts."""

import math
import random
import re
from collections.abc import Mapping
from datetime import date

from msgspec import Struct

from api.testing.plausible_replies import draw_reply, missing_outputs
from runtime.state.inputs import FormInput, Input, Reply, TimerDue
from runtime.state.program import Program
from runtime.state.state import State
from runtime.timers.timers import pending_timers
from scripts.expressions.values import Value, number_in, text_of
from scripts.model.base import Expression
from scripts.model.script import Script
from scripts.model.variable_names import reads_below
from scripts.model.variables import Output

PLAUSIBLE = 0.75  # share of plausible answers
AT_LIMITS = 0.5  # of these, share of answers to questions that are at a limit or in unusual words
IN_WORDS = 0.25  # share of forms that are filled in with a text
UNANSWERED = 0.1  # share of replies in whose place a reminder or the expiry of the question comes, where it has one
FITTING_IN_FORMS = 0.9  # the same per field of a form, since one wrong field rejects the form
PICKED_MAX = 200  # words and numbers from a script's conditions

STRANGE = (
    "", "   ", "?", "no", "yes", "I don't know", "不知道", "-1", "0", "1e999", "999999999999999999999", "½", "١٢",
    "null", "true", "{{ name }}", "{% for x in y %}", "{x} ${y} {{", "}} %}", "<b>&amp;</b>", "'\"\\", "a\nb\tc",
    "🙂", "e\u0301", "\u200b", "'; DROP TABLE messages; --", "long " * 1_000, "字" * 3_000, "[1, 2]", '{"a": 1}',
)  # fmt: skip
TEXTS = (
    "Ana", "my name is Ben", "a short sentence, no more", "小明", "12345", "22:45", "+49 170 1234567",
    "ana@example.org", "https://example.org", "AB-1234", "one", "it is hard to say",
)  # fmt: skip
YES_NO = ("yes", "no", "yes, please", "not really", "是", "不是", "of course", "never", "maybe")
UNUSUAL: Mapping[str, tuple[str, ...]] = {
    "number": ("7", "about five", "twenty", "3.5", "十二", "-2", "1000000", "0", "none"),
    "boolean": YES_NO,
    "date": ("today", "yesterday", "in three days", "3 May 1990", "昨天", "2026-02-30", "soon"),
    "time": ("noon", "9", "9 pm", "half past eight", "九点半", "25:00", "soon"),
    "datetime": ("tomorrow at 9 pm", "yesterday 9:30", "2026-02-30T12:00", "tomorrow"),
    "timezone": ("Europe/Berlin", "UTC", "Asia/Shanghai", "Paris", "UTC+2", "somewhere"),
    "list": ("a, b and c", "tea", "rain, noise, my mother", "一，二、三", "none", "a, b, c, d, e, f, g, h", "a,,b"),
}
"""Answers by the type of a question that are in unusual words, or wrong."""
_TEXT_LITERAL = re.compile(r"\"([^\"]{1,60})\"|'([^']{1,60})'")
_NUMBER_LITERAL = re.compile(r"(?<![\w.])-?\d{1,9}(?:\.\d{1,4})?(?![\w.])")


class ScriptValues(Struct, frozen=True):
    """The values that a script's conditions compare with; replies with them reach its branches."""

    texts: tuple[str, ...]
    numbers: tuple[int | float, ...]


def script_values_of(script: Script) -> ScriptValues:
    """Return the texts and numbers in a script's conditions."""
    sources = list(dict.fromkeys(each.source for each in reads_below(script) if isinstance(each, Expression)))
    texts = [double or single for source in sources for double, single in _TEXT_LITERAL.findall(source)]
    numbers = [number_in(found) for source in sources for found in _NUMBER_LITERAL.findall(source)]
    return ScriptValues(
        tuple(dict.fromkeys(texts))[:PICKED_MAX],
        tuple(number for number in dict.fromkeys(numbers) if number is not None)[:PICKED_MAX],
    )


def answer(chance: random.Random, program: Program, state: State, words: ScriptValues, today: date) -> Input:
    """Return a reply to the current wait of a session, or one of its timers."""
    wait, timers = state.wait, pending_timers(program, state, "UTC")
    if wait is not None and wait.kind == "time" and chance.random() < PLAUSIBLE:
        return TimerDue(timers[0].timer_id) if timers else Reply("ok")
    if timers and chance.random() < UNANSWERED:
        return TimerDue(chance.choice(timers).timer_id)
    if wait is None or chance.random() >= PLAUSIBLE:
        return Reply(chance.choice([*STRANGE, *words.texts] if chance.random() < PLAUSIBLE else STRANGE))
    if wait.kind == "text" and chance.random() < AT_LIMITS:
        outputs = missing_outputs(program, state)
        return Reply(chance.choice(_at_limits(chance, chance.choice(outputs), words) if outputs else [*TEXTS, *YES_NO]))
    reply = draw_reply(program, state, wait, today, chance, invalid=0.0)
    if wait.form is None or not isinstance(reply, FormInput):
        return reply
    values = {name: _perhaps_strange(chance, value) for name, value in reply.values.items()}
    labels = {field.name: field.label for field in wait.form.fields}
    text = chance.choice([", ", "\n"]).join(f"{labels[name]}: {text_of(value)}" for name, value in values.items())
    return Reply(text) if chance.random() < IN_WORDS else FormInput(values)


def _perhaps_strange(chance: random.Random, value: Value) -> Value:
    """Return the value of a field, or sometimes an unexpected one."""
    strange: list[Value] = [*STRANGE, None, [], [{}], {"a": 1}, 1e300, True]
    return value if chance.random() < FITTING_IN_FORMS else chance.choice(strange)


def _at_limits(chance: random.Random, output: Output, words: ScriptValues) -> list[str]:
    """Return answers at the limits of a question and beyond, in unusual words, and with values of the conditions."""
    if output.choices:
        return [*output.choices, str(chance.randint(0, len(output.choices) + 1))]
    bounds = [bound for bound in (output.min, output.max) if isinstance(bound, int | float | str)]
    if output.kind != "number":
        return [*UNUSUAL.get(output.kind or "", (*TEXTS, *words.texts)), *map(str, bounds)]
    low = output.min if isinstance(output.min, int | float) else -math.inf
    high = output.max if isinstance(output.max, int | float) else math.inf
    compared = [number + step for number in words.numbers for step in (-1, 0, 1) if low <= number + step <= high]
    around = [bound + step for bound in bounds if not isinstance(bound, str) for step in (-1, 0, 1)]
    return [*map(str, around), *map(str, chance.sample(compared, min(4, len(compared)))), *UNUSUAL["number"]]
