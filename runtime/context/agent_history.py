"""The chat history of an agent, stored by the agent itself or by an attached conversation, as in Agently.

Before a request, the prompt gets the window of the conversation; after it, the user's message and the answer are
added. They are extracted from prompts and answers by paths, or by a handler.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from runtime.context.conversation import Conversation
from runtime.context.messages import message_of, prompt_record
from runtime.state.events import Message

Said: TypeAlias = Message | Mapping[str, object]
Prompt: TypeAlias = Mapping[str, Any]

INPUT = "input"

RecordHandler: TypeAlias = Callable[[Prompt, object], Iterable[Said] | Awaitable[Iterable[Said]]]
"""Returns the messages to store for a prompt and its answer."""


class AgentHistory:
    """The conversation history of an agent. `chat_history` in a prompt is its window.

    `input_keys` select the user's message in a prompt: paths within its `input`, or from its root with a leading dot;
    several keys become blocks named by the keys. Without keys it is the whole input. `output_keys` select the
    assistant's message in an answer: the `first` path that exists, or `all`. A `record` handler overrides both.
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
        """Return the attached conversation; None: the agent stores its own history."""
        return self._session

    def attach_session(
        self, session: Conversation | None = None, *, mode: Literal["lite", "memo"] | None = None
    ) -> Conversation:
        """Store the history in a conversation (default: a new one). `mode` sets how its window is resized."""
        self._session = session or Conversation()
        if mode is not None:
            self._session.configure(mode=mode)
        return self._session

    def detach_session(self) -> None:
        """Use the agent's own history again, as it was before the conversation was attached."""
        self._session = None

    @property
    def chat_history(self) -> tuple[Message, ...]:
        """Return the messages that a model sees."""
        return tuple(self._own) if self._session is None else self._session.current_chat_history

    def add_chat_history(self, said: Said | Iterable[Said]) -> None:
        """Add one or several messages, all or none; equal messages are not merged. Raises TypeError, ValueRefused."""
        added = [_with_number(each, number) for number, each in enumerate(_as_list(said), len(self._own) + 1)]
        if self._session is None:
            self._own += added
            return
        for each in added:
            self._session.append_message(each)

    def set_chat_history(self, said: Said | Iterable[Said]) -> None:
        """Replace the whole history by one or several messages. Raises TypeError, ValueRefused."""
        messages = _as_list(said)
        if self._session is not None:
            self._session.replace(messages)
        else:
            self._own = [_with_number(each, number) for number, each in enumerate(messages, 1)]

    def reset_chat_history(self) -> None:
        """Clear the history; an attached conversation retains the messages in its full history."""
        if self._session is not None:
            self._session.clear_window()
        else:
            self._own = []

    # -- around a request ---------------------------------------------------------------------------------------------

    def request_prefix(self, prompt: Prompt) -> dict[str, Any]:
        """Return the prompt with the window as its `chat_history`, which replaces an existing one."""
        return {**prompt, "chat_history": [prompt_record(each) for each in self.chat_history]}

    async def finally_(self, prompt: Prompt, answer: object) -> None:
        """Add the user's message and the answer, and resize the window of an attached conversation if necessary.

        A prompt without input adds no message of the user, and None as an answer none of the assistant.

        Raises the handlers' errors.
        """
        if self._record is not None:
            recorded = self._record(prompt, answer)
            self.add_chat_history(await recorded if inspect.isawaitable(recorded) else recorded)
        else:
            said = (("user", self._user_message(prompt)), ("assistant", self._assistant_message(answer)))
            self.add_chat_history({"role": role, "content": text} for role, text in said if text is not None)
        if self._session is not None:
            await self._session.async_resize()

    def _user_message(self, prompt: Prompt) -> str | None:
        if not self._input_keys:
            return _text(prompt.get(INPUT))
        found = [(key.strip("."), _at(prompt, _input_path(key))) for key in self._input_keys]
        return "\n\n".join(f"[{key}]\n{_text(value)}" for key, value in found if value is not None) or None

    def _assistant_message(self, answer: object) -> str | None:
        found = [_at(answer, key.split(".")) for key in self._output_keys]
        texts = [text for each in found if (text := _text(each)) is not None]
        if not self._output_keys or not texts:
            return _text(answer)
        return texts[0] if self._output_mode == "first" else "\n\n".join(texts)


def _as_list(said: Said | Iterable[Said]) -> Iterable[Said]:
    return [said] if isinstance(said, Message | Mapping) else said


def _with_number(said: Said, number: int) -> Message:
    return said if isinstance(said, Message) else message_of(said, number)


def _input_path(key: str) -> list[str]:
    """Return the path of a key: from the root of the prompt with a leading dot, else within its input."""
    if key.startswith("."):
        return key[1:].split(".")
    parts = key.split(".")
    return parts if parts[0] == INPUT else [INPUT, *parts]


def _at(value: object, path: Sequence[str]) -> object | None:
    for part in path:
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


def _text(value: object) -> str | None:
    """Return a text and None unchanged, any other value as JSON."""
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()
