"""Run by test_export_folder: exports one of two files to a folder, over and over, until it is killed."""

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from store.analytics.export_folder import ExportFolder, Source
from store.analytics.parquet import cut, parts, path_of


def export(file: Path, folder: Path, since: str | None = None) -> int:
    """Brings a folder to what a file has; how many files were written."""
    with tempfile.TemporaryDirectory() as name:
        spill = Path(name)
        export = ExportFolder(folder, Source("default", is_masked=False, model_version=1))
        try:
            changed = export.begin(parts(file, spill, since).parts, since, datetime.now(UTC))
            for part in changed:
                [written] = cut(file, [part.place], spill).parts
                made = spill / path_of(part.place)
                with export.writing("part") as (path, target):
                    target.write(made.read_bytes())
                    target.flush()
                    export.take(written, path)
                export.keep()
            export.finish()
        finally:
            export.close()
    return len(changed)


if __name__ == "__main__":
    first, second, folder = map(Path, sys.argv[1:])
    print("ready", flush=True)
    while True:
        export(first, folder)
        export(second, folder)
