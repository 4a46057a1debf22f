"""The words of the older formats by their meaning in the native format, from `words.yaml`."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from scripts.expressions.values import DeclaredType
from scripts.model.script import FieldType

_T = TypeVar("_T", bound=str | float)
_Table = dict[str, list[str]]


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


class _Words(Struct, frozen=True):
    variable_types: dict[DeclaredType, list[str]]
    field_types: dict[FieldType, list[str]]
    actions: _Table
    operators: _Table
    constants: _Table
    tests: _Table
    alone: _Table
    methods: _Table
    functions: _Table
    technique_keys: _Table
    parameter_keys: _Table
    session_keys: _Table
    phase_keys: _Table
    topic_keys: _Table
    skill_keys: _Table
    spoken_keys: _Table
    picture_keys: _Table
    form_keys: _Table
    declaration_keys: _Table
    output_keys: _Table
    field_keys: _Table
    comparison_keys: _Table
    comparisons: _Table
    detector_keys: DetectorKeys
    degrees: dict[float, list[str]]
    trends: _Table


def _by_word(table: Mapping[_T, list[str]]) -> Mapping[str, _T]:
    return {word: meaning for meaning, words in table.items() for word in words}


_WORDS = msgspec.yaml.decode(Path(__file__).with_suffix(".yaml").read_text("utf-8"), type=_Words)
VARIABLE_TYPES = _by_word(_WORDS.variable_types)
FIELD_TYPES = _by_word(_WORDS.field_types)
VERBS = _by_word(_WORDS.actions)
OPERATORS, CONSTANTS = _by_word(_WORDS.operators), _by_word(_WORDS.constants)
ALONE, TESTS = _by_word(_WORDS.alone), _by_word(_WORDS.tests)
METHODS, FUNCTIONS = _by_word(_WORDS.methods), _by_word(_WORDS.functions)
SESSION_KEYS, PHASE_KEYS = _by_word(_WORDS.session_keys), _by_word(_WORDS.phase_keys)
TOPIC_KEYS = _by_word(_WORDS.topic_keys)
SKILL_KEYS, FORM_KEYS = _by_word(_WORDS.skill_keys), _by_word(_WORDS.form_keys)
TECHNIQUE_KEYS, PARAMETER_KEYS = _by_word(_WORDS.technique_keys), _by_word(_WORDS.parameter_keys)
SPOKEN_KEYS, PICTURE_KEYS = _by_word(_WORDS.spoken_keys), _by_word(_WORDS.picture_keys)
DETECTOR_KEYS, DEGREES, TRENDS = _WORDS.detector_keys, _by_word(_WORDS.degrees), _by_word(_WORDS.trends)
DECLARATION_KEYS, OUTPUT_KEYS = _by_word(_WORDS.declaration_keys), _by_word(_WORDS.output_keys)
COMPARISON_KEYS, COMPARISONS = _by_word(_WORDS.comparison_keys), _by_word(_WORDS.comparisons)
FIELD_KEYS = _by_word(_WORDS.field_keys)
