"""The limits of one turn, and the budgets of its calls of language models."""

from msgspec import Struct

from runtime.state.state import Spent


class Bounds(Struct, frozen=True):
    """Upper bounds of usage over a period; None is no bound. `cost` is in the currency of the models' prices."""

    tokens: int | None = None
    cost: float | None = None
    calls: int | None = None

    def first_exhausted(self, spent: Spent) -> str:
        """Return the first bound that is used up: ``tokens``, ``cost``, ``calls``, or an empty text."""
        for name in self.__struct_fields__:
            bound = getattr(self, name)
            if bound is not None and getattr(spent, name) >= bound:
                return name
        return ""


UNLIMITED = Bounds()


class Limits(Struct, frozen=True):
    """The limits of one turn. Names that end in `_s` are seconds."""

    actions_max: int = 1_000
    model_calls_max: int = 50
    output_chars_max: int = 100_000
    events_max: int = 10_000
    state_bytes_max: int = 1_000_000
    turn_s: float = 120.0
    context_s: float = 20.0  # of `turn_s`, for model calls of a context strategy
    recalls_max: int = 20  # memory searches
    tool_calls_max: int = 20
    recall_s: float = 10.0  # of `turn_s`, for each memory search
    turn_budget: Bounds = UNLIMITED
    session_budget: Bounds = UNLIMITED
