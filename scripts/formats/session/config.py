"""The keys of the `config` of an action in the session format."""

from collections.abc import Mapping as MappingType
from typing import Annotated, Literal

from msgspec import Meta

from scripts.expressions.values import Value
from scripts.model.actions import Rounds
from scripts.model.base import Node, Template
from scripts.model.older_keys import ExitCriteria
from scripts.model.script import FormField
from scripts.model.variables import Output

ActionType = Literal["ai_say", "ai_ask", "ai_think", "use_skill", "show_form", "show_pic"]
TEXT_KEYS = ("content", "question_template", "prompt_template", "content_template")

FIT_FOR = {
    **dict.fromkeys(("output", "output_variables", "target_variable"), "Move it to an `ai_ask` or `ai_think`."),
    **dict.fromkeys(("content", "content_template", "question_template"), "Move the text to an `ai_say` before it."),
    "require_acknowledgment": "Move it to an `ai_say` beside it.",
    "choices": "Write it inside the output that it is for: `output: [{get: NAME, choices: […]}]`.",
}


def _older(instead: str) -> Meta:
    return Meta(extra={"instead": instead})


_OlderText = Annotated[Template | None, _older("`content`")]


class ComputedOutput(Node, frozen=True, kw_only=True):
    """A value that is computed after the answer; in a text with operators, from the variables in it."""

    set: str
    value: Value
    when: Template | None = None


class Config(Node, frozen=True, kw_only=True):
    content: Template | None = None
    content_template: _OlderText = None
    question_template: _OlderText = None
    prompt_template: _OlderText = None
    output: tuple[Output, ...] = ()
    assignments: tuple[ComputedOutput, ...] = ()
    target_variable: Annotated[str | None, _older("`output: [{get: …}]`")] = None
    extraction_prompt: Annotated[str | None, _older("`define` inside `output`")] = None
    required: Annotated[bool | None, _older("`required` inside `output`")] = None
    choices: Value = None
    exit: Template | None = None
    tone: str = ""
    max_rounds: Rounds | None = None
    require_acknowledgment: bool | None = None
    say_goal: str = ""
    think_goal: str = ""
    input_variables: Value = None
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
