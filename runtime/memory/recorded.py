"""A memory that answers from a record: what a turn was given when it asked the same."""

from collections.abc import Sequence

from runtime.events import Recollected
from runtime.ports import MemoryFailed
from runtime.recalled import Recalled, RecallWish


class NotRecalled(Exception):
    """A question that the record has no answer to. No turn goes on after it."""


class RecordedMemory:
    """Gives in one turn what was given then, whatever became of the units since."""

    def __init__(self, told: Sequence[Recollected]) -> None:
        self._told = list(told)

    async def recall(self, wish: RecallWish) -> Recalled:
        """The answer to this very question. Raises MemoryFailed, NotRecalled."""
        for each in self._told:
            if (each.query, each.k, each.filters) == (wish.query, wish.k, wish.filters):
                self._told.remove(each)
                if each.failed:
                    raise MemoryFailed(each.failed)
                return Recalled(units=each.units)
        raise NotRecalled("memory is asked something else than it was, or where it was not asked")
