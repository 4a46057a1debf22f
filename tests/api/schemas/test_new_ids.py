"""New ids: UUIDs of version 7 that sort by their creation, in every thread and process."""

import os
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.schemas.ids import IdSource, new_id
from store.interface.rows import is_uuid

MS = 1_000_000
TIMES = st.lists(st.integers(0, (1 << 47) * MS), min_size=1, max_size=50)


def test_is_a_uuid_of_version_7_that_holds_its_time() -> None:
    before = time.time_ns() // MS
    new = IdSource()()
    after = time.time_ns() // MS
    read = uuid.UUID(new)
    assert is_uuid(new)
    assert (read.version, read.variant) == (7, uuid.RFC_4122)
    assert before <= read.int >> 80 <= after


@given(TIMES)
def test_ids_ascend_whatever_the_clock_does(times: list[int]) -> None:
    clock = iter(times)
    source = IdSource(lambda: next(clock))
    ids = [source() for _ in times]
    assert ids == sorted(set(ids))
    assert {uuid.UUID(each).version for each in ids} == {7}
    assert {uuid.UUID(each).variant for each in ids} == {uuid.RFC_4122}


def test_more_ids_in_a_millisecond_than_the_counter_holds_ascend() -> None:
    source = IdSource(lambda: 5 * MS)
    ids = [source() for _ in range(5_000)]
    assert ids == sorted(set(ids))
    assert uuid.UUID(ids[0]).int >> 80 == 5
    assert uuid.UUID(ids[-1]).int >> 80 == 6


def test_two_sources_differ_in_the_same_millisecond() -> None:
    ids = {source() for source in (IdSource(lambda: 0) for _ in range(100))}
    assert len(ids) == 100


def test_threads_share_a_source() -> None:
    with ThreadPoolExecutor(8) as pool:
        lists = list(pool.map(lambda _: [new_id() for _ in range(2_000)], range(8)))
    assert len({each for ids in lists for each in ids}) == 16_000
    assert all(ids == sorted(ids) for ids in lists)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_process_has_other_random_bits() -> None:
    new_id()  # fills the pool that the child would share
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, new_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    of_child = os.read(reading, 36).decode()
    of_parent = [new_id() for _ in range(1_000)]
    assert is_uuid(of_child)
    assert of_child[19:] not in {each[19:] for each in of_parent}
