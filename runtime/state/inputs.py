"""Inputs of a session: the user's inputs, the check whether the session waits for them, and the application's
interventions.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import TypeAlias

from msgspec import Struct

from runtime.state.events import Body, Message, Role
from runtime.state.form_view import NotOfThisForm, text_sent
from runtime.state.state import State, Wait
from scripts.detectors.words import fold
from scripts.expressions.values import Value, is_unicode
from scripts.model.script import Scope


class Reply(Struct, frozen=True):
    """A text message of the user."""

    content: str


class ChoiceInput(Struct, frozen=True):
    """The choice that the user picked, by its key."""

    choice: str


class FormInput(Struct, frozen=True):
    """The form that the user submitted: values by field; null or an empty text clears a field."""

    values: Mapping[str, Value]


class Start(Struct, frozen=True):
    """The start of a session, with the `start_variables` of its state."""


class TimerDue(Struct, frozen=True):
    """Timers of the session are due. `timer_id` fires this one alone, whether or not it is due.

    Reminders that were due before `missed_before` do not speak.
    """

    timer_id: str = ""
    missed_before: datetime | None = None


class MigrationInput(Struct, frozen=True):
    """A migration of the session to another version of its script; the state is adapted already.

    `account` are the events of the migration; `restart` is the topic of its phase that must begin again, if any.
    """

    account: tuple[Body, ...]
    restart: str = ""


Input: TypeAlias = Start | Reply | ChoiceInput | FormInput | TimerDue


class Pause(Struct, frozen=True):
    """Accept no reply until the session is resumed."""


class Resume(Struct, frozen=True):
    """Continue where the session was paused."""


class End(Struct, frozen=True):
    """End the conversation at its current position."""

    reason: str


class SetVariables(Struct, frozen=True):
    """Set variables in one scope, or each where it is declared, else in the session's scope; null unsets one."""

    values: Mapping[str, Value]
    scope: Scope | None = None


class Rewind(Struct, frozen=True):
    """Restore the state after an earlier turn; later messages are removed from the conversation."""

    state: State


class Clear(Struct, frozen=True):
    """Remove all messages from the conversation; the session stays at its current position."""


class OutsideMessage(Struct, frozen=True):
    """A message that was exchanged outside the session."""

    role: Role
    content: str
    metadata: Mapping[str, Value] = {}


class Append(Struct, frozen=True):
    """Add messages to the conversation; the script does not react to them."""

    messages: tuple[OutsideMessage, ...]


class Compress(Struct, frozen=True):
    """Summarise `messages`, which no summary covers yet; the `keep` messages after them are not summarised."""

    messages: tuple[Message, ...]
    keep: int
    instruct: str = ""


class TakeOver(Struct, frozen=True):
    """Let a person talk in place of the script, which waits until the session is given back."""

    operator: str


class Speak(Struct, frozen=True):
    """Say something as the person who has taken the session over."""

    operator: str
    content: str


class GiveBack(Struct, frozen=True):
    """Let the script continue: it puts the question again that it waits with. Dismisses a request for a person, too."""


class UseModel(Struct, frozen=True):
    """Ask this language model from now on, whatever the script names; empty: those that the script names."""

    model: str


Intervention: TypeAlias = (
    Pause | Resume | End | SetVariables | Rewind | Clear | Append | Compress | TakeOver | Speak | GiveBack | UseModel
)
"""A change that an application makes to a session, besides sending messages. It is a turn like any other."""

TurnInput: TypeAlias = Input | MigrationInput | Intervention


class InputRefused(ValueError):
    """An input that the session does not wait for; the message says what it waits for.

    `field` is the field of a message that is wrong, such as `choice` or `form.age`; empty if that is none.
    """

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class NotNow(InputRefused):
    """An intervention that is invalid for the session's status; the message says so."""


def accept(state: State, turn_input: TurnInput) -> str:
    """Return the text of an input, if the session waits for it. Raises InputRefused."""
    if isinstance(turn_input, MigrationInput):
        return ""
    if isinstance(turn_input, Intervention):
        _check_intervention(state, turn_input)
        return ""
    if isinstance(turn_input, Start):
        if state.begun:
            raise InputRefused("the session has begun already")
        return ""
    if state.status != "active" or state.wait is None:
        raise InputRefused(f"the session is {state.execution_status} and waits for no input")
    if isinstance(turn_input, TimerDue):
        return ""
    if isinstance(turn_input, Reply):
        if not is_unicode(turn_input.content):
            raise InputRefused("the reply is not valid Unicode", "content")
        return turn_input.content
    wanted = "text" if state.operator else state.wait.kind  # a person who talks takes texts
    if isinstance(turn_input, FormInput):
        if state.wait.form is None:
            raise InputRefused(f"the session waits for {wanted}, not for a form", "form")
        try:
            return text_sent(state.wait.form, turn_input.values)
        except NotOfThisForm as error:
            raise InputRefused(str(error), f"form.{error.field}" if error.field else "form") from error
    text = next((choice.text for choice in state.wait.choices if choice.key == turn_input.choice), None)
    if text is None and wanted != "choice":
        raise InputRefused(f"the session waits for {wanted}, not for a choice", "choice")
    if text is None:
        known = ", ".join(choice.key for choice in state.wait.choices)
        raise InputRefused(f"there is no choice {turn_input.choice!r}; there are {known}", "choice")
    return text


def _check_intervention(state: State, turn_input: Intervention) -> None:
    """Raise InputRefused for an invalid intervention, NotNow if the session's status is the reason."""
    if not state.begun:
        raise NotNow("the session has not begun, because its first turn failed; send it a message, or delete it")
    match turn_input:
        case Pause() if state.status != "active":
            raise NotNow(f"the session is {state.status}, and cannot be paused")
        case Resume() if state.status != "paused":
            raise NotNow(f"the session is {state.status}, and cannot be resumed")
        case End() | SetVariables() | Append() | Compress() | TakeOver() | UseModel() if state.status == "completed":
            raise NotNow("the conversation has ended")
        case TakeOver() if state.operator:
            raise NotNow(f"{state.operator} has taken the session over; give it back first")
        case TakeOver() | Speak() if state.status != "active":
            raise NotNow(f"the session is {state.status}")
        case Speak() if not state.operator:
            raise NotNow("nobody has taken the session over; take it over first")
        case Speak() if state.operator != turn_input.operator:
            raise NotNow(f"{state.operator} has taken the session over")
        case Speak() if not is_unicode(turn_input.content):
            raise InputRefused("the message is not valid Unicode")
        case Append() if not all(is_unicode(each.content) for each in turn_input.messages):
            raise InputRefused("a message is not valid Unicode")
        case _:
            return


def is_answer_to(wait: Wait, said: str) -> bool:
    """Return whether a reply equals one of the offered choices or the suggestion."""
    offered = [wait.suggestion, *(word for choice in wait.choices for word in (choice.key, choice.text))]
    return fold(said) in {fold(each) for each in offered if each}
