"""In a terminal a table has bars; in a pipe there are none."""

import io

import pytest
from rich.console import Console

from api.analytics.charts.chart import Chart
from api.cli.analytics.tables import format_table, print_result

STEPS = """SELECT * FROM (VALUES ('intake', 400, 1.0::DOUBLE), ('[red]sleep', 200, 0.5), ('end', NULL, NULL))
    AS t(step, reached, share)"""
FUNNEL = Chart(kind="funnel", labels=("step",), values=("reached",), share="share")


def printed(table, chart) -> list[str]:
    console = Console(file=io.StringIO(), width=100)
    console.print(format_table(table, chart))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_table_has_bars_in_proportion_beside_what_it_is_about(ask) -> None:
    lines = printed(ask(STEPS), FUNNEL)
    intake, sleep, end = (next(line for line in lines if name in line) for name in ("intake", "[red]sleep", "end"))
    assert (intake.count("█"), sleep.count("█"), end.count("█")) == (24, 12, 0)
    assert intake.endswith("100 %")
    assert sleep.endswith("50 %")


def test_a_table_of_no_described_picture_has_no_bars(ask) -> None:
    assert not any("█" in line for line in printed(ask(STEPS), None))


def test_lengths_of_time_are_read_at_a_glance(ask) -> None:
    answer = ask("SELECT 'a' AS action, 125.0::DOUBLE AS p50, INTERVAL '2 hours' AS longest")
    (line,) = (
        line
        for line in printed(answer, Chart(kind="bars", labels=("action",), values=("p50",), unit="s"))
        if "a " in line[:4]
    )
    assert "2 min 5 s" in line
    assert "2 h" in line


def test_orders_to_the_terminal_in_a_value_are_not_passed_on(ask) -> None:
    assert not any("\x1b" in line for line in printed(ask("SELECT chr(27) || '[2J' AS a, 1 AS n"), None))


def test_in_a_pipe_values_are_whole_and_separated_by_tabs(ask, capsys: pytest.CaptureFixture[str]) -> None:
    print_result(ask("SELECT 'a' AS a, 1/3 AS n, TIMESTAMPTZ '2026-03-01 10:00:00+00' AS at, NULL AS none"), FUNNEL)
    assert capsys.readouterr().out == "a\tn\tat\tnone\na\t0.3333333333333333\t2026-03-01T10:00:00Z\t\n"
