"""The analytics file: a DuckDB file of the model, made from the record, that can be deleted and made anew at any time.

Beside it lies what it knows of the record, for the next delta; what is there is believed only of the same generation.
"""

import hashlib
import os
import shutil
from datetime import datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import duckdb
import msgspec

from store.analytics.delta import Known
from store.analytics.report_list import REPORTS, Report
from store.database import quoted, why_not_open
from store.errors import AnalyticsUnreadable, DatabaseLocked, StoreUnavailable
from store.event_fields import kept_of_event

MODEL_VERSION = 1
"""Of the tables and reports; a query that worked goes on working as long as it stays."""
MEMORY = "1GB"
SHARED = "parts.sql"
"""The macros that several reports are made with."""
COPY = ".copy-"
"""In the names of copies under way."""
_RULES = ("model", "reports")
_PROGRAMS = ("delta.py", "bringing.py", "outlines.py", "report_list.py")
_ENDINGS = ("", ".wal", ".known.parquet", ".known.json")


class About(msgspec.Struct, frozen=True, rename="camel"):
    """What an analytics file is, and how far it goes: its table `about`."""

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
    is_worn: bool


class Place(NamedTuple):
    """Where an analytics file lies, whether it is there or not."""

    path: Path

    @property
    def known_sessions(self) -> Path:
        """Which turns of which sessions it has."""
        return self.path.with_name(self.path.name + ".known.parquet")

    @property
    def known_rest(self) -> Path:
        """What else it has."""
        return self.path.with_name(self.path.name + ".known.json")

    def known(self) -> Known:
        """What the file knows already; nothing where it is not there, was made by other rules, or cannot be told."""
        rest = _decoded(self.known_rest)
        if rest is None or rest.made_by != maker() or not self.path.exists():
            return Known()
        return Known(self.known_sessions, rest.digests, rest.rest_mark, rest.memory_mark)

    def as_of(self) -> datetime | None:
        """The moment of the record that the file shows; null where it is not there."""
        rest = _decoded(self.known_rest)
        return rest.as_of if rest is not None and self.path.exists() else None

    def has_salt(self, salt: str) -> bool:
        """Whether its pseudonyms are made with this salt, as far as anything is known of it."""
        rest = _decoded(self.known_rest)
        return rest is None or rest.salt_mark == _mark_of(salt)

    def is_worn(self) -> bool:
        """Whether something was taken out of the file since it was made, whose bytes may still be in free blocks."""
        rest = _decoded(self.known_rest)
        return rest is not None and rest.is_worn

    def write_known(self, known: Known, as_of: datetime, salt: str, *, is_worn: bool) -> None:
        """Say what the file has now besides the sessions; from here on it is believed."""
        rest = _KnownRest(maker(), known.digests, known.rest_mark, known.memory_mark, as_of, _mark_of(salt), is_worn)
        fresh = self.known_rest.with_name(self.known_rest.name + ".new")
        fresh.write_bytes(msgspec.json.encode(rest))
        fresh.replace(self.known_rest)

    def replace_by_copy(self) -> None:
        """Put a copy in the place of the file, which another program has open and holds locked.

        The program keeps the file that it has opened; nobody writes to that, so it is copied as it is. Raises
        StoreUnavailable.
        """
        fresh = self.path.with_name(f"{self.path.name}{COPY}{os.getpid()}")  # several processes may do this at a time
        try:
            shutil.copyfile(self.path, fresh)
            fresh.replace(self.path)
        except OSError as error:
            fresh.unlink(missing_ok=True)
            raise StoreUnavailable(f"the analytics file is open elsewhere, and cannot be copied: {error}") from error

    def remove(self) -> None:
        """Delete the file and what lies beside it; what it knows first, so that no half of it is ever believed."""
        for ending in reversed(_ENDINGS):
            self.path.with_name(self.path.name + ending).unlink(missing_ok=True)


def _mark_of(salt: str) -> str:
    return hashlib.sha256(salt.encode()).hexdigest()[:16]


def _decoded(path: Path) -> _KnownRest | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_KnownRest)
    except (OSError, msgspec.DecodeError):
        return None


def sql_of(name: str) -> str:
    """A file of SQL of the model, by its name without ending."""
    return resources.files("store.analytics").joinpath("model", f"{name}.sql").read_text(encoding="utf-8")


def report_macros() -> str:
    """The statements that define the reports, with a comment on each: first what they share."""
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
    """Digest of all the rules by which an analytics file is made: one that others made is made anew."""
    package = resources.files("store.analytics")
    found = [file for name in _RULES for file in package.joinpath(name).iterdir() if file.name.endswith(".sql")]
    texts = [file.read_bytes() for file in sorted(found, key=lambda file: file.name)]
    programs = [package.joinpath(name).read_bytes() for name in _PROGRAMS]
    programs.append(resources.files("store").joinpath("masking.py").read_bytes())
    return hashlib.sha256(b"".join([*texts, *programs, kept_of_event("kind", "data").encode()])).hexdigest()


def run_sql(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Run statements one after the other."""
    for statement in connection.extract_statements(sql):
        connection.execute(statement)


def connect(path: Path, spill: Path, *, read_only: bool = False) -> duckdb.DuckDBPyConnection:
    """A connection whose default database is the file; what does not fit into memory goes into the folder `spill`.

    Raises AnalyticsUnreadable, and DatabaseLocked where another program has the file open.
    """
    connection = duckdb.connect(
        ":memory:",
        config={"threads": 1, "memory_limit": MEMORY, "temp_directory": str(spill), "autoload_known_extensions": False},
    )
    try:
        connection.execute("SET GLOBAL TimeZone = 'UTC'")
        connection.execute(f"ATTACH {quoted(path)} AS analytics{' (READ_ONLY)' if read_only else ''}")
        connection.execute("USE analytics")
    except duckdb.Error as error:
        connection.close()
        why = why_not_open(path, error)
        if isinstance(why, DatabaseLocked):
            raise why from error
        raise AnalyticsUnreadable(f"{path} cannot be opened: {error}") from error
    return connection


def about(connection: duckdb.DuckDBPyConnection) -> About:
    """What the open file is. Raises AnalyticsUnreadable where it is no analytics file, or one of another version."""
    try:
        rows = connection.execute(
            "SELECT model_version, tenant, is_masked, as_of, sessions, turns, messages, events FROM about"
        ).fetchall()
    except duckdb.Error as error:
        raise AnalyticsUnreadable("this is no snapshot of analytics: it has no table `about`") from error
    if len(rows) != 1 or rows[0][0] != MODEL_VERSION:
        raise AnalyticsUnreadable(f"this snapshot is of another version; this program reads {MODEL_VERSION}")
    return About(*rows[0])
