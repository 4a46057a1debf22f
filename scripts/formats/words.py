"""The words of the older formats by their meaning in the native format, from `words.yaml`."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from scripts.expressions.values import DeclaredType
from scripts.model.script import FieldType


class DetectorKeys(Struct, frozen=True):
    """Keys in the configuration of a detector, by their use."""

    sure_words: frozenset[str]
    likely_words: frozenset[str]
    descriptions: frozenset[str]
    notes: frozenset[str]
    names: frozenset[str]
    severities: frozenset[str]
    scores: frozenset[str]
    criteria: frozenset[str]
    settings: frozenset[str]


_TABLES = msgspec.yaml.decode(Path(__file__).with_suffix(".yaml").read_text("utf-8"))


def _by_word(table: str, meaning: Any = str) -> Mapping[str, Any]:
    """Return the meaning of each word of a table."""
    words = msgspec.convert(_TABLES[table], dict[meaning, list[str]])
    return {word: meant for meant, listed in words.items() for word in listed}


def _lists(table: str) -> Mapping[str, tuple[str, ...]]:
    """Return the words of each entry of a table, in order."""
    return msgspec.convert(_TABLES[table], dict[str, tuple[str, ...]])


VARIABLE_TYPES: Mapping[str, DeclaredType] = _by_word("variable_types", DeclaredType)
FIELD_TYPES: Mapping[str, FieldType] = _by_word("field_types", FieldType)
DEGREES: Mapping[str, float] = _by_word("degrees", float)
DETECTOR_KEYS = msgspec.convert(_TABLES["detector_keys"], DetectorKeys)


def _texts(*tables: str) -> Iterator[Mapping[str, str]]:
    return map(_by_word, tables)


VERBS, TRENDS, DETECTED, CRITERIA = _texts("actions", "trends", "detected", "criteria")
LOCALES, ROLE_TYPES = _texts("locales", "role_types")
CONFIG_KEYS, VALUE_KEYS = _lists("config_keys"), _lists("value_keys")
JOINING, TUNING = _lists("lists")["joining"], _lists("lists")["tuning"]
TRUTHS: Mapping[str, bool] = _by_word("truths", bool)
OPERATORS, CONSTANTS, STATES, TESTS, ALONE = _texts("operators", "constants", "states", "tests", "alone")
METHODS, FUNCTIONS, COMPARISONS = _texts("methods", "functions", "comparisons")
SESSION_KEYS, PHASE_KEYS, TOPIC_KEYS = _texts("session_keys", "phase_keys", "topic_keys")
SKILL_KEYS, FORM_KEYS, SPOKEN_KEYS, PICTURE_KEYS = _texts("skill_keys", "form_keys", "spoken_keys", "picture_keys")
TECHNIQUE_KEYS, PARAMETER_KEYS = _texts("technique_keys", "parameter_keys")
DECLARATION_KEYS, OUTPUT_KEYS = _texts("declaration_keys", "output_keys")
FIELD_KEYS, COMPARISON_KEYS = _texts("field_keys", "comparison_keys")
