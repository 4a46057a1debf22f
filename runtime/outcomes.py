"""What an action says to the engine when it has had its turn."""

from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct

from runtime.answers import Choice
from runtime.events import EndedBy
from runtime.state import Source, Wait
from scripts.values import Value


class Done(Struct, frozen=True):
    """Go on with the next action."""


class Waits(Struct, frozen=True):
    """End the turn; the user's answer comes back to this action."""

    wait: Wait


class Enter(Struct, frozen=True):
    """Work through an arm of this action, once or for each item."""

    arm: str
    items: list[Value] | None = None
    item_name: str = ""


class CallSkill(Struct, frozen=True):
    """Run a skill with these variables set (name, value, source), for the item at hand where there are items."""

    skill: str
    given: tuple[tuple[str, Value, Source], ...]
    items: list[Value] | None = None
    item_name: str = ""


class Jump(Struct, frozen=True):
    """Go on at the beginning of another topic."""

    phase: str
    topic: str


class Leave(Struct, frozen=True):
    """Leave what the action stands in: the skill, which then returns nothing, or else the topic."""


class Finish(Struct, frozen=True):
    """End the conversation."""

    reason: str
    by: EndedBy
    action_id: str = ""


Outcome: TypeAlias = Done | Waits | Enter | CallSkill | Jump | Leave | Finish
DONE = Done()


def offering(choices: Iterable[tuple[str, str]]) -> Waits:
    """A wait for one of several answers, given as (key, text)."""
    return Waits(Wait("choice", tuple(Choice(key, text) for key, text in choices)))
