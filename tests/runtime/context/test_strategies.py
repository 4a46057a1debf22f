"""Strategies by their names: those that are always there, those of packages, and settings that do not do."""

from pathlib import Path

import pytest

from runtime.context.ports import Strategy
from runtime.context.selection import own_strategies, strategy_of
from runtime.state.state import ContextMemory
from scripts.model.context_strategies import (
    STRATEGY_OPTIONS,
    ContextSettings,
    Limit,
    Memo,
    SettingsInvalid,
    check_settings,
    read_settings,
)

PACKAGE = """
from runtime.context.strategies import Window

def last_one(settings):
    return Window(settings.options.get("k", 1))

def nothing(settings):
    return "window"
"""
ENTRY_POINTS = """
[cuebook.context]
last_one = contexts_of_mine:last_one
nothing = contexts_of_mine:nothing
gone = contexts_of_mine:gone
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "contexts_of_mine.py").write_text(PACKAGE)
    info = tmp_path / "contexts_of_mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: contexts-of-mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    own_strategies.cache_clear()
    yield
    own_strategies.cache_clear()


@pytest.mark.parametrize("name", STRATEGY_OPTIONS)
async def test_each_strategy_is_made_from_its_name_alone(name, messages_of, condenser) -> None:
    strategy = strategy_of(ContextSettings(strategy=name))
    assert isinstance(strategy, Strategy)
    assert 0 < strategy.messages_max <= 1_000
    messages = messages_of("uaua")
    memory = await strategy.follow(messages, ContextMemory(), condenser)
    assert strategy.view(messages, memory).messages == messages
    assert condenser.calls == 0


def test_a_package_brings_a_strategy_by_an_entry_point(package, messages_of) -> None:
    for k, retained in [(1, "ua"), (2, "uaua")]:
        strategy = strategy_of(ContextSettings(strategy="last_one", options={"k": k}))
        assert strategy.view(messages_of("uauaua"), ContextMemory()).messages == messages_of("uauaua")[-len(retained) :]


@pytest.mark.parametrize(
    ("name", "problem"),
    [("last_on", "Did you mean `last_one`"), ("nothing", "returns a str"), ("gone", "cannot be loaded")],
)
def test_what_a_package_does_not_bring_is_an_error(package, name, problem) -> None:
    with pytest.raises(SettingsInvalid, match=problem):
        strategy_of(ContextSettings(strategy=name))


@pytest.mark.parametrize(
    "settings",
    [
        ContextSettings(),
        ContextSettings(strategy="window", k=3),
        ContextSettings(strategy="token_buffer", max_tokens=100),
        ContextSettings(strategy="summary", keep=3, instruct="names"),
        ContextSettings(strategy="summary_buffer", max_tokens=100),
        ContextSettings(strategy="lite", limit=Limit(chars=10, messages=3)),
        ContextSettings(strategy="memo", memo=Memo(instruct=("names", "places"))),
        ContextSettings(strategy="of_a_package", options={"a": 1}),
    ],
)
def test_a_strategy_takes_its_own_settings(settings) -> None:
    assert check_settings(settings) == settings


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("", "needs a name"),
        ("  ", "needs a name"),
        ({"strategy": "window", "keep": 3}, "window has no option 'keep'; its options are k"),
        ({"strategy": "buffer", "k": 3}, "it has no options"),
        ({"strategy": "of_a_package", "k": 3}, "its options are options"),
        ({"strategy": "window", "k": 0}, r"\$\.k"),
        ({"strategy": "window", "k": 10_000}, r"\$\.k"),
        ({"strategy": "window", "pairs": 3}, "pairs"),
        ({"strategy": "lite", "limit": {"chars": "many"}}, r"\$\.limit\.chars"),
        ([], "object"),
    ],
)
def test_settings_that_do_not_do_are_an_error_that_names_the_fix(given, problem) -> None:
    with pytest.raises(SettingsInvalid, match=problem):
        read_settings(given)


def test_a_bare_name_is_a_strategy() -> None:
    assert read_settings("window") == ContextSettings(strategy="window")


def test_an_empty_name_makes_no_strategy() -> None:
    with pytest.raises(ValueError, match="needs a name"):
        strategy_of(ContextSettings(strategy=""), factories={})


def test_each_strategy_is_suggested_once() -> None:
    with pytest.raises(SettingsInvalid) as raised:
        check_settings(ContextSettings(strategy="none of them"), own_strategies() | dict.fromkeys(STRATEGY_OPTIONS))
    assert [str(raised.value).count(f"`{name}`") for name in STRATEGY_OPTIONS] == [1] * len(STRATEGY_OPTIONS)
