"""Brings an analytics file up to date: takes a delta's rows into the model, and derives anew what follows from them."""

import shutil
from pathlib import Path
from typing import get_type_hints

import duckdb
import msgspec

from store.analytics.delta import META, Delta, Known
from store.analytics.file import MODEL_VERSION, Place, connect, report_macros, run_sql, sql_of
from store.analytics.outlines import (
    OUTLINES,
    ActionOutline,
    ArmOutline,
    EndReasonOutline,
    LabelOutline,
    Outline,
    VariableOutline,
)
from store.database import quoted
from store.errors import AnalyticsUnreadable, DatabaseLocked
from store.event_fields import kept_of_event
from store.insert import roll_back
from store.masking import masking_sql

_FILES = (
    "gone", "turns", "starts", "migrations", "failures", "scripts", "globals", "global_writes", "calls",
)  # fmt: skip
_TYPES = {str: "VARCHAR", str | None: "VARCHAR", int: "INTEGER", bool: "BOOLEAN"}
"""Of the fields of outlines."""
_KNOWN = """
SELECT s.session_id, t.turn, t.finished_at, coalesce(d.start_hash, k.start_hash) AS start_hash, s.is_reduced
FROM internal.starts AS s JOIN (
    SELECT session_id, max(turn) AS turn, arg_max(finished_at, turn) AS finished_at
    FROM turns GROUP BY session_id HAVING count(*) = max(turn) + 1
) AS t USING (session_id)
LEFT JOIN delta_starts AS d USING (session_id) LEFT JOIN {known} AS k USING (session_id)
"""
# It is not in the analytics file: who has a snapshot could confirm a session's key by the hash of it.
_NOT_KNOWN = "(SELECT NULL::UUID AS session_id, NULL::UBIGINT AS start_hash LIMIT 0)"


class Masking(msgspec.Struct, frozen=True):
    """Whether words and personal values are left out, and the salt of the pseudonyms that users then have."""

    is_masked: bool
    salt: str = ""


def bring(place: Place, folder: Path, masking: Masking) -> Delta:
    """Take the delta in `folder` into the file, all of it or nothing; the file is made where there is none. Blocks.

    Raises AnalyticsUnreadable where the file is damaged or not of this masking; it is to be removed then.
    """
    delta = msgspec.json.decode((folder / META).read_bytes(), type=Delta)
    spill = folder / "spill"
    known = place.known()
    if known.sessions is None:  # of a file that is there all the same nobody can tell what it holds
        place.remove()
    is_new = not place.path.exists()
    # sessions go, and what was written before a new version calls its name personal is masked afterwards
    is_worn = not is_new and (place.is_worn() or delta.gone > 0 or bool(delta.digests))
    place.known_rest.unlink(missing_ok=True)  # what it says is not so any more, until this is done
    connection = _open(place, spill)
    try:
        _read(connection, folder)
        connection.execute("BEGIN")
        if is_new:
            run_sql(connection, sql_of("tables"))
        _take(connection, delta, masking)
        connection.execute("COMMIT")
        connection.execute("CHECKPOINT analytics")
        _know_sessions(connection, place, is_new=is_new)
        digests = [digest for (digest,) in connection.execute("SELECT digest FROM internal.outlines").fetchall()]
        # units whose sessions have changed are to be brought anew
        memory_mark = delta.memory_mark or (None if delta.gone else known.memory_mark)
        now_known = Known(place.known_sessions, digests, delta.rest_mark, memory_mark)
        place.write_known(now_known, delta.as_of, masking.salt, is_worn=is_worn)
    except duckdb.Error as error:
        roll_back(connection)
        kind = type(error).__name__  # its message may quote what somebody said, and goes to the log
        raise AnalyticsUnreadable(f"the analytics file could not be brought up to date: {kind}") from error
    finally:
        connection.close()
        shutil.rmtree(spill, ignore_errors=True)
    return delta


def _open(place: Place, spill: Path) -> duckdb.DuckDBPyConnection:
    """A connection that writes. Who else has the file open, such as an analyst in a tool, holds a lock on it."""
    try:
        return connect(place.path, spill)
    except DatabaseLocked:
        place.replace_by_copy()
        return connect(place.path, spill)


def _read(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """The delta's files as temporary tables."""
    for name in (*_FILES, *(["units"] if (folder / "units.parquet").exists() else [])):
        connection.execute(f"CREATE TEMP TABLE delta_{name} AS FROM read_parquet(?)", [str(folder / f"{name}.parquet")])
    outline = msgspec.json.decode((folder / OUTLINES).read_bytes(), type=Outline)
    connection.execute("CREATE TEMP TABLE delta_outlines AS SELECT unnest(?::VARCHAR[]) AS digest", [outline.digests])
    for name, kind, rows in (
        ("actions", ActionOutline, outline.actions),
        ("variables", VariableOutline, outline.variables),
        ("labels", LabelOutline, outline.labels),
        ("arms", ArmOutline, outline.arms),
        ("end_reasons", EndReasonOutline, outline.end_reasons),
    ):
        shape = msgspec.json.encode([{name: _TYPES[of] for name, of in get_type_hints(kind).items()}]).decode()
        connection.execute(
            f"CREATE TEMP TABLE delta_{name} AS SELECT unnest(from_json(?::JSON, '{shape}'), max_depth := 2)",
            [msgspec.json.encode(rows).decode()],
        )


def _take(connection: duckdb.DuckDBPyConnection, delta: Delta, masking: Masking) -> None:
    """All of the delta, within a transaction."""
    of_file = connection.execute("SELECT tenant, is_masked FROM about").fetchall()
    if of_file and of_file[0] != (delta.tenant, masking.is_masked):
        raise AnalyticsUnreadable("the analytics file is of another tenant or masking")
    connection.execute("SET VARIABLE is_masked = ?", [masking.is_masked])
    connection.execute("SET VARIABLE salt = ?", [masking.salt])
    connection.execute(f"CREATE TEMP MACRO kept_data(kind, data) AS {kept_of_event('kind', 'data')}")
    _mask_columns(connection, "failures", "failed_turns")
    run_sql(connection, sql_of("take"))
    _mask_columns(connection, "calls", "llm_calls")
    run_sql(connection, sql_of("derive"))
    run_sql(connection, report_macros())
    if delta.memory_mark is not None:
        run_sql(connection, sql_of("units"))
    connection.execute("DELETE FROM about")
    connection.execute(
        """INSERT INTO about BY NAME SELECT $version AS model_version, $tenant AS tenant, $is_masked AS is_masked,
        $as_of::TIMESTAMPTZ AS as_of, $sessions AS sessions, $turns AS turns,
        $messages AS messages, $events AS events""",
        {
            "version": MODEL_VERSION,
            "tenant": delta.tenant,
            "is_masked": masking.is_masked,
            "as_of": delta.as_of.isoformat(),
            **msgspec.structs.asdict(delta.counts),
        },
    )


def _mask_columns(connection: duckdb.DuckDBPyConnection, delta: str, table: str) -> None:
    """Define the view `shown_…` of a delta's rows, in which the columns are masked that are masked in a table."""
    columns = connection.execute(f"DESCRIBE delta_{delta}").fetchall()
    masked = masking_sql(table, {name: kind for name, kind, *_ in columns})
    connection.execute(f"CREATE TEMP VIEW shown_{delta} AS SELECT * REPLACE ({masked}) FROM delta_{delta}")  # noqa: S608


def _know_sessions(connection: duckdb.DuckDBPyConnection, place: Place, *, is_new: bool) -> None:
    """Write down which turns the file has now."""
    fresh = place.known_sessions.with_name(place.known_sessions.name + ".new")
    known = _NOT_KNOWN if is_new else f"read_parquet({quoted(place.known_sessions)})"
    connection.execute(f"COPY ({_KNOWN.format(known=known)}) TO {quoted(fresh)} (FORMAT parquet)")
    fresh.replace(place.known_sessions)
