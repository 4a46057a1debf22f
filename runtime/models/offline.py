"""The model that is none: no key, no network, the same answer every time.

It says texts as they are written, takes what the parsers find, and is content with the first valid reply.
"""

from runtime.answers import labelled_parts
from runtime.context.extracts import memo_of, summary_of
from runtime.context.ports import Condense
from runtime.models.parsing import read_further, read_outputs
from runtime.phrases import farewells, phrase
from runtime.ports import Hear, ModelReply, ModelRequest
from scripts.values import Value, is_given
from scripts.words import mentioned


class OfflineModel:
    """Answers every request from the request alone."""

    def goes_to(self, request: ModelRequest) -> str:
        """None."""
        return ""

    async def complete(self, request: ModelRequest, hear: Hear | None = None) -> ModelReply:
        """The task's own text, or what the parsers find in the replies."""
        match request.purpose:
            case "say":
                return ModelReply(text=request.task)
            case "ask":
                return _ask(request)
            case "extract":
                return ModelReply()  # what the parsers can find, they have found
            case "think":
                return _think(request)
            case "chat":
                return _chat(request)
            case "route":
                return ModelReply()  # what a reply means beyond its words takes a model
            case "detect":
                return ModelReply()  # what words and measures tell, the detectors have seen
            case "summarise" | "memo":
                return extracted(request)


def extracted(request: ModelRequest) -> ModelReply:
    """An account of the conversation, made of what was said word for word."""
    told = request.told
    if request.purpose == "summarise":
        wish = Condense(purpose="summarise", messages=request.history, previous=told.previous)
        return ModelReply(text=summary_of(wish), extracted=True)
    wish = Condense(purpose="memo", messages=request.history, previous=told.previous)
    return ModelReply(values=memo_of(wish), extracted=True)


def _ask(request: ModelRequest) -> ModelReply:
    if request.reply is None:
        return ModelReply(text=request.task)
    listed = {field.get for each in request.records if request.known.get(each.tolist) for field in each.fields}
    known = request.known.keys() | listed  # a list with a record may stay as it is
    parsed = read_further(request.outputs, known, request.reply, request.now.date(), request.locale)
    wanted = [output.get for output in request.outputs if output.required or len(request.outputs) == 1]
    done = all(name in parsed.values or name in known for name in wanted)
    return ModelReply(
        text="" if done else request.task,
        values=parsed.values,
        reasons=parsed.reasons,
        exit=done,
        exit_reason="a valid reply" if done else "",
    )


def _chat(request: ModelRequest) -> ModelReply:
    """Opens with the task's own text, acknowledges what is said, and lets the user go."""
    if request.reply is None:
        return ModelReply(text=request.task)
    if mentioned(request.reply, farewells(request.locale)):
        return ModelReply(exit=True, exit_reason="the user took leave")
    return ModelReply(text=phrase(request.locale, "noted", own=request.phrases))


def _think(request: ModelRequest) -> ModelReply:
    """The labelled parts of what the user said, the newest first."""
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
