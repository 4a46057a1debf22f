"""Patterns that scripts and schemas of tools contain: whether one can be compiled, and with how much memory."""

import regex

LENGTH_MAX = 20_000
"""Of a pattern, with each repeated part written out: a part that occurs `{1000}` times is compiled as a thousand."""
_PART = r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(?P<times>[0-9]+)(?:,[0-9]*)?\}|(?P<aside>\(\?#[^)]*\)|\s)|."
_PARTS = regex.compile(_PART, regex.DOTALL)
_SPACED_PARTS = regex.compile(rf"(?P<aside>#[^\n]*)|{_PART}", regex.DOTALL)
_FLAG = regex.compile(r"\(\?[a-zA-Z0-9]*-?[a-zA-Z]*x")
"""The flag by which `#` begins a comment."""


class PatternInvalid(ValueError):
    """A pattern that is not valid, or too long; the message says why."""


def check_pattern(pattern: str) -> None:
    """Check a pattern without using much time or memory. Raises PatternInvalid."""
    if _FLAG.search(pattern, 1):
        raise PatternInvalid("the flag `x` is possible only at the beginning")
    if _written_out(pattern) > LENGTH_MAX:
        raise PatternInvalid(f"it is longer than {LENGTH_MAX:,} characters when its repeated parts are written out")
    try:
        regex.compile(pattern)
    except regex.error as error:
        raise PatternInvalid(str(error)) from error
    except RecursionError:
        raise PatternInvalid("it is nested too deeply") from None


def _written_out(pattern: str) -> int:
    """Return the length of a pattern with its repeated parts written out."""
    length = last = 0  # `last`: the length of what a number of times would repeat
    begun: list[int] = []
    for part in (_SPACED_PARTS if _FLAG.match(pattern) else _PARTS).finditer(pattern):
        if part["times"]:
            more = last * (max(int(part["times"][:10]), 1) - 1)
            length, last = length + more, last + more
        elif part[0] == ")" and begun:
            length += 1
            last = length - begun.pop()
        elif part["aside"]:  # it may be between a part and its number of times
            length += 1
        else:
            if part[0] == "(":
                begun.append(length)
            length, last = length + 1, 1
    return length
