"""Analytics files in the storage formats of older versions of DuckDB, for tools that embed one."""

from contextlib import closing
from pathlib import Path
from typing import Literal, TypeAlias

import duckdb

from store.analytics.file import connect
from store.database import quoted
from store.errors import AnalyticsUnreadable

StorageVersion: TypeAlias = Literal["v1.0.0", "v1.2.0", "v1.3.0", "v1.4.0", "v1.5.0", "v2.0.0"]
"""The first version of DuckDB that reads a format; those in between read the format before them."""
OWN: StorageVersion = "v2.0.0"
"""That of the files themselves."""


def rewrite(path: Path, target: Path, version: StorageVersion, spill: Path) -> None:
    """Copy all of an analytics file into a new one of another storage format. Blocks. Raises AnalyticsUnreadable."""
    with closing(connect(path, spill, read_only=True)) as connection:
        try:
            connection.execute(f"ATTACH {quoted(target)} AS target (STORAGE_VERSION '{version}')")
            connection.execute("COPY FROM DATABASE analytics TO target")
            connection.execute("DETACH target")
        except duckdb.Error as error:
            raise AnalyticsUnreadable(f"the analytics file cannot be written for DuckDB {version}: {error}") from error
