"""Which connections are closed when there are too many: idle ones, first those of addresses with too many."""

import heapq
from collections.abc import Collection
from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Bounds(Struct, frozen=True):
    """The bounds of connections, in total and per address."""

    connections: int
    of_address: int


class Group(Struct, Generic[T]):
    """The connections of one address."""

    is_proxy: bool
    size: int = 0
    idle: list[T] = []
    """The connections without an open request; the last is closed first."""


def are_too_many(groups: Collection[Group[T]], bounds: Bounds) -> bool:
    """Return whether an address has too many connections, or all together are too many."""
    return sum(group.size for group in groups) > bounds.connections or any(_over(group, bounds) for group in groups)


def surplus(groups: Collection[Group[T]], bounds: Bounds) -> list[T]:
    """Take the connections to close from the groups: first those beyond the bound per address, then others."""
    ended: list[T] = []
    for group in groups:
        while group.idle and _over(group, bounds):
            ended.append(_take(group))
    total = sum(group.size for group in groups)
    largest = [(-group.size, number, group) for number, group in enumerate(groups) if group.idle]
    heapq.heapify(largest)
    while largest and total > bounds.connections:
        _, number, group = heapq.heappop(largest)
        ended.append(_take(group))
        total -= 1
        if group.idle:
            heapq.heappush(largest, (-group.size, number, group))
    return ended  # fewer if the rest have requests, which `requests_max` bounds


def _over(group: Group[T], bounds: Bounds) -> bool:
    return not group.is_proxy and group.size > bounds.of_address


def _take(group: Group[T]) -> T:
    group.size -= 1
    return group.idle.pop()
