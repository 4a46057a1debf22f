"""What the parsers alone find in a reply for a set of outputs; used with and without a model."""

from collections.abc import Collection, Mapping
from datetime import date

from msgspec import Struct

from runtime.answers import Choice, labelled_parts, parse_answer
from runtime.patterns import PatternGivenUp, searched
from scripts.model import Locale
from scripts.values import Value, is_given
from scripts.variables import Output

LABEL_CHARS_MAX = 20  # a longer `define` is a sentence, not a label


class Parsed(Struct, frozen=True):
    """Values by name, and why each of the others is missing."""

    values: Mapping[str, Value]
    reasons: Mapping[str, str]


def choices_of(output: Output) -> tuple[Choice, ...]:
    """What an output may become, with what the user reads for it."""
    return tuple(Choice(value, output.labels.get(value, value)) for value in output.choices)


def read_outputs(outputs: tuple[Output, ...], reply: str, today: date, locale: Locale) -> Parsed:
    """A single output takes what its type makes of the whole reply; of several each takes its labelled part, the
    only match of its pattern, or, where no other output has its type, what that type makes of the whole reply.
    """
    parts = labelled_parts(reply, [label for output in outputs for label in _labels(output)], locale)
    values: dict[str, Value] = {}
    reasons: dict[str, str] = {}
    for output in outputs:
        part = next((parts[label] for label in _labels(output) if label in parts), None)
        whole = len(outputs) == 1 or _stands_alone(output, outputs)
        value = _read(output, part if part is not None else reply if whole else None, reply, today, locale)
        if is_given(value):
            values[output.get] = value
        else:
            reasons[output.get] = _reason(output, part, whole)
    return Parsed(values, reasons)


def read_further(
    outputs: tuple[Output, ...], known: Collection[str], reply: str, today: date, locale: Locale
) -> Parsed:
    """What a further reply gives: the outputs still missing as `read_outputs` has it; one that is known takes another
    value only from a part that names it.
    """
    missing = tuple(output for output in outputs if output.get not in known)
    held = tuple(output for output in outputs if output.get in known)
    parsed = read_outputs(missing, reply, today, locale)
    return Parsed({**parsed.values, **read_labelled(held, reply, today, locale)}, parsed.reasons)


def read_labelled(outputs: tuple[Output, ...], reply: str, today: date, locale: Locale) -> dict[str, Value]:
    """The values of the parts of a reply that name an output."""
    parts = labelled_parts(reply, [label for output in outputs for label in _labels(output)], locale)
    values = {
        output.get: _read(output, parts[label], reply, today, locale)
        for output in outputs
        for label in _labels(output)
        if label in parts
    }
    return {name: value for name, value in values.items() if is_given(value)}


def _labels(output: Output) -> tuple[str, ...]:
    return (output.get, output.define) if 0 < len(output.define) <= LABEL_CHARS_MAX else (output.get,)


def _stands_alone(output: Output, outputs: tuple[Output, ...]) -> bool:
    """Whether a whole reply can only mean this output: its type leaves no doubt and no other output shares it."""
    return output.kind in {"number", "boolean", "date", "choice"} and (
        sum(other.kind == output.kind for other in outputs) == 1
    )


def _read(output: Output, text: str | None, reply: str, today: date, locale: Locale) -> Value:
    if output.pattern is not None and output.kind in {None, "text"}:
        found = _match(output.pattern, reply if text is None else text)
        if found is not None or text is None:
            return found
    if text is None:
        return None
    return parse_answer(text, output.kind, choices=choices_of(output), today=today, locale=locale)


def _match(pattern: str, text: str) -> str | None:
    try:
        return searched(pattern, text.strip())
    except PatternGivenUp:  # the turn warns of it
        return None


def _reason(output: Output, part: str | None, whole: bool) -> str:
    wanted = output.kind or "text"
    if part is not None or whole:
        return f"the reply gives no {wanted}"
    return f"the reply has no part labelled {output.get}"
