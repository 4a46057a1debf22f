"""Time limits that leave no room for each other are reported with their numbers."""

from typing import Any

import pytest

from api.http.time_limits import misfits
from api.settings import Settings, load_settings

LOCAL = {"model": "local", "models": {"local": {"timeout_s": 30, "attempts": 3, "fallback": "other"}, "other": {}}}


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"model": "openai:tiny"},
        {"model": "openai:tiny", "model_timeout_s": 12, "model_attempts": 10},
        {"model": "offline", "models": {"slow": {"timeout_s": 600}}},  # which nothing asks
        LOCAL | {"turn_s": 180},
    ],
)
def test_limits_that_fit_are_not_reported(given: dict[str, Any]) -> None:
    assert misfits(load_settings(None, given, {})) == ()


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        (
            {"model": "openai:tiny", "model_timeout_s": 60},
            "model_timeout_s × model_attempts = 60 × 3 is 180 s, more than turn_s = 120 s: a turn ends before the last "
            "attempt at a call does; raise turn_s to 180, or lower the others",
        ),
        (
            LOCAL,
            "models.local.timeout_s × models.local.attempts = 30 × 3 plus models.other.timeout_s × "
            "models.other.attempts = 30 × 3 is 180 s, more than turn_s = 120 s: a turn ends before the last attempt at "
            "a call does; raise turn_s to 180, or lower the others",
        ),
        ({"recall_s": 130}, "recall_s = 130 s is more than turn_s = 120 s; raise turn_s, or lower recall_s"),
        ({"turn_s": 15}, "context_s = 20 s is more than turn_s = 15 s; raise turn_s, or lower context_s"),
    ],
)
def test_limits_that_cannot_fit_are_reported(given: dict[str, Any], reported: str) -> None:
    assert misfits(load_settings(None, given, {})) == (reported,)


def test_models_that_stand_in_for_each_other_count_once() -> None:
    pair = {"one": {"fallback": "two", "attempts": 1}, "two": {"fallback": "one", "attempts": 1}}
    assert misfits(load_settings(None, {"model": "one", "models": pair, "turn_s": 60}, {})) == ()
    assert len(misfits(load_settings(None, {"model": "one", "models": pair, "turn_s": 59}, {}))) == 2


def test_the_settings_of_a_new_server_fit() -> None:
    assert misfits(Settings()) == ()
