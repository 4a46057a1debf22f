"""Actions of installed packages: what they may do in a turn, and how they are carried out."""

import inspect
from collections.abc import Mapping
from datetime import datetime

from runtime.actions.outcomes import DONE, Finish, Jump, Outcome, Waits
from runtime.state.scopes import WriteRefused
from runtime.state.state import Wait
from runtime.turn.context import ActionFailed, TurnContext
from scripts.expressions.values import Value, to_value
from scripts.model.actions import OwnAction, action_type
from scripts.model.base import Expression, Template, Variable
from scripts.model.own_actions import action_type_of


class ActionTurn:
    """The turn as an action of a package sees it. `reply` is the user's answer to `wait`, None at first.

    A turn may be repeated, so an action has no effects outside it; those belong to a tool.
    """

    def __init__(self, run: TurnContext, action: OwnAction, reply: str | None) -> None:
        self._run = run
        self._action = action
        self.reply = reply

    @property
    def now(self) -> datetime:
        """Return the time of the turn."""
        return self._run.now()

    @property
    def round(self) -> int:
        """Return how many answers the action got."""
        return self._run.progress.round

    def text(self, template: Template | None) -> str:
        """Return a rendered text; empty for None."""
        return self._run.text(template)

    def value(self, expression: Expression) -> Value:
        """Return the value of an expression."""
        return self._run.value(expression)

    def say(self, text: str) -> None:
        """Say a text, unless it is blank."""
        self._run.say(text)

    def assign(self, variable: Variable, value: Value) -> None:
        """Set a variable; a value that does not match its declared type fails the turn."""
        self._run.assign(variable.name, to_value(value), "script")

    def emit(self, event: str, data: Mapping[str, Value]) -> None:
        """Send an event to the application."""
        self._run.emit(self._action.id, event, dict(data))

    def warn(self, message: str) -> None:
        """Record a warning for the author of the script."""
        self._run.warn("own_action", message)

    def draw(self, sides: int) -> int:
        """Return a random number from 0 to `sides` - 1, which a replay repeats."""
        return self._run.draw(sides)

    def wait(self) -> Outcome:
        """Return the outcome that waits for the user's reply; the function is then called again."""
        return Waits(Wait("text"))

    def goto(self, target: str) -> Outcome:
        """Return the outcome that continues at a topic or phase."""
        return Jump(*self._run.target(target))

    def end(self, reason: str = "") -> Outcome:
        """Return the outcome that ends the conversation."""
        return Finish(reason, "end_action", self._action.id)


async def carry_out(run: TurnContext, action: OwnAction, reply: str | None = None) -> Outcome:
    """Run the function of an action of a package. Raises WriteRefused, and ActionFailed for other errors."""
    kind = action_type_of(action)
    if kind is None:
        raise ActionFailed(f"the package of the action `{action_type(action)}` is not installed")
    if reply is not None:
        run.progress.round += 1
    try:
        outcome = kind.run(ActionTurn(run, action, reply), action)
        if inspect.isawaitable(outcome):
            outcome = await outcome
    except WriteRefused:
        raise
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as error:
        # by type only: its text may contain personal values
        raise ActionFailed(f"the action `{action_type(action)}` raised {type(error).__name__}") from error
    if outcome is None:
        return DONE
    if not isinstance(outcome, Outcome):
        raise ActionFailed(f"the action `{action_type(action)}` returned no outcome")
    return outcome
