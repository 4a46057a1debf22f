"""JSON Schemas of model replies, by the purpose of the request.

Every schema is valid in the strict mode of endpoints: all properties are required, no others are allowed, and null
means missing. The fields that decide whether the text is said precede the text, so that it can be streamed.
"""

from collections.abc import Iterable, Mapping
from typing import get_args

from runtime.prompts.prompt import Schema
from runtime.state.ports import Advance, DetectorQuestion, ModelRequest
from scripts.expressions.values import number_in
from scripts.model.variables import Output, Records

_SCALAR = ["string", "number", "boolean", "null"]
_PROGRESS: Mapping[str, Schema] = {"progress": {"type": "string", "enum": list(get_args(Advance))}}
_TEXT: Mapping[str, Schema] = {"text": {"type": "string"}}


def shape_of(request: ModelRequest) -> Schema | None:
    """Return the schema of the reply to a request; None if it is plain text to say."""
    shape = _shape_of_reply(request)
    if not request.offers:
        return shape
    return _object({**_tool_call(request), **(_TEXT if shape is None else shape["properties"])})


def _shape_of_reply(request: ModelRequest) -> Schema | None:
    match request.purpose:
        case "ask" if request.reply is not None:
            return _object({**_PROGRESS, **_verdict(judged=True), "values": _values(request), **_TEXT})
        case "ask":
            return None
        case "say" if request.reply is not None:
            return _object({**_verdict(judged=request.criteria), **_TEXT})
        case "chat" if is_judged(request):
            return _object({**_verdict(judged=request.criteria), **_TEXT})
        case "say" | "chat" | "summarise":
            return None
        case "memo":
            return _object({"memo": {"type": "array", "items": _PAIR}})
        case "extract" | "think":
            return _object({"values": _values(request), "reasons": _reasons(request)})
        case "route":
            return _object({"intent": {"type": "string", "enum": [*request.intents, ""]}})
        case "detect":
            return _object({"detected": _object({id: _verdict_schema(each) for id, each in request.detectors.items()})})


def is_judged(request: ModelRequest) -> bool:
    """Return whether the reply says whether the script's condition for the end of the action holds."""
    return request.reply is not None and bool(request.exit or request.exit_spans or request.criteria)


def wanted_records(request: ModelRequest) -> tuple[Records, ...]:
    """Return the records that a reply may give: those with a requested field."""
    names = {output.get for output in request.outputs}
    return tuple(each for each in request.records if any(field.get in names for field in each.fields))


def single_outputs(request: ModelRequest) -> tuple[Output, ...]:
    """Return the outputs that are not fields of records."""
    fields = {field.get for each in wanted_records(request) for field in each.fields}
    return tuple(output for output in request.outputs if output.get not in fields)


def _object(properties: Mapping[str, Schema]) -> Schema:
    return {"type": "object", "properties": {**properties}, "required": [*properties], "additionalProperties": False}


def _verdict(*, judged: bool) -> dict[str, Schema]:
    """Return the properties of the verdict; if `judged`, with measures of the user's progress."""
    measures: dict[str, Schema] = {
        "understanding": {"type": "integer", "description": "0 to 100"},
        "has_questions": {"type": "boolean"},
    }
    return {"exit": {"type": "boolean"}, "exit_reason": {"type": "string"}, **(measures if judged else {})}


def _tool_call(request: ModelRequest) -> dict[str, Schema]:
    """Return the properties of a call of a tool; the arguments are pairs, as strict mode has no optional properties."""
    return {
        "tool": {"type": ["string", "null"], "enum": [*(offer.id for offer in request.offers), None]},
        "arguments": {"type": "array", "items": _PAIR, "description": "a list or an object as JSON in a text"},
    }


def _values(request: ModelRequest) -> Schema:
    values = {output.get: _value(output) for output in single_outputs(request)}
    return _object(values | {each.tolist: _list_of(each) for each in wanted_records(request)})


def _reasons(request: ModelRequest) -> Schema:
    names = [*(output.get for output in single_outputs(request)), *(each.tolist for each in wanted_records(request))]
    return _object({name: {"type": ["string", "null"]} for name in names})


def _list_of(records: Records) -> Schema:
    item = _object({field.get: _value(field) for field in records.fields})
    return _with_description({"type": ["array", "null"], "items": item}, [records.define])


def _value(output: Output) -> Schema:
    notes = [output.define, *limits_of(output)]
    match output.kind:
        case "number" if output.choices:
            numbers = [number_in(each) for each in output.choices]
            return _with_description({"type": ["number", "null"], "enum": [*numbers, None]}, [*notes, *_labels(output)])
        case "number":
            return _with_description({"type": ["number", "null"]}, notes)
        case "boolean":
            return _with_description({"type": ["boolean", "null"]}, notes)
        case "date" | "time" | "datetime" | "timezone":
            return _with_description({"type": ["string", "null"]}, [*notes, _NOTATIONS[output.kind]])
        case "choice" if output.choices:
            return _with_description(
                {"type": ["string", "null"], "enum": [*output.choices, None]}, [*notes, *_labels(output)]
            )
        case "list":
            return _with_description({"type": ["array", "null"], "items": {"type": _SCALAR[:-1]}}, notes)
        case "record":  # strict mode does not allow objects with arbitrary names
            return _with_description({"type": ["array", "null"], "items": _PAIR}, notes)
        case "text" | "choice" | None:
            return _with_description({"type": ["string", "null"]}, notes)


def _labels(output: Output) -> list[str]:
    return [f"{value}: {label}" for value, label in output.labels.items() if value != label]


_NOTATIONS = {
    "date": "YYYY-MM-DD",
    "time": "HH:MM",
    "datetime": "YYYY-MM-DDTHH:MM",
    "timezone": "IANA time zone, such as Europe/Berlin",
}


def limits_of(output: Output) -> list[str]:
    """Return the limits of an output's value, as a model can read them."""
    limits = {"min": output.min, "max": output.max, "pattern": output.pattern}
    return [f"{name} {limit}" for name, limit in limits.items() if limit is not None]


def _with_description(schema: Schema, notes: Iterable[str]) -> Schema:
    description = "; ".join(note for note in notes if note)
    return {**schema, "description": description} if description else schema


def _verdict_schema(watched: DetectorQuestion) -> Schema:
    label: Schema = {"type": "string", "enum": [*watched.labels, ""]} if watched.labels else {"type": "string"}
    return _object({"score": {"type": "number", "description": "0 to 1"}, "label": label})


_PAIR = _object({"name": {"type": "string"}, "value": {"type": _SCALAR}})
