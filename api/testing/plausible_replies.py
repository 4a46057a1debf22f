"""Random replies as people give them, drawn from what a session waits for and from its script; some are invalid."""

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import date, timedelta
from functools import lru_cache
from random import Random

import regex
from msgspec import structs

from runtime.answers.patterns import PatternGivenUp, search
from runtime.state.form_view import RenderedColumn
from runtime.state.inputs import ChoiceInput, FormInput, Input, Reply
from runtime.state.program import Program
from runtime.state.scopes import Scopes
from runtime.state.state import State, Wait
from scripts.expressions.values import Value, text_of
from scripts.model.actions import AiAsk, Ask
from scripts.model.script import FormField, Script, as_output, kind_of
from scripts.model.variables import Output, Records

INVALID = 0.08  # probability of a reply that does not answer the question
TRIGGER = 0.015  # probability of words that an interrupt, a repair or a detector of the script reacts to
TYPED = 0.15  # probability that a choice is typed, not selected
YES = 0.6  # probability of a yes to a yes-or-no question
ZONES = ("Europe/Berlin", "Europe/London", "America/New_York", "Asia/Shanghai")
OPTIONAL = 0.6  # probability that an optional field is filled in

WORDS = (
    "Ana", "Ben", "Maria", "Lisbon", "Kyoto", "work", "money", "sleep", "music", "health", "family", "tea", "a walk",
    "an exam next month", "a bit of both", "it depends on the day", "it has been like this for a while",
)  # fmt: skip
SAMPLES = ("ana@example.org", "+49 170 1234567", "22:45", "AB-12345", "12345", "2026", "https://example.org")
INVALID_REPLIES = ("I don't know", "what do you mean?", "?", "hm", "can we do this later", "not sure yet", "")
INVALID_VALUE = "?"  # in a field; only fields of type text accept it

_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def draw_reply(program: Program, state: State, wait: Wait, today: date, rng: Random, invalid: float = INVALID) -> Input:
    """Draw a reply to what a session waits for; `invalid` is the probability that it does not answer the question."""
    if rng.random() < TRIGGER and (phrases := trigger_phrases(program.script)):
        return Reply(rng.choice(phrases))
    fields = _fields(program, wait)
    if rng.random() < invalid:
        is_form = bool(fields) and rng.random() < 0.5
        values = {field.name: INVALID_VALUE for field in fields}
        return FormInput(values) if is_form else Reply(rng.choice(INVALID_REPLIES))
    if fields:
        return FormInput(_row(fields, today, rng))
    if wait.choices:
        return _choice(wait, rng)
    if wait.kind != "text":
        return Reply(wait.suggestion or "ok")
    return Reply(_answer(missing_outputs(program, state), today, rng))


def trigger_phrases(script: Script) -> list[str]:
    """Return what interrupts, repairs and detectors of a script react to, and the users' messages in its examples."""
    detectors = script.detectors
    words = [each.on.keywords for each in script.interrupts] + [each.on for each in script.repairs]
    words += [rule.words for each in detectors for rule in each.rules]
    words += [sign.words for each in detectors for sign in each.signs]
    examples = [example for each in detectors for example in each.examples]
    words += [(line.content,) for example in examples for line in example.messages if line.role == "user"]
    return [phrase for phrases in words for phrase in phrases]


def _choice(wait: Wait, rng: Random) -> Input:
    number, choice = rng.choice(list(enumerate(wait.choices, start=1)))
    if wait.kind == "choice" and rng.random() >= TYPED:
        return ChoiceInput(choice.key)
    return Reply(rng.choice([choice.text, str(number)]))


def _fields(program: Program, wait: Wait) -> list[FormField]:
    """Return the fields of the form that the session waits for, as shown, without those that the script computes."""
    if wait.form is None:
        return []
    shown = {field.name: field for field in wait.form.fields}
    fields = (field for field in program.forms[wait.form.id].fields if field.computed is None)
    return [_as_shown(each, shown[each.name], shown[each.name].columns) for each in fields]


def _as_shown(field: FormField, shown: RenderedColumn, columns: Sequence[RenderedColumn] = ()) -> FormField:
    """Return a field with the limits and choices that its form shows."""
    return structs.replace(
        field,
        type=shown.type,
        min=shown.min,
        max=shown.max,
        choice_list=shown.choices,
        columns=tuple(map(_as_shown, field.columns, columns)),
    )


def missing_outputs(program: Program, state: State) -> list[Output]:
    """Return the outputs that the question still needs, with the types that their variables are declared with."""
    action = program.action(*state.home(), state.frames[-1].action)
    items = action.outputs if isinstance(action, Ask | AiAsk) else ()
    known = state.progress.values if state.progress is not None else {}
    outputs = [item for item in items if isinstance(item, Output)]
    missing = [output for output in outputs if output.get not in known] or outputs
    records = [field for item in items if isinstance(item, Records) for field in item.fields]
    declarations = Scopes(program, state).declarations()
    return [
        structs.replace(
            output, type=declared.type, choice_list=declared.choices, labels=output.labels or declared.labels
        )
        if output.kind is None and (declared := declarations.get(output.get)) is not None
        else output
        for output in (*missing, *records)
    ]


def _answer(outputs: list[Output], today: date, rng: Random) -> str:
    texts = {output.get: _label_of(output, _value(output, today, rng)) for output in outputs}
    if len(texts) > 1:
        return ", ".join(f"{name}: {text}" for name, text in texts.items())
    return next(iter(texts.values()), rng.choice(WORDS))


def _label_of(output: Output, value: Value) -> str:
    text = ("yes" if value else "no") if isinstance(value, bool) else text_of(value)
    return output.labels.get(text, text)


def _row(fields: list[FormField], today: date, rng: Random) -> dict[str, Value]:
    """Draw values for the fields of a form or the columns of a table."""
    filled = [field for field in fields if field.required or rng.random() < OPTIONAL]
    return {field.name: _field_value(field, today, rng) for field in filled}


def _field_value(field: FormField, today: date, rng: Random) -> Value:
    match kind_of(field):
        case "multichoice":
            choices = field.choices or WORDS
            return rng.sample(choices, rng.randint(1, len(choices)))
        case "table":
            return [_row(list(field.columns), today, rng) for _ in range(rng.randint(1, 2))]
        case _:
            return _value(as_output(field), today, rng)


def _value(output: Output, today: date, rng: Random) -> Value:
    if output.choices:
        return rng.choice(output.choices)
    match output.kind:
        case "number":
            return _number(output, rng)
        case "boolean":
            return rng.random() < YES
        case "date":
            return _date(output, today, rng)
        case "time":
            return _clock(rng)
        case "datetime":
            return f"{_date(output, today, rng)}T{_clock(rng)}"
        case "timezone":
            return rng.choice(ZONES)
        case "list":
            return rng.sample(WORDS, rng.randint(1, 3))
        case _:
            hint = f"{output.define} {output.invalid.source if output.invalid is not None else ''}"
            return rng.choice(_texts(output.pattern, hint))


def _number(output: Output, rng: Random) -> int | float:
    """Draw a whole number within the bounds of an output; low ones are more frequent."""
    low = output.min if isinstance(output.min, int | float) else 1
    high = output.max if isinstance(output.max, int | float) else low + 11
    low = min(low, high)
    return min(max(round(rng.triangular(low, high, low + (high - low) / 3)), low), high)


def _date(output: Output, today: date, rng: Random) -> str:
    """Draw a day before or after today, or the date that the rule of an output names, as that rule requires."""
    limit = f"< {output.max}" if output.max is not None else ""
    rule = " ".join(each.unless.source for each in output.validate) or limit
    start = today
    with suppress(ValueError, IndexError):  # a rule may name no date, or another text of this form
        start = date.fromisoformat(_ISO_DATE.findall(rule)[0])
    days = 1 + round(rng.expovariate(1 / 30))
    return str(start + timedelta(days=-days if "<" in rule else days))


def _clock(rng: Random) -> str:
    """Draw a time by day, in steps of five minutes."""
    return f"{rng.randint(7, 21):02}:{rng.randrange(0, 60, 5):02}"


@lru_cache(maxsize=10_000)
def _texts(pattern: str | None, hint: str) -> tuple[str, ...]:
    """Return texts that match a pattern: words, else samples and words of the hint."""
    if pattern is None:
        return WORDS
    for texts in (WORDS, (*SAMPLES, *re.findall(r"\S+\b", hint))):
        if found := tuple(text for text in texts if _fits(f"^(?:{pattern})$", text)):
            return found
    return WORDS


def _fits(pattern: str, text: str) -> bool:
    """Return whether a pattern matches within a text."""
    try:
        return search(pattern, text) is not None
    except (PatternGivenUp, regex.error):
        return False
