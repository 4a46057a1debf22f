"""The streaming of messages and of a model's reply to a listener, while the turn runs."""

from collections.abc import Callable

import msgspec

from runtime.state.ports import MessageDelta, MessageReset, ModelReply, OnDelta


class MessageStream:
    """Streams the current message to a listener while the turn runs.

    Streamed text is provisional: only the messages of the committed turn count. A message that was streamed in part is
    said with exactly that beginning, or the streamed text is reset.
    """

    def __init__(self, live: OnDelta | None) -> None:
        self._live = live
        self._of = (0, "")  # number and action of the message that is being streamed
        self._sent = ""
        self._said: dict[int, tuple[str, str]] = {}  # action and text of finished messages, by number
        self._before: dict[int, tuple[str, str]] = {}  # those of before the last restart of the turn

    def restart(self) -> None:
        """Restart the turn: streamed text stays valid as far as it is said again."""
        self._before, self._said = {**self._before, **self._said}, {}

    @property
    def is_streamed(self) -> bool:
        """Return whether there is a listener."""
        return self._live is not None

    def grow(self, number: int, action_id: str, text: str) -> None:
        """Stream the text of a message so far; if it does not continue the streamed text, the message is reset."""
        if self._live is None:
            return
        if number in self._before:
            action, words = self._before.pop(number)
            self._of, self._sent = (number, action), words
        if self._sent and ((number, action_id) != self._of or not text.startswith(self._sent)):
            self.drop()
        more = text[len(self._sent) :]
        if more:
            self._live(MessageDelta(number, action_id, more))
            self._of, self._sent = (number, action_id), text

    def finish(self, number: int, action_id: str, text: str) -> None:
        """Finish a message with its text."""
        self.grow(number, action_id, text)
        self._said[number] = (action_id, text)
        self._sent = ""

    def back_to(self, number: int) -> None:
        """Reset all messages after a number, which are not said in the end."""
        self.drop()
        unsaid = [each for each in self._said if each > number]
        if unsaid and self._live is not None:
            self._live(MessageReset(min(unsaid)))
        for each in unsaid:
            del self._said[each]

    def drop(self) -> None:
        """Reset the streamed part of a message, which is not said in the end."""
        if self._live is not None and self._sent:
            self._live(MessageReset(self._of[0]))
        self._sent = ""


class ReplyStream:
    """Streams one reply; `is_said` decides from a verdict, without its text, whether the text will certainly be the
    message `number` of an action.
    """

    def __init__(
        self, speech: MessageStream, number: int, action_id: str, is_said: Callable[[ModelReply], bool]
    ) -> None:
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
