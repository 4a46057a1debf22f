"""The `config` of an action in the session form: its keys, older ones among them, and which action takes which."""

from collections.abc import Mapping as MappingType
from typing import Annotated, Literal

from msgspec import Meta

from scripts.actions import ExitCriteria, Rounds
from scripts.model import FormField
from scripts.nodes import Node, Template
from scripts.values import Value
from scripts.variables import Output

ActionType = Literal["ai_say", "ai_ask", "ai_think", "use_skill", "show_form", "show_pic"]
TEXT_KEYS = ("content", "question_template", "prompt_template", "content_template")

_SPOKEN_KEYS = {*TEXT_KEYS, "tone", "ai_role", "exit_criteria", "max_rounds"}
_OUTPUT_KEYS = {"output", "output_variables", "target_variable", "extraction_prompt", "required"}
CONFIG_KEYS: MappingType[ActionType, set[str]] = {
    "ai_say": {*_SPOKEN_KEYS, "require_acknowledgment", "say_goal"},
    "ai_ask": {*_SPOKEN_KEYS, *_OUTPUT_KEYS, "exit"},
    "ai_think": {*TEXT_KEYS, *_OUTPUT_KEYS, "think_goal", "input_variables", "tone", "ai_role"},
    "use_skill": {"skill", "input", "returns", "tone", "ai_role"},
    "show_form": {"form", "title", "fields", "content", "max_rounds", "tone", "ai_role"},
    "show_pic": {"image", "url", "caption", "tone", "ai_role"},
}


TUNING = {
    "tone", "ai_role", "exit", "exit_criteria", "max_rounds", "say_goal", "think_goal", "input_variables",
    "extraction_prompt", "required", "title",
}  # fmt: skip
"""What only tunes an action: where there is nothing to tune, the conversation is the same without it."""
FIT_FOR = {
    **dict.fromkeys(("output", "output_variables", "target_variable"), "Move it to an `ai_ask` or `ai_think`."),
    **dict.fromkeys(("content", "content_template", "question_template"), "Move the text to an `ai_say` before it."),
    "require_acknowledgment": "Move it to an `ai_say` beside it.",
}


def _older(instead: str) -> Meta:
    return Meta(extra={"instead": instead})


_OlderText = Annotated[Template | None, _older("`content`")]


class Config(Node, frozen=True, kw_only=True):
    content: Template | None = None
    content_template: _OlderText = None
    question_template: _OlderText = None
    prompt_template: _OlderText = None
    output: tuple[Output, ...] = ()
    target_variable: Annotated[str | None, _older("`output: [{get: …}]`")] = None
    extraction_prompt: Annotated[str | None, _older("`define` inside `output`")] = None
    required: Annotated[bool | None, _older("`required` inside `output`")] = None
    exit: Template | None = None
    tone: str = ""
    max_rounds: Rounds | None = None
    require_acknowledgment: bool | None = None
    say_goal: str = ""
    think_goal: str = ""
    input_variables: tuple[str, ...] = ()
    output_variables: tuple[str, ...] = ()
    exit_criteria: ExitCriteria | None = None
    ai_role: str = ""
    skill: str | None = None
    input: MappingType[str, Value] = {}
    returns: MappingType[str, str] = {}
    form: str = ""
    title: Template | None = None
    fields: tuple[FormField, ...] = ()
    image: Template | None = None
    url: Template | None = None
    caption: Template | None = None
