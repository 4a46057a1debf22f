"""Durations of scripts: which texts are durations, and how long they are."""

import pytest

from scripts.model.moments import parse_duration
from scripts.parse.read_script import Source, read_script


@pytest.mark.parametrize(
    ("text", "days", "seconds"),
    [
        ("3 days", 3, 0),
        ("1 day 12 hours", 1, 43_200),
        ("2 weeks", 14, 0),
        ("10 s", 0, 10),
        ("90s", 0, 90),
        ("1 min 30 s", 0, 90),
        ("1 h 5 minutes", 0, 3_900),
        ("10 seconds", 0, 10),
    ],
)
def test_durations_have_units_in_words_or_short(text: str, days: int, seconds: int) -> None:
    duration = parse_duration(text)
    assert duration is not None
    assert (duration.days, duration.seconds, duration.text) == (days, seconds, text)


@pytest.mark.parametrize("text", ["3", "1 month", "1.5 h", "10 ms", "5 mins", "0 s", "s", "1 m", "400000 h"])
def test_other_texts_are_no_durations(text: str) -> None:
    assert parse_duration(text) is None


@pytest.mark.parametrize(
    ("timeout", "seconds"), [("500 ms", 0.5), ("5 s", 5.0), ("5 seconds", 5.0), ("1 second", 1.0), ("2 minutes", 120.0)]
)
def test_timeouts_of_tools_have_the_same_units(timeout: str, seconds: float) -> None:
    text = f"cuebook: 1\nscript: x\nactions: [{{tool: t}}]\ntools: [{{tool: t, timeout: {timeout}}}]\n"
    script = read_script(Source(text)).draft
    assert script is not None
    assert script.tools[0].timeout_s == seconds
