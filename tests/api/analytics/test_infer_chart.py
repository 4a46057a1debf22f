"""A table that no report describes gets the chart that suits its columns."""

import pytest

from api.analytics.charts.chart import Chart, ChartRefused, chart_words
from api.analytics.charts.infer_chart import infer_chart


@pytest.mark.parametrize(
    ("sql", "chart"),
    [
        ("SELECT 'a' AS status, 1 AS n", Chart(kind="bars", title="t", labels=("status",), values=("n",))),
        ("SELECT 1 AS n, 'a' AS status, 0.5::DOUBLE AS share",
         Chart(kind="bars", title="t", labels=("status",), values=("n",))),
        ("SELECT DATE '2026-03-01' AS day, 'x' AS note, 1 AS new, 2 AS returning",
         Chart(kind="lines", title="t", labels=("day",), values=("new", "returning"))),
        ("SELECT DATE '2026-03-01' AS day, arm, 1 AS n FROM (VALUES ('a'), ('b')) AS t(arm)",
         Chart(kind="lines", title="t", labels=("day",), values=("n",), series="arm")),
        ("SELECT phase, arm, 1 AS n FROM (VALUES ('p'), ('q')) AS t(phase), (VALUES ('a'), ('b')) AS u(arm)",
         Chart(kind="bars", title="t", labels=("phase",), values=("n",), series="arm")),
        ("SELECT 'p' AS phase, action::VARCHAR AS action, 1 AS n FROM range(20) AS t(action)",
         Chart(kind="bars", title="t", labels=("phase", "action"), values=("n",))),
        ("SELECT turn, turn * 2 AS n FROM range(5) AS t(turn)",
         Chart(kind="lines", title="t", labels=("turn",), values=("n",))),
        ("SELECT 9 - turn AS turn, 2::BIGINT AS n FROM range(5) AS t(turn)",
         Chart(kind="bars", title="t", labels=("turn",), values=("n",))),
        ("SELECT 'a' AS action, INTERVAL '3 seconds' AS took",
         Chart(kind="bars", title="t", labels=("action",), values=("took",))),
        ("SELECT 'a' AS arm, 0.5::DOUBLE AS rate, 0.4::DOUBLE AS lower, 0.6::DOUBLE AS upper, 9::BIGINT AS n",
         Chart(kind="bars", title="t", labels=("arm",), values=("rate",), lower="lower", upper="upper", count="n")),
        ("SELECT 'a' AS arm, 3::BIGINT AS lower, 5::BIGINT AS upper",
         Chart(kind="bars", title="t", labels=("arm",), values=("lower", "upper"))),
        ("SELECT 'a' AS arm, 3::BIGINT AS users, 5::BIGINT AS n",
         Chart(kind="bars", title="t", labels=("arm",), values=("users", "n"))),
    ],
)  # fmt: skip
def test_what_is_shown_follows_from_the_columns(ask, sql: str, chart: Chart) -> None:
    assert infer_chart(ask(sql), "t") == chart


def test_without_a_title_it_is_named_by_its_columns(ask) -> None:
    days = "FROM range(DATE '2026-03-01', DATE '2026-03-05', INTERVAL '1 day') AS t(begun_on)"
    assert infer_chart(ask(f"SELECT begun_on, 1 AS new_users, 2 AS returning_users {days}")).title == (
        "new users, returning users by begun on"
    )
    assert infer_chart(ask("SELECT 'a' AS status, 1 AS sessions")).title == "sessions by status"
    chinese = infer_chart(ask("SELECT 'a' AS status, 1 AS sessions"), words=chart_words("zh"))
    assert (chinese.title, chinese.words["nothing"]) == ("按状态统计的会话", "没有数据：表中没有行。")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT 'a' AS status", "a chart needs a column with numbers"),
        ("SELECT [1] AS list, true AS yes", "a chart needs a column with numbers"),
        ("SELECT 1 AS n, 'a' AS n", "a chart needs a column with numbers"),
        ("SELECT 1 AS n", "a chart needs a column with names or times beside the numbers"),
    ],
)
def test_a_table_without_numbers_or_names_has_no_chart(ask, sql: str, message: str) -> None:
    with pytest.raises(ChartRefused, match=message):
        infer_chart(ask(sql), "t")
