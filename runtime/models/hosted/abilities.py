"""What the endpoint of a model turns out to take: how replies are held to a form, and the names of parameters.

Nothing tells that beforehand. A model begins with the most that there is; what is refused by name is not sent again.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from runtime.models.hosted.failures import Failure
from runtime.models.hosted.settings import ModelSettings
from runtime.prompts.prompt import Prompt

Format: TypeAlias = Literal["schema", "json", "text"]

_NEXT: Mapping[Format, Format] = {"schema": "json", "json": "text"}

_SHAPE = "\n\nJSON Schema of the answer:\n"  # the prompt says in words that it is JSON


class Abilities(Struct, frozen=True, kw_only=True):
    """What the endpoint is known to take; all that is in here may be sent."""

    format: Format
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    counts_streams: bool = True


def abilities_of(settings: ModelSettings) -> Abilities:
    """What a model is begun with."""
    return Abilities(format="schema" if settings.format == "auto" else settings.format)


def without(abilities: Abilities, failure: Failure, settings: ModelSettings) -> Abilities | None:
    """What is left of abilities that led to a refusal; None where it is not about them."""
    following = _NEXT.get(abilities.format) if settings.format == "auto" else None
    if failure.refused == "response_format" and following is not None:
        return msgspec.structs.replace(abilities, format=following)
    if failure.refused == "stream_options" and abilities.counts_streams:
        return msgspec.structs.replace(abilities, counts_streams=False)
    if failure.refused == "max_tokens" and abilities.limit == "max_tokens":
        return msgspec.structs.replace(abilities, limit="max_completion_tokens")
    return None


def body_of(
    model: str, prompt: Prompt, abilities: Abilities, settings: ModelSettings, *, stream: bool
) -> dict[str, object]:
    """The body of a request."""
    messages = [{"role": message.role, "content": message.content} for message in prompt.messages]
    body: dict[str, object] = {
        "model": model,
        "messages": messages,
        abilities.limit: settings.output_tokens_max,
        "stream": stream,
    }
    if settings.temperature is not None:
        body["temperature"] = settings.temperature
    if stream and abilities.counts_streams:
        body["stream_options"] = {"include_usage": True}
    if prompt.schema is None:
        return body
    match abilities.format:
        case "schema":
            shape = {"name": prompt.schema_name, "schema": prompt.schema, "strict": True}
            return body | {"response_format": {"type": "json_schema", "json_schema": shape}}
        case "json":
            body["response_format"] = {"type": "json_object"}
        case "text":
            pass
    schema = msgspec.json.encode(prompt.schema).decode()
    messages[0]["content"] += _SHAPE + schema
    return body
