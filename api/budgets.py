"""What calls of language models may take: the settings of it, and what users and tenants have spent today."""

import asyncio
from collections import OrderedDict
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal, TypeAlias

from msgspec import Struct

from runtime.amounts import Amount, Count
from runtime.budgets import Bounds, added
from runtime.ports import Usage
from runtime.state import Spent
from store.record import Record

TOTALS_MAX = 10_000
"""Users and tenants whose totals of a day are kept in memory; others are read from the record again."""

Span: TypeAlias = Literal["turn", "session", "user_day", "day"]


class Budgets(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How much may be used: tokens, cost in the currency of the prices that are set, calls. None is no bound.

    A day begins at midnight UTC; `day` is all of a tenant's.
    """

    turn_tokens: Count | None = None
    turn_cost: Amount | None = None
    turn_calls: Count | None = None
    session_tokens: Count | None = None
    session_cost: Amount | None = None
    session_calls: Count | None = None
    user_day_tokens: Count | None = None
    user_day_cost: Amount | None = None
    user_day_calls: Count | None = None
    day_tokens: Count | None = None
    day_cost: Amount | None = None
    day_calls: Count | None = None

    def bounds(self, span: Span) -> Bounds:
        """How much a stretch of time may take."""
        return Bounds(
            tokens=getattr(self, f"{span}_tokens"),
            cost=getattr(self, f"{span}_cost"),
            calls=getattr(self, f"{span}_calls"),
        )


class _Total:
    """What somebody has spent in a day."""

    def __init__(self, spent: Spent) -> None:
        self.spent = spent


_Key: TypeAlias = tuple[date, str, str | None]
"""Day, tenant, and user; None for all of the tenant's."""


class DayMeter:
    """What a turn counts against beyond itself and its session."""

    def __init__(self, totals: list[tuple[Span, Bounds, _Total]]) -> None:
        self._totals = totals

    def exceeded(self) -> str | None:
        """The name of a budget that is used up, or None."""
        for span, bounds, total in self._totals:
            what = bounds.exceeded_by(total.spent)
            if what:
                return f"{span}_{what}"
        return None

    def count(self, usage: Usage | None) -> None:
        """Counts a call that was made."""
        for _, _, total in self._totals:
            total.spent = added(total.spent, usage)


class Spending:
    """The totals of today, by user and tenant: read from the record when they are first needed, then counted."""

    def __init__(self, record: Record, budgets: Budgets) -> None:
        self._record = record
        self._bounds: dict[Span, Bounds] = {
            span: bounds for span in ("user_day", "day") if (bounds := budgets.bounds(span)) != Bounds()
        }
        self._totals: OrderedDict[_Key, _Total] = OrderedDict()
        self._reading = asyncio.Lock()

    async def meter(self, tenant: str, user_id: str, now: datetime) -> DayMeter | None:
        """What a turn of a user counts against; None where nothing is bounded."""
        if not self._bounds:
            return None
        day = now.astimezone(UTC).date()
        owners: dict[Span, str | None] = {"user_day": user_id, "day": None}
        totals = [
            (span, bounds, await self._total((day, tenant, owners[span]))) for span, bounds in self._bounds.items()
        ]
        return DayMeter(totals)

    def forget(self, tenant: str, user_id: str) -> None:
        """Lets go of what a user has spent, who is erased."""
        for key in [key for key in self._totals if key[1:] == (tenant, user_id)]:
            del self._totals[key]

    async def _total(self, key: _Key) -> _Total:
        if key not in self._totals:
            async with self._reading:  # nothing is counted before the record's own total is there
                if key not in self._totals:
                    self._totals[key] = _Total(await self._recorded(key))
                    if len(self._totals) > TOTALS_MAX:
                        self._totals.popitem(last=False)
        self._totals.move_to_end(key)
        return self._totals[key]

    async def _recorded(self, key: _Key) -> Spent:
        day, tenant, user_id = key
        begins = datetime.combine(day, time(), UTC)
        row = await self._record.spent(tenant, begins, begins + timedelta(days=1), user_id)
        return Spent(row.calls, row.tokens, row.cost)
