"""Writes that are refused: the message says why, and quotes no personal value."""

from datetime import UTC, datetime

import pytest

from runtime.state.scopes import Scopes, WriteRefused
from runtime.state.state import State
from scripts.model.base import ID_CHARS_MAX

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
SCRIPT = """
script: personal
declare: [{var: age, type: number, pii: true}, {var: contact, pii: true}]
phases:
- phase: only
  topics:
  - {topic: one, actions: [{user_say: go on}]}
"""


@pytest.fixture
def scopes(program_of):
    return Scopes(program_of(SCRIPT), State(seed=1, locale="en", phase="only", topic="one"))


def write(scopes, name, value):
    return scopes.write(scopes.target(name), name, value, "script", NOON)


def test_the_longest_name_is_taken(scopes):
    name = "n" * ID_CHARS_MAX
    write(scopes, name, 1)
    assert scopes.find(name) == ("topic", 1)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("", "'' cannot be the name of a variable"),
        ("n" * (ID_CHARS_MAX + 1), "nnn"),
        ("true", "'true' cannot be the name of a variable"),
        ("_hidden", "'_hidden' cannot be the name of a variable"),
    ],
)
def test_what_cannot_be_a_name_is_shown(scopes, name, shown):
    with pytest.raises(WriteRefused) as refused:
        write(scopes, name, 1)
    assert shown in str(refused.value)
    assert str(refused.value).endswith("cannot be the name of a variable")
    assert scopes.flat() == {}


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("age", "Ana Lopez", "`age`: its value is no number"),
        ("contact", float("nan"), "`contact`: its value is no value that a variable can hold"),
    ],
)
def test_a_personal_value_that_does_not_fit_is_not_quoted(scopes, name, value, says):
    with pytest.raises(WriteRefused) as refused:
        write(scopes, name, value)
    assert str(refused.value) == says
    assert refused.value.__suppress_context__  # the cause would quote it
