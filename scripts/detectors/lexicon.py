"""The words of `words.txt`: how pleasant and how stirred feelings are, and what changes their meaning.

The values are rough on purpose: what detectors look at are differences between messages.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct

_FILE = Path(__file__).with_name("words.txt")
_PARTICLES = {"stronger", "weaker", "negator", "absence", "contrast", "nothing"}


class Feeling(Struct, frozen=True):
    """How pleasant (-1 to 1) and how stirred (0 to 1) a word is."""

    valence: float
    arousal: float


@cache
def feelings() -> Mapping[str, Feeling]:
    """Every word that tells a feeling."""
    found = {}
    for head, word in _words():
        kind, *numbers = head.split()
        if kind == "feeling":
            found[word] = Feeling(float(numbers[0]), float(numbers[1]))
    return found


@cache
def particles() -> Mapping[str, str]:
    """The words that change what feelings mean, with their kind; a word in two sections is of the later one's."""
    return {word: head for head, word in _words() if head in _PARTICLES}


def _words() -> Iterator[tuple[str, str]]:
    """Section and word, in the order of the file."""
    head = ""
    for line in _FILE.read_text("utf-8").splitlines():
        if line.startswith("["):
            head = line.strip("[]")
        elif line.startswith("zh: "):
            yield from ((head, word) for word in line[4:].split())
        elif line.startswith("en: "):
            yield from ((head, word.strip()) for word in line[4:].split(","))
