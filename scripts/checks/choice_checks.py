"""Check lists of words: the choices of `choose`, the keywords of interrupts, and items that are not separated."""

from collections.abc import Iterator, Sequence

import regex

from scripts.detectors.words import fold
from scripts.expressions.condition_algebra import Unknown
from scripts.expressions.values import number_in, shorten
from scripts.model.actions import Choose, ListedChoices
from scripts.model.base import Expression, Location
from scripts.model.diagnostics import Fault, Severity
from scripts.model.script import Interrupt

_SEVERAL_NAMES = regex.compile(r"[^\W\d]\w*(?:\s*[,，、]\s*[^\W\d]\w*)+")
_WIDE_COMMA = regex.compile(r"\s*[，、]\s*")
_WORD = regex.compile(r"\w+")


def several_names(text: str) -> list[str]:
    """Return the names in a text of names with commas between them; none if it is another text.

    One of the brackets around them may be missing.
    """
    return _WORD.findall(text) if _SEVERAL_NAMES.fullmatch(text.strip("[]")) is not None else []


def list_faults(words: Sequence[str], at: Location) -> Iterator[Fault]:
    """Report a list whose only item has full-width commas, or is several words with commas: `choices: "yes, no"`."""
    parts = (several_names(words[0]) or _WIDE_COMMA.split(words[0].strip())) if len(words) == 1 else []
    if len(parts) > 1:
        fix = f"Separate the items with `, `: `[{', '.join(parts)}]`."
        yield Fault("LIST_UNSEPARATED", f"`{words[0]}` is one item", at, fix)


def reply_faults(choices: Sequence[str], at: Location, severity: Severity | None = None) -> Iterator[Fault]:
    """Report two different choices that a reply cannot tell apart: `red` and `Red`."""
    seen: dict[str, str] = {}
    for each in choices:
        first = seen.setdefault(fold(each), each)
        if first != each:
            message = f"a reply cannot tell `{first}` from `{each}`"
            fix = "Choose words that differ in more than case, width and blanks."
            yield Fault("CHOICES_INVALID", message, at, fix, severity)
            return


def trigger_faults(interrupt: Interrupt, *, is_native: bool) -> Iterator[Fault]:
    """Check what an interrupt reacts to, except for its detector."""
    trigger, at = interrupt.on, interrupt.mark("on")
    if not (any(trigger.keywords) or trigger.intent or trigger.detector):
        yield Fault("TRIGGER_EMPTY", "`on` is empty", at)
    names = several_names(trigger.intent)
    if names and is_native:
        message = f"`{trigger.intent}` is one description, which only a language model can recognise"
        fix = f"Write a list for single words: `on: [{', '.join(names)}]`."
        yield Fault("KEYWORDS_UNLISTED", message, at, fix)
    yield from list_faults(trigger.keywords, at)
    if "match" in trigger.marks and not trigger.keywords:
        message = f"`match: {trigger.match}` applies to keywords, and `on` has none"
        yield Fault("MATCH_WITHOUT_KEYWORDS", message, trigger.mark("match"))


def choice_faults(action: Choose, *, is_whole: bool) -> Iterator[Fault]:
    """Check the choices; a list may be empty only if a part of the script is invalid (`is_whole` is false)."""
    yield from list_faults([each.key for each in action.fixed], action.mark("choices"))
    keys = [choice.key for choice in action.fixed]
    if is_whole and not action.choices:
        yield Fault("CHOICES_INVALID", "`choices` is empty", action.mark("choices"), "List the choices.")
    if len(set(keys)) < len(keys):
        yield Fault("CHOICES_INVALID", "`choices` contains a choice twice", action.mark("choices"))
    yield from reply_faults(keys, action.mark("choices"))
    yield from _number_faults(action)
    for each in action.choices:
        if isinstance(each, ListedChoices):
            yield from _key_faults(each)


def _number_faults(action: Choose) -> Iterator[Fault]:
    """Report choices whose values are numbers that a reply cannot name, because it would mean other positions."""
    values = [number_in(str(each.value)) for each in action.fixed]
    keys = {each.key for each in action.fixed}
    if None in values:
        return
    for number, (each, value) in enumerate(zip(action.fixed, values, strict=True), 1):
        if number in values and number != value and str(number) not in keys:
            message = f"the reply `{number}` chooses `{each.key}`, whose value is {shorten(each.value)}"
            fix = "For replies in numbers, make the values the keys: `{key: 0, text: …, value: 0}`."
            yield Fault("CHOICE_NUMBERS_DIFFER", message, action.mark("choices"), fix)
            return


def _key_faults(listed: ListedChoices) -> Iterator[Fault]:
    """Report a key that is the same for every item, so that only one choice is offered."""
    name = listed.loop.name
    key = listed.key.facts.value
    if isinstance(key, Unknown):
        return
    message = f"the key {shorten(key)} is the same for every item, so only one choice is offered"
    is_meant = isinstance(key, str) and name in Expression(key).facts.names
    fix = f"Write `key: ={key}`." if is_meant else f"Write an expression with `{name}`, such as `key: ={name}`."
    yield Fault("CHOICES_INVALID", message, listed.mark("key"), fix, "warning")
