"""Files of a data folder: restricted to the account of this process (mode 0600, 0700 for folders), and synced."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

from msgspec import Struct

from store.interface.errors import DatabaseUnreadable

FILE_NAME = "cuebook.duckdb"
"""Name of the database file in a data folder."""
MIRROR_FOLDER = "mirror"
"""Name of the folder for analytics in the data folder of a server on PostgreSQL, which has it from the start."""
OWN = (
    f"{FILE_NAME}*", "server-address", "server-key", "pseudonyms.key*", "webhook-key*", "participant-key*",
    "web-push-key*", "analytics", "snapshots", "dashboards", "backups", "erasures", "replaced-*", "memory",
    "external", MIRROR_FOLDER, f"{MIRROR_FOLDER}-*",
)  # fmt: skip
"""Name patterns of the files and folders that Cuebook creates in a data folder."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Restriction(Struct, frozen=True):
    """The result of removing the rights of other accounts from a data folder."""

    closed: int
    """The number of files and folders that other accounts could read before."""
    open: tuple[Path, ...]
    """Paths that other accounts can still read: of another owner, on a disk without modes, or with other files."""


def restrict_umask() -> None:
    """Set the umask so that other accounts have no rights on new files. For programs only, not for libraries."""
    os.umask(os.umask(_OTHERS) | _OTHERS)


def make_folder(folder: Path) -> None:
    """Create a folder of mode 0700 and its missing parents, if it does not exist. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def restrict(folder: Path) -> Restriction:
    """Remove the rights of other accounts from a data folder and from the files that Cuebook created in it.

    The folder itself is changed only if it contains no other files. Blocks. Raises OSError if the folder cannot be
    listed.
    """
    closed, still_open = 0, []
    for path in _own(folder):
        try:
            before = path.lstat()
            if stat.S_ISLNK(before.st_mode) or not before.st_mode & _OTHERS:
                continue
            path.chmod(stat.S_IMODE(before.st_mode) & ~_OTHERS)
            is_closed = not path.lstat().st_mode & _OTHERS
        except FileNotFoundError:  # deleted since it was listed
            continue
        except OSError:
            is_closed = False
        if is_closed:
            closed += 1
        else:
            still_open.append(path)
    if folder.stat().st_mode & _OTHERS and folder not in still_open:
        still_open.insert(0, folder)
    return Restriction(closed, tuple(still_open))


def _own(folder: Path) -> Iterator[Path]:
    """Yield Cuebook's paths in a data folder, and the folder itself if it contains nothing else."""
    names = [path.name for path in folder.iterdir()]
    own = [name for name in names if any(fnmatch(name, pattern) for pattern in OWN)]
    if len(own) == len(names):
        yield folder.resolve()
    for name in own:
        yield folder / name
        for above, folders, files in os.walk(folder / name):
            yield from (Path(above, each) for each in (*folders, *files))


def beside(path: Path, suffix: str) -> Path:
    """Return the path of a file that belongs to another: in the same folder, with a longer name."""
    return path.with_name(path.name + suffix)


def make_data_folder(folder: Path) -> None:
    """Create a data folder that only this account can read. Raises DatabaseUnreadable."""
    try:
        make_folder(folder)
        restrict(folder)
    except OSError as error:
        raise DatabaseUnreadable(f"the data folder {folder} cannot be created: {error.strerror}") from error


def sync(path: Path) -> None:
    """Sync a file, or the entries of a folder, to disk.

    Do not call it for the database file while that is open: closing the descriptor would release DuckDB's lock.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def size_bytes(folder: Path, pattern: str) -> int:
    """Return the size of the files of a folder whose names match, which others may remove meanwhile."""
    size = 0
    for path in folder.glob(pattern):
        with suppress(FileNotFoundError):
            size += path.stat().st_size
    return size
