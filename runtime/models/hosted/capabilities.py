"""The detected capabilities of a model's endpoint: response formats, and names of parameters.

They cannot be queried. A model starts with all capabilities; a parameter that the endpoint refuses is not sent again.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from runtime.models.hosted.failures import AttemptFailure
from runtime.models.hosted.settings import ModelSettings
from runtime.prompts.prompt import Prompt, PromptMessage, SentPrompt

Format: TypeAlias = Literal["schema", "json", "text"]

_NEXT: Mapping[Format, Format] = {"schema": "json", "json": "text"}

_SHAPE = "\n\nJSON Schema of the answer:\n"  # the prompt itself says that the answer is JSON


class Capabilities(Struct, frozen=True, kw_only=True):
    """The parameters that the endpoint accepts, as far as known."""

    format: Format
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    counts_streams: bool = True
    streams: bool = True
    takes_system: bool = True  # otherwise the instructions are in the message of the user


def capabilities_of(settings: ModelSettings) -> Capabilities:
    """Return the initial capabilities of a model."""
    return Capabilities(format="schema" if settings.format == "auto" else settings.format)


def without(capabilities: Capabilities, failure: AttemptFailure, settings: ModelSettings) -> Capabilities | None:
    """Return the capabilities after a refusal; None if the refusal does not concern them."""
    following = _NEXT.get(capabilities.format) if settings.format == "auto" else None
    if failure.refused == "response_format" and following is not None:
        return msgspec.structs.replace(capabilities, format=following)
    if failure.refused == "stream" and capabilities.streams:
        return msgspec.structs.replace(capabilities, streams=False)
    if failure.refused == "system" and capabilities.takes_system:
        return msgspec.structs.replace(capabilities, takes_system=False)
    if failure.refused == "stream_options" and capabilities.counts_streams:
        return msgspec.structs.replace(capabilities, counts_streams=False)
    if failure.refused == "max_tokens" and capabilities.limit == "max_tokens":
        return msgspec.structs.replace(capabilities, limit="max_completion_tokens")
    return None


def body_of(
    model: str, sent: SentPrompt, prompt: Prompt, capabilities: Capabilities, settings: ModelSettings, *, stream: bool
) -> dict[str, object]:
    """Return the body of a request, which sends a prompt in the form that the endpoint accepts."""
    stream = stream and capabilities.streams
    body: dict[str, object] = {
        "model": model,
        "messages": [{"role": message.role, "content": message.content} for message in sent.messages],
        capabilities.limit: settings.output_tokens_max,
        "stream": stream,
    }
    if settings.temperature is not None:
        body["temperature"] = settings.temperature
    if settings.extra_body:
        body["extra_body"] = settings.extra_body  # the client adds its fields to the others
    if stream and capabilities.counts_streams:
        body["stream_options"] = {"include_usage": True}
    if sent.schema is not None:
        shape = {"name": prompt.schema_name, "schema": sent.schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": shape}
    elif prompt.schema is not None and capabilities.format == "json":
        body["response_format"] = {"type": "json_object"}
    return body


def sent_prompt(prompt: Prompt, capabilities: Capabilities) -> SentPrompt:
    """Return a prompt as it is sent to an endpoint: if that takes no schema, the instructions contain it."""
    system, *others = prompt.messages
    schema = prompt.schema if capabilities.format == "schema" else None
    if prompt.schema is not None and schema is None:
        shape = msgspec.json.encode(prompt.schema).decode()
        system = PromptMessage(system.role, system.content + _SHAPE + shape)
    if capabilities.takes_system:
        return SentPrompt((system, *others), schema)
    whole = "\n\n".join(message.content for message in (system, *others))
    return SentPrompt((PromptMessage("user", whole),), schema)
