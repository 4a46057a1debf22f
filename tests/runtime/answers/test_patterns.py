"""Patterns that never end cost a turn 20 ms, other sessions nothing, and the patterns beside them nothing either."""

import asyncio
import time

import pytest

from runtime.answers.patterns import (
    BOUND_S,
    INSTANT_S,
    Match,
    Matches,
    MatchWanted,
    PatternGivenUp,
    is_match,
    search,
)
from tests.support.runtime_session import NewSession, StartSession

EVIL = "(a|aa)+$"
TEXT = "a" * 5_000 + "b"
ASK = f"- {{ask: Code?, id: q, output: [{{get: code, pattern: '{EVIL}'}}]}}\n- user_say: ok"
GIVEN_UP = (
    f"the pattern `{EVIL}` was given up and counts as not matching: a turn has 20 ms for its patterns; "
    "see PATTERN_BACKTRACKS"
)


@pytest.mark.parametrize("saved", [False, True])
async def test_a_pattern_given_up_asks_again_and_warns(prepare: NewSession, saved) -> None:
    session = await prepare(ASK, saved=saved).start()
    await session.reply(TEXT)
    assert session.values == {}
    assert (session.state.wait.kind, session.state.progress.round) == ("text", 1)
    assert session.warnings == [("pattern_given_up", GIVEN_UP)]
    assert session.turns[-1].events[-1].body.action_id == "q"
    assert session.turns[-1].messages[0].content == TEXT
    await session.reply("a" * 10)
    assert session.values == {"code": "a" * 10}


async def test_the_event_loop_runs_on_meanwhile(prepare: NewSession) -> None:
    """Fifty turns at once leave the loop free between their instants."""
    sessions = [await prepare(ASK).start() for _ in range(50)]
    gaps, last = [], time.perf_counter()

    async def watch():
        nonlocal last
        while True:
            await asyncio.sleep(0)
            gaps.append(time.perf_counter() - last)
            last = time.perf_counter()

    watching = asyncio.create_task(watch())
    await asyncio.gather(*(session.reply(TEXT) for session in sessions))
    watching.cancel()
    assert all(code == "pattern_given_up" for session in sessions for code, _ in session.warnings)
    assert max(gaps) < 3.0  # 50 turns of 0.2 s for each match would be 10 s and more


async def test_a_pattern_that_never_ends_leaves_time_for_the_others(drive: StartSession) -> None:
    patterns = {"code": EVIL, "post": "[0-9]{5}", "more": f"{EVIL}x"}
    fields = ", ".join(f"{{field: {name}, pattern: '{pattern}'}}" for name, pattern in patterns.items())
    text = f"""
        script: t
        forms: [{{form: f, fields: [{fields}]}}]
        phases: [{{phase: p, topics: [{{topic: t, actions: [{{form: f, id: fill}}, {{user_say: ok}}]}}]}}]
    """
    session = await drive(text)
    await session.reply(f"code: {TEXT}, post: 12345, more: {TEXT}")
    assert session.state.progress.values == {"post": "12345"}
    assert [code for code, _ in session.warnings] == ["pattern_given_up"] * 2


async def test_a_slow_match_that_ends_is_found_off_the_loop() -> None:
    """Some length is too long for an instant and short enough for the bound, whatever the machine."""
    for count in range(1_000, 20_000, 250):
        matches, slow = Matches(), Match("a+b", "a" * count + "cab", whole=False)
        try:
            assert matches.find(slow, off_loop=True) == "ab"
        except MatchWanted:
            await matches.put(slow)
            if not matches.given_up:
                assert matches.find(slow, off_loop=True) == "ab"
                return
    pytest.fail("no match took longer than an instant and less than the bound")


async def give_up(matches, count):
    for number in range(count):
        match = Match(f"(a|aa)+{number}$", TEXT, whole=False)
        try:
            matches.find(match, off_loop=True)
        except MatchWanted:
            await matches.put(match)
        except PatternGivenUp:
            pass


async def test_some_slow_patterns_leave_time_for_plain_ones() -> None:
    matches = Matches(lambda: "q")
    await give_up(matches, 4)
    assert matches.find(Match("[0-9]+", "it is 12", whole=False), off_loop=True) == "12"
    assert set(matches.given_up.values()) == {"q"}


async def test_all_patterns_of_a_turn_share_its_bound() -> None:
    matches, began = Matches(), time.process_time()
    await give_up(matches, 500)
    assert len(matches.given_up) == 500
    assert time.process_time() - began < 1.0  # each by itself would take 10 s in all


def test_outside_of_a_turn_a_match_takes_its_time_or_is_given_up() -> None:
    assert search("[0-9]+", "it is 12") == "12"
    assert is_match("[0-9]+", "12") and not is_match("[0-9]+", "it is 12")
    began = time.process_time()
    with pytest.raises(PatternGivenUp):
        search(EVIL, TEXT)
    assert time.process_time() - began < 2.0
    assert INSTANT_S < BOUND_S
