"""The analytics file: a DuckDB file of the model. It is generated from the database and can be deleted at any time.

Files in the same folder describe its content for the next delta. They are used only if the same rules (`maker`) wrote
them.
"""

import hashlib
import os
import shutil
from contextlib import closing
from datetime import datetime
from functools import cache
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import duckdb
import msgspec

from store.analytics.delta import KnownContent
from store.analytics.reporting import REPORTS, Report
from store.duckdb.database_file import quote, why_not_open
from store.duckdb.event_fields_sql import remaining_event
from store.interface.errors import AnalyticsUnreadable, DatabaseLocked, StoreUnavailable, write_failure

MODEL_VERSION = 2
"""Version of the tables and reports; queries that work continue to work as long as it is unchanged."""
MEMORY = "1GB"
ANALYTICS_FILES = "the analytics files"
SHARED = "parts.sql"
"""The file of the macros that several reports use."""
COPY = ".copy-"
"""Part of the names of incomplete copies."""
_RULES = ("model", "reports")
_PROGRAMS = ("delta.py", "refresh.py", "outlines.py", "report_list.yaml")
_ENDINGS = ("", ".wal", ".known.parquet", ".known.json")


class About(msgspec.Struct, frozen=True, rename="camel"):
    """The description of an analytics file: the row of its table `about`."""

    model_version: int
    tenant: str
    is_masked: bool
    as_of: datetime
    sessions: int
    turns: int
    messages: int
    events: int


class _KnownRest(msgspec.Struct, frozen=True):
    made_by: str
    digests: list[str]
    rest_mark: str
    memory_mark: str | None
    as_of: datetime
    salt_mark: str


class Place(NamedTuple):
    """The path of an analytics file, which may not exist, and of the files that describe its content."""

    path: Path

    @property
    def known_sessions(self) -> Path:
        """The file with the latest turns of the sessions that it has."""
        return self.path.with_name(self.path.name + ".known.parquet")

    @property
    def known_rest(self) -> Path:
        """The file with the description of its other content."""
        return self.path.with_name(self.path.name + ".known.json")

    def read_known(self) -> KnownContent:
        """Return the content of the file; empty if it does not exist, has other rules, or its content is unknown."""
        rest = _decode(self.known_rest)
        if rest is None or rest.made_by != maker() or not self.path.exists():
            return KnownContent()
        return KnownContent(self.known_sessions, rest.digests, rest.rest_mark, rest.memory_mark)

    def as_of(self) -> datetime | None:
        """Return the time of the database that the file describes, or None if it does not exist."""
        rest = _decode(self.known_rest)
        return rest.as_of if rest is not None and self.path.exists() else None

    def has_salt(self, salt: str) -> bool:
        """Return whether its pseudonyms use this salt; true if that is unknown."""
        rest = _decode(self.known_rest)
        return rest is None or rest.salt_mark == _mark_of(salt)

    def write_known(self, known: KnownContent, as_of: datetime, salt: str) -> None:
        """Write the description of the content other than sessions; from then on the file counts as refreshed."""
        rest = _KnownRest(maker(), known.digests, known.rest_mark, known.memory_mark, as_of, _mark_of(salt))
        fresh = self.known_rest.with_name(self.known_rest.name + ".new")
        fresh.write_bytes(msgspec.json.encode(rest))
        fresh.replace(self.known_rest)

    def replace_by_copy(self) -> None:
        """Replace the file, which another program has open and locked, with a copy.

        The other program continues to use the file that it has opened. Nobody writes to that, so copying it is safe.
        Raises StoreUnavailable.
        """
        fresh = self.path.with_name(f"{self.path.name}{COPY}{os.getpid()}")  # several processes may copy concurrently
        try:
            shutil.copyfile(self.path, fresh)
            fresh.replace(self.path)
        except OSError as error:
            fresh.unlink(missing_ok=True)
            raise StoreUnavailable(
                f"the analytics file is open in another program and cannot be copied: {error}"
            ) from error

    def remove(self) -> None:
        """Delete the file and the files that describe it; these first, so that an incomplete file is never used."""
        for ending in reversed(_ENDINGS):
            self.path.with_name(self.path.name + ending).unlink(missing_ok=True)


def _mark_of(salt: str) -> str:
    return hashlib.sha256(salt.encode()).hexdigest()[:16]


def _decode(path: Path) -> _KnownRest | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_KnownRest)
    except (OSError, msgspec.DecodeError):
        return None


def sql_of(name: str) -> str:
    """Return the text of an SQL file of the model, by its name without extension."""
    return resources.files("store.analytics").joinpath("model", f"{name}.sql").read_text(encoding="utf-8")


def report_macros() -> str:
    """Return the statements that define the reports, with a comment on each; the shared macros are first."""
    found = resources.files("store.analytics").joinpath("reports").iterdir()
    files = sorted(
        (file for file in found if file.name.endswith(".sql")), key=lambda file: (file.name != SHARED, file.name)
    )
    macros = [file.read_text(encoding="utf-8").rstrip().rstrip(";") + "\n;" for file in files]
    return "\n".join([*macros, *(_comment(each) for each in REPORTS)])


def _comment(report: Report) -> str:
    means = f"{report.title}. {report.says} Parameters: " + "; ".join(
        f"{each.name}: {each.says}" for each in report.parameters
    )
    doubled = means.replace("'", "''")
    return f"COMMENT ON MACRO TABLE {report.name} IS '{doubled}';"


@cache
def maker() -> str:
    """Return a digest of all rules that generate an analytics file; a file with another digest is rebuilt.

    The version stands for the rules of other packages, such as what is read from a script.
    """
    package = resources.files("store.analytics")
    found = [file for name in _RULES for file in package.joinpath(name).iterdir() if file.name.endswith(".sql")]
    texts = [file.read_bytes() for file in sorted(found, key=lambda file: file.name)]
    programs = [package.joinpath(name).read_bytes() for name in _PROGRAMS]
    programs.append(resources.files("store.interface").joinpath("masking.yaml").read_bytes())
    others = f"{version('cuebook')}{remaining_event()}".encode()
    return hashlib.sha256(b"".join([*texts, *programs, others])).hexdigest()


def run_sql(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Run several statements in order."""
    for statement in connection.extract_statements(sql):
        connection.execute(statement)


def connect(path: Path, spill: Path, *, read_only: bool = False) -> duckdb.DuckDBPyConnection:
    """Return a connection with the file as its default database; temporary data is written to the folder `spill`.

    Raises AnalyticsUnreadable, or DatabaseLocked if another program has the file open.
    """
    connection = duckdb.connect(
        ":memory:",
        config={"threads": 1, "memory_limit": MEMORY, "temp_directory": str(spill), "autoload_known_extensions": False},
    )
    try:
        connection.execute("SET GLOBAL TimeZone = 'UTC'")
        connection.execute(f"ATTACH {quote(path)} AS analytics{' (READ_ONLY)' if read_only else ''}")
        connection.execute("USE analytics")
    except duckdb.Error as error:
        connection.close()
        why = why_not_open(path, error)
        if isinstance(why, DatabaseLocked):
            raise why from error
        raise write_failure(error, ANALYTICS_FILES, AnalyticsUnreadable(f"{path} cannot be opened: {error}")) from error
    return connection


def about(connection: duckdb.DuckDBPyConnection) -> About:
    """Return the description of the open file. Raises AnalyticsUnreadable for another kind of file or version."""
    try:
        rows = connection.execute(
            "SELECT model_version, tenant, is_masked, as_of, sessions, turns, messages, events FROM about"
        ).fetchall()
    except duckdb.Error as error:
        raise AnalyticsUnreadable("this is not a snapshot of analytics: it has no table `about`") from error
    if len(rows) != 1 or rows[0][0] != MODEL_VERSION:
        raise AnalyticsUnreadable(f"this snapshot has another model version; this program reads {MODEL_VERSION}")
    return About(*rows[0])


# -- the reference of the model ----------------------------------------------------------------------------------------


class DescribedColumn(msgspec.Struct, frozen=True):
    """A column of a table of the model."""

    name: str
    type: str
    nullable: bool
    means: str


class DescribedTable(msgspec.Struct, frozen=True):
    """A table of the model."""

    name: str
    means: str
    columns: tuple[DescribedColumn, ...]


@cache
def described_tables() -> tuple[DescribedTable, ...]:
    """Return all tables of the model with the comments of its SQL, in their order."""
    with closing(duckdb.connect(":memory:")) as connection:
        connection.execute("BEGIN")  # one transaction instead of one for each of some 500 comments
        run_sql(connection, sql_of("tables"))
        columns = connection.execute(
            """SELECT table_name, column_name, data_type, is_nullable, comment FROM duckdb_columns()
            WHERE schema_name = 'main' AND NOT internal ORDER BY table_oid, column_index"""
        ).fetchall()
        tables = connection.execute(
            "SELECT table_name, comment FROM duckdb_tables() WHERE schema_name = 'main' ORDER BY table_oid"
        ).fetchall()
    return tuple(
        DescribedTable(name, means, tuple(DescribedColumn(*column) for table, *column in columns if table == name))
        for name, means in tables
    )
