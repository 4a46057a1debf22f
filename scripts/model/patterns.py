"""Patterns that scripts and schemas of tools contain: whether one can be compiled, and with how much memory."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec
import regex
from msgspec import Struct

LENGTH_MAX = 20_000
"""Of a pattern, with each repeated part written out: a part that occurs `{1000}` times is compiled as a thousand."""
_PART = r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(?P<times>[0-9]+)(?:,[0-9]*)?\}|(?P<aside>\(\?#[^)]*\)|\s)|."
_PARTS = regex.compile(_PART, regex.DOTALL)
_SPACED_PARTS = regex.compile(rf"(?P<aside>#[^\n]*)|{_PART}", regex.DOTALL)
_BEGUN = regex.compile(r"\{[0-9]++(?:,[0-9]*+)?(?!<)")  # `(?:cat){1<=e<=3}` allows errors
_FLAG = regex.compile(r"\(\?[a-zA-Z0-9]*-?[a-zA-Z]*x")
"""The flag by which `#` begins a comment."""
_REASON = regex.compile(r"(?P<message>.+) at position (?P<at>[0-9]+)")
_SHORTER = "Write fewer repetitions, or a shorter pattern."
_EXAMPLE = "Write a pattern such as `[0-9]{5}` for five digits."


class _Mistake(Struct, frozen=True):
    """What is wrong with a pattern, and a right one; `{sign}` is what stands at its position."""

    message: str
    fix: str


@cache
def _mistakes() -> Mapping[str, _Mistake]:
    """Return the mistakes by the reasons that the library for patterns gives."""
    return msgspec.yaml.decode(Path(__file__).with_suffix(".yaml").read_text("utf-8"), type=dict[str, _Mistake])


class PatternInvalid(ValueError):
    """A pattern that is not valid, or too long; the message says why, `fix` how to correct it."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


def check_pattern(pattern: str) -> None:
    """Check a pattern without using much time or memory. Raises PatternInvalid."""
    if _FLAG.search(pattern, 1):
        fix = "Write `(?x)` at the beginning, or leave it out."
        raise PatternInvalid("the flag `x` is possible only at the beginning", fix)
    if _expanded_length(pattern) > LENGTH_MAX:
        message = f"it is longer than {LENGTH_MAX:,} characters when its repeated parts are written out"
        raise PatternInvalid(message, _SHORTER)
    try:
        regex.compile(pattern)
    except regex.error as error:
        raise _invalid(pattern, str(error)) from error
    except RecursionError:
        raise PatternInvalid("it is nested too deeply", _SHORTER) from None


def unclosed_repetition(pattern: str) -> str | None:
    """Return a part such as `{5` that has no `}`, so that it matches itself; None if there is none."""
    opened = (part.start() for part in _PARTS.finditer(pattern) if part[0] == "{")
    return next((begun[0] for at in opened if (begun := _BEGUN.match(pattern, at))), None)


def _invalid(pattern: str, reason: str) -> PatternInvalid:
    found = _REASON.match(reason)
    message, at = (found["message"], int(found["at"])) if found is not None else (reason, 0)
    mistake = _mistakes().get(message)
    if mistake is None:
        return PatternInvalid(f"{message} at character {min(at + 1, len(pattern))}", _EXAMPLE)
    if message in {"unterminated character set", "missing )"}:
        at = _find_unclosed(pattern)
    place = {"at": at + 1, "sign": pattern[at : at + 1]}
    return PatternInvalid(mistake.message.format(**place), mistake.fix.format(**place))


def _find_unclosed(pattern: str) -> int:
    """Return the position of the last bracket that is open at the end of a pattern."""
    opened: list[int] = []
    for part in _PARTS.finditer(pattern):
        if part[0] in {"(", "["}:  # a closed `[…]` is one part
            opened.append(part.start())
        elif part[0] == ")" and opened:
            opened.pop()
    return opened[-1] if opened else len(pattern) - 1


def _expanded_length(pattern: str) -> int:
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
