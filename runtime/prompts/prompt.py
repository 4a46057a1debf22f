"""The prompt of a request."""

import hashlib
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

Schema: TypeAlias = dict[str, Any]
"""A JSON Schema, passed on unchanged."""


class PromptMessage(Struct, frozen=True):
    """One message to the model."""

    role: Literal["system", "user"]
    content: str


class Prompt(Struct, frozen=True, kw_only=True):
    """The messages, and the schema of the reply; without a `schema` the reply is plain text to say."""

    messages: tuple[PromptMessage, ...]
    schema: Schema | None = None
    schema_name: str = ""
    digest: str
    values: Mapping[str, str] = {}  # the values of the placeholders in the instructions, by number


class SentPrompt(Struct, frozen=True):
    """A prompt as an endpoint received it; `schema` is the schema that the endpoint applies to the reply itself."""

    messages: tuple[PromptMessage, ...]
    schema: Schema | None


MESSAGE_CHARS_MAX = 200_000
"""Characters of a message that are stored with its call; the rest is cut."""

_encoder = msgspec.json.Encoder(order="deterministic")


def prompt_of(system: str, data: str, schema: Schema | None, schema_name: str, values: Mapping[str, str]) -> Prompt:
    """Return the prompt of instructions and data; equal texts give an equal digest."""
    messages = (PromptMessage("system", system), PromptMessage("user", data))
    # the model follows the order of a schema's properties, so the digest depends on it; encoding preserves it
    shape = None if schema is None else msgspec.json.encode(schema)
    digest = hashlib.sha256(_encoder.encode((messages, shape, schema_name))).hexdigest()
    name = schema_name if schema else ""
    return Prompt(messages=messages, schema=schema, schema_name=name, digest=digest, values=values)


def stored_prompt(prompt: SentPrompt) -> str:
    """Return a prompt as it is stored with its call, in JSON; a message over MESSAGE_CHARS_MAX is cut, with a mark."""
    messages = tuple(PromptMessage(each.role, _cut(each.content)) for each in prompt.messages)
    return msgspec.json.encode(SentPrompt(messages, prompt.schema)).decode()


def read_prompt(text: str) -> SentPrompt:
    """Return a stored prompt. Raises msgspec.DecodeError."""
    return msgspec.json.decode(text, type=SentPrompt)


def _cut(content: str) -> str:
    spare = len(content) - MESSAGE_CHARS_MAX
    return content if spare <= 0 else f"{content[:MESSAGE_CHARS_MAX]}\n[cut: {spare} more characters]"
