"""Pictures in a terminal that can show them: the protocols of kitty and of iTerm2."""

import base64
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

Protocol: TypeAlias = Literal["kitty", "iterm"]

_COLUMNS_MAX = 110
_CHUNK = 4_096  # characters of base64 that kitty takes at once
_KITTY_TERMS = {"xterm-kitty", "xterm-ghostty"}
_KITTY_PROGRAMS = {"ghostty"}
_ITERM_PROGRAMS = {"iTerm.app", "WezTerm", "mintty"}


def protocol_of(environment: Mapping[str, str]) -> Protocol | None:
    """How the terminal takes pictures, from what it says of itself; within tmux and screen they do not get through."""
    term, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if "TMUX" in environment or term.startswith(("screen", "tmux")) or term == "dumb":
        return None
    if "KITTY_WINDOW_ID" in environment or term in _KITTY_TERMS or program in _KITTY_PROGRAMS:
        return "kitty"
    if program in _ITERM_PROGRAMS or environment.get("LC_TERMINAL") == "iTerm2":
        return "iterm"
    return None


def can_show() -> bool:
    """Whether standard output is a terminal that shows pictures."""
    return sys.stdout.isatty() and protocol_of(os.environ) is not None


def show(png: bytes) -> None:
    """Shows a PNG, as wide as the terminal at most; nothing where it cannot be shown."""
    protocol = protocol_of(os.environ)
    if protocol is None or not sys.stdout.isatty():
        return
    columns = min(shutil.get_terminal_size().columns, _COLUMNS_MAX)
    sys.stdout.write("".join(orders(png, protocol, columns)) + "\n")
    sys.stdout.flush()


def orders(png: bytes, protocol: Protocol, columns: int) -> Iterator[str]:
    """What the terminal is sent to show a PNG so many columns wide."""
    text = base64.b64encode(png).decode()
    if protocol == "iterm":
        yield f"\x1b]1337;File=inline=1;size={len(png)};width={columns};preserveAspectRatio=1:{text}\x07"
        return
    keys = f"a=T,f=100,q=2,c={columns},"
    for start in range(0, len(text), _CHUNK):
        more = int(start + _CHUNK < len(text))
        yield f"\x1b_G{keys}m={more};{text[start : start + _CHUNK]}\x1b\\"
        keys = ""
