"""Refresh an analytics file: insert the rows of a delta into the model, and update the derived tables."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import get_args, get_type_hints

import duckdb
import msgspec

from store.analytics.delta import FILES, META, Delta, KnownContent
from store.analytics.file import ANALYTICS_FILES, MEMORY, MODEL_VERSION, Place, connect, report_macros, run_sql, sql_of
from store.analytics.outlines import OUTLINES, Outline
from store.duckdb.database_file import quote
from store.duckdb.event_fields_sql import remaining_event
from store.duckdb.statements import transaction
from store.interface.errors import AnalyticsUnreadable, StoreUnavailable, write_failure
from store.interface.masking import HIDDEN, MASKED

_TYPES = {str: "VARCHAR", str | None: "VARCHAR", int: "INTEGER", bool: "BOOLEAN"}
"""SQL types of the fields of outlines."""
_KNOWN = """
SELECT s.session_id, t.turn, t.finished_at, coalesce(n.import_number, k.import_number) AS import_number,
    coalesce(d.start_hash, k.start_hash) AS start_hash, s.is_redacted
FROM internal.starts AS s JOIN (
    SELECT session_id, max(turn) AS turn, arg_max(finished_at, turn) AS finished_at
    FROM turns GROUP BY session_id HAVING count(*) = max(turn) + 1
) AS t USING (session_id)
LEFT JOIN delta_starts AS d USING (session_id) LEFT JOIN delta_turns AS n USING (session_id, turn)
LEFT JOIN {known} AS k USING (session_id)
"""
# `start_hash` is not in the analytics file, because a reader of a snapshot could use it to confirm a guess of a key.
_NOT_KNOWN = "(SELECT NULL::UUID AS session_id, NULL::UBIGINT AS start_hash, NULL::BIGINT AS import_number LIMIT 0)"


class Masking(msgspec.Struct, frozen=True):
    """Whether texts and personal values are masked, and the salt of the pseudonyms."""

    is_masked: bool
    salt: str = ""


def refresh(place: Place, folder: Path, masking: Masking) -> Delta:
    """Apply the delta in `folder` to the file, atomically; create the file if it does not exist. Blocks.

    Raises AnalyticsUnreadable if the file is damaged, has another masking, or is not the one that the delta was made
    for; the caller must then delete it. Raises DatabaseLocked if another program, such as a tool of an analyst, has it
    open, and StoreUnavailable if DuckDB needs more memory than its limit.
    """
    delta = msgspec.json.decode((folder / META).read_bytes(), type=Delta)
    spill = folder / "spill"
    known = place.read_known()
    if delta.is_whole:  # if a file exists, its content is unknown
        place.remove()
    elif known.sessions is None:  # somebody deleted it, or a program of another version is to refresh it
        raise AnalyticsUnreadable("the analytics file was removed while it was refreshed")
    is_new = not place.path.exists()
    connection = connect(place.path, spill)
    place.known_rest.unlink(missing_ok=True)  # not valid until the refresh is done
    try:
        _read(connection, folder)
        with transaction(connection):
            if is_new:  # a file that other statements have made is rebuilt
                run_sql(connection, sql_of("tables"))
                run_sql(connection, report_macros())
            _take(connection, delta, masking)
        connection.execute("CHECKPOINT analytics")
        _write_known_sessions(connection, place, is_new=is_new)
        digests = [digest for (digest,) in connection.execute("SELECT digest FROM internal.outlines").fetchall()]
        # if sessions were replaced, the next delta must export the units again
        memory_mark = delta.memory_mark or (None if delta.gone else known.memory_mark)
        place.write_known(
            KnownContent(place.known_sessions, digests, delta.rest_mark, memory_mark), delta.as_of, masking.salt
        )
    except duckdb.OutOfMemoryException as error:  # the file is not damaged: another one would need as much
        raise StoreUnavailable(f"the analytics file needs more memory than {MEMORY} to be refreshed") from error
    except duckdb.Error as error:
        kind = type(error).__name__  # without the message, which may quote users' texts and would be logged
        failed = AnalyticsUnreadable(f"the analytics file could not be refreshed: {kind}")
        raise write_failure(error, ANALYTICS_FILES, failed) from error
    finally:
        connection.close()
        shutil.rmtree(spill, ignore_errors=True)
    return delta


def _read(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Read the files of the delta into temporary tables."""
    for name in (*FILES, *(["units"] if (folder / "units.parquet").exists() else [])):
        connection.execute(f"CREATE TEMP TABLE delta_{name} AS FROM read_parquet(?)", [str(folder / f"{name}.parquet")])
    outline = msgspec.json.decode((folder / OUTLINES).read_bytes(), type=Outline)
    connection.execute("CREATE TEMP TABLE delta_outlines AS SELECT unnest(?::VARCHAR[]) AS digest", [outline.digests])
    parts = {name: get_args(hint)[0] for name, hint in get_type_hints(Outline).items() if name != "digests"}
    for name, kind in parts.items():
        shape = msgspec.json.encode([{field: _TYPES[of] for field, of in get_type_hints(kind).items()}]).decode()
        connection.execute(
            f"CREATE TEMP TABLE delta_{name} AS SELECT unnest(from_json(?::JSON, '{shape}'), max_depth := 2)",
            [msgspec.json.encode(getattr(outline, name)).decode()],
        )


def _take(connection: duckdb.DuckDBPyConnection, delta: Delta, masking: Masking) -> None:
    """Apply the delta to the tables. Within a transaction."""
    of_file = connection.execute("SELECT tenant, is_masked FROM about").fetchall()
    if of_file and of_file[0] != (delta.tenant, masking.is_masked):
        raise AnalyticsUnreadable("the analytics file has another tenant or masking")
    connection.execute("SET VARIABLE is_masked = ?", [masking.is_masked])
    connection.execute("SET VARIABLE salt = ?", [masking.salt])
    connection.execute(f"CREATE TEMP MACRO kept_data(kind, data) AS {remaining_event()}")
    _mask_columns(connection, "failures", "failed_turns")
    run_sql(connection, sql_of("take"))
    _mask_columns(connection, "calls", "llm_calls")
    run_sql(connection, sql_of("derive"))
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
    """Create the view `shown_…` of a delta's rows, with the same masking as the table."""
    columns = connection.execute(f"DESCRIBE delta_{delta}").fetchall()
    masked = _masking_sql(table, {name: kind for name, kind, *_ in columns})
    connection.execute(f"CREATE TEMP VIEW shown_{delta} AS SELECT * REPLACE ({masked}) FROM delta_{delta}")  # noqa: S608


def _masking_sql(table: str, column_types: Mapping[str, str]) -> str:
    """Return the SQL list for `SELECT * REPLACE (…)` that masks the rows of a table if `is_masked` is set.

    The list contains the masked columns that are in `column_types`. Raises ValueError for a table with a column of
    treatment `value`, `label` or `fields`.
    """
    parts = []
    for column, treatment in MASKED[table].items():
        if column not in column_types:
            continue
        match treatment:
            case "pseudonym":
                masked = f"who({column})"
            case "words" | "digest":
                masked = f"CASE WHEN NOT getvariable('is_masked') THEN {column} END::{column_types[column]}"
            case "flag":
                masked = f"CASE WHEN getvariable('is_masked') AND {column} != '' THEN '{HIDDEN}' ELSE {column} END"
            case "value" | "label" | "fields":
                raise ValueError(f"{table}.{column} has masking SQL of its own")
        parts.append(f"{masked} AS {column}")
    return ", ".join(parts)


def _write_known_sessions(connection: duckdb.DuckDBPyConnection, place: Place, *, is_new: bool) -> None:
    """Write the file of the latest turns that the analytics file has."""
    fresh = place.known_sessions.with_name(place.known_sessions.name + ".new")
    known = _NOT_KNOWN if is_new else f"read_parquet({quote(place.known_sessions)})"
    connection.execute(f"COPY ({_KNOWN.format(known=known)}) TO {quote(fresh)} (FORMAT parquet)")
    fresh.replace(place.known_sessions)
