"""In a terminal a table has bars, and where it shows pictures, a picture; in a pipe there is neither."""

import base64
import io

import pytest
from rich.console import Console

from api.analytics.charts import Bars, Funnel
from api.cli.analytics.inline import can_show, orders, protocol_of, show
from api.cli.analytics.tables import print_result, shown

STEPS = """SELECT * FROM (VALUES ('intake', 400, 1.0::DOUBLE), ('[red]sleep', 200, 0.5), ('end', NULL, NULL))
    AS t(step, reached, share)"""
FUNNEL = Funnel(title="t", labels=("step",), value="reached", share="share")


def printed(table, chart) -> list[str]:
    console = Console(file=io.StringIO(), width=100)
    console.print(shown(table, chart))
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
        for line in printed(answer, Bars(title="t", labels=("action",), values=("p50",), unit="s"))
        if "a " in line[:4]
    )
    assert "2 min 5 s" in line
    assert "2 h" in line


def test_orders_to_the_terminal_in_a_value_are_not_passed_on(ask) -> None:
    assert not any("\x1b" in line for line in printed(ask("SELECT chr(27) || '[2J' AS a, 1 AS n"), None))


def test_in_a_pipe_values_are_whole_and_separated_by_tabs(ask, capsys) -> None:
    print_result(ask("SELECT 'a' AS a, 1/3 AS n, TIMESTAMPTZ '2026-03-01 10:00:00+00' AS at, NULL AS none"), FUNNEL)
    assert capsys.readouterr().out == "a\tn\tat\tnone\na\t0.3333333333333333\t2026-03-01T10:00:00Z\t\n"


@pytest.mark.parametrize(
    ("environment", "protocol"),
    [
        ({"TERM": "xterm-kitty"}, "kitty"),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, "kitty"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "ghostty"}, "kitty"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "iterm"),
        ({"TERM": "xterm-256color", "LC_TERMINAL": "iTerm2"}, "iterm"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "iterm"),
        ({"TERM": "xterm-256color"}, None),
        ({"TERM": "tmux-256color", "KITTY_WINDOW_ID": "1"}, None),
        ({"TERM": "dumb", "TERM_PROGRAM": "iTerm.app"}, None),
        ({}, None),
    ],
)
def test_a_terminal_that_shows_pictures_is_known_by_what_it_says_of_itself(environment, protocol) -> None:
    assert protocol_of(environment) == protocol


def test_a_picture_reaches_kitty_in_pieces_that_make_it_whole() -> None:
    png = bytes(range(256)) * 40
    sent = list(orders(png, "kitty", 80))
    assert sent[0].startswith("\x1b_Ga=T,f=100,q=2,c=80,m=1;")
    assert [piece.partition("m=")[2][0] for piece in sent] == ["1"] * (len(sent) - 1) + ["0"]
    assert base64.b64decode("".join(piece.partition(";")[2].removesuffix("\x1b\\") for piece in sent)) == png


def test_a_picture_reaches_iterm_at_once() -> None:
    (sent,) = orders(b"png", "iterm", 80)
    assert sent == "\x1b]1337;File=inline=1;size=3;width=80;preserveAspectRatio=1:cG5n\x07"


def test_nothing_is_sent_where_there_is_no_terminal(capsys) -> None:
    assert not can_show()
    show(b"png")
    assert capsys.readouterr().out == ""
