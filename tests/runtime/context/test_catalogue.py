"""Strategies by their names: those that are always there, those of packages, and settings that do not do."""

import pytest

from runtime.context.catalogue import brought_strategies, strategy_of
from runtime.context.memory import ContextMemory
from runtime.context.ports import Strategy
from scripts.contexts import TAKEN, ContextSettings, Limit, Memo, SettingsInvalid, checked, read_settings

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
def package(tmp_path, monkeypatch):
    (tmp_path / "contexts_of_mine.py").write_text(PACKAGE)
    info = tmp_path / "contexts_of_mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: contexts-of-mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    brought_strategies.cache_clear()
    yield
    brought_strategies.cache_clear()


@pytest.mark.parametrize("name", TAKEN)
async def test_each_strategy_is_made_from_its_name_alone(name, said, scribe):
    strategy = strategy_of(ContextSettings(strategy=name))
    assert isinstance(strategy, Strategy)
    assert 0 < strategy.messages_max <= 1_000
    messages = said("uaua")
    memory = await strategy.follow(messages, ContextMemory(), scribe)
    assert strategy.view(messages, memory).messages == messages
    assert scribe.calls == 0


def test_a_package_brings_a_strategy_by_an_entry_point(package, said):
    for k, kept in [(1, "ua"), (2, "uaua")]:
        strategy = strategy_of(ContextSettings(strategy="last_one", options={"k": k}))
        assert strategy.view(said("uauaua"), ContextMemory()).messages == said("uauaua")[-len(kept) :]


@pytest.mark.parametrize(
    ("name", "problem"),
    [("last_on", "Did you mean `last_one`"), ("nothing", "makes str of it"), ("gone", "cannot be loaded")],
)
def test_what_a_package_does_not_bring_is_an_error(package, name, problem):
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
def test_a_strategy_takes_its_own_settings(settings):
    assert checked(settings) == settings


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("", "needs a name"),
        ("  ", "needs a name"),
        ({"strategy": "window", "keep": 3}, "window takes no 'keep'; it takes k"),
        ({"strategy": "buffer", "k": 3}, "it takes no options"),
        ({"strategy": "of_a_package", "k": 3}, "it takes options"),
        ({"strategy": "window", "k": 0}, r"\$\.k"),
        ({"strategy": "window", "k": 10_000}, r"\$\.k"),
        ({"strategy": "window", "pairs": 3}, "pairs"),
        ({"strategy": "lite", "limit": {"chars": "many"}}, r"\$\.limit\.chars"),
        ([], "object"),
    ],
)
def test_settings_that_do_not_do_are_an_error_that_names_the_fix(given, problem):
    with pytest.raises(SettingsInvalid, match=problem):
        read_settings(given)


def test_a_bare_name_is_a_strategy():
    assert read_settings("window") == ContextSettings(strategy="window")


def test_an_empty_name_makes_no_strategy():
    with pytest.raises(ValueError, match="needs a name"):
        strategy_of(ContextSettings(strategy=""), {})


def test_each_strategy_is_suggested_once():
    with pytest.raises(SettingsInvalid) as raised:
        checked(ContextSettings(strategy="none of them"), brought_strategies() | dict.fromkeys(TAKEN))
    assert [str(raised.value).count(f"`{name}`") for name in TAKEN] == [1] * len(TAKEN)
