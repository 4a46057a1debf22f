"""Write the log to the database file so that the file can be opened whenever that is interrupted.

DuckDB keeps metadata in blocks of 64 parts. A checkpoint writes its metadata to the parts that are free, and with them
the whole block, in its place, while the header on disk still refers to the other parts. If the process is killed or the
machine fails meanwhile, the checksum of the block does not match, and DuckDB refuses the file. Therefore all blocks
with free parts are first saved in a file beside the database. If the header shows that the checkpoint did not finish,
they are written back before the database is opened, as from SQLite's rollback journal (https://sqlite.org/lockingv3.html).
"""

import fcntl
import hashlib
import os
from pathlib import Path

import duckdb
import msgspec
import structlog

from store.interface.private_files import beside, sync

SAVED = ".checkpoint"  # suffix of the file with the saved blocks, while a checkpoint is in progress
_HEADER_BYTES = 4096  # a file begins with the main header and two headers that checkpoints write in turn
_HEADERS = 3 * _HEADER_BYTES
_BLOCK_BYTES = 262_144
_DIGEST_BYTES = 32
# The quantity of metadata with free parts does not grow with the database: 2 MB in a file with two million turns.
_IN_PART_FREE = "SELECT block_id FROM pragma_metadata_info('cuebook') WHERE free_blocks > 0"

_in_progress: set[Path] = set()
"""Files with the saved blocks of this process, which its own lock does not protect from itself."""

log = structlog.get_logger()


class _SavedBlocks(msgspec.Struct, frozen=True):
    headers: bytes
    blocks: dict[int, bytes]


class Checkpointer:
    """Makes checkpoints of a database file that this process has open, while nothing else writes to it."""

    def __init__(self, path: Path) -> None:
        self._saved = beside(path, SAVED)
        # One descriptor for as long as the database is open: closing any would release DuckDB's lock of the file.
        self._file = os.open(path, os.O_RDONLY)

    def run(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Make a checkpoint. Raises OSError if it could not begin, and duckdb.Error.

        It does not begin, with duckdb.TransactionException, while a read is in progress that began before a commit.
        """
        _in_progress.add(self._saved)
        try:
            self._save(cursor)
            cursor.execute("CHECKPOINT cuebook")
            self._saved.unlink(missing_ok=True)
        except duckdb.TransactionException:
            self._saved.unlink(missing_ok=True)  # nothing was written, so nothing has to be undone
            raise
        finally:
            _in_progress.discard(self._saved)

    def _save(self, cursor: duckdb.DuckDBPyConnection) -> None:
        ids = [block_id for (block_id,) in cursor.execute(_IN_PART_FREE).fetchall()]
        blocks = {block_id: os.pread(self._file, _BLOCK_BYTES, _offset(block_id)) for block_id in ids}
        document = msgspec.msgpack.encode(_SavedBlocks(os.pread(self._file, _HEADERS, 0), blocks))
        with os.fdopen(os.open(self._saved, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as saved:
            saved.write(_digest(document) + document)
        sync(self._saved)
        sync(self._saved.parent)

    def close(self) -> None:
        """Close the descriptor; DuckDB must have closed the file before."""
        os.close(self._file)


def undo_checkpoint(path: Path) -> None:
    """Write back the blocks of a checkpoint that did not finish; without one, or if another process is at it, return.

    Raises OSError.
    """
    saved = beside(path, SAVED)
    if not saved.exists() or not path.exists() or saved in _in_progress:
        return
    with path.open("r+b") as file:
        try:  # the lock is DuckDB's: while a server has it, the checkpoint is in progress
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        document = _read(saved)
        if document is not None and document.headers == file.read(_HEADERS):
            for block_id, block in document.blocks.items():
                file.seek(_offset(block_id))
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
            log.warning("a checkpoint that did not finish was undone; the log has its commits", path=str(path))
        saved.unlink(missing_ok=True)


def _read(saved: Path) -> _SavedBlocks | None:
    """Return the saved blocks, or None if the file is incomplete, which means that no checkpoint had begun."""
    content = saved.read_bytes()
    digest, document = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    return msgspec.msgpack.decode(document, type=_SavedBlocks) if digest == _digest(document) else None


def _digest(document: bytes) -> bytes:
    return hashlib.blake2b(document, digest_size=_DIGEST_BYTES).digest()


def _offset(block_id: int) -> int:
    return _HEADERS + block_id * _BLOCK_BYTES
