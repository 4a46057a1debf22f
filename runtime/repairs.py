"""The ways in which users mend a conversation, ready-made: repeat, skip, cancel, correct an earlier answer, hand over.

The words they are asked for by are the script's, or else the runtime's in the session's locale. A message asks for a
repair only where it says nothing else, but for a correction, which begins with its words and names what it changes.
The patterns are those that other systems for scripted dialogue have found users to need (see Rasa's "conversation
repair").
"""

import re
from functools import lru_cache
from typing import get_args

from msgspec import Struct

from runtime.actions import asking, filling, leading_away
from runtime.corrections import Answered, answered, correct
from runtime.events import Emitted, Repaired
from runtime.languages import ENGLISH, LANGUAGES, also_english, spoken
from runtime.languages.spelling import unaccented
from runtime.models.parsing import choices_of, read_labelled
from runtime.outcomes import DONE, Outcome, Waits
from runtime.phrases import phrase
from runtime.run import Run
from runtime.state import Wait
from runtime.validation import Refused, checked
from scripts.actions import Action, AiAsk, Ask, Form
from scripts.meaning import text_of
from scripts.model import After, Repair, RepairKind
from scripts.strings import Phrase
from scripts.values import Value
from scripts.variables import Output
from scripts.words import bare, folded

SPELLED_MAX = 3  # how much longer a word may be as it is written, with wide letters and spaces
_AFTER_WORDS = re.compile(r"[\s,，.。:：;；!！-]*")


class Named(Struct, frozen=True):
    """An earlier answer that a message names, and its new value."""

    name: str
    given: Answered
    value: Value


class Asked(Struct, frozen=True):
    """A repair that a message asks for, and the earlier answers it names to be corrected."""

    repair: Repair
    named: tuple[Named, ...] = ()


def asked_for(run: Run, said: str) -> Asked | None:
    """The repair a message asks for, of those that the script has."""
    plain = unaccented(bare(said))
    for repair in run.program.script.repairs:
        words = repair.on or _words(repair.kind, spoken(run.state.locale).code)
        if bare(said) in _bare(words) or (not repair.on and plain in _plain(words)):
            return Asked(repair)
        rest = _after_words(said, words) if repair.kind == "correct" else ""
        if rest and (named := _named(run, rest)):
            return Asked(repair, named)
    return None


@lru_cache(maxsize=len(LANGUAGES) * len(get_args(RepairKind)))
def _words(kind: RepairKind, code: str) -> tuple[str, ...]:
    known = LANGUAGES[code]
    return also_english(known.repairs[kind], ENGLISH.repairs[kind], known)


@lru_cache(maxsize=1_000)
def _plain(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(unaccented(bare(each)) for each in words)


@lru_cache(maxsize=1_000)
def _bare(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(map(bare, words))


def _after_words(said: str, words: tuple[str, ...]) -> str:
    """What a message says after the words it begins with, spelled as it is: it becomes a value."""
    said = said.strip()
    whole = folded(said)
    for word in sorted(map(folded, words), key=len, reverse=True):
        if not whole.startswith(word[:-1]):  # its last letter may look different with an accent that follows
            continue
        ends = range(1, min(len(said), SPELLED_MAX * len(word)) + 1)
        end = next((each for each in ends if folded(said[:each]) == word), 0)
        if end:
            rest = said[end:]
            return rest[_AFTER_WORDS.match(rest).end() :]  # type: ignore[union-attr]  # matches nothing as well
    return ""


def carry_out(run: Run, action: Action, wait: Wait, asked: Asked) -> Outcome:
    """Mends the conversation while an action waits. Raises ActionFailed, WriteRefused."""
    match asked.repair.kind:
        case "repeat":
            outcome: Outcome = _again(run, wait)
        case "skip":
            outcome = _skip(run, action, wait, asked.repair)
        case "cancel":
            _say(run, asked.repair, "cancelled")
            outcome = leading_away.after(run, asked.repair.then or After(policy="leave_topic"))
        case "correct":
            return _correct(run, action, wait, asked)
        case "hand_over":
            run.record(Emitted(action.id, "hand_over", {"action": action.id}))
            _say(run, asked.repair, "handed_over")
            outcome = leading_away.after(run, asked.repair.then) if asked.repair.then is not None else Waits(wait)
    run.record(Repaired(asked.repair.kind, action.id))
    return outcome


def _phrase(run: Run, name: Phrase, given: tuple[str, ...] = ()) -> str:
    return phrase(run.state.locale, name, given, own=run.program.script.phrases)


def _say(run: Run, repair: Repair, name: Phrase, given: tuple[str, ...] = ()) -> None:
    run.say(run.text(repair.say) if repair.say is not None else _phrase(run, name, given))


def _again(run: Run, wait: Wait) -> Outcome:
    """The question once more; where there is none, what the session said before the message at hand."""
    run.say(run.progress.question or _said_before(run))
    return Waits(wait)


def _said_before(run: Run) -> str:
    history = run.history()
    heard = next((at for at in reversed(range(len(history))) if history[at].role == "user"), len(history))
    return next((each.content for each in reversed(history[:heard]) if each.role == "assistant" and each.content), "")


def leave_open(run: Run, action: Action) -> bool:
    """Leaves a question with what its outputs fall back on, unless an answer is required; anything else just ends."""
    match action:
        case Ask() | AiAsk():
            return asking.leave_open(run, action)
        case Form():
            return filling.leave_open(run, action)
        case _:
            return True


def _skip(run: Run, action: Action, wait: Wait, repair: Repair) -> Outcome:
    if not leave_open(run, action):
        run.say(_phrase(run, "needed"))
        return _again(run, wait)
    if repair.say is not None:
        run.say(run.text(repair.say))
    return DONE


# -- corrections ----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=len(LANGUAGES))
def _becomes(code: str) -> re.Pattern[str]:
    """What stands between a name and its new value: ``age to 30``, ``Alter auf 30``."""
    words = "|".join((*LANGUAGES[code].becomes, *ENGLISH.becomes))
    return re.compile(rf"\s+(?:{words})\s+(?=\S)|\s*(?:应该是|改成|改为)\s*", re.IGNORECASE)


def _named(run: Run, said: str) -> tuple[Named, ...]:
    """The earlier answers that a text names, with what it says of them."""
    given = answered(run)
    outputs = tuple(each.output for each in given.values())
    locale = run.state.locale
    values = read_labelled(outputs, _becomes(spoken(locale).code).sub(": ", said), run.now().date(), locale)
    return tuple(Named(name, given[name], value) for name, value in values.items())


def _correct(run: Run, action: Action, wait: Wait, asked: Asked) -> Outcome:
    refused = next(filter(None, (_refusal(run, each) for each in asked.named)), "")
    if refused or not asked.named:
        run.say(refused or _phrase(run, "which"))
        return _again(run, wait)
    changed = correct(run, {each.name: (each.given, each.value) for each in asked.named})
    run.record(Repaired("correct", action.id, tuple(changed)))
    now = run.scopes.flat()
    _say(run, asked.repair, "corrected", tuple(f"{each.name}: {text_of(now.get(each.name))}" for each in asked.named))
    return _again(run, wait)


def _refusal(run: Run, named: Named) -> str:
    output = named.given.output
    outcome = checked(run, output, named.value)
    return _complaint(run, output, outcome) if isinstance(outcome, Refused) else ""


def _complaint(run: Run, output: Output, refused: Refused) -> str:
    texts = tuple(choice.text for choice in choices_of(output))
    return run.text(output.invalid) if output.invalid else _phrase(run, refused.phrase, texts)
