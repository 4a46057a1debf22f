"""The model without a language model: no key, no network, deterministic.

It says texts as they are written, returns the values that the parsers find, and accepts the first valid reply.
"""

from runtime.answers.languages import farewells, phrase
from runtime.answers.reply_values import CERTAIN_TYPES, labelled_parts, read_further, read_outputs, read_records
from runtime.context.extracts import memo_of, sentences_of, summary_of
from runtime.state.ports import ModelReply, ModelRequest, OnReply
from scripts.detectors.words import find_mentioned
from scripts.expressions.values import Value, is_given


class OfflineModel:
    """Answers every request from the request alone."""

    def goes_to(self, request: ModelRequest) -> str:
        """Return an empty name, because no language model is called."""
        return ""

    async def complete(self, request: ModelRequest, hear: OnReply | None = None) -> ModelReply:
        """Return the task's own text, or what the parsers find in the replies."""
        match request.purpose:
            case "say":
                return ModelReply(text=request.task)
            case "ask":
                return _ask(request)
            case "think":
                return _think(request)
            case "chat":
                return _chat(request)
            case "summarise" | "memo":
                return extract_summary(request)
            case "extract" | "route" | "detect":
                return ModelReply()  # parsers, words and measures have been applied; the rest needs a model


def extract_summary(request: ModelRequest) -> ModelReply:
    """Return a summary or memo made of the messages' own sentences."""
    previous = request.conversation_summary.previous
    if request.purpose == "summarise":
        return ModelReply(text=summary_of(request.history, previous), extracted=True)
    return ModelReply(values=memo_of(request.history, previous), extracted=True)


def _ask(request: ModelRequest) -> ModelReply:
    if request.reply is None:
        return ModelReply(text=request.task)
    listed = {field.get for each in request.records if request.known.get(each.tolist) for field in each.fields}
    repeats = request.ends_by_condition is True  # the question is put again until its values meet the condition
    known = listed if repeats else request.known.keys() | listed  # a list with a record needs no further one
    parsed = read_further(request.outputs, known, request.reply, request.now.date(), request.locale)
    values = dict(parsed.values)
    for each in request.records:
        if records := read_records(each.fields, request.reply, request.now.date(), request.locale):
            values = {name: value for name, value in values.items() if name not in {field.get for field in each.fields}}
            values[each.tolist] = records
            known |= {field.get for field in each.fields}
    outputs = request.outputs
    wanted = [output.get for output in outputs if output.required or len(outputs) == 1]
    is_open = any(each.kind not in CERTAIN_TYPES or each.required is False for each in outputs)
    is_answer = not outputs or is_open or bool(values or known)  # a reply with none of several values is no answer
    done = not repeats and is_answer and all(name in values or name in known for name in wanted)
    text, reason = ("", "a valid reply") if done else (request.task, "")
    return ModelReply(text=text, values=values, reasons=parsed.reasons, exit=done, exit_reason=reason)


def _chat(request: ModelRequest) -> ModelReply:
    """Say the task's own text, acknowledge messages, and end at a farewell."""
    if request.reply is None:
        return ModelReply(text=request.task)
    if find_mentioned(request.reply, farewells(request.locale)):
        return ModelReply(exit=True, exit_reason="the user took leave")
    text = phrase(request.locale, "noted", own=request.phrases)
    if request.is_last is True:  # no answer to a question would be read
        text = " ".join(each for each in sentences_of(text) if not each.endswith(("?", "？"))) or text
    return ModelReply(text=text)


def _think(request: ModelRequest) -> ModelReply:
    """Return the labelled parts of the user's messages, the newest first."""
    said = [message.content for message in reversed(request.history) if message.role == "user"]
    values: dict[str, Value] = {}
    for output in request.outputs:
        for text in said:
            part = labelled_parts(text, [output.get], request.locale).get(output.get, "")
            found = read_outputs((output,), part, request.now.date(), request.locale).values
            if is_given(found.get(output.get)):
                values[output.get] = found[output.get]
                break
    missing = [output.get for output in request.outputs if output.get not in values]
    return ModelReply(values=values, reasons=dict.fromkeys(missing, "there is no model, and no reply names it"))
