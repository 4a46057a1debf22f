"""Which messages of a conversation fit a prompt, and how tokens are estimated."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.context.text_lengths import tokens_of
from runtime.context.windows import last_exchanges
from runtime.state.events import Message


def conversation(roles: str) -> tuple[Message, ...]:
    """Return one message for each letter of ``aua``, of ten tokens by `cost`."""
    names = {"a": "assistant", "u": "user"}
    return tuple(Message(n, str(n), names[role], str(n), "act") for n, role in enumerate(roles))


def chosen(roles: str, tokens_max: int) -> str:
    messages = conversation(roles)
    found = last_exchanges(messages, tokens_max, lambda _: 10)
    assert found == messages[len(messages) - len(found) :]
    return roles[len(messages) - len(found) :]


@pytest.mark.parametrize(
    ("roles", "tokens_max", "expected"),
    [
        ("auauau", 60, "auauau"),
        ("auauau", 59, "auau"),
        ("auauau", 30, "au"),
        ("aauaau", 50, "aau"),
        ("auaua", 30, "aua"),
        ("uaua", 100, "uaua"),
        ("uaua", 35, "aua"),
        ("auuu", 20, "uu"),  # not even one exchange fits: its end
        ("au", 5, "u"),  # the newest is always there
        ("", 100, ""),
    ],
)
def test_the_newest_whole_exchanges_are_retained(roles, tokens_max, expected) -> None:
    assert chosen(roles, tokens_max) == expected


@given(st.text("au", max_size=30), st.integers(0, 400))
def test_the_newest_stays_and_the_rest_fits_from_a_reply_on(roles, tokens_max) -> None:
    retained = chosen(roles, tokens_max)
    assert bool(retained) == bool(roles)
    assert len(retained) <= max(1, tokens_max // 10)
    before = roles[: len(roles) - len(retained)]
    whole: Sequence[str] = retained.lstrip("a")
    if before.endswith("u") or not before:
        return
    assert "a" not in whole  # within the one exchange that does not fit


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("word", 1),
        ("words", 2),
        ("用户情绪", 4),
        ("用户 mood", 4),
        ("привет", 3),
        ("한국어", 3),
        ("，。", 2),
        ("😀", 1),
    ],
)
def test_tokens_are_estimated_by_script(text, tokens) -> None:
    assert tokens_of(text) == tokens


@given(st.text(), st.text())
def test_longer_text_has_no_fewer_tokens_and_no_more_than_parts(one, other) -> None:
    assert max(tokens_of(one), tokens_of(other)) <= tokens_of(one + other) <= tokens_of(one) + tokens_of(other)
