"""Summaries of memory where there is no language model: sentences of what is told, the most central ones, marked so."""

from msgspec import Struct

from runtime.memory.summarising import Passage, Told
from runtime.memory.units import MemoryUnit
from runtime.summaries import Sentence, extracted, sentences_of

MARK = "[Extract]"
EXTRACT_CHARS_MAX = 1_500
_KEPT_WEIGHT = 1.5  # what was taken before stood for more sentences than itself


class Extracting(Struct, frozen=True):
    """Sums up by extracts, of at most so many characters."""

    chars_max: int = EXTRACT_CHARS_MAX

    async def __call__(self, passage: Passage) -> Told:
        """The sentences that stand for all best, those told so far among them."""
        return Told(extract(passage.so_far, passage.units, self.chars_max), is_extract=True)


def extract(so_far: str, units: tuple[MemoryUnit, ...], chars_max: int = EXTRACT_CHARS_MAX) -> str:
    """An extract of the units, and of the summary they go on from; each line tells who said it."""
    kept = [Sentence(line, weight=_KEPT_WEIGHT) for line in _lines(so_far)]
    told = [each for unit in units for each in _said(unit)]
    room = max(chars_max - len(MARK) - 1, 0)
    lines = [each.text for each in extracted([*kept, *told], chars_max=room)]
    if not lines:  # nothing is short enough, or nothing is a sentence
        whole = next((each.text for each in [*kept, *told]), " ".join(unit.content for unit in units))
        lines = [whole[:room]]
    return "\n".join([MARK, *lines])


def _said(unit: MemoryUnit) -> list[Sentence]:
    """The sentences of a unit: of an extract its lines, of anything else with the one who said them."""
    if unit.rank:
        return [Sentence(part) for part in _lines(unit.content)]
    who = f"{unit.source}: " if unit.source else ""
    return [Sentence(who + part) for part in sentences_of(unit.content)]


def _lines(account: str) -> list[str]:
    """The lines of an extract, or the sentences of what a model told."""
    if not account.startswith(MARK):
        return sentences_of(account)
    return [line.strip() for line in account.removeprefix(MARK).splitlines() if line.strip()]
