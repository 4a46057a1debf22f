"""Who comes when: the beginnings of all sessions, by the rhythm of the day and the week, with visitors who return.

Everything is drawn at once and from the seed alone, so that processes which each take a share of the visitors agree.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

SESSIONS_MAX = 1_000_000
DAYS_MAX = 3_650

HOURS = (2, 1, 1, 1, 1, 2, 4, 7, 9, 9, 9, 8, 8, 7, 7, 7, 8, 9, 11, 13, 14, 13, 9, 5)
"""How busy each hour of the day is, in UTC, against the others."""
WEEK = (1.15, 1.1, 1.05, 1.0, 0.9, 0.75, 0.95)
"""How busy each day of the week is, from Monday."""
GROWTH = 0.5
"""How much busier the last day is than the first."""
REGULARS = 0.8
"""The exponent of Zipf's law: how much more often the first visitors come than the last."""
REGULARS_FROM = 5.0
SOON = 1.8
"""Above 1: who returns does so rather soon than late."""

_Floats: TypeAlias = NDArray[np.float64]


class Wish(Struct, frozen=True, kw_only=True):
    """How much traffic is wanted: the last day ends at `until`."""

    sessions: int
    users: int
    days: int
    seed: int
    until: datetime

    @property
    def since(self) -> datetime:
        """When the first day begins."""
        return self.until - timedelta(days=self.days)


class Visits(Struct, frozen=True):
    """The beginnings of sessions in their order: seconds after the first day began, and the number of the visitor."""

    at_s: _Floats
    users: NDArray[np.int64]


def visits_of(wish: Wish) -> Visits:
    """When each session of each visitor begins. Every visitor comes once; the rest falls to regulars."""
    chance = np.random.default_rng(wish.seed)
    first = chance.random(wish.users)
    more = wish.sessions - wish.users
    regulars = np.searchsorted(_shares(wish.users), chance.random(more), side="right")
    returns = first[regulars] + (1.0 - first[regulars]) * chance.random(more) ** SOON
    moments = np.concatenate([first, returns])
    users = np.concatenate([np.arange(wish.users), np.minimum(regulars, wish.users - 1)])
    order = np.argsort(moments, kind="stable")
    return Visits(_by_the_clock(moments[order], wish), users[order])


def _shares(users: int) -> _Floats:
    """How much of the traffic the first visitors make, up to each."""
    weights = (np.arange(users) + REGULARS_FROM) ** -REGULARS
    return np.asarray(np.cumsum(weights) / weights.sum(), np.float64)


def _by_the_clock(moments: _Floats, wish: Wish) -> _Floats:
    """Shares of the traffic as seconds: much of it happens in busy hours, little at night."""
    hours = [wish.since + timedelta(hours=hour) for hour in range(wish.days * 24)]
    busy = np.array([_busy(hour, place / len(hours)) for place, hour in enumerate(hours)])
    passed = np.concatenate([[0.0], np.cumsum(busy) / busy.sum()])
    return np.asarray(np.interp(moments, passed, np.arange(len(passed)) * 3_600.0), np.float64)


def _busy(hour: datetime, passed: float) -> float:
    return HOURS[hour.hour] * WEEK[hour.weekday()] * (1.0 + GROWTH * passed)


def weighted(shares: Sequence[float], chance: float) -> int:
    """The place that a chance from 0 to 1 falls on, among places of such shares."""
    left = chance * sum(shares)
    for place, share in enumerate(shares):
        left -= share
        if left < 0:
            return place
    return len(shares) - 1
