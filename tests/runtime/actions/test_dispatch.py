"""The dispatch of actions: each type of action has a way to begin."""

from typing import get_args

from runtime.actions.dispatch import AT_ONCE
from scripts.model import actions


def test_each_action_begins_at_once_or_waits_for_something() -> None:
    """An action that is added must be handled in one of both places."""
    awaited = {
        actions.AiSay, actions.Ask, actions.AiAsk, actions.Choose, actions.AiThink, actions.Recall, actions.CallTool,
        actions.Chat, actions.OwnAction,
    }  # fmt: skip
    assert {*AT_ONCE, *awaited} == set(get_args(actions.Action))
    assert awaited.isdisjoint(AT_ONCE)
