"""The history of an agent, kept by itself or by a conversation that is attached to it: the glue of seed 001.

Before a request the prompt gets the window of what was said; after it, what was asked and answered is added. What is
said is found in prompts and answers by paths, or by a handler.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from runtime.context.conversation import Conversation
from runtime.context.messages import message_of
from runtime.events import Message

Said: TypeAlias = Message | Mapping[str, object]
Prompt: TypeAlias = Mapping[str, Any]

INPUT = "input"

RecordHandler: TypeAlias = Callable[[Prompt, object], Iterable[Said] | Awaitable[Iterable[Said]]]
"""From a prompt and its answer to the messages that are kept of them."""


class AgentHistory:
    """What an agent remembers of a conversation. `chat_history` in a prompt is its window.

    `input_keys` say what of a prompt is the user's message: paths within its `input`, or from its top with a leading
    dot; several become blocks named by their keys. Without any it is the whole input. `output_keys` say what of an
    answer is the assistant's: the `first` path that is there, or `all`. A `record` handler overrides both.
    """

    def __init__(
        self,
        *,
        input_keys: Sequence[str] = (),
        output_keys: Sequence[str] = (),
        output_mode: Literal["first", "all"] = "first",
        record: RecordHandler | None = None,
    ) -> None:
        self._input_keys = tuple(input_keys)
        self._output_keys = tuple(output_keys)
        self._output_mode = output_mode
        self._record = record
        self._own: list[Message] = []
        self._session: Conversation | None = None

    # -- the history --------------------------------------------------------------------------------------------------

    @property
    def session(self) -> Conversation | None:
        """The conversation that is attached; None: the agent keeps its own history."""
        return self._session

    def attach_session(
        self, session: Conversation | None = None, *, mode: Literal["lite", "memo"] | None = None
    ) -> Conversation:
        """From now on a conversation keeps the history; a new one where none is given. `mode` sets how it shrinks."""
        self._session = session or Conversation()
        if mode is not None:
            self._session.configure(mode=mode)
        return self._session

    def detach_session(self) -> None:
        """From now on the agent keeps its own history again, as it was when the conversation was attached."""
        self._session = None

    @property
    def chat_history(self) -> tuple[Message, ...]:
        """What a model is to see."""
        return tuple(self._own) if self._session is None else self._session.current_chat_history

    def add_chat_history(self, said: Said | Iterable[Said]) -> None:
        """Adds a message, or several; the same one again is another one. Raises TypeError, ValueRefused."""
        for each in [said] if isinstance(said, Message | Mapping) else said:
            if self._session is not None:
                self._session.append_message(each)
            else:
                self._own.append(_numbered(each, len(self._own) + 1))

    def set_chat_history(self, said: Iterable[Said]) -> None:
        """Replaces all that was said. Raises TypeError, ValueRefused."""
        if self._session is not None:
            self._session.replace(said)
        else:
            self._own = [_numbered(each, number) for number, each in enumerate(said, 1)]

    def reset_chat_history(self) -> None:
        """Begins anew; a conversation that is attached keeps what was said in its full history."""
        if self._session is not None:
            self._session.clear_window()
        else:
            self._own = []

    # -- around a request ---------------------------------------------------------------------------------------------

    def request_prefix(self, prompt: Prompt) -> dict[str, Any]:
        """The prompt with the window as its `chat_history`, whatever stood there."""
        shown = [{"role": each.role, "content": each.content, **each.metadata} for each in self.chat_history]
        return {**prompt, "chat_history": shown}

    async def finally_(self, prompt: Prompt, answer: object) -> None:
        """Adds what was asked and answered, and makes the window of an attached conversation smaller where that is due.

        Raises what the handlers raise.
        """
        if self._record is not None:
            kept = self._record(prompt, answer)
            self.add_chat_history(await kept if inspect.isawaitable(kept) else kept)
        else:
            self.add_chat_history(
                [
                    {"role": "user", "content": self._asked(prompt)},
                    {"role": "assistant", "content": self._answered(answer)},
                ]
            )
        if self._session is not None:
            await self._session.async_resize()

    def _asked(self, prompt: Prompt) -> str:
        if not self._input_keys:
            return _text(prompt.get(INPUT, ""))
        found = {key.strip("."): _at(prompt, _input_path(key)) for key in self._input_keys}
        given = {key: _text(value) for key, value in found.items() if value is not None}
        return "\n\n".join(f"[{key}]\n{text}" for key, text in given.items())

    def _answered(self, answer: object) -> str:
        found = [_at(answer, key.split(".")) for key in self._output_keys]
        texts = [_text(each) for each in found if each is not None]
        if not self._output_keys or not texts:
            return _text(answer)
        return texts[0] if self._output_mode == "first" else "\n\n".join(texts)


def _numbered(said: Said, number: int) -> Message:
    return said if isinstance(said, Message) else message_of(said, number)


def _input_path(key: str) -> list[str]:
    """Where a key leads: from the top of the prompt with a leading dot, else within its input."""
    if key.startswith("."):
        return key[1:].split(".")
    parts = key.split(".")
    return parts if parts[0] == INPUT else [INPUT, *parts]


def _at(value: object, path: Sequence[str]) -> object | None:
    for part in path:
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


def _text(value: object) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
