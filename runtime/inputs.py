"""What may be done with a session: what its user does, which of it its present wait takes, and interventions of the
application's.
"""

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct

from runtime.events import Body, Message, Role
from runtime.sheets import NotOfThisForm, text_sent
from runtime.state import State, Wait
from scripts.model import Scope
from scripts.values import Value, is_unicode
from scripts.words import folded


class Reply(Struct, frozen=True):
    """What the user said, as text."""

    content: str


class Chosen(Struct, frozen=True):
    """The choice the user took, by its key."""

    choice: str


class Filled(Struct, frozen=True):
    """The form the user filled in and sent: values by field; null or an empty text clears one."""

    values: Mapping[str, Value]


class Start(Struct, frozen=True):
    """The beginning of a session, with the `start_variables` of its state."""


class Moved(Struct, frozen=True):
    """The session goes on in another version of its script, from a state that was made for it.

    `account` is what became of it on the way; `restart` the topic of its phase that begins again, if one must.
    """

    account: tuple[Body, ...]
    restart: str = ""


Input: TypeAlias = Start | Reply | Chosen | Filled


class Pause(Struct, frozen=True):
    """Take no reply until the session is resumed."""


class Resume(Struct, frozen=True):
    """Go on where the session was paused."""


class End(Struct, frozen=True):
    """End the conversation where it is."""

    reason: str


class SetVariables(Struct, frozen=True):
    """Set variables, in one scope or each where it is declared, else in the session's; null unsets one."""

    values: Mapping[str, Value]
    scope: Scope | None = None


class Rewind(Struct, frozen=True):
    """Go on from the state that an earlier turn left; what was said since is taken out of the conversation."""

    state: State


class Clear(Struct, frozen=True):
    """Take all that was said out of the conversation; the session stays where it is."""


class Appended(Struct, frozen=True):
    """A message that was said elsewhere."""

    role: Role
    content: str
    metadata: Mapping[str, Value] = {}


class Append(Struct, frozen=True):
    """Add messages to the conversation; the script does not hear of them."""

    messages: tuple[Appended, ...]


class Compress(Struct, frozen=True):
    """Sum up `messages`, which no summary tells of yet; what was said after them, `keep` messages, stays as it is."""

    messages: tuple[Message, ...]
    keep: int
    instruct: str = ""


Intervention: TypeAlias = Pause | Resume | End | SetVariables | Rewind | Clear | Append | Compress
"""What an application does to a session besides talking to it. It is a turn like any other."""


class InputRefused(ValueError):
    """An input that the session's present wait does not take; the message says what it takes."""


class NotNow(InputRefused):
    """An intervention that the status of the session does not allow; the message says so."""


def accepted(state: State, given: Input | Moved | Intervention) -> str:
    """The text of an input, if the session's wait takes it. Raises InputRefused."""
    if isinstance(given, Moved):
        return ""
    if isinstance(given, Intervention):
        _check_intervention(state, given)
        return ""
    if isinstance(given, Start):
        if state.begun:
            raise InputRefused("the session has begun already")
        return ""
    if state.status != "active" or state.wait is None:
        raise InputRefused(f"the session is {state.execution_status} and waits for nothing")
    if isinstance(given, Reply):
        if not is_unicode(given.content):
            raise InputRefused("the reply is not valid Unicode")
        return given.content
    if isinstance(given, Filled):
        if state.wait.form is None:
            raise InputRefused(f"the session waits for {state.wait.kind}, not for a form")
        try:
            return text_sent(state.wait.form, given.values)
        except NotOfThisForm as error:
            raise InputRefused(str(error)) from error
    if state.wait.kind != "choice":
        raise InputRefused(f"the session waits for {state.wait.kind}, not for a choice")
    text = next((choice.text for choice in state.wait.choices if choice.key == given.choice), None)
    if text is None:
        known = ", ".join(choice.key for choice in state.wait.choices)
        raise InputRefused(f"there is no choice {given.choice!r}; there are {known}")
    return text


def _check_intervention(state: State, given: Intervention) -> None:
    """Raises InputRefused for one that the session does not take, NotNow where that is for its status."""
    if not state.begun:
        raise NotNow("the session could not begin yet; send it a message, or delete it")
    match given:
        case Pause() if state.status != "active":
            raise NotNow(f"the session is {state.status}, and cannot be paused")
        case Resume() if state.status != "paused":
            raise NotNow(f"the session is {state.status}, and cannot be resumed")
        case End() | SetVariables() | Append() | Compress() if state.status == "completed":
            raise NotNow("the conversation is over")
        case Append() if not all(is_unicode(each.content) for each in given.messages):
            raise InputRefused("a message is not valid Unicode")
        case _:
            return


def is_answer_to(wait: Wait, said: str) -> bool:
    """Whether a reply is, to the letter, one of those that were offered."""
    offered = [wait.suggestion, *(word for choice in wait.choices for word in (choice.key, choice.text))]
    return folded(said) in {folded(each) for each in offered if each}
