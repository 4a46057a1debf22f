"""The jobs of analytics worker processes, and the protocol between server and worker.

Each job has a socket. The server writes one WorkRequest as MessagePack and ends the writing; the worker writes Done or
Failed and ends, and the fork server adds the exit code (see fork_server.py).
"""

import struct
from typing import TypeAlias

import msgspec
from msgspec import Struct

from api.analytics.execute import Question
from store.analytics.refresh import Masking
from store.analytics.snapshots import StorageVersion

ANSWER_BYTES_MAX = 500_000_000
NUMBER = struct.Struct("!I")
"""A message of the server to the fork server: the number of a job."""
EXIT_CODE = struct.Struct("!i")
"""What follows an answer: the exit code of the worker, negative for a signal."""


class Refresh(Struct, frozen=True, tag="refresh"):
    """Apply the delta in a folder to an analytics file."""

    path: str
    folder: str
    masking: Masking


class FinishSnapshot(Struct, frozen=True, tag="snapshot"):
    """Give a copy of an analytics file a storage version of DuckDB, and add the digests of its tables."""

    path: str
    version: StorageVersion
    folder: str
    """Folder for data that does not fit into memory."""


class CheckSyntax(Struct, frozen=True, tag="syntax"):
    """Check that a text is one SELECT."""

    sql: str


class DrawCharts(Struct, frozen=True, tag="draw"):
    """Render charts as SVG, one after the other: the first picture of a process takes ten times as long as the next."""

    specs: list[bytes]
    """Vega-Lite specifications, in JSON."""


class ChartPictures(Struct, frozen=True):
    """The pictures of charts, in the same order; an empty one is too large to be drawn."""

    pictures: list[bytes]


class Finished(Struct, frozen=True):
    """The answer to a job that has no other result."""


Job: TypeAlias = Question | CheckSyntax | DrawCharts | Refresh | FinishSnapshot
"""All jobs; worker.py matches them exhaustively."""


class WorkRequest(Struct, frozen=True):
    """A job, and the limit of its CPU time."""

    job: Job
    cpu_s: int


class Done(Struct, frozen=True, tag="done"):
    """A job is done."""

    answer: msgspec.Raw


class Failed(Struct, frozen=True, tag="failed"):
    """A job failed."""

    error: str
    """The name of a StoreError; empty for an internal error."""
    message: str


Said: TypeAlias = Done | Failed
"""The answer of a worker."""
