"""Passes a reply of the model on while it grows, as far as it is sure to be said."""

from collections.abc import Callable

import msgspec

from runtime.ports import ModelReply
from runtime.speech import Speech


class Hearing:
    """Hears one reply; `is_said` tells from everything but its words whether they are sure to be the message `number`
    of an action.
    """

    def __init__(self, speech: Speech, number: int, action_id: str, is_said: Callable[[ModelReply], bool]) -> None:
        self._speech = speech
        self._number = number
        self._action_id = action_id
        self._judge = is_said
        self._verdict: ModelReply | None = None
        self._is_said = False

    def __call__(self, reply: ModelReply) -> None:
        verdict = msgspec.structs.replace(reply, text="")
        if verdict != self._verdict:
            self._verdict = verdict
            self._is_said = self._judge(verdict)
        if self._is_said:
            self._speech.grow(self._number, self._action_id, reply.text)
        else:
            self._speech.drop()
