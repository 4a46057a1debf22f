"""Parsing of a model's structured reply: every recognised field is used, all others are ignored.

Models without a response schema write ``EXIT``, ``"True"`` or ``是``, put values beside the verdict, and omit fields. A
value that cannot be valid for its output is ignored.
"""

import json
import math
from collections.abc import Mapping
from typing import TypeAlias, get_args

from runtime.prompts.shapes import single_outputs, wanted_records
from runtime.state.ports import Advance, ModelReply, ModelRequest, ToolCall, ToolOffer, Verdict
from scripts.expressions.values import DeclaredType, Value, ValueRefused, is_given, number_in, to_value
from scripts.model.tools import JsonSchema
from scripts.model.variables import Output, Records

REASON_CHARS_MAX = 1_000
YES = frozenset({"true", "yes", "y", "1", "是", "对"})

_Fields: TypeAlias = Mapping[str, object]
_RESERVED = {"progress", "exit", "exit_reason", "understanding", "has_questions", "values", "reasons", "text"}
_OF_CALLS = frozenset({"tool", "tool_call", "arguments", "parameters"})
_ADVANCES: Mapping[str, Advance] = {each: each for each in get_args(Advance)}


def reply_of(request: ModelRequest, data: object) -> ModelReply:
    """Return the reply to a request in decoded JSON."""
    if isinstance(data, list) and len(data) == 1:
        data = data[0]
    if not isinstance(data, Mapping):
        return ModelReply()
    if request.purpose == "memo":
        return ModelReply(values=_memo(data))
    fields = {_plain(name): value for name, value in data.items()}
    return ModelReply(
        text=_text(fields.get("text")),
        values=_values(request, data, fields),
        reasons=_reasons(request, fields),
        exit=flag_in(fields.get("exit")),
        exit_reason=_text(fields.get("exit_reason"))[:REASON_CHARS_MAX],
        understanding=_percent(fields.get("understanding")),
        has_questions=flag_in(fields.get("has_questions")),
        progress=_ADVANCES.get(_plain(_text(fields.get("progress")))),
        intent=_intent(request, fields.get("intent")),
        detected=_read_verdicts(request, fields.get("detected", data)),
        tool_call=_tool_call(request, fields) if request.offers else None,
    )


def flag_in(raw: object) -> bool | None:
    """Return a yes or no in any of its spellings; None for other values."""
    text = _text(raw).strip().casefold()
    return text in YES if text else None


def _plain(name: str) -> str:
    return name.strip().casefold().replace("-", "_").replace(" ", "_")


def _text(raw: object) -> str:
    """Return a text; a number or boolean as text, any other value as an empty text."""
    match raw:
        case bool():
            return "true" if raw else "false"
        case int() | float():
            return format(raw, "g") if isinstance(raw, float) else str(raw)
        case str():
            return raw
        case _:
            return ""


def _number(raw: object) -> float | None:
    if isinstance(raw, bool):
        return None
    number = raw if isinstance(raw, int | float) else number_in(_text(raw).strip().removesuffix("%"))
    return float(number) if number is not None and abs(number) < 1e15 and math.isfinite(number) else None


def _percent(raw: object) -> int | None:
    number = _number(raw)
    return None if number is None else round(min(max(number, 0), 100))


# -- values -----------------------------------------------------------------------------------------------------------


def _values(request: ModelRequest, data: _Fields, fields: _Fields) -> dict[str, Value]:
    """Return the values by name, from `values` or from the fields beside it."""
    under = fields.get("values")
    inner = under if isinstance(under, Mapping) else {}
    reserved = _RESERVED | _OF_CALLS if request.offers else _RESERVED
    beside = {name: value for name, value in data.items() if _plain(name) not in reserved}
    found: dict[str, Value] = {}
    for output in single_outputs(request):
        value = _fitting(output, _lookup(output.get, inner, beside))
        if is_given(value):
            found[output.get] = value
    for each in wanted_records(request):
        records = _records(each, _lookup(each.tolist, inner, beside))
        if records:
            found[each.tolist] = records
        else:
            found |= _record(each, {**beside, **inner})  # a model may give only the fields of a single record
    return found


def _lookup(name: str, inner: _Fields, beside: _Fields) -> object:
    for fields in (inner, beside):
        if name in fields:
            return fields[name]
        same = [key for key in fields if key.strip().casefold() == name.casefold()]
        if len(same) == 1:
            return fields[same[0]]
    return None


def _fitting(output: Output, raw: object) -> Value:
    """Return a value that may be valid for an output, else None; the action parses texts of typed outputs."""
    try:
        value = to_value(raw)
    except ValueRefused:
        return None
    if output.kind == "boolean" and isinstance(value, int) and value in {0, 1}:
        return bool(value)
    if output.kind == "record" and isinstance(value, list):
        value = _from_pairs(value)
    return value if output.kind is None or _may_be(output.kind, value) else None


def _may_be(kind: DeclaredType, value: Value) -> bool:
    match value:
        case bool():
            return kind == "boolean"
        case int() | float():
            return kind in {"number", "text", "choice"}
        case str():
            return kind != "record"
        case list():
            return kind == "list"
        case dict():
            return kind == "record"
        case None:
            return False


def _memo(data: _Fields) -> dict[str, Value]:
    """Return the facts of a memo by name; a model may give the record itself, or wrap it."""
    memo = data.get("memo", data)
    try:
        value = to_value(memo)
    except ValueRefused:
        return {}
    if isinstance(value, list):
        value = _from_pairs(value)
    return {name: each for name, each in value.items() if is_given(each)} if isinstance(value, dict) else {}


def _from_pairs(pairs: list[Value]) -> Value:
    """Return the record of a list of name and value pairs."""
    named = [each for each in pairs if isinstance(each, dict) and isinstance(each.get("name"), str)]
    return {each["name"]: each.get("value") for each in named} if named and len(named) == len(pairs) else None


def _records(records: Records, raw: object) -> list[Value]:
    items = raw if isinstance(raw, list) else [raw]
    found = [_record(records, item) for item in items if isinstance(item, Mapping)]
    return [record for record in found if record]


def _record(records: Records, raw: _Fields) -> dict[str, Value]:
    values = {field.get: _fitting(field, _lookup(field.get, raw, {})) for field in records.fields}
    return {name: value for name, value in values.items() if is_given(value)}


def _reasons(request: ModelRequest, fields: _Fields) -> dict[str, str]:
    raw = fields.get("reasons")
    if not isinstance(raw, Mapping):
        return {}
    names = {output.get for output in request.outputs} | {each.tolist for each in request.records}
    return {name: reason[:REASON_CHARS_MAX] for name in raw if name in names and (reason := _text(raw[name]))}


# -- intents and detectors --------------------------------------------------------------------------------------------


def _intent(request: ModelRequest, raw: object) -> str:
    name = _text(raw).strip()
    if name in request.intents:
        return name
    same = [each for each in request.intents if each.casefold() == name.casefold()]
    return same[0] if len(same) == 1 else ""


def _read_verdicts(request: ModelRequest, raw: object) -> dict[str, Verdict]:
    """Return the verdicts by the id of the detector; models also write a list of records that name theirs."""
    if isinstance(raw, list):
        raw = {_detector_in(each): each for each in raw if isinstance(each, Mapping)}
    if not isinstance(raw, Mapping):
        return {}
    plain = {_plain(str(name)): each for name, each in raw.items()}
    verdicts = ((id, _read_verdict(raw.get(id, plain.get(_plain(id))))) for id in request.detectors)
    return {id: verdict for id, verdict in verdicts if verdict is not None}


def _detector_in(fields: _Fields) -> str:
    return next((name for key in ("detector", "name", "id") if (name := _text(fields.get(key)))), "")


def _read_verdict(raw: object) -> Verdict | None:
    fields = raw if isinstance(raw, Mapping) else {"score": raw}
    given = fields.get("score")
    score = float(given) if isinstance(given, bool) else _number(given)
    if score is None:
        return None
    if _text(given).strip().endswith("%"):
        score /= 100
    return Verdict(min(max(score, 0.0), 1.0), _text(fields.get("label"))[:REASON_CHARS_MAX])


# -- calls of tools ---------------------------------------------------------------------------------------------------


def _tool_call(request: ModelRequest, fields: _Fields) -> ToolCall | None:
    """Return the call of an offered tool; models also write it as `{name, arguments}`, by itself or as `tool`."""
    called = fields.get("tool", fields.get("tool_call", fields.get("name")))
    if isinstance(called, Mapping):
        fields = {_plain(name): value for name, value in called.items()}
        called = fields.get("name", fields.get("tool"))
    offer = offered_tool(request, _text(called))
    arguments = fields.get("arguments", fields.get("parameters"))
    return None if offer is None else ToolCall(offer.id, _arguments(offer, arguments))


def offered_tool(request: ModelRequest, name: str) -> ToolOffer | None:
    """Return the offered tool that a model means by a name; None if there is none."""
    wanted = name.strip().casefold().removeprefix("functions.")
    return next((each for each in request.offers if each.id.casefold() == wanted), None)


def _arguments(offer: ToolOffer, raw: object) -> dict[str, Value]:
    """Return the arguments by name, without those that are null."""
    try:
        given = to_value(_decode(raw) if isinstance(raw, str) else raw)
    except ValueRefused:
        return {}
    named = _from_pairs(given) if isinstance(given, list) else given
    if not isinstance(named, dict):
        return {}
    typed = {name: _argument(offer.params.get(name, {}), value) for name, value in named.items()}
    return {name: value for name, value in typed.items() if value is not None}


def _argument(schema: JsonSchema, value: Value) -> Value:
    """Return an argument in the type of its schema, as far as its text or number can be read as one."""
    kinds = schema.get("type")
    match value:
        case str() if kinds in {"array", "object"}:
            return _decode(value)
        case str() if kinds in {"number", "integer"}:
            number = number_in(value.strip())
            return value if number is None else number
        case str() if kinds == "boolean":
            flag = value.strip().casefold()
            return flag == "true" if flag in {"true", "false"} else value
        case int() | float() if kinds == "string":
            return _text(value)
        case _:
            return value


def _decode(text: str) -> Value:
    """Return the value of a text in JSON; another text does not change."""
    try:
        return to_value(json.loads(text))
    except (ValueError, RecursionError, ValueRefused):
        return text
