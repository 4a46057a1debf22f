"""What a simulated visitor answers: mostly what is asked for, sometimes nothing of the kind, now and then a word that
the script listens for.
"""

import random
from collections.abc import Sequence
from datetime import date, timedelta
from functools import lru_cache

from msgspec import Struct, structs

from api.cases.answers import fits, wanted
from api.simulation.visits import weighted
from api.simulation.words import BIRTH, SUBJECTS, Vocabulary, vocabulary_of
from runtime.inputs import Chosen, Filled, Input, Reply
from runtime.program import Program
from runtime.sheets import DrawnColumn, DrawnField, DrawnForm
from runtime.state import State, Wait
from scripts.actions import Action, AiAsk, Ask, Choose, Form
from scripts.model import Locale, Script
from scripts.strings import language
from scripts.values import Value
from scripts.variables import Output, Records

PRESSED = 0.85  # how often a choice is pressed, not typed; and a suggestion taken
SET_OFF = 0.012  # how often a message has words that the script listens for
FILLED = 0.6  # how often a field is filled in that need not be
WORDED = 0.3  # how often a day is said in words
_HAN = range(0x4E00, 0xA000)


class Asked(Struct, frozen=True):
    """What a session waits for, and where."""

    program: Program
    state: State
    wait: Wait
    today: date

    @property
    def action(self) -> Action:
        """The action that waits. Raises PlaceLost."""
        return self.program.action(*self.state.home(), self.state.frames[-1].action)

    @property
    def retries(self) -> int:
        """How often the same was asked in vain."""
        progress = self.state.progress
        return progress.round if progress is not None and isinstance(self.action, Ask | AiAsk | Choose | Form) else 0

    def as_declared(self, output: Output) -> Output:
        """An output with the type that its variable is declared with, where it has none of its own."""
        program, state = self.program, self.state
        inner = (program.topic_names.get(state.home(), {}), program.phase_names.get(state.phase, {}))
        for names in (*inner, program.session_names, program.global_names) if output.kind is None else ():
            if (declared := names.get(output.get)) is not None:
                return structs.replace(output, type=declared.type, choices=declared.choices)
        return output


def reply_to(asked: Asked, care: float, chance: random.Random) -> Input:
    """What is answered by a visitor who answers what was asked with a probability of `care`."""
    wait, words = asked.wait, vocabulary_of(asked.state.locale)
    if chance.random() < SET_OFF and (listened := listened_for(asked.program.script, asked.state.locale)):
        return Reply(chance.choice(words.lead) + chance.choice(listened))
    if chance.random() >= care:
        return Reply(chance.choice(words.lost))
    if wait.form is not None:
        return Filled(_filled(wait.form, words, asked.today, chance))
    if wait.choices:
        return _chosen(wait, chance)
    if wait.kind == "suggestion" and chance.random() < PRESSED:
        return Reply(wait.suggestion)
    if wait.kind != "text":
        return Reply(chance.choice(words.going_on))
    return Reply(_answer(asked, words, chance))


def _chosen(wait: Wait, chance: random.Random) -> Input:
    """What stands first is taken more often."""
    place = weighted([(place + 1.5) ** -0.7 for place in range(len(wait.choices))], chance.random())
    choice = wait.choices[place]
    if wait.kind == "choice" and chance.random() < PRESSED:
        return Chosen(choice.key)
    return Reply(chance.choice([choice.text, str(place + 1)]))


def _answer(asked: Asked, words: Vocabulary, chance: random.Random) -> str:
    outputs = list(map(asked.as_declared, [*wanted(asked.action, asked.state), *_fields(asked.action)]))
    if not outputs:
        return chance.choice(words.texts)
    if len(outputs) == 1:
        return _value(outputs[0], words, asked.today, chance)
    said = [f"{each.get}: {_value(each, words, asked.today, chance)}" for each in outputs]
    return words.comma.join(said)


def _fields(action: Action) -> list[Output]:
    """The fields of the records that a question takes."""
    items = action.outputs if isinstance(action, Ask | AiAsk) else ()
    return [field for item in items if isinstance(item, Records) for field in item.fields]


def _value(output: Output, words: Vocabulary, today: date, chance: random.Random) -> str:
    if output.choices:
        value = chance.choice(output.choices)
        return output.labels.get(value, value)
    match output.kind:
        case "number":
            return chance.choice(words.numbers).format(_number(output.min, output.max, chance))
        case "boolean":
            return chance.choice(words.yes if chance.random() < 0.6 else words.no)
        case "date":
            return _day(output.validate.source if output.validate is not None else "", words, today, chance)
        case "list":
            return words.comma.join(chance.sample(words.things, chance.choice((1, 1, 2, 2, 3))))
        case _:
            return chance.choice(_texts(f"{output.get} {output.define}", output.pattern, words.language))


@lru_cache(maxsize=10_000)
def _texts(about: str, pattern: str | None, language: str) -> Sequence[str]:
    """What may be said where a text about something is asked for, such as fits."""
    words = vocabulary_of(language)
    subject = next((each for each, found in SUBJECTS.items() if found.search(about.casefold())), "")
    texts = words.about.get(subject, words.texts)
    if pattern is None:
        return texts
    everything = [*texts, *(text for each in words.about.values() for text in each), *words.texts]
    return (
        [text for text in texts if fits(pattern, text)] or [text for text in everything if fits(pattern, text)] or texts
    )


def _number(least: object, most: object, chance: random.Random) -> int:
    """A number within the bounds, rather a low one."""
    high = most if isinstance(most, int | float) else None
    low = least if isinstance(least, int | float) else min(1, 1 if high is None else high)
    high = low + 11 if high is None else max(low, high)
    return round(chance.triangular(low, high, low + (high - low) * 0.35))


def _day(rule: str, words: Vocabulary, today: date, chance: random.Random) -> str:
    """A day, before today or after it as the rule for it has it."""
    way = -1 if "<" in rule else 1
    if chance.random() < WORDED:
        return words.days[chance.choice([days for days in words.days if days * way > 0])]
    return str(today + way * timedelta(days=1 + round(chance.expovariate(1 / 30))))


def _filled(form: DrawnForm, words: Vocabulary, today: date, chance: random.Random) -> dict[str, Value]:
    fields = [field for field in form.fields if not field.computed]
    some = [field for field in fields if field.required or chance.random() < FILLED]
    return {field.name: _entered(field, words, today, chance) for field in some}


def _entered(field: DrawnColumn, words: Vocabulary, today: date, chance: random.Random) -> Value:
    match field.type:
        case "multichoice" if field.choices:
            return chance.sample(field.choices, chance.randint(1, len(field.choices)))
        case "table":
            columns = field.columns if isinstance(field, DrawnField) else ()
            rows = range(chance.choice((0, 1, 1, 2)))
            return [{each.name: _entered(each, words, today, chance) for each in columns} for _ in rows]
        case "boolean":
            return chance.random() < 0.5
        case "number":
            return _number(field.min, field.max, chance)
        case "date":
            years = chance.randint(20, 70) if BIRTH.search(field.label.casefold()) else 0
            return str(today + timedelta(days=chance.randint(1, 90) - 365 * years))
        case "choice" if field.choices:
            return chance.choice(field.choices)
        case "file":
            return None
        case _:
            return chance.choice(_texts(f"{field.name} {field.label}", field.pattern, words.language))


@lru_cache(maxsize=1_000)
def _listened_for(script_words: tuple[str, ...], is_chinese: bool) -> tuple[str, ...]:
    return tuple(word for word in script_words if any(ord(sign) in _HAN for sign in word) == is_chinese)


def listened_for(script: Script, locale: Locale) -> tuple[str, ...]:
    """The words that set off interrupts, repairs and detectors of a script, as far as they are of a language."""
    by_interrupts = [word for each in script.interrupts for word in each.on.keywords]
    by_repairs = [word for each in script.repairs for word in each.on]
    rules = [word for each in script.detectors for rule in each.rules for word in rule.words]
    signs = [word for each in script.detectors for sign in each.signs for word in sign.words]
    return _listened_for((*by_interrupts, *by_repairs, *rules, *signs), language(locale) == "zh")
