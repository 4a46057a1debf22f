"""A request as a language model gets it."""

import hashlib
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

Schema: TypeAlias = dict[str, Any]
"""A JSON Schema: a document of its own grammar, passed on as it is."""


class PromptMessage(Struct, frozen=True):
    """One message to the model."""

    role: Literal["system", "user"]
    content: str


class Prompt(Struct, frozen=True, kw_only=True):
    """The messages, and the shape of the reply; without a `schema` the reply is plain text, the words to say."""

    messages: tuple[PromptMessage, ...]
    schema: Schema | None = None
    schema_name: str = ""
    digest: str
    values: Mapping[str, str] = {}  # what the marks in the instructions stand for, by their numbers


_encoder = msgspec.json.Encoder(order="deterministic")


def prompt_of(
    system: str, data: str, schema: Schema | None, schema_name: str, values: Mapping[str, str] | None = None
) -> Prompt:
    """The prompt of an instruction and the data it is about; the same for the same texts."""
    messages = (PromptMessage("system", system), PromptMessage("user", data))
    # the order of a schema's properties is the order of the reply, so that it counts; `dict`s keep it in a list
    shape = None if schema is None else msgspec.json.encode(schema)
    digest = hashlib.sha256(_encoder.encode((messages, shape, schema_name))).hexdigest()
    name = schema_name if schema else ""
    return Prompt(messages=messages, schema=schema, schema_name=name, digest=digest, values=values or {})
