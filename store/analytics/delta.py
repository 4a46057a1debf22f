"""Export the changes since an analytics file was last refreshed, as Parquet files in a folder.

The server process only copies rows here; another process parses their JSON, masks them and derives the other tables. A
delta is read in one transaction, so it is consistent.
"""

from datetime import datetime
from pathlib import Path

import duckdb
import msgspec

from store.duckdb.database_file import quote
from store.duckdb.statements import Cursor, transaction
from store.interface.errors import AnalyticsUnreadable, StoreUnavailable, describe_error, write_failure

TURNS_MAX = 50_000
"""Maximum number of turns in one delta; copying them takes much less than the time limit of a read."""
META = "delta.json"


class Counts(msgspec.Struct, frozen=True):
    """The numbers of a tenant's rows in the database."""

    sessions: int
    turns: int
    messages: int
    events: int


class Delta(msgspec.Struct, frozen=True):
    """The description of a delta, which is also written to its folder as `delta.json`."""

    tenant: str
    as_of: datetime
    """The time of the database that the delta describes."""
    turns: int
    """The number of turns in the delta."""
    left: int
    """The number of changed turns that exceed the maximum; the next delta has them."""
    gone: int
    """The number of sessions that are deleted, or that must be exported again from their first turn."""
    starts: int
    """The number of sessions that are new, have continued, or have another key or other metadata."""
    counts: Counts
    digests: list[str]
    """Digests of the scripts of sessions and of the catalogue that the file has no outline of."""
    rest_mark: str
    """Digest of the tables that are exported as a whole."""
    memory_mark: str | None
    """Digest of the exported memory units; null if they were not requested, or have not changed."""
    is_whole: bool
    """Whether it begins a new file; otherwise it contains the changes since the last refresh of a file."""

    def is_empty(self, known: "KnownContent") -> bool:
        """Return whether it contains no changes for a file with this content."""
        return (
            self.turns == self.gone == self.starts == 0
            and self.memory_mark is None
            and self.rest_mark == known.rest_mark
        )


class KnownContent(msgspec.Struct, frozen=True):
    """The content of an analytics file before a refresh."""

    sessions: Path | None = None
    """Parquet: `session_id`, `turn`, `finished_at` and `import_number` of its latest turn, `start_hash`, `is_redacted`;
    or null.
    """
    digests: list[str] = []
    """Digests of the scripts that it has an outline of."""
    rest_mark: str = ""
    """Digest of its tables that are exported as a whole."""
    memory_mark: str | None = None
    """Digest of its memory units."""


_NOTHING = """(SELECT NULL::UUID AS session_id, 0 AS turn, NULL::TIMESTAMPTZ AS finished_at, 0::BIGINT AS import_number,
    0::UBIGINT AS start_hash, false AS is_redacted LIMIT 0)"""
# Turns are taken by session: what is derived from a session is computed again with each delta that has turns of it.
# Comparing the latest turn is enough, since turns are only appended, and only retention and imports change them.
_IMPORT_NUMBER = "least(t.commit_number, 0)"
_COMPARE = """
CREATE OR REPLACE TEMP TABLE delta_gone AS
    SELECT k.session_id FROM delta_known AS k
    WHERE NOT EXISTS (
        FROM turns AS t WHERE t.tenant = $tenant AND t.session_id = k.session_id AND t.turn = k.turn
        AND t.finished_at = k.finished_at AND {import_number} = k.import_number
    ) OR EXISTS (
        FROM session_starts AS s WHERE s.tenant = $tenant AND s.session_id = k.session_id
        AND (s.redacted_at IS NOT NULL) != k.is_redacted
    );
CREATE OR REPLACE TEMP TABLE delta_wanted AS
    SELECT t.rowid AS row, t.session_id
    FROM turns AS t LEFT JOIN (FROM delta_known ANTI JOIN delta_gone USING (session_id)) AS k USING (session_id)
    WHERE t.tenant = $tenant AND (k.session_id IS NULL OR t.turn > k.turn);
CREATE OR REPLACE TEMP TABLE delta_taken AS FROM delta_wanted ORDER BY session_id, row LIMIT {turns_max};
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
_TURNS = f"""
SELECT t.session_id, t.user_id, t.turn, t.started_at, t.finished_at, {_IMPORT_NUMBER} AS import_number, t.status,
    t.execution_status, t.phase_id, t.topic_id, t.action_id, t.action_type, t.wait_kind,
    t.messages::VARCHAR AS messages, t.variables::VARCHAR AS variables, t.events::VARCHAR AS events,
    CASE WHEN contains(t.events::VARCHAR, '"rewind"') OR contains(t.events::VARCHAR, '"clear"')
        THEN coalesce((t.state -> '$.gaps')::VARCHAR, '[]') END AS gaps
FROM turns AS t WHERE t.rowid BETWEEN (SELECT min(row) FROM delta_taken) AND (SELECT max(row) FROM delta_taken)
AND t.rowid IN (SELECT row FROM delta_taken)
"""  # noqa: S608
_CALLS = "SELECT * EXCLUDE (tenant) FROM llm_calls WHERE tenant = $tenant AND purpose != 'tool'"
_OF_TENANT = "SELECT * EXCLUDE (tenant) FROM {table} WHERE tenant = $tenant"
FILES = {
    "gone": "FROM delta_gone",
    "turns": _TURNS,
    "starts": """SELECT s.* EXCLUDE (tenant), hash(s.key, s.metadata::VARCHAR) AS start_hash FROM session_starts AS s
        WHERE s.rowid IN (SELECT row FROM delta_starts)""",
    "migrations": _OF_TENANT.format(table="session_migrations"),
    "failures": _OF_TENANT.format(table="turn_failures"),
    "scripts": _OF_TENANT.format(table="scripts"),
    "globals": _OF_TENANT.format(table="user_variables"),
    "global_writes": _OF_TENANT.format(table="user_variable_writes"),
    "ratings": """
        SELECT r.review_id, v.name AS review, r.session_id, r.turn, r.rater, q.question_id AS question, q.kind,
            coalesce(r.answers -> q.question_id, r.texts -> q.question_id)::VARCHAR AS answer, r.rated_at
        FROM ratings AS r JOIN reviews AS v USING (tenant, review_id), unnest(from_json(v.questions,
            '[{"question_id": "VARCHAR", "kind": "VARCHAR"}]')) AS u (q)
        WHERE r.tenant = $tenant AND answer IS NOT NULL""",
    "calls": f"{_CALLS} AND (used IS NULL OR session_id IS NULL OR session_id IN (SELECT session_id FROM delta_taken))",  # noqa: S608
}
"""SQL for each file of a delta: small tables as a whole, otherwise the rows of the exported sessions."""
_WHOLE = (
    *(FILES[name] for name in ("migrations", "failures", "scripts", "globals", "global_writes", "ratings")),
    f"{_CALLS} AND (used IS NULL OR session_id IS NULL)",  # calls without a committed turn
)


def write_delta(
    cursor: Cursor, tenant: str, folder: Path, known: KnownContent, *, units: bool, turns_max: int = TURNS_MAX
) -> Delta:
    """Write the changes since `known` into an empty folder; memory units only if `units` is true. Blocks.

    Raises AnalyticsUnreadable if the file of known sessions cannot be read, DiskFull or StoreUnavailable if writing
    fails.
    """
    try:
        with transaction(cursor):
            delta = _write(cursor, tenant, folder, known, units=units, turns_max=turns_max)
            for table in _LEFTOVERS:
                cursor.execute(f"DROP TABLE temp.{table}")
    except (OSError, duckdb.IOException) as error:
        failed = StoreUnavailable(f"the changes could not be written: {describe_error(error)}")
        raise write_failure(error, "the changes of the analytics files", failed) from error
    return delta


def _write(cursor: Cursor, tenant: str, folder: Path, known: KnownContent, *, units: bool, turns_max: int) -> Delta:
    parameters = {"tenant": tenant}
    _read_known(cursor, known)
    for statement in _COMPARE.format(turns_max=turns_max, import_number=_IMPORT_NUMBER).split(";"):
        cursor.execute(statement, parameters if "$tenant" in statement else {})
    for name, rows in FILES.items():
        _copy(cursor, rows, folder / f"{name}.parquet", parameters)
    rest = "/".join(_mark(cursor, rows, parameters) for rows in _WHOLE)
    (as_of, gone, exported, changed, starts) = cursor.execute(
        """SELECT now(), (SELECT count(*) FROM delta_gone), (SELECT count(*) FROM delta_taken), count(*),
        (SELECT count(*) FROM delta_starts) FROM delta_wanted"""
    ).fetchall()[0]
    # with the last delta only, since units refer to turns
    mark = _mark(cursor, _UNITS, parameters) if units and exported == changed else None
    if mark == known.memory_mark and not gone:
        mark = None
    if mark is not None:
        _copy(cursor, _UNITS, folder / "units.parquet", parameters)
    counts = Counts(*cursor.execute(_COUNT, parameters).fetchall()[0])
    found = cursor.execute(_DIGESTS, parameters).fetchall()
    digests = [digest for (digest,) in found if digest not in set(known.digests)]
    is_whole = known.sessions is None
    delta = Delta(tenant, as_of, exported, changed - exported, gone, starts, counts, digests, rest, mark, is_whole)
    (folder / META).write_bytes(msgspec.json.encode(delta))
    return delta


def _read_known(cursor: Cursor, known: KnownContent) -> None:
    """Create a temporary table of the sessions that the file has. Raises AnalyticsUnreadable."""
    source = _NOTHING if known.sessions is None else f"read_parquet({quote(known.sessions)})"
    try:
        cursor.execute(f"CREATE OR REPLACE TEMP TABLE delta_known AS FROM {source}")
    except duckdb.InterruptException:
        raise
    except duckdb.Error as error:
        raise AnalyticsUnreadable("the list of the sessions in the analytics file cannot be read") from error


def _mark(cursor: Cursor, rows: str, parameters: dict[str, str]) -> str:
    """Return a digest of rows that does not depend on their order."""
    select = f"SELECT count(*), sum(hash(found)::HUGEINT) FROM ({rows}) AS found"  # noqa: S608
    found = cursor.execute(select, parameters).fetchall()
    return f"{found[0][0]}:{found[0][1]}"


def _copy(cursor: Cursor, rows: str, path: Path, parameters: dict[str, str]) -> None:
    used = parameters if "$tenant" in rows else {}
    cursor.execute(f"COPY ({rows}) TO {quote(path)} (FORMAT parquet, COMPRESSION zstd)", used)
