"""Filters of searches are reported if and only if the names in them are unknown to the database."""

import pytest

from scripts.checks.filter_checks import FIELDS, OPERATORS, filter_faults
from scripts.model.base import NOWHERE
from store.interface import memory_filters
from store.interface.errors import FilterInvalid


def test_the_fields_and_operators_are_those_of_the_database() -> None:
    assert set(FIELDS) == set(memory_filters.FIELDS)
    with pytest.raises(FilterInvalid) as error:
        memory_filters.parse({"source": {"$is": "user"}})
    assert str(error.value).endswith(f"there are {', '.join(OPERATORS)}")


@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"source": "user", "groupId": {"$in": ["a"]}},
        {"metadata.mood.today": "sad", "metadata.length": {"$gt": 2, "$lt": 5}},
        {"$or": [{"source": "user"}, {"$not": {"level": 2}}], "$and": [["source", "==", "user"]]},
    ],
)
def test_a_filter_that_can_be_evaluated_is_not_reported(filters) -> None:
    memory_filters.parse(filters)
    assert list(filter_faults(filters, NOWHERE)) == []


@pytest.mark.parametrize(
    "filters",
    [
        {"about": "plan"},
        {"sorce": "user"},
        {"metadata": {"about": "plan"}},
        {"metadata": "plan"},
        {"level.low": 1},
        {"source": ["user"]},
        {"metadata.about": {"$equals": "plan"}},
        {"metadata.about": {"kind": "plan"}},
        {"$nor": [{"source": "user"}]},
        {"$or": [{"source": "user"}, {"sorce": "user"}]},
        {"$not": {"$and": [{"sorce": "user"}]}},
    ],
)
def test_a_filter_with_unknown_names_is_reported(filters) -> None:
    with pytest.raises(FilterInvalid):
        memory_filters.parse(filters)
    assert [each.code for each in filter_faults(filters, NOWHERE)] == ["FILTER_INVALID"]
