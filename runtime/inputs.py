"""What a user may do with a session: the inputs, and which of them its present wait takes."""

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct

from runtime.events import Body
from runtime.sheets import NotOfThisForm, text_sent
from runtime.state import State, Wait
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


class InputRefused(ValueError):
    """An input that the session's present wait does not take; the message says what it takes."""


def accepted(state: State, given: Input | Moved) -> str:
    """The text of an input, if the session's wait takes it. Raises InputRefused."""
    if isinstance(given, Moved):
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


def is_answer_to(wait: Wait, said: str) -> bool:
    """Whether a reply is, to the letter, one of those that were offered."""
    offered = [wait.suggestion, *(word for choice in wait.choices for word in (choice.key, choice.text))]
    return folded(said) in {folded(each) for each in offered if each}
