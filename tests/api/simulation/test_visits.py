"""Visitors come by the rhythm of the day and the week, and some return."""

from collections import Counter
from datetime import UTC, datetime, timedelta

from api.simulation.visits import Wish, visits_of, weighted

WISH = Wish(sessions=6_000, users=1_500, days=28, seed=3, until=datetime(2026, 3, 2, tzinfo=UTC))  # a Monday


def moments(wish: Wish) -> list[datetime]:
    return [wish.since + timedelta(seconds=float(at_s)) for at_s in visits_of(wish).at_s]


def test_there_are_as_many_as_were_wished_for_in_order_and_within_the_days():
    found = moments(WISH)
    assert len(found) == 6_000
    assert found == sorted(found)
    assert WISH.since <= found[0] < found[-1] < WISH.until
    assert set(visits_of(WISH).users.tolist()) == set(range(1_500))


def test_evenings_are_busier_than_nights_and_weekdays_than_saturdays():
    hours = Counter(moment.hour for moment in moments(WISH))
    days = Counter(moment.weekday() for moment in moments(WISH))
    assert hours[20] > 5 * hours[3]
    assert days[0] > days[5]


def test_some_visitors_come_much_more_often_than_others():
    visits = Counter(visits_of(WISH).users.tolist()).most_common()
    assert visits[0][1] > 20
    assert visits[len(visits) // 2][1] <= 4


def test_another_seed_is_other_traffic_and_the_same_one_the_same():
    other = Wish(sessions=6_000, users=1_500, days=28, seed=4, until=WISH.until)
    assert moments(WISH) == moments(WISH)
    assert moments(WISH) != moments(other)


def test_a_single_visitor_and_a_single_session_are_enough():
    assert len(moments(Wish(sessions=1, users=1, days=1, seed=0, until=WISH.until))) == 1
    assert set(visits_of(Wish(sessions=9, users=1, days=1, seed=0, until=WISH.until)).users.tolist()) == {0}


def test_a_chance_falls_on_a_place_by_its_share():
    assert [weighted((1, 2, 1), chance / 8) for chance in range(8)] == [0, 0, 1, 1, 1, 1, 2, 2]
    assert weighted((1, 1), 1.0) == 1
