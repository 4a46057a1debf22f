"""What may be written at a place of a file: keys, fixed values and their meanings, from the JSON Schema of its kind."""

from collections.abc import Iterator
from functools import cache

from msgspec import Struct

from scripts.editing.line_place import ITEM, Place
from scripts.model.script import Script
from scripts.yaml.json_schema import Schema, json_schema

_DEPTH_MAX = 8  # of references and alternatives in each other
_ACTIONS_MIN = 10  # a choice of so many kinds of mappings is that of an action


class Offer(Struct, frozen=True):
    """What may be written: a key, a value or a name, and what it means."""

    label: str
    detail: str = ""


class KnownKeys:
    """The keys of a kind of file. `kind` is the type that it is read into, such as Script or IncludeFile."""

    def __init__(self, kind: type[Struct]) -> None:
        self._whole: Schema = json_schema(kind)

    def keys_at(self, place: Place) -> list[Offer]:
        """Return the keys that may be added at a place; for a new action, the types of actions."""
        kinds = self._kinds_at(place)
        if len(kinds) >= _ACTIONS_MIN:
            return [Offer(each.get("title", ""), each.get("description", "")) for each in kinds]
        meanings: dict[str, str] = {}
        for kind in kinds:
            for key, schema in kind["properties"].items():
                if key not in place.beside and not meanings.get(key) and not schema.get("deprecated"):
                    meanings[key] = self._meaning(schema)
        return [Offer(key, meaning) for key, meaning in meanings.items()]

    def values_at(self, place: Place, key: str) -> list[Offer]:
        """Return the fixed values that a key at a place may have."""
        found: dict[str, None] = {}
        for kind in self._kinds_with(place, key):
            for schema in self._alternatives(kind["properties"].get(key)):
                fixed = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
                fixed = [True, False] if schema.get("type") == "boolean" else fixed
                found |= dict.fromkeys(str(each).lower() if isinstance(each, bool) else str(each) for each in fixed)
        return [Offer(each) for each in found]

    def meaning_at(self, place: Place, key: str) -> str:
        """Return the meaning of a key at a place; empty if it has none."""
        own = (kind["properties"].get(key) for kind in self._kinds_with(place, key))
        return next((self._meaning(each) for each in own if each is not None), "")

    def _meaning(self, schema: Schema) -> str:
        referred = self._whole["$defs"].get(schema.get("$ref", "").rpartition("/")[2], {})
        return str(schema.get("description") or referred.get("description", ""))

    def _kinds_with(self, place: Place, key: str) -> list[Schema]:
        return self._kinds_at(Place(place.path, (*place.beside, key)))

    def _kinds_at(self, place: Place) -> list[Schema]:
        """Return the kinds of mappings at a place; those with all keys that are there, if there are any."""
        kinds = list(self._alternatives(self._whole))
        for step in place.path:
            kinds = [inner for kind in kinds for inner in self._alternatives(_step(kind, step))]
        mappings = [each for each in kinds if "properties" in each]
        fitting = [each for each in mappings if set(place.beside) <= each["properties"].keys()]
        return fitting if place.beside and fitting else mappings

    def _alternatives(self, schema: Schema | None, depth: int = 0) -> Iterator[Schema]:
        """Yield the alternatives of a schema, without references."""
        if schema is None or depth > _DEPTH_MAX:
            return
        if "$ref" in schema:
            yield from self._alternatives(self._whole["$defs"][schema["$ref"].rpartition("/")[2]], depth + 1)
        elif "anyOf" in schema:
            for each in schema["anyOf"]:
                yield from self._alternatives(each, depth + 1)
        else:
            yield schema


def _step(kind: Schema, step: str) -> Schema | None:
    if step == ITEM:
        items: Schema | None = kind.get("items")
        return items
    further = kind.get("additionalProperties")
    inner: Schema | None = kind.get("properties", {}).get(step) or (further if isinstance(further, dict) else None)
    return inner


@cache
def known_keys(kind: type[Struct] = Script) -> KnownKeys:
    """Return the keys of a kind of file."""
    return KnownKeys(kind)
