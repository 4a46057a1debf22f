"""The dispatch of actions: each type of action has a way to begin."""

from typing import get_args

from runtime.actions.dispatch import AT_ONCE, AWAITED
from scripts.model import actions


def test_each_action_begins_at_once_or_waits_for_something() -> None:
    """An action that is added must be handled in one of both places."""
    assert {*AT_ONCE, *AWAITED, actions.OwnAction} == set(get_args(actions.Action))
    assert AWAITED.keys().isdisjoint(AT_ONCE)
