"""Data cut until it fits: texts lose their middle, lists and records their end, and a mark says so."""

from collections.abc import Callable

import msgspec

from runtime.events import Message
from runtime.tokens import tokens_of
from scripts.values import Value

CUT = "(… cut …)"  # the prompts tell models what it means
CHARS_MIN = 40  # no text is cut to less, and no list to fewer things


def fitted(worded: Callable[[int], str], chars_max: int, tokens_max: int) -> str:
    """The longest wording within the tokens, of those that leave each text so many characters; else the shortest."""
    whole = worded(chars_max)
    if tokens_of(whole) <= tokens_max or chars_max <= CHARS_MIN:
        return whole
    low, high, best = CHARS_MIN, chars_max, worded(CHARS_MIN)
    while low + 1 < high:
        middle = (low + high) // 2
        wording = worded(middle)
        if tokens_of(wording) <= tokens_max:
            low, best = middle, wording
        else:
            high = middle
    return best


def longest_in(value: Value) -> int:
    """How long the longest text is in a value, or the longest list or record."""
    match value:
        case str():
            return len(value)
        case list():
            return max([len(value), *map(longest_in, value)])
        case dict():
            return max([len(value), *map(longest_in, value.values())])
        case _:
            return 0


def cut_value(value: Value, length_max: int) -> Value:
    """A value of which no text, list or record is longer."""
    match value:
        case str():
            return cut_text(value, length_max)
        case list():
            kept = [cut_value(each, length_max) for each in value[:length_max]]
            return kept if len(value) <= length_max else [*kept, CUT]
        case dict():
            named = {name: cut_value(each, length_max) for name, each in list(value.items())[:length_max]}
            return named if len(value) <= length_max else {**named, CUT: None}
        case _:
            return value


def cut_text(text: str, chars_max: int) -> str:
    """A text without its middle; more is left of its beginning than of its end."""
    if len(text) <= chars_max:
        return text
    end = chars_max // 3
    return f"{text[: chars_max - end]}{CUT}{text[len(text) - end :]}"


def cut_message(message: Message, chars_max: int) -> Message:
    """A message whose text is no longer."""
    return msgspec.structs.replace(message, content=cut_text(message.content, chars_max))
