"""Simulated visitors: how each of them is, and what the record knows of them across their sessions."""

import math
import random
from datetime import timedelta

from msgspec import Struct

from api.remembered import LOCAL
from runtime.memory.local import LocalMemory
from runtime.state import Wait
from store.rows import UserVariableRow

CHINESE = 0.2  # of all visitors
LEAVES = 0.012  # the chance to leave at a question of no length
LEAVES_MAX = 0.6
LONG_CHARS = 250.0  # a question of so many characters drives twice as many away
LEAVES_FIRST = 2.5  # so much more at the first message
BREAK = 0.012  # the chance to come back only after hours
READS_CPS, READS_CPS_ZH = 25.0, 9.0
TYPES_CPS = 4.0
THINKS_S = 5.0  # half of all answers are thought about for less
PAUSE_S = 5 * 3_600.0
SECONDS_MAX = 60 * 86_400.0


class Nature(Struct, frozen=True):
    """How a visitor is."""

    care: float  # how often an answer is meant to fit
    impatience: float  # how readily they leave, 1 on average
    slowness: float
    language: str  # the one they like best


def nature_of(chance: random.Random) -> Nature:
    """A visitor's nature, by chance."""
    return Nature(
        care=0.7 + 0.3 * chance.betavariate(3.0, 1.3),
        impatience=chance.lognormvariate(-0.2, 0.6),
        slowness=chance.lognormvariate(0.0, 0.35),
        language="zh" if chance.random() < CHINESE else "en",
    )


class Visitor:
    """One visitor over time: their global variables as the record has them, and their memory."""

    def __init__(self, number: int, user_id: str, nature: Nature) -> None:
        self.number = number
        self.user_id = user_id
        self.nature = nature
        self.sessions = 0
        self.last_script = -1
        self.variables: dict[str, UserVariableRow] = {}
        self.memory: LocalMemory = LOCAL

    def write(self, row: UserVariableRow) -> None:
        """A global variable has changed; null unsets it."""
        if row.value is None:
            self.variables.pop(row.name, None)
        else:
            self.variables[row.name] = row


def leaves(nature: Nature, wait: Wait, said: str, turn: int, retries: int, chance: random.Random) -> bool:
    """Whether a visitor leaves rather than answer: long and open questions, and those asked again, drive them away."""
    hazard = LEAVES * nature.impatience * _effort(wait) * (1.0 + len(said) / LONG_CHARS) * (1.0 + 0.8 * retries)
    if turn == 0:
        hazard *= LEAVES_FIRST
    return chance.random() < min(hazard, LEAVES_MAX)


def _effort(wait: Wait) -> float:
    match wait.kind:
        case "form":
            return 4.0
        case "text":
            return 1.5
        case _:
            return 0.7


def pause(nature: Nature, said: str, typed: str, *, is_chinese: bool, chance: random.Random) -> timedelta:
    """How long a visitor takes to read what was said, to think about it, and to type; some come back hours later."""
    reading_s = len(said) / (READS_CPS_ZH if is_chinese else READS_CPS)
    thinking_s = chance.lognormvariate(math.log(THINKS_S), 0.9)
    seconds = (reading_s + thinking_s + len(typed) / TYPES_CPS) * nature.slowness
    if chance.random() < BREAK:
        seconds += chance.lognormvariate(math.log(PAUSE_S), 1.3)
    return timedelta(seconds=min(seconds, SECONDS_MAX))
