"""Run by test_export_folder: exports one of two files to a folder, over and over, until it is killed."""

import sys
from contextlib import closing
from pathlib import Path

from store.analytics.export_folder import ExportFolder


def export(file: Path, folder: Path, since: str | None = None) -> int:
    """Update a folder from a file; how many files were written."""
    with closing(ExportFolder(folder)) as target:
        return target.update(file, since).written


if __name__ == "__main__":
    first, second, folder = map(Path, sys.argv[1:])
    print("ready", flush=True)
    while True:
        export(first, folder)
        export(second, folder)
