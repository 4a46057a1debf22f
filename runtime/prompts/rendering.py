"""Rendering of prompts: instructions from a template and the script, and the users' texts as data.

A prompt is one system message and one user message. The system message contains only texts of the runtime and the
script, never a text of a user or the value of a variable. Scripted conversations often begin with the assistant, or
let it speak twice in a row, which the chat templates of many models refuse; as data in one message, they may have any
order.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TypeAlias

import msgspec
from msgspec import Struct

from runtime.context.text_lengths import MESSAGE_TOKENS, cut_message, cut_text, cut_value, fit, longest_in, tokens_of
from runtime.context.windows import head_of, last_exchanges
from runtime.prompts.escaping import Marks, between_tags, encode_value, message_line, others_in
from runtime.prompts.prompt import Prompt, prompt_of
from runtime.prompts.shapes import is_judged, limits_of, shape_of, single_outputs, wanted_records
from runtime.prompts.templates import Name, Templates, TemplateSource
from runtime.state.events import Message
from runtime.state.ports import CONDENSING, ModelFailed, ModelRequest, ToolOutcome
from runtime.state.recall_types import MemoryLine
from scripts.expressions.sandbox import MISSING, ExpressionFailed
from scripts.expressions.values import Value
from scripts.model.script import Locale, Role
from scripts.model.variables import Output

INSTRUCTIONS_CHARS_MAX = 200_000


_Variables: TypeAlias = Mapping[str, object]


class Prompts:
    """Renders prompts with a server's templates."""

    def __init__(self, templates: Templates) -> None:
        self._templates = templates

    @property
    def schemes(self) -> Collection[str]:
        """Return the names that scripts may use as their `template_scheme`."""
        return self._templates.schemes.keys()

    def render(self, request: ModelRequest, *, context_tokens_max: int) -> Prompt:
        """Return the prompt for a request, with as much of the conversation as fits into the tokens.

        It is longer only if the instructions leave almost no tokens for the data, which is cut but never left out.
        Raises PromptMissing, and ModelFailed if a template cannot be rendered.
        """
        marks = Marks()
        variables = _of_condense(request) if request.purpose in CONDENSING else _of_request(request, marks)
        system = self._fill_template(request.purpose, request, variables)
        schema = shape_of(request)
        shape_tokens = 0 if schema is None else tokens_of(msgspec.json.encode(schema).decode())
        left = context_tokens_max - 2 * MESSAGE_TOKENS - tokens_of(system) - shape_tokens
        return prompt_of(system, self._data(request, marks, left), schema, request.purpose, marks.values)

    def _fill_template(self, name: Name, request: ModelRequest, variables: _Variables) -> str:
        source = self._templates.find(name, request.locale, request.scheme)
        parts = {"data": self._part("data", request, variables)}
        if not (request.offers or request.outcomes):
            return _fill(source, {**variables, **parts})
        parts["tools"] = self._part("tools", request, {**variables, **_of_tools(request)})
        filled = _fill(source, {**variables, **parts})
        # a template written without tools in mind
        return filled if "tools" in source.compiled.names else f"{filled}\n\n{parts['tools']}"

    def _part(self, name: Name, request: ModelRequest, variables: _Variables) -> str:
        return _fill(self._templates.find(name, request.locale, request.scheme), variables)

    def _data(self, request: ModelRequest, marks: Marks, tokens_left: int) -> str:
        """Return the data; the conversation gets the tokens that the other data leaves."""
        before, after, messages, tokens_left = _blocks(request, marks, tokens_left - tokens_of(_CONVERSATION))
        lines = {id(message): message_line(message) for message in messages}
        costs = {id: tokens_of(line) + 1 for id, line in lines.items()}
        head = head_of(messages[:-1])  # the system messages, which remain first
        left = tokens_left - sum(costs[id(each)] for each in head)
        head, left = (head, left) if left > 0 else ((), tokens_left)
        chosen = last_exchanges(messages[len(head) :], max(left, 0), lambda each: costs[id(each)])
        earlier = [lines[id(each)] for each in chosen]
        if len(chosen) == 1:  # the newest message is always included
            earlier = [_fitted_message(chosen[0], left - 1)]
        earlier = [*(lines[id(each)] for each in head), *earlier]
        return "\n".join([*before, between_tags("conversation", earlier), *after])


def variables_for(name: Name) -> frozenset[str]:
    """Return the names that a template may read."""
    match name:
        case "data":
            return _OF_REQUESTS & _OF_CONDENSING
        case "tools":
            return _OF_REQUESTS | {"tool_list", "has_results"}
        case "summarise" | "memo":
            return _OF_CONDENSING | {"data"}
        case "ask" | "chat":
            return _OF_REQUESTS | {"data", "tools"}
        case _:
            return _OF_REQUESTS | {"data"}


# -- the data ---------------------------------------------------------------------------------------------------------


_CONVERSATION = between_tags("conversation", [])
_REPLY_PART, _PART = 0.75, 0.5  # maximum part of the remaining tokens: of the reply, then of each other value
_MEMORIES_PART = 0.25  # then of the memories


def _blocks(
    request: ModelRequest, marks: Marks, tokens_left: int
) -> tuple[list[str], list[str], Sequence[Message], int]:
    """Return the blocks before and after the conversation, its messages, and the tokens left for them."""
    spoken = [each for each in request.history if each.content.strip() or others_in(each)]
    left, earlier = tokens_left, request.conversation_summary

    def block(tag: str, worded: Callable[[int], str], chars_max: int, part: float = _PART) -> str:
        nonlocal left
        made = fit(lambda chars: between_tags(tag, [worded(chars)]), chars_max, int(left * part) - 1)
        left -= tokens_of(made) + 1
        return made

    def of_value(tag: str, value: Value) -> str:
        return block(tag, lambda chars: encode_value(cut_value(value, chars)), longest_in(value))

    if request.purpose in CONDENSING:
        account = [] if earlier.previous is None else [of_value("previous", earlier.previous)]
        account += [of_value("summary", earlier.summary)] if earlier.summary else []
        return account, [], spoken, left
    reply: list[str] = []
    if request.reply is not None:  # first, so that it is cut as little as possible
        newest = spoken.pop() if spoken and spoken[-1].content == request.reply else None
        said = newest or Message(0, "", "user", request.reply, "")
        reply = [block("reply", lambda chars: message_line(cut_message(said, chars)), len(said.content), _REPLY_PART)]
    before = [of_value("values", dict(marks.values))] if marks.values else []
    before += [of_value("memo", dict(earlier.memo))] if earlier.memo else []
    before += [of_value("summary", earlier.summary)] if earlier.summary else []
    if request.memories:
        before.append(between_tags("memories", _memory_lines(request.memories, int(left * _MEMORIES_PART))))
        left -= tokens_of(before[-1]) + 1
    after = [of_value("known", dict(request.known))] if request.known else []
    after += [of_value("tool_results", list(map(_outcome, request.outcomes)))] if request.outcomes else []
    return before, [*after, *reply], spoken, left


def _memory_lines(memories: Sequence[MemoryLine], tokens_max: int) -> list[str]:
    """Return the memories that fit, one a line; the first is cut if it does not fit."""
    earlier: list[str] = []
    left = tokens_max
    for each in memories:
        said: dict[str, Value] = {"from": each.source, "on": each.time.date().isoformat()}
        line = encode_value({**said, "text": each.text})
        if not earlier:
            line = fit(partial(_cut_line, said, each.text), len(each.text), tokens_max)
        left -= tokens_of(line) + 1
        if earlier and left < 0:
            break
        earlier.append(line)
    return earlier


def _cut_line(said: dict[str, Value], text: str, chars_max: int) -> str:
    return encode_value({**said, "text": cut_text(text, chars_max)})


def _fitted_message(message: Message, tokens_max: int) -> str:
    return fit(lambda chars: message_line(cut_message(message, chars)), len(message.content), tokens_max)


# -- variables of templates -------------------------------------------------------------------------------------------


_TAG = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z]{4})?(-([A-Za-z]{2}|[0-9]{3}))?(?![A-Za-z0-9])")


def _of_request(request: ModelRequest, marks: Marks) -> _Variables:
    structured = shape_of(request) is not None
    return {
        "locale": tag_of(request.locale),
        "today": request.now.date(),
        "task": marks.mark(request.task, request.task_spans),
        "exit": marks.mark(request.exit, request.exit_spans) if structured else "",
        "goal": request.goal,
        "strategy": request.strategy,
        "tone": request.tone,
        "role": _who(request.speaker, request.role),
        "listener": _who(request.listener, ""),
        "round": request.round,
        "has_reply": request.reply is not None,
        "structured": structured,
        "judged": is_judged(request),
        "has_tools": bool(request.offers),
        "criteria": request.criteria,
        "outputs": [_output_fields(output) for output in single_outputs(request)],
        "records": [
            {"name": each.tolist, "define": each.define, "fields": [_output_fields(field) for field in each.fields]}
            for each in wanted_records(request)
        ],
        "intents": [{"id": id, "text": text} for id, text in request.intents.items()],
        "detectors": [
            {"id": id, "define": each.define, "labels": list(each.labels)} for id, each in request.detectors.items()
        ],
    }


def _of_tools(request: ModelRequest) -> _Variables:
    return {
        "tool_list": [
            {
                "name": offer.id,
                "define": offer.define,
                "params": [
                    {"name": name, "schema": encode_value(dict(schema)), "required": name in offer.required}
                    for name, schema in offer.params.items()
                ],
            }
            for offer in request.offers
        ],
        "has_results": bool(request.outcomes),
    }


def _outcome(outcome: ToolOutcome) -> Value:
    """Return the outcome of a call as the model reads it."""
    call: dict[str, Value] = {"tool": outcome.call.tool, "arguments": dict(outcome.call.arguments)}
    failure = outcome.failure
    if failure is not None:
        return {**call, "failure": failure.kind, "message": failure.message}
    return {**call, "result": outcome.result}


def _of_condense(request: ModelRequest) -> _Variables:
    wish = request.conversation_summary
    return {"locale": tag_of(request.locale), "instruct": wish.instruct, "has_previous": wish.previous is not None}


def tag_of(locale: Locale) -> str:
    """Return a language tag with only language, script and region; the rest may be untrusted text."""
    known = _TAG.match(locale)
    return known[0] if known is not None else "en"


def _who(role: Role | None, id: str) -> dict[str, Value]:
    if role is None:
        return {"name": id, "about": ""}
    return {"name": role.name or role.id, "about": " ".join(part for part in (role.define, role.desc) if part)}


def _output_fields(output: Output) -> dict[str, Value]:
    return {
        "name": output.get,
        "define": output.define,
        "type": output.kind or "text",
        "choices": [{"value": each, "label": output.labels.get(each, each)} for each in output.choices],
        "limits": ", ".join(limits_of(output)),
        "required": bool(output.required),
    }


class _Names(Struct, frozen=True):
    """The variables of a template."""

    variables: Mapping[str, object]

    def value_of(self, name: str) -> object:
        return self.variables.get(name, MISSING)


def _fill(source: TemplateSource, variables: _Variables) -> str:
    try:
        return source.compiled.evaluate(_Names(variables), chars_max=INSTRUCTIONS_CHARS_MAX).text
    except ExpressionFailed as failed:
        whose = f"scheme {source.scheme}" if source.scheme else "the runtime"
        message = f"the prompt {source.name} of {whose} cannot be filled: {failed}"
        raise ModelFailed(message, retryable=False) from failed


_ANY = ModelRequest(purpose="say", action_id="", round=0, task="", locale="en", now=datetime.fromtimestamp(0, UTC))
_OF_REQUESTS = frozenset(_of_request(_ANY, Marks()))
_OF_CONDENSING = frozenset(_of_condense(_ANY))
