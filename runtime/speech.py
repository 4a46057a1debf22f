"""The words of a turn that are on their way to the user while it still runs.

What is sent is provisional: only the messages of the committed turn count. A message whose words were sent is said with
exactly those words and what is still missing of them, or they are taken back.
"""

from runtime.ports import Live, ModelReply, Unsaid, Words


def always(_: ModelReply) -> bool:
    """Of words that are said whatever else a reply holds."""
    return True


class Speech:
    """Tells a listener of the message that is being said."""

    def __init__(self, live: Live | None) -> None:
        self._live = live
        self._of = (0, "")  # number and action of the message whose words were sent
        self._sent = ""
        self._told: dict[int, tuple[str, str]] = {}  # by number, the action and words of messages that were said
        self._before: dict[int, tuple[str, str]] = {}  # those that were said before the turn began anew

    def begin_again(self) -> None:
        """The turn begins anew: what was sent stands, as far as it is said again."""
        self._before, self._told = {**self._before, **self._told}, {}

    @property
    def is_heard(self) -> bool:
        """Whether anybody listens."""
        return self._live is not None

    def grow(self, number: int, action_id: str, text: str) -> None:
        """The message has this text so far; where that does not go on from what was sent, it begins anew."""
        if self._live is None:
            return
        if number in self._before:
            action, words = self._before.pop(number)
            self._of, self._sent = (number, action), words
        if (number, action_id) != self._of or not text.startswith(self._sent):
            self.drop()
        more = text[len(self._sent) :]
        if more:
            self._live(Words(number, action_id, more))
            self._of, self._sent = (number, action_id), text

    def said(self, number: int, action_id: str, text: str) -> None:
        """The message is said, with this text."""
        self.grow(number, action_id, text)
        self._told[number] = (action_id, text)
        self._sent = ""

    def drop(self) -> None:
        """What was sent of a message is not said after all."""
        if self._live is not None and self._sent:
            self._live(Unsaid(self._of[0]))
        self._sent = ""
