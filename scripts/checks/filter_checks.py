"""Check the filters of memory searches: the names of fields and operators, as far as they are literals.

They are those of `store.interface.memory_filters`, which evaluates filters and also checks the values.
"""

from collections.abc import Iterator, Mapping

from scripts.expressions.suggestions import suggest
from scripts.expressions.values import Value
from scripts.model.base import Location
from scripts.model.diagnostics import Fault

FIELDS = (
    "unit_id", "sequence", "group_id", "session_id", "rank", "level", "content", "source", "creation_time", "end_time",
    "parent_id", "visit_count", "last_visit", "never_delete", "trust", "is_extract", "valid_from", "valid_to",
    "superseded_by", "duplicate_of", "metadata",
)  # fmt: skip
OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$contains", "$like")
COMBINATIONS = ("$and", "$or", "$not")


def filter_faults(filters: Mapping[str, Value], at: Location) -> Iterator[Fault]:
    """Yield the problems of the filters of a search."""
    for name, value in filters.items():
        if name in COMBINATIONS:
            for part in value if isinstance(value, list) else [value]:
                yield from filter_faults(part, at) if isinstance(part, dict) else ()
        elif name.startswith("$"):
            yield _unknown("combination of filters", name, COMBINATIONS, at)
        else:
            yield from _field_faults(name, value, at)


def _field_faults(name: str, value: Value, at: Location) -> Iterator[Fault]:
    head, *keys = name.split(".")
    field = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in head)
    if field not in FIELDS:
        fix = suggest(field, FIELDS, f"Write `metadata.{name}` for a key of the metadata.")
        yield Fault("FILTER_INVALID", f"memory has no field `{name}`", at, fix)
    elif field == "metadata" and not keys:
        key = next(iter(value), "NAME") if isinstance(value, dict) else "NAME"
        yield Fault("FILTER_INVALID", "`metadata` alone has no value", at, f"Write `metadata.{key}:`.")
    elif field != "metadata" and keys:
        yield Fault("FILTER_INVALID", f"`{head}` has no keys", at, f"Write `{head}`.")
    elif isinstance(value, list):
        yield Fault("FILTER_INVALID", f"`{name}` is compared with a list", at, f"Write `{name}: {{$in: […]}}`.")
    elif isinstance(value, dict):
        yield from (_unknown("operator", each, OPERATORS, at) for each in value if each not in OPERATORS)


def _unknown(what: str, name: str, known: tuple[str, ...], at: Location) -> Fault:
    return Fault("FILTER_INVALID", f"there is no {what} `{name}`", at, f"Use one of {', '.join(known)}.")
