"""A table that nobody described a picture for gets one where there is one."""

import pytest

from api.analytics.charts import Bars, Chart, Lines
from api.analytics.pictures.guess import guessed
from api.analytics.pictures.reading import NoPicture


@pytest.mark.parametrize(
    ("sql", "chart"),
    [
        ("SELECT 'a' AS status, 1 AS n", Bars(title="t", labels=("status",), values=("n",))),
        ("SELECT 1 AS n, 'a' AS status, 0.5::DOUBLE AS share", Bars(title="t", labels=("status",), values=("n",))),
        ("SELECT DATE '2026-03-01' AS day, 'x' AS note, 1 AS new, 2 AS returning",
         Lines(title="t", x="day", values=("new", "returning"))),
        ("SELECT DATE '2026-03-01' AS day, arm, 1 AS n FROM (VALUES ('a'), ('b')) AS t(arm)",
         Lines(title="t", x="day", values=("n",), series="arm")),
        ("SELECT phase, arm, 1 AS n FROM (VALUES ('p'), ('q')) AS t(phase), (VALUES ('a'), ('b')) AS u(arm)",
         Bars(title="t", labels=("phase",), values=("n",), series="arm")),
        ("SELECT 'p' AS phase, action::VARCHAR AS action, 1 AS n FROM range(20) AS t(action)",
         Bars(title="t", labels=("phase", "action"), values=("n",))),
        ("SELECT turn, turn * 2 AS n FROM range(5) AS t(turn)", Lines(title="t", x="turn", values=("n",))),
        ("SELECT 9 - turn AS turn, 2::BIGINT AS n FROM range(5) AS t(turn)",
         Bars(title="t", labels=("turn",), values=("n",))),
        ("SELECT 'a' AS action, INTERVAL '3 seconds' AS took", Bars(title="t", labels=("action",), values=("took",))),
    ],
)  # fmt: skip
def test_what_is_shown_follows_from_the_columns(ask, sql: str, chart: Chart) -> None:
    assert guessed(ask(sql), "t") == chart


def test_without_a_title_it_is_named_by_its_columns(ask) -> None:
    days = "FROM range(DATE '2026-03-01', DATE '2026-03-05', INTERVAL '1 day') AS t(begun_on)"
    assert guessed(ask(f"SELECT begun_on, 1 AS new_users, 2 AS returning_users {days}")).title == (
        "new users, returning users by begun on"
    )
    assert guessed(ask("SELECT 'a' AS status, 1 AS sessions")).title == "sessions by status"


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT 'a' AS status", "a picture needs a column with numbers"),
        ("SELECT [1] AS list, true AS yes", "a picture needs a column with numbers"),
        ("SELECT 1 AS n", "a picture needs a column with names or times beside the numbers"),
    ],
)
def test_what_cannot_be_guessed_is_told(ask, sql: str, message: str) -> None:
    with pytest.raises(NoPicture, match=message):
        guessed(ask(sql), "t")
