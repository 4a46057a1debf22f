"""Records of a list in a question: several from one reply, or one after another over its rounds.

Among the values of the action, the list is stored under its own name and holds the complete records. The current
record, whose fields are still being collected, is stored beside it under the names of its fields, until the next
round begins or the action ends. So a saved state needs no extra structure for it.
"""

from collections.abc import Iterable, Mapping

from runtime.actions.outputs import check_together
from runtime.answers.reply_values import AnswerRefused
from runtime.turn.context import TurnContext
from scripts.expressions.values import Value, is_given
from scripts.model.base import Expression
from scripts.model.variables import Output, OutputItem, Records


def records_of(items: Iterable[OutputItem]) -> tuple[Records, ...]:
    """List the outputs that are records of a list."""
    return tuple(item for item in items if isinstance(item, Records))


def missing_fields(values: Mapping[str, Value], item: Records) -> tuple[Output, ...]:
    """List the fields without a value; none is missing if a list is known and there is no current record."""
    if _complete(values, item) and not _current(values, item):
        return ()
    return tuple(field for field in item.fields if field.get not in values)


def list_of(values: Mapping[str, Value], item: Records) -> list[Value]:
    """List all records of the action, the current one last."""
    current = _current(values, item)
    known = _complete(values, item)
    if not current or any(_same(current, each) for each in known):
        return known
    return extend(known, [current], item)


def extend(known: Iterable[Value], records: Iterable[Value], item: Records) -> list[Value]:
    """Return a list with further records; a record with the key of an earlier one changes the fields of that one."""
    found = list(known)
    for record in records:
        at = next((at for at, each in enumerate(found) if _same_key(record, each, item)), None)
        earlier = found[at] if at is not None else None
        if at is not None and isinstance(earlier, dict) and isinstance(record, dict):
            found[at] = {**earlier, **record}
        else:
            found.append(record)
    return found


def append_records(run: TurnContext, known: list[Value], records: Iterable[Value], item: Records) -> list[Value]:
    """Return a list with further records; those that are new have the defaults of their fields."""
    found = extend(known, records, item)
    defaults = {
        field.get: run.value(field.default) if isinstance(field.default, Expression) else field.default
        for field in item.fields
        if field.default is not None
    }
    new = [
        {**each, **{name: defaults[name] for name in defaults if name not in each}}
        for each in found[len(known) :]
        if isinstance(each, dict)
    ]
    return [*found[: len(known)], *new]


def with_lists(values: Mapping[str, Value], items: Iterable[OutputItem]) -> Mapping[str, Value]:
    """Return the values of an action as its conditions read them: each list includes the current record."""
    lists = {item.tolist: found for item in records_of(items) if (found := list_of(values, item))}
    return {**values, **lists} if lists else values


def begin_round(run: TurnContext, items: Iterable[OutputItem]) -> None:
    """Add each record that lacks no required field to its list, so that its fields are free for another record."""
    values = run.progress.values
    for item in records_of(items):
        if _is_whole(item, _current(values, item)):
            values[item.tolist] = list_of(values, item)
            _release(values, item)


def take_list(run: TurnContext, item: Records, data: object) -> None:
    """Add the records that a model listed for one reply; values that are no record, and duplicates, are ignored.

    A record that contains everything that an earlier record contains replaces it.
    """
    values = run.progress.values
    found = [record for part in (data if isinstance(data, list) else []) if (record := _record(run, item, part))]
    current = _current(values, item)
    at = next((at for at, each in enumerate(found) if _same_key(each, current, item)), None)
    if at is not None:
        found[at] = {**current, **found[at]}
        _release(values, item)
    elif current and any(_extends(each, current) for each in found):
        _release(values, item)
    elif current and len(found) == 1 and _agree(current, found[0]):
        found = [{**current, **found[0]}]
        _release(values, item)
    earlier = _complete(values, item)
    added: list[Value] = []
    for record in found:
        at = next((at for at, each in enumerate(earlier) if _extends(record, each)), None)
        if at is not None:
            earlier[at] = record
        elif not any(_same(record, each) for each in added):
            added.append(record)
    if earlier or added:
        values[item.tolist] = extend(earlier, added, item)


def take_fields(run: TurnContext, item: Records, before: Mapping[str, Value]) -> None:
    """Decide which record separate fields belong to; `before` are the values before this reply.

    They complete or correct the last record of an earlier round, unless they have another key, or contradict it and
    form a record.
    """
    values = run.progress.values
    current, known = _current(values, item), _complete(values, item)
    if not current or not known or _current(before, item):
        return
    last = known[-1]
    if isinstance(last, dict) and {item.key} <= last.keys() & current.keys() and not _same_key(last, current, item):
        return
    if isinstance(last, dict) and (_agree(last, current) or not _is_whole(item, current)):
        values |= {**last, **current}
        values[item.tolist] = known[:-1]


def _record(run: TurnContext, item: Records, data: object) -> dict[str, Value]:
    """Return the valid fields of a record that the model gave."""
    if not isinstance(data, dict):
        return {}
    values = check_together(run, item.fields, data)
    return {name: value for name, value in values.items() if not isinstance(value, AnswerRefused) and is_given(value)}


def _complete(values: Mapping[str, Value], item: Records) -> list[Value]:
    known = values.get(item.tolist)
    return list(known) if isinstance(known, list) else []


def _current(values: Mapping[str, Value], item: Records) -> dict[str, Value]:
    return {field.get: values[field.get] for field in item.fields if field.get in values}


def _release(values: dict[str, Value], item: Records) -> None:
    for field in item.fields:
        values.pop(field.get, None)


def _is_whole(item: Records, record: Mapping[str, Value]) -> bool:
    return bool(record) and all(field.get in record for field in item.fields if field.required)


def _equal(left: Value, right: Value) -> bool:
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def _agree(left: Mapping[str, Value], right: Mapping[str, Value]) -> bool:
    return all(_equal(left[name], right[name]) for name in left.keys() & right.keys())


def _extends(record: Mapping[str, Value], other: object) -> bool:
    return isinstance(other, dict) and other.keys() <= record.keys() and _agree(record, other)


def _same_key(record: Value, other: Value, item: Records) -> bool:
    """Return whether two records have the same key; letter case and the space around a text make no difference."""
    if not item.key or not isinstance(record, dict) or not isinstance(other, dict):
        return False
    left, right = (_comparable(each.get(item.key)) for each in (record, other))
    return left is not None and _equal(left, right)


def _comparable(value: Value) -> Value:
    return value.strip().casefold() if isinstance(value, str) else value


def _same(record: Mapping[str, Value], other: object) -> bool:
    return isinstance(other, dict) and other.keys() == record.keys() and _agree(record, other)
