"""Visits follow the hours of the day and the days of the week, and users return."""

from collections import Counter
from datetime import UTC, datetime

from api.testing.simulation.traffic import LoadProfile, schedule, session_id_of

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
PROFILE = LoadProfile(sessions=6_000, users=1_500, days=28, seed=3, ends_at=MONDAY)


def starts(profile: LoadProfile) -> list[datetime]:
    return [visit.at for visit in schedule(profile)]


def test_visits_are_complete_in_order_and_within_the_days() -> None:
    visits = list(schedule(PROFILE))
    assert [visit.number for visit in visits] == list(range(6_000))
    assert starts(PROFILE) == sorted(starts(PROFILE))
    assert PROFILE.starts_at <= visits[0].at < visits[-1].at < PROFILE.ends_at
    assert {visit.user for visit in visits} == set(range(1_500))


def test_evenings_are_busier_than_nights_mondays_than_saturdays() -> None:
    hours = Counter(start.hour for start in starts(PROFILE))
    days = Counter(start.weekday() for start in starts(PROFILE))
    assert hours[20] > 5 * hours[3]
    assert days[0] > days[5]


def test_some_users_return_much_more_often_than_others() -> None:
    visits = Counter(visit.user for visit in schedule(PROFILE)).most_common()
    assert visits[0][1] > 20
    assert visits[len(visits) // 2][1] <= 4


def test_the_seed_alone_determines_the_visits() -> None:
    other = LoadProfile(sessions=6_000, users=1_500, days=28, seed=4, ends_at=MONDAY)
    assert list(schedule(PROFILE)) == list(schedule(PROFILE))
    assert starts(PROFILE) != starts(other)


def test_one_user_and_one_session_are_enough() -> None:
    assert len(starts(LoadProfile(sessions=1, users=1, days=1, seed=0, ends_at=MONDAY))) == 1
    visits = schedule(LoadProfile(sessions=9, users=1, days=1, seed=0, ends_at=MONDAY))
    assert {visit.user for visit in visits} == {0}


def test_session_ids_differ_by_seed_user_and_number() -> None:
    ids = {session_id_of(seed, user, number) for seed in (1, 2) for user in (0, 1) for number in (1, 2)}
    assert len(ids) == 8
    assert session_id_of(1, 0, 1) == session_id_of(1, 0, 1)
