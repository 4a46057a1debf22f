"""The course of a simulation in several processes, each with a share of the visitors, in the order of time again."""

import asyncio
import gc
import heapq
import itertools
import multiprocessing
import os
import signal
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import msgspec

from api.simulation.conversation import Happened
from api.simulation.course import Course, Share, course_of

BATCH = 128
"""Turns that go over at once; a process that is ahead waits until they are taken."""
COLLECT_EVERY = 50_000
"""New objects between two searches for garbage: hardly any of it is in cycles."""
STOP_S = 5.0

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(list[Happened])


class ProcessEnded(Exception):
    """A process that takes turns ended before its share was done; the message says so."""


async def in_processes(course: Course, jobs: int) -> AsyncGenerator[list[Happened], None]:
    """What happens, in the order of time, some at a time. Raises ProcessEnded."""
    with _shares(course, jobs) as shares:
        merged = heapq.merge(*map(_received, shares), key=lambda happened: happened.at)
        while some := await asyncio.to_thread(lambda: list(itertools.islice(merged, BATCH))):
            yield some


async def in_this_process(course: Course) -> AsyncGenerator[list[Happened], None]:
    """The same without other processes."""
    async for some in _batches(course, Share()):
        yield some


async def _batches(course: Course, share: Share) -> AsyncGenerator[list[Happened], None]:
    some: list[Happened] = []
    async for happened in course_of(course, share):
        some.append(happened)
        if len(some) == BATCH:
            yield some
            some = []
    if some:
        yield some


@contextmanager
def _shares(course: Course, jobs: int) -> Iterator[list[Connection]]:
    """A process for each share, and the ends of the pipes that it sends through."""
    spawning = multiprocessing.get_context("spawn")
    started: list[BaseProcess] = []
    received: list[Connection] = []
    try:
        for number in range(jobs):
            mine, theirs = spawning.Pipe(duplex=False)
            working = spawning.Process(target=_work, args=(theirs, course, Share(number, jobs)), daemon=True)
            working.start()
            theirs.close()  # it is the process's own: when that ends, so does the pipe
            started.append(working)
            received.append(mine)
        yield received
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.join(STOP_S)
        for end in received:
            end.close()


def _received(end: Connection) -> Iterator[Happened]:
    while True:
        try:
            content = end.recv_bytes()
        except EOFError:
            raise ProcessEnded("a process that takes turns has ended; it may have run out of memory") from None
        if not content:
            return
        yield from _decoder.decode(content)


def _work(end: Connection, course: Course, share: Share) -> None:
    """What each process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it is asked to stop, and ends it
    gc.freeze()
    gc.set_threshold(COLLECT_EVERY)
    with suppress(BrokenPipeError):  # nobody listens any more
        asyncio.run(_send(end, course, share))
    end.close()
    os._exit(0)  # what DuckDB says of its own leaks when Python is taken down is nothing for a terminal


async def _send(end: Connection, course: Course, share: Share) -> None:
    async for some in _batches(course, share):
        end.send_bytes(_encoder.encode(some))
    end.send_bytes(b"")
