"""A process whose files and wall clock fail when a test wants it: `faults/faulty_files.c`, preloaded into it."""

import errno
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

SOURCE: Final = Path(__file__).parent / "faults" / "faulty_files.c"
_BYTES = 512  # as many as the layer maps


class Faults:
    """The faults of one process, which begin and end while it runs. `environment` is what it must be started with."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("no C compiler (cc or gcc) is installed")
        library = folder / "faulty_files.so"
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True, timeout=60)
        self._file = folder / "faults"
        self._file.write_bytes(b"\0" * _BYTES)
        self.environment = {"LD_PRELOAD": str(library), "FAULTS": str(self._file)}

    def begin(
        self, path_end: str = "-", *, write: int = 0, sync: int = 0, truncate: int = 0, seconds_wrong: int = 0
    ) -> None:
        """Fail with these error numbers where a path ends so; let the wall clock be wrong. Replaces what was file."""
        text = f"{write} {sync} {truncate} {seconds_wrong} {path_end}\n"
        with self._file.open("r+b") as file:
            file.write(text.encode().ljust(_BYTES, b"\0"))

    def fill_disk(self, path_end: str) -> None:
        """Let every write to such files fail because the disk is full."""
        self.begin(path_end, write=errno.ENOSPC)

    def end(self) -> None:
        """Let everything work again."""
        self.begin()
