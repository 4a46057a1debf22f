"""A model's structured reply, read back: whatever can be understood of it counts, and nothing else of it does.

Models that are held to no schema write ``EXIT``, ``"True"`` or ``是``, put values beside the verdict, and leave things
out. A value that cannot be what its output wants is left out, as if it had not been given.
"""

import math
from collections.abc import Mapping
from typing import TypeAlias, get_args

from runtime.ports import Advance, ModelReply, ModelRequest, Verdict
from runtime.prompts.shapes import single_outputs, wanted_records
from scripts.values import DeclaredType, Value, ValueRefused, bounded, is_given, number_in
from scripts.variables import Output, Records

REASON_CHARS_MAX = 1_000
YES = frozenset({"true", "yes", "y", "1", "是", "对"})

_Fields: TypeAlias = Mapping[str, object]
_RESERVED = frozenset(
    {"progress", "exit", "exit_reason", "understanding", "has_questions", "values", "reasons", "text"}
)
_ADVANCES: Mapping[str, Advance] = {each: each for each in get_args(Advance)}


def reply_of(request: ModelRequest, data: object) -> ModelReply:
    """What a reply says to a request, from the JSON that was read of it."""
    if isinstance(data, list) and len(data) == 1:
        data = data[0]
    if not isinstance(data, Mapping):
        return ModelReply()
    if request.purpose == "memo":
        return ModelReply(values=_memo(data))
    fields = {_plain(name): value for name, value in data.items() if isinstance(name, str)}
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
        detected=_detected(request, fields.get("detected", data)),
    )


def flag_in(given: object) -> bool | None:
    """A yes or no in any of its spellings; None where there is none."""
    text = _text(given).strip().casefold()
    return text in YES if text else None


def _plain(name: str) -> str:
    return name.strip().casefold().replace("-", "_").replace(" ", "_")


def _text(given: object) -> str:
    """A text; of a number or a yes or no its spelling, of anything else nothing."""
    match given:
        case bool():
            return "true" if given else "false"
        case int() | float():
            return format(given, "g") if isinstance(given, float) else str(given)
        case str():
            return given
        case _:
            return ""


def _number(given: object) -> float | None:
    if isinstance(given, bool):
        return None
    number = given if isinstance(given, int | float) else number_in(_text(given).strip().removesuffix("%"))
    return float(number) if number is not None and abs(number) < 1e15 and math.isfinite(number) else None


def _percent(given: object) -> int | None:
    number = _number(given)
    return None if number is None else round(min(max(number, 0), 100))


# -- values -----------------------------------------------------------------------------------------------------------


def _values(request: ModelRequest, data: _Fields, fields: _Fields) -> dict[str, Value]:
    """The values by their names, from under `values` or, where they are not there, from beside it."""
    under = fields.get("values")
    inner = _by_name(under) if isinstance(under, Mapping) else {}
    beside = {name: value for name, value in _by_name(data).items() if _plain(name) not in _RESERVED}
    found: dict[str, Value] = {}
    for output in single_outputs(request):
        value = _fitting(output, _given(output.get, inner, beside))
        if is_given(value):
            found[output.get] = value
    for each in wanted_records(request):
        records = _records(each, _given(each.tolist, inner, beside))
        if records:
            found[each.tolist] = records
        else:
            found |= _record(each, {**beside, **inner})  # of one record a model may give no more than its fields
    return found


def _by_name(data: _Fields) -> _Fields:
    return {name: value for name, value in data.items() if isinstance(name, str)}


def _given(name: str, inner: _Fields, beside: _Fields) -> object:
    for fields in (inner, beside):
        if name in fields:
            return fields[name]
        same = [key for key in fields if key.strip().casefold() == name.casefold()]
        if len(same) == 1:
            return fields[same[0]]
    return None


def _fitting(output: Output, given: object) -> Value:
    """A value that may be what an output wants, else null; how a text is read as a type is the action's business."""
    try:
        value = bounded(given)
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
    """What is to be kept in mind, by its names; a model may give the record itself, or nothing around it."""
    given = data.get("memo", data)
    try:
        value = bounded(given)
    except ValueRefused:
        return {}
    if isinstance(value, list):
        value = _from_pairs(value)
    return {name: each for name, each in value.items() if is_given(each)} if isinstance(value, dict) else {}


def _from_pairs(pairs: list[Value]) -> Value:
    """The record that a list of names and values stands for."""
    named = [each for each in pairs if isinstance(each, dict) and isinstance(each.get("name"), str)]
    return {each["name"]: each.get("value") for each in named} if named and len(named) == len(pairs) else None


def _records(records: Records, given: object) -> list[Value]:
    items = given if isinstance(given, list) else [given]
    found = [_record(records, _by_name(item)) for item in items if isinstance(item, Mapping)]
    return [record for record in found if record]


def _record(records: Records, given: _Fields) -> dict[str, Value]:
    values = {field.get: _fitting(field, _given(field.get, given, {})) for field in records.fields}
    return {name: value for name, value in values.items() if is_given(value)}


def _reasons(request: ModelRequest, fields: _Fields) -> dict[str, str]:
    given = fields.get("reasons")
    if not isinstance(given, Mapping):
        return {}
    names = {output.get for output in request.outputs} | {each.tolist for each in request.records}
    return {name: reason[:REASON_CHARS_MAX] for name in given if name in names and (reason := _text(given[name]))}


# -- intents and detectors --------------------------------------------------------------------------------------------


def _intent(request: ModelRequest, given: object) -> str:
    name = _text(given).strip()
    if name in request.intents:
        return name
    same = [each for each in request.intents if each.casefold() == name.casefold()]
    return same[0] if len(same) == 1 else ""


def _detected(request: ModelRequest, given: object) -> dict[str, Verdict]:
    if not isinstance(given, Mapping):
        return {}
    return {id: verdict for id in request.detectors if (verdict := _seen(given.get(id))) is not None}


def _seen(given: object) -> Verdict | None:
    fields = _by_name(given) if isinstance(given, Mapping) else {"score": given}
    score = _number(fields.get("score"))
    if score is None:
        return None
    return Verdict(min(max(score, 0.0), 1.0), _text(fields.get("label"))[:REASON_CHARS_MAX])
