"""What is done for analysts in processes of their own, and what such a process and the server say to each other.

Both ways go frames: four bytes of length, then MessagePack. The server sends one Order and leaves the pipe open; the
process answers with Done or Failed. It ends when the pipe does.
"""

import struct
from typing import BinaryIO, TypeAlias

import msgspec
from msgspec import Struct

from api.analytics.answering import Question
from store.analytics.bringing import Masking
from store.analytics.storage import StorageVersion

FRAME_BYTES_MAX = 500_000_000
SPARE_S = 600
"""How long a process waits for an order."""
_LENGTH = struct.Struct(">I")


class Bring(Struct, frozen=True, tag="bring"):
    """Take the delta in a folder into an analytics file."""

    path: str
    folder: str
    masking: Masking


class Brought(Struct, frozen=True):
    """The delta is taken."""

    turns: int


class ListParts(Struct, frozen=True, tag="parts"):
    """Tell which Parquet files an analytics file comes to; answered with `Parts`."""

    path: str
    folder: str
    """For what does not fit into memory."""
    since: str | None


class CutParts(Struct, frozen=True, tag="cut"):
    """Write days of tables, and tables that are not cut, into a folder; answered with `Parts`."""

    path: str
    folder: str
    places: tuple[tuple[str, str | None], ...]


class Rewrite(Struct, frozen=True, tag="rewrite"):
    """Copy an analytics file into one of another storage format of DuckDB."""

    path: str
    target: str
    version: StorageVersion
    folder: str
    """For what does not fit into memory."""


class Rewritten(Struct, frozen=True):
    """The copy is there."""

    size_bytes: int


Job: TypeAlias = Question | Bring | ListParts | CutParts | Rewrite
"""Everything such a process can be asked to do; closed, and matched to the end in worker.py."""


class Order(Struct, frozen=True):
    """A job, and what the process may use for it."""

    job: Job
    cpu_s: int
    memory_bytes_max: int
    """Of memory the job itself takes; the process has more, for what it consists of."""


class Done(Struct, frozen=True, tag="done"):
    """A job is done."""

    answer: msgspec.Raw


class Failed(Struct, frozen=True, tag="failed"):
    """A job could not be done."""

    error: str
    """The name of a StoreError; empty for anything that should not have happened."""
    message: str


Said: TypeAlias = Done | Failed
"""What a process says."""


def write_frame(pipe: BinaryIO, content: Struct) -> None:
    """Send it. Blocks."""
    body = msgspec.msgpack.encode(content)
    pipe.write(_LENGTH.pack(len(body)) + body)
    pipe.flush()


def read_frame(pipe: BinaryIO) -> bytes | None:
    """What comes next, undecoded; None where nothing does, or not all of it, or more than may. Blocks."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > FRAME_BYTES_MAX:
        return None
    body = pipe.read(length)
    return body if len(body) == length else None
