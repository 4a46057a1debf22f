"""Random replies: mostly plausible answers by the type of a question, sometimes unexpected texts."""

import random
import re
from collections.abc import Iterable, Iterator
from datetime import date, timedelta

import regex
from msgspec import Struct

from runtime.answers.patterns import PatternGivenUp, searched
from runtime.state.form_view import RenderedColumn, RenderedField, RenderedForm
from runtime.state.inputs import Chosen, Filled, Input, Reply, TimerDue
from runtime.state.program import Program
from runtime.state.state import State
from runtime.timers.timers import pending_timers
from scripts.expressions.values import Value, number_in, text_of
from scripts.model.actions import Action, AiAsk, Ask
from scripts.model.base import Expression
from scripts.model.script import Script
from scripts.model.variable_names import reads_below
from scripts.model.variables import Output

PLAUSIBLE = 0.75  # share of plausible answers
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
NUMBERS = ("7", "about five", "twenty", "3.5", "十二", "-2", "1000000", "0", "none")
CLOCKS = ("noon", "9", "9 pm", "half past eight", "九点半", "25:00", "soon")
ZONES = ("Europe/Berlin", "UTC", "Asia/Shanghai", "Paris", "UTC+2", "somewhere")
LISTS = ("a, b and c", "tea", "rain, noise, my mother", "一，二、三", "none", "a, b, c, d, e, f, g, h", "a,,b")
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
    if wait is not None and wait.form is not None and chance.random() < PLAUSIBLE:
        return Filled(_filled(chance, wait.form, words, today))
    if wait is not None and wait.choices and chance.random() < PLAUSIBLE:
        return Chosen(chance.choice(wait.choices).key)
    if chance.random() >= PLAUSIBLE:
        return Reply(chance.choice([*STRANGE, *words.texts] if chance.random() < PLAUSIBLE else STRANGE))
    if wait is not None and wait.choices:
        number = chance.randrange(len(wait.choices))
        return Reply(chance.choice([str(number + 1), wait.choices[number].text, wait.choices[number].key]))
    if wait is not None and wait.form is not None:
        return Reply(_labelled(chance, wait.form, words, today))
    if wait is not None and wait.kind != "text":
        return Reply(chance.choice([wait.suggestion or "ok", "ok", "yes", "go on"]))
    action = program.action(*state.home(), state.frames[-1].action)
    return Reply(_fitting(chance, missing_outputs(action, state), words, today))


def _filled(chance: random.Random, form: RenderedForm, words: ScriptValues, today: date) -> dict[str, Value]:
    """Fill in a form by the types of its fields, sometimes with an unexpected value."""
    fields = [field for field in form.fields if not field.computed]
    some = [field for field in fields if field.required or chance.random() < PLAUSIBLE]
    return {field.name: _entered(chance, field, words, today) for field in some}


def _labelled(chance: random.Random, form: RenderedForm, words: ScriptValues, today: date) -> str:
    """Fill in a form as a text message."""
    values = _filled(chance, form, words, today)
    labels = {field.name: field.label for field in form.fields}
    return chance.choice([", ", "\n"]).join(f"{labels[name]}: {text_of(value)}" for name, value in values.items())


def _entered(chance: random.Random, field: RenderedColumn, words: ScriptValues, today: date) -> Value:
    if chance.random() >= FITTING_IN_FORMS:
        return chance.choice([*STRANGE, None, [], [{}], {"a": 1}, 1e300, True])
    match field.type:
        case "multichoice":
            return [choice for choice in field.choices if chance.random() < 0.5]
        case "table":
            columns = field.columns if isinstance(field, RenderedField) else ()
            rows = range(chance.randrange(4))
            return [{each.name: _entered(chance, each, words, today) for each in columns} for _ in rows]
        case "boolean":
            return chance.random() < 0.5
        case "number":
            return chance.choice(list(_numbers(chance, _as_asked(field), words)))
        case "date":
            return str(today + timedelta(days=chance.randint(-400, 400)))
        case "time":
            return _clock(chance)
        case "datetime":
            return f"{today + timedelta(days=chance.randint(-400, 400))}T{_clock(chance)}"
        case "timezone":
            return chance.choice(ZONES[:3])
        case _:
            return _value(chance, _as_asked(field), words, today)


def _as_asked(field: RenderedColumn) -> Output:
    """Return the output of a question that asks for a field."""
    return Output(get=field.name, choice_list=field.choices, pattern=field.pattern, min=field.min, max=field.max)


def missing_outputs(action: Action, state: State) -> list[Output]:
    """Return the outputs that a question still misses."""
    if not isinstance(action, Ask | AiAsk):
        return []
    known = state.progress.values if state.progress is not None else {}
    outputs = [output for output in action.outputs if isinstance(output, Output)]
    return [output for output in outputs if output.get not in known] or outputs


def _fitting(chance: random.Random, outputs: list[Output], words: ScriptValues, today: date) -> str:
    if not outputs:
        return chance.choice([*TEXTS, *YES_NO, *words.texts])
    if len(outputs) == 1:
        return _value(chance, outputs[0], words, today)
    separator = chance.choice([", ", "\n", "，"])
    some = [output for output in outputs if chance.random() < PLAUSIBLE] or outputs
    return separator.join(f"{output.get}: {_value(chance, output, words, today)}" for output in some)


def _value(chance: random.Random, output: Output, words: ScriptValues, today: date) -> str:
    if output.choices:
        return chance.choice([*output.choices, str(chance.randint(0, len(output.choices) + 1))])
    match output.type:
        case "number":
            return chance.choice([*map(str, _numbers(chance, output, words)), *NUMBERS[:3], chance.choice(NUMBERS)])
        case "boolean":
            return chance.choice(YES_NO)
        case "date":
            return chance.choice(list(_dates(chance, output, today)))
        case "time":
            return chance.choice([_clock(chance), *_bounds(output), *CLOCKS])
        case "datetime":
            day = chance.choice(["tomorrow", str(today + timedelta(days=chance.randint(-400, 400)))])
            return chance.choice([f"{day} {_clock(chance)}", f"{day} at 9 pm", *_bounds(output), "tomorrow"])
        case "timezone":
            return chance.choice(ZONES)
        case "list":
            return chance.choice(LISTS)
        case _:
            texts = [*TEXTS, *words.texts]
            fitting = [text for text in texts if fits(output.pattern, text)] if output.pattern is not None else []
            return chance.choice(fitting or texts)


def fits(pattern: str, text: str) -> bool:
    """Return whether a pattern matches within a text."""
    try:
        return searched(pattern, text) is not None
    except (PatternGivenUp, regex.error):
        return False


def _numbers(chance: random.Random, output: Output, words: ScriptValues) -> Iterable[int | float]:
    """Return numbers inside, on and outside the bounds, and on both sides of values in conditions."""
    low = output.min if isinstance(output.min, int | float) else 0
    high = output.max if isinstance(output.max, int | float) else low + 100
    inside = [chance.randint(int(low), max(int(low), int(high))) for _ in range(6)]
    compared = [number + step for number in words.numbers for step in (-1, 0, 1) if low <= number + step <= high]
    return [*inside, low, high, low - 1, high + 1, *(chance.sample(compared, min(4, len(compared))))]


def _dates(chance: random.Random, output: Output, today: date) -> Iterator[str]:
    yield from (str(today + timedelta(days=chance.randint(-400, 400))) for _ in range(3))
    yield from ("today", "yesterday", "in three days", "3 May 1990", "昨天", "2026-02-30", "soon")
    yield from _bounds(output)


def _bounds(output: Output) -> list[str]:
    return [bound for bound in (output.min, output.max) if isinstance(bound, str)]


def _clock(chance: random.Random) -> str:
    return f"{chance.randrange(24)}:{chance.randrange(60):02}"
