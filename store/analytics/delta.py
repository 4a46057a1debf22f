"""What changed in the record since an analytics file was last brought up to date, as Parquet files in a folder.

The record only copies rows here, as they are: reading their JSON, masking and everything derived is the work of another
process. All of a delta is of one moment.
"""

from datetime import datetime
from pathlib import Path

import duckdb
import msgspec

from store.database import quoted
from store.errors import AnalyticsUnreadable, StoreUnavailable
from store.fetch import Cursor
from store.insert import roll_back

TURNS_MAX = 50_000
"""Turns in one delta: they are copied in well under the time that a read may take."""
META = "delta.json"


class Counts(msgspec.Struct, frozen=True):
    """How much the record holds of a tenant."""

    sessions: int
    turns: int
    messages: int
    events: int


class Delta(msgspec.Struct, frozen=True):
    """What is in the folder of a delta. Encoded, it is its file `delta.json`."""

    tenant: str
    as_of: datetime
    """The moment of the record that it is of."""
    turns: int
    """Turns it brings."""
    left: int
    """Turns that did not fit; there is more to bring."""
    gone: int
    """Sessions that are deleted, or are to be brought anew."""
    starts: int
    """Sessions that are new, go on, or have another key or other metadata."""
    counts: Counts
    digests: list[str]
    """Texts of scripts that sessions ran on or the catalogue has, and that the file has no outline of."""
    rest_mark: str
    """Digest of what it brings of whole tables."""
    memory_mark: str | None
    """Digest of the memory units that it brings; null where they are not asked for, or are known."""

    def is_empty(self, known: "Known") -> bool:
        """Whether there is nothing in it that the file does not know."""
        return (
            self.turns == self.gone == self.starts == 0
            and self.memory_mark is None
            and self.rest_mark == known.rest_mark
        )


class Known(msgspec.Struct, frozen=True):
    """What an analytics file knows already."""

    sessions: Path | None = None
    """Parquet: `session_id`, `turn` and `finished_at` of its latest turn, `start_hash`, `is_reduced`; null: nothing."""
    digests: list[str] = []
    """Texts of scripts that it has an outline of."""
    rest_mark: str = ""
    """Digest of what it has of whole tables."""
    memory_mark: str | None = None
    """Digest of the memory units it has."""


_NOTHING = """(SELECT NULL::UUID AS session_id, 0 AS turn, NULL::TIMESTAMPTZ AS finished_at, 0::UBIGINT AS start_hash,
    false AS is_reduced LIMIT 0)"""
# The latest turn stands for all before it: turns are appended, and only retention changes any.
_COMPARE = """
CREATE OR REPLACE TEMP TABLE delta_gone AS
    SELECT k.session_id FROM delta_known AS k
    WHERE NOT EXISTS (
        FROM turns AS t WHERE t.tenant = $tenant AND t.session_id = k.session_id AND t.turn = k.turn
        AND t.finished_at = k.finished_at
    ) OR EXISTS (
        FROM session_starts AS s WHERE s.tenant = $tenant AND s.session_id = k.session_id
        AND (s.text_dropped_at IS NOT NULL) != k.is_reduced
    );
CREATE OR REPLACE TEMP TABLE delta_wanted AS
    SELECT t.rowid AS row, t.session_id
    FROM turns AS t LEFT JOIN (FROM delta_known ANTI JOIN delta_gone USING (session_id)) AS k USING (session_id)
    WHERE t.tenant = $tenant AND (k.session_id IS NULL OR t.turn > k.turn);
CREATE OR REPLACE TEMP TABLE delta_taken AS FROM delta_wanted ORDER BY row LIMIT {turns_max};
CREATE OR REPLACE TEMP TABLE delta_starts AS
    SELECT s.rowid AS row, s.session_id
    FROM session_starts AS s LEFT JOIN delta_known AS k USING (session_id)
    WHERE s.tenant = $tenant AND (
        s.session_id IN (SELECT session_id FROM delta_taken)
        OR (k.session_id IS NOT NULL AND k.start_hash != hash(s.key, s.metadata::VARCHAR))
    )
"""
_LEFTOVERS = ("delta_known", "delta_gone", "delta_wanted", "delta_taken", "delta_starts")
_COUNT = """
SELECT count(*) AS sessions, coalesce(sum(turns), 0)::BIGINT AS turns,
    coalesce(sum(messages), 0)::BIGINT AS messages, coalesce(sum(events), 0)::BIGINT AS events
FROM (SELECT count(*) AS turns, max(message_count) AS messages, max(event_count) AS events
      FROM turns WHERE tenant = $tenant GROUP BY session_id)
"""
_DIGESTS = """
SELECT digest FROM session_starts WHERE tenant = $tenant
UNION SELECT digest FROM session_migrations WHERE tenant = $tenant
UNION SELECT digest FROM scripts WHERE tenant = $tenant ORDER BY digest
"""
_UNITS = "SELECT * EXCLUDE (tenant) FROM memory_unit_rows WHERE tenant = $tenant"
_TURNS = """
SELECT t.session_id, t.user_id, t.turn, t.started_at, t.finished_at, t.status, t.execution_status, t.phase_id,
    t.topic_id, t.action_id, t.action_type, t.wait_kind, t.messages::VARCHAR AS messages,
    t.variables::VARCHAR AS variables, t.events::VARCHAR AS events,
    CASE WHEN contains(t.events::VARCHAR, '"rewind"') OR contains(t.events::VARCHAR, '"clear"')
        THEN coalesce((t.state -> '$.gaps')::VARCHAR, '[]') END AS gaps
FROM turns AS t WHERE t.rowid BETWEEN (SELECT min(row) FROM delta_taken) AND (SELECT max(row) FROM delta_taken)
AND t.rowid IN (SELECT row FROM delta_taken)
"""
_CALLS = "SELECT * EXCLUDE (tenant) FROM llm_calls WHERE tenant = $tenant"
_OF_TENANT = "SELECT * EXCLUDE (tenant) FROM {table} WHERE tenant = $tenant"
_FILES = {
    "gone": "FROM delta_gone",
    "turns": _TURNS,
    "starts": """SELECT s.* EXCLUDE (tenant), hash(s.key, s.metadata::VARCHAR) AS start_hash FROM session_starts AS s
        WHERE s.rowid IN (SELECT row FROM delta_starts)""",
    "migrations": _OF_TENANT.format(table="session_migrations"),
    "failures": _OF_TENANT.format(table="turn_failures"),
    "scripts": _OF_TENANT.format(table="scripts"),
    "globals": _OF_TENANT.format(table="user_variables"),
    "global_writes": _OF_TENANT.format(table="user_variable_writes"),
    "calls": f"{_CALLS} AND (used IS NULL OR session_id IS NULL OR session_id IN (SELECT session_id FROM delta_taken))",  # noqa: S608
}
"""What each file of a delta holds: whole tables where those are small, else what is of the sessions it brings."""
_WHOLE = (
    *(_FILES[name] for name in ("migrations", "failures", "scripts", "globals", "global_writes")),
    f"{_CALLS} AND (used IS NULL OR session_id IS NULL)",  # those of no turn that was taken
)


def write_delta(
    cursor: Cursor, tenant: str, folder: Path, known: Known, *, units: bool, turns_max: int = TURNS_MAX
) -> Delta:
    """Write what changed into an empty folder, `units` of memory only where they are asked for. Blocks.

    Raises AnalyticsUnreadable where what the file knows cannot be read, StoreUnavailable.
    """
    cursor.execute("BEGIN TRANSACTION")
    try:
        written = _write(cursor, tenant, folder, known, units=units, turns_max=turns_max)
        for table in _LEFTOVERS:
            cursor.execute(f"DROP TABLE temp.{table}")
        cursor.execute("COMMIT")
    except (duckdb.Error, AnalyticsUnreadable):
        roll_back(cursor)
        raise
    except OSError as error:
        roll_back(cursor)
        raise StoreUnavailable(f"what changed could not be written: {error.strerror}") from error
    return written


def _write(cursor: Cursor, tenant: str, folder: Path, known: Known, *, units: bool, turns_max: int) -> Delta:
    of = {"tenant": tenant}
    _read_known(cursor, known)
    for statement in _COMPARE.format(turns_max=turns_max).split(";"):
        cursor.execute(statement, of if "$tenant" in statement else {})
    for name, rows in _FILES.items():
        _copy(cursor, rows, folder / f"{name}.parquet", of)
    rest = "/".join(_mark(cursor, rows, of) for rows in _WHOLE)
    (as_of, gone, taken, wanted, starts) = cursor.execute(
        """SELECT now(), (SELECT count(*) FROM delta_gone), (SELECT count(*) FROM delta_taken), count(*),
        (SELECT count(*) FROM delta_starts) FROM delta_wanted"""
    ).fetchall()[0]
    mark = _mark(cursor, _UNITS, of) if units and taken == wanted else None  # with the last of what they are about
    if mark == known.memory_mark and not gone:
        mark = None
    if mark is not None:
        _copy(cursor, _UNITS, folder / "units.parquet", of)
    counts = Counts(*cursor.execute(_COUNT, of).fetchall()[0])
    digests = [digest for (digest,) in cursor.execute(_DIGESTS, of).fetchall() if digest not in set(known.digests)]
    delta = Delta(tenant, as_of, taken, wanted - taken, gone, starts, counts, digests, rest, mark)
    (folder / META).write_bytes(msgspec.json.encode(delta))
    return delta


def _read_known(cursor: Cursor, known: Known) -> None:
    """What the file has of which session, as a table. Raises AnalyticsUnreadable."""
    source = _NOTHING if known.sessions is None else f"read_parquet({quoted(known.sessions)})"
    try:
        cursor.execute(f"CREATE OR REPLACE TEMP TABLE delta_known AS FROM {source}")
    except duckdb.InterruptException:
        raise
    except duckdb.Error as error:
        raise AnalyticsUnreadable("what the analytics file knows cannot be read") from error


def _mark(cursor: Cursor, rows: str, of: dict[str, str]) -> str:
    """Digest of rows, in any order."""
    found = cursor.execute(f"SELECT count(*), sum(hash(found)::HUGEINT) FROM ({rows}) AS found", of).fetchall()  # noqa: S608
    return f"{found[0][0]}:{found[0][1]}"


def _copy(cursor: Cursor, rows: str, path: Path, of: dict[str, str]) -> None:
    used = of if "$tenant" in rows else {}
    cursor.execute(f"COPY ({rows}) TO {quoted(path)} (FORMAT parquet, COMPRESSION zstd)", used)
