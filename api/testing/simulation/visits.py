"""The visit schedule: when each session starts and which user starts it.

Every process draws the whole schedule from the seed and then runs its share of the users, so that all of them agree.
"""

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import numpy as np
from msgspec import Struct

SESSIONS_MAX = 1_000_000
DAYS_MAX = 3_650

HOUR_WEIGHTS = (2, 1, 1, 1, 1, 2, 4, 7, 9, 9, 9, 8, 8, 7, 7, 7, 8, 9, 11, 13, 14, 13, 9, 5)  # by hour, UTC
WEEKDAY_WEIGHTS = (1.15, 1.1, 1.05, 1.0, 0.9, 0.75, 0.95)  # from Monday
REGULARITY = 1.5  # 1: all users return equally often; above 1: some return more often, by a power law


class LoadProfile(Struct, frozen=True, kw_only=True):
    """The amount of traffic: number of sessions, of users (at most one per session) and of days, and their end."""

    sessions: int
    users: int
    days: int
    seed: int
    ends_at: datetime

    @property
    def starts_at(self) -> datetime:
        """The beginning of the first day."""
        return self.ends_at - timedelta(days=self.days)


class Visit(NamedTuple):
    """The start of a session; both numbers count from 0."""

    at: datetime
    number: int
    user: int


def draw_id(rng: random.Random) -> str:
    """Draw a UUID."""
    return str(UUID(int=rng.getrandbits(128), version=4))


def session_id_of(seed: int, user: int, number: int) -> str:
    """Return the id of a user's session; `number` counts from 1."""
    return draw_id(random.Random(f"{seed}:{user}:{number}:session"))  # noqa: S311  (no secrets)


def schedule(profile: LoadProfile) -> Iterator[Visit]:
    """Yield all visits in the order of time. Every user has at least one."""
    rng = np.random.default_rng(profile.seed)
    hours = [profile.starts_at + timedelta(hours=number) for number in range(profile.days * 24)]
    weights = np.array([HOUR_WEIGHTS[hour.hour] * WEEKDAY_WEIGHTS[hour.weekday()] for hour in hours])
    drawn = rng.choice(len(hours), profile.sessions, p=weights / weights.sum())
    starts_s = np.sort((drawn + rng.random(profile.sessions)) * 3_600.0)
    returning = (profile.users * rng.random(profile.sessions - profile.users) ** REGULARITY).astype(np.int64)
    users = rng.permutation(np.concatenate([np.arange(profile.users), returning]))
    for number, (start_s, user) in enumerate(zip(starts_s.tolist(), users.tolist(), strict=True)):
        yield Visit(profile.starts_at + timedelta(seconds=start_s), number, user)
