"""Lengths of texts and values: the estimated number of tokens, and cutting to a length.

The estimate is the same wherever tokens are counted before a request. Every model counts in its own way, and none
reports the count before a request. A Chinese, Japanese or Korean character counts as one token (tokenizers take 0.6 to
1.3), any other letter beyond ASCII as half of one, and four ASCII characters as one. This is close for prose and JSON,
and rather too high than too low; `Usage` has the actual count. A cut text loses its middle, a list or record its end; a
mark replaces it.
"""

import math
import re
from collections.abc import Callable

import msgspec

from runtime.state.events import Message
from scripts.expressions.values import Value

ASCII_CHARS_PER_TOKEN = 4
OTHER_CHARS_PER_TOKEN = 2
MESSAGE_TOKENS = 4  # the overhead of a message

_CJK = re.compile("[\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")
_OTHER = re.compile("[^\x00-\x7f]")


def tokens_of(text: str) -> int:
    """Return the estimated number of tokens of a text."""
    if text.isascii():
        return math.ceil(len(text) / ASCII_CHARS_PER_TOKEN)
    without_cjk = _CJK.sub("", text)
    plain = len(_OTHER.sub("", without_cjk))
    other = len(without_cjk) - plain
    cjk = len(text) - len(without_cjk)
    return cjk + math.ceil(other / OTHER_CHARS_PER_TOKEN + plain / ASCII_CHARS_PER_TOKEN)


# -- cutting ----------------------------------------------------------------------------------------------------------


CUT = "(… cut …)"  # the prompts explain it to models
CHARS_MIN = 40  # the shortest length to which texts, lists and records are cut


def fit(worded: Callable[[int], str], chars_max: int, tokens_max: int) -> str:
    """Return the longest wording within the token limit, made with the largest text length; else the shortest one."""
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
    """Return the length of the longest text, list or record in a value."""
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
    """Return a value in which no text, list or record exceeds a length."""
    match value:
        case str():
            return cut_text(value, length_max)
        case list():
            items = [cut_value(each, length_max) for each in value[:length_max]]
            return items if len(value) <= length_max else [*items, CUT]
        case dict():
            named = {name: cut_value(each, length_max) for name, each in list(value.items())[:length_max]}
            return named if len(value) <= length_max else {**named, CUT: None}
        case _:
            return value


def cut_text(text: str, chars_max: int) -> str:
    """Return a text without its middle; two thirds of what is left are its beginning, one third its end."""
    if len(text) <= chars_max:
        return text
    end = chars_max // 3
    return f"{text[: chars_max - end]}{CUT}{text[len(text) - end :]}"


def cut_message(message: Message, chars_max: int) -> Message:
    """Return a message whose text does not exceed a length."""
    return msgspec.structs.replace(message, content=cut_text(message.content, chars_max))
