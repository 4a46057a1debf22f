"""What calls of language models may take, per turn and per session; the edge's meter knows of users and days.

A budget is looked at before a call is made, so the last call may go past it. A turn begins with what the attempts at it
that failed took, since the state they counted in is lost; the meter has it already.
"""

from msgspec import Struct

from runtime.ports import Meter, Usage
from runtime.state import Spent, State


class BudgetExceeded(Exception):
    """A call was not made, because a budget is used up; `name` says which."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the budget `{name}` is used up")
        self.name = name


class Bounds(Struct, frozen=True):
    """How much a stretch of time may take; None is no bound. `cost` is in the currency of the models' prices."""

    tokens: int | None = None
    cost: float | None = None
    calls: int | None = None

    def exceeded_by(self, spent: Spent) -> str:
        """Which of the bounds is used up: ``tokens``, ``cost``, ``calls``, or an empty text."""
        pairs = (("tokens", self.tokens, spent.tokens), ("cost", self.cost, spent.cost))
        for name, bound, used in (*pairs, ("calls", self.calls, spent.calls)):
            if bound is not None and used >= bound:
                return name
        return ""


def added(spent: Spent, usage: Usage | None) -> Spent:
    """What was spent with one more call; one that told nothing of its usage is a call all the same."""
    if usage is None:
        return Spent(spent.calls + 1, spent.tokens, spent.cost)
    if not usage.attempts:  # the endpoint was not asked at all
        return spent
    tokens = usage.input_tokens + usage.output_tokens
    return Spent(spent.calls + 1, spent.tokens + tokens, spent.cost + (usage.cost or 0.0))


def together(one: Spent, other: Spent) -> Spent:
    """What was spent in both."""
    return Spent(one.calls + other.calls, one.tokens + other.tokens, one.cost + other.cost)


class Unmetered:
    """Counts nothing: for conversations that nobody pays for."""

    def exceeded(self) -> str | None:
        """None."""
        return None

    def count(self, usage: Usage | None) -> None:
        """Counts nothing."""


class Purse:
    """What one turn has spent, and what it still may."""

    def __init__(self, state: State, turn: Bounds, session: Bounds, meter: Meter, earlier: Spent) -> None:
        self._state = state
        self._turn = turn
        self._session = session
        self._meter = meter
        self._spent = earlier
        state.spent = together(state.spent, earlier)

    def check(self) -> None:
        """Raises BudgetExceeded where a budget is used up."""
        for name, bounds, spent in (("turn", self._turn, self._spent), ("session", self._session, self._state.spent)):
            what = bounds.exceeded_by(spent)
            if what:
                raise BudgetExceeded(f"{name}_{what}")
        wider = self._meter.exceeded()
        if wider is not None:
            raise BudgetExceeded(wider)

    def count(self, usage: Usage | None) -> None:
        """Counts a call that was made, also one that failed."""
        self.recount(usage)
        self._meter.count(usage)

    def recount(self, usage: Usage | None) -> None:
        """Counts a call that the meter knows of already."""
        self._spent = added(self._spent, usage)
        self._state.spent = added(self._state.spent, usage)
