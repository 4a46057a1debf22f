"""Files that only the account of this process may read: 0600, in folders of 0700."""

import os
import stat
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from msgspec import Struct

OWN = (
    "cuebook.duckdb*",
    "server-address",
    "server-key",
    "pseudonyms.key*",
    "webhook-key*",
    "analytics",
    "snapshots",
    "memory",
    "external",
)
"""Patterns of the names of what Cuebook puts into a data folder."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Restricted(Struct, frozen=True):
    """What came of closing a data folder to other accounts."""

    closed: int
    """Files and folders that other accounts could read before."""
    open: tuple[Path, ...]
    """Those that they still can: of another owner, on a disk without modes, or a folder that holds other files too."""


def restrict_umask() -> None:
    """Close whatever this process creates from here on to other accounts. For programs, not for libraries in them."""
    os.umask(os.umask(_OTHERS) | _OTHERS)


def make_folder(folder: Path) -> None:
    """Create a folder of mode 0700, and those above it, where there is none. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def restrict(folder: Path) -> Restricted:
    """Remove the rights of other accounts from a data folder and what Cuebook has in it; nothing else is changed.

    The folder itself is changed only where nothing of others lies in it. Blocks. Raises OSError where the folder
    cannot be listed.
    """
    closed, still_open = 0, []
    for path in _own(folder):
        try:
            before = path.lstat()
            if stat.S_ISLNK(before.st_mode) or not before.st_mode & _OTHERS:
                continue
            path.chmod(stat.S_IMODE(before.st_mode) & ~_OTHERS)
            is_closed = not path.lstat().st_mode & _OTHERS
        except FileNotFoundError:  # it was there a moment ago
            continue
        except OSError:
            is_closed = False
        if is_closed:
            closed += 1
        else:
            still_open.append(path)
    if folder.stat().st_mode & _OTHERS and folder not in still_open:
        still_open.insert(0, folder)
    return Restricted(closed, tuple(still_open))


def _own(folder: Path) -> Iterator[Path]:
    """What is Cuebook's in a data folder, and the folder itself where nothing else lies in it."""
    names = [path.name for path in folder.iterdir()]
    own = [name for name in names if any(fnmatch(name, pattern) for pattern in OWN)]
    if len(own) == len(names):
        yield folder.resolve()
    for name in own:
        yield folder / name
        for above, folders, files in os.walk(folder / name):
            yield from (Path(above, each) for each in (*folders, *files))
