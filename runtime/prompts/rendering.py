"""Makes prompts: the instructions from a template and the script, and beside them, as data, what people said.

A prompt is one system message and one user message. The system message is made of the runtime's and the script's own
words alone: not a character of what a user typed, or of a variable's value, is ever in it. Conversations of scripts
often begin with the assistant, or let it speak twice in a row, which many models' own templates refuse as turns; as
data they stand in one message whatever their order.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct

from runtime.context.windows import ContextStrategy, TokenWindow, head_of
from runtime.events import Message
from runtime.ports import CONDENSING, ModelFailed, ModelRequest
from runtime.prompts.data import Marks, encoded, message_line, others_in, tagged
from runtime.prompts.fitting import cut_message, cut_text, cut_value, fitted, longest_in
from runtime.prompts.prompt import Prompt, prompt_of
from runtime.prompts.shapes import limits_of, shape_of, single_outputs, wanted_records
from runtime.prompts.templates import Name, Source, Templates
from runtime.recalled import MemoryLine
from runtime.tokens import MESSAGE_TOKENS, tokens_of
from scripts.model import Locale, Role
from scripts.sandbox import MISSING, ExpressionFailed
from scripts.values import Value
from scripts.variables import Output

INSTRUCTIONS_CHARS_MAX = 200_000


_Given: TypeAlias = Mapping[str, object]


class Prompts:
    """Makes the prompts of a server's templates."""

    def __init__(self, templates: Templates, strategy: ContextStrategy | None = None) -> None:
        self._templates = templates
        self._strategy = strategy or TokenWindow()

    @property
    def schemes(self) -> Collection[str]:
        """The names that scripts may choose as their `template_scheme`."""
        return self._templates.schemes.keys()

    @classmethod
    def load(cls, folder: Path | None = None) -> "Prompts":
        """With the templates of a folder before the runtime's own. Raises PromptInvalid."""
        return cls(Templates.load(folder))

    def render(self, request: ModelRequest, *, context_tokens_max: int) -> Prompt:
        """The prompt for a request, with as much of the conversation as fits the tokens.

        It is longer only where the instructions leave next to nothing for the data, which is cut and never left out.
        Raises ModelFailed where a template cannot be filled, PromptMissing.
        """
        marks = Marks()
        given = _of_condense(request) if request.purpose in CONDENSING else _of_request(request, marks)
        system = self._filled(request.purpose, request, given)
        schema = shape_of(request)
        shape_tokens = 0 if schema is None else tokens_of(msgspec.json.encode(schema).decode())
        left = context_tokens_max - 2 * MESSAGE_TOKENS - tokens_of(system) - shape_tokens
        return prompt_of(system, self._data(request, marks, left), schema, request.purpose, marks.values)

    def _filled(self, name: Name, request: ModelRequest, given: _Given) -> str:
        source = self._templates.find(name, request.locale, request.scheme)
        data = self._templates.find("data", request.locale, request.scheme)
        return _fill(source, {**given, "data": _fill(data, given)})

    def _data(self, request: ModelRequest, marks: Marks, tokens_left: int) -> str:
        """What people said and what was made of it; the conversation gets the tokens that are left."""
        before, after, messages, tokens_left = _blocks(request, marks, tokens_left - tokens_of(_CONVERSATION))
        lines = {id(message): message_line(message) for message in messages}
        costs = {id: tokens_of(line) + 1 for id, line in lines.items()}
        head = head_of(messages[:-1])  # of the system's, which stays first
        left = tokens_left - sum(costs[id(each)] for each in head)
        head, left = (head, left) if left > 0 else ((), tokens_left)
        chosen = self._strategy.choose(messages[len(head) :], max(left, 0), lambda each: costs[id(each)])
        told = [lines[id(each)] for each in chosen]
        if len(chosen) == 1:  # the newest is told whether it fits or not
            told = [_fitted_message(chosen[0], left - 1)]
        told = [*(lines[id(each)] for each in head), *told]
        return "\n".join([*before, tagged("conversation", told), *after])


def variables_for(name: Name) -> frozenset[str]:
    """The names a template may read."""
    match name:
        case "data":
            return _OF_REQUESTS & _OF_CONDENSING
        case "summarise" | "memo":
            return _OF_CONDENSING | {"data"}
        case _:
            return _OF_REQUESTS | {"data"}


# -- the data ---------------------------------------------------------------------------------------------------------


_CONVERSATION = tagged("conversation", [])
_REPLY_PART, _PART = 0.75, 0.5  # of the tokens that are left: the most the reply takes; then the values, then the known
_MEMORIES_PART = 0.25  # then what is remembered


def _blocks(
    request: ModelRequest, marks: Marks, tokens_left: int
) -> tuple[list[str], list[str], Sequence[Message], int]:
    """What stands before the conversation and after it, its messages, and the tokens left for them."""
    spoken = [each for each in request.history if each.content.strip() or others_in(each)]
    left, told = tokens_left, request.told

    def block(tag: str, worded: Callable[[int], str], chars_max: int, part: float = _PART) -> str:
        nonlocal left
        made = fitted(lambda chars: tagged(tag, [worded(chars)]), chars_max, int(left * part) - 1)
        left -= tokens_of(made) + 1
        return made

    def of_value(tag: str, value: Value) -> str:
        return block(tag, lambda chars: encoded(cut_value(value, chars)), longest_in(value))

    if request.purpose in CONDENSING:
        account = [] if told.previous is None else [of_value("previous", told.previous)]
        account += [of_value("summary", told.summary)] if told.summary else []
        return account, [], spoken, left
    reply: list[str] = []
    if request.reply is not None:  # before all else: it stays whole as far as possible
        newest = spoken.pop() if spoken and spoken[-1].content == request.reply else None
        said = newest or Message(0, "", "user", request.reply, "")
        reply = [block("reply", lambda chars: message_line(cut_message(said, chars)), len(said.content), _REPLY_PART)]
    before = [of_value("values", dict(marks.values))] if marks.values else []
    before += [of_value("memo", dict(told.memo))] if told.memo else []
    before += [of_value("summary", told.summary)] if told.summary else []
    if request.memories:
        before.append(tagged("memories", _remembered(request.memories, int(left * _MEMORIES_PART))))
        left -= tokens_of(before[-1]) + 1
    after = [of_value("known", dict(request.known))] if request.known else []
    return before, [*after, *reply], spoken, left


def _remembered(memories: Sequence[MemoryLine], tokens_max: int) -> list[str]:
    """What is remembered, a piece a line, as far as it fits; the first is cut where it does not."""
    told: list[str] = []
    left = tokens_max
    for each in memories:
        said: dict[str, Value] = {"from": each.source, "on": each.time.date().isoformat()}
        line = encoded({**said, "text": each.text})
        if not told:
            line = fitted(partial(_cut_line, said, each.text), len(each.text), tokens_max)
        left -= tokens_of(line) + 1
        if told and left < 0:
            break
        told.append(line)
    return told


def _cut_line(said: dict[str, Value], text: str, chars_max: int) -> str:
    return encoded({**said, "text": cut_text(text, chars_max)})


def _fitted_message(message: Message, tokens_max: int) -> str:
    return fitted(lambda chars: message_line(cut_message(message, chars)), len(message.content), tokens_max)


# -- what templates are filled with -----------------------------------------------------------------------------------


_TAG = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z]{4})?(-([A-Za-z]{2}|[0-9]{3}))?(?![A-Za-z0-9])")

_OF_CONDENSING = frozenset({"locale", "instruct", "has_previous"})
_OF_REQUESTS = frozenset(
    {
        "locale",
        "today",
        "task",
        "exit",
        "goal",
        "strategy",
        "tone",
        "role",
        "listener",
        "round",
        "has_reply",
        "has_memories",
    }
    | {"structured", "criteria", "outputs", "records", "intents", "detectors"}
)


def _of_request(request: ModelRequest, marks: Marks) -> _Given:
    structured = shape_of(request) is not None
    return {
        "locale": tag_of(request.locale),
        "today": request.now.date(),
        "task": marks.marked(request.task, request.task_spans),
        "exit": marks.marked(request.exit, request.exit_spans) if structured else "",
        "goal": request.goal,
        "strategy": request.strategy,
        "tone": request.tone,
        "role": _who(request.speaker, request.role),
        "listener": _who(request.listener, ""),
        "round": request.round,
        "has_reply": request.reply is not None,
        "structured": structured,
        "criteria": request.criteria,
        "outputs": [_wanted(output) for output in single_outputs(request)],
        "records": [
            {"name": each.tolist, "define": each.define, "fields": [_wanted(field) for field in each.fields]}
            for each in wanted_records(request)
        ],
        "intents": [{"id": id, "text": text} for id, text in request.intents.items()],
        "detectors": [
            {"id": id, "define": each.define, "labels": list(each.labels)} for id, each in request.detectors.items()
        ],
    }


def _of_condense(request: ModelRequest) -> _Given:
    return {
        "locale": tag_of(request.locale),
        "instruct": request.told.instruct,
        "has_previous": request.told.previous is not None,
    }


def tag_of(locale: Locale) -> str:
    """A language tag as far as it names language, script and region; what follows could be anybody's words."""
    known = _TAG.match(locale)
    return known[0] if known is not None else "en"


def _who(role: Role | None, id: str) -> dict[str, Value]:
    if role is None:
        return {"name": id, "about": ""}
    return {"name": role.name or role.id, "about": " ".join(part for part in (role.define, role.desc) if part)}


def _wanted(output: Output) -> dict[str, Value]:
    return {
        "name": output.get,
        "define": output.define,
        "type": output.kind or "text",
        "choices": [{"value": each, "label": output.labels.get(each, each)} for each in output.choices],
        "limits": ", ".join(limits_of(output)),
        "required": bool(output.required),
    }


class _Names(Struct, frozen=True):
    """The names a template is filled with."""

    given: Mapping[str, object]

    def value_of(self, name: str) -> object:
        return self.given.get(name, MISSING)


def _fill(source: Source, given: _Given) -> str:
    try:
        return source.compiled.evaluate(_Names(given), chars_max=INSTRUCTIONS_CHARS_MAX).text
    except ExpressionFailed as failed:
        whose = f"scheme {source.scheme}" if source.scheme else "the runtime"
        raise ModelFailed(f"the prompt {source.name} of {whose} cannot be made: {failed}", retryable=False) from failed
