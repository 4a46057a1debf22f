"""SQL that masks the columns of analytics files."""

from collections.abc import Mapping

from store.interface.masking import HIDDEN, MASKED


def masking_sql(table: str, column_types: Mapping[str, str]) -> str:
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
                raise ValueError(f"{table}.{column} has its own masking SQL; masking_sql does not support it")
        parts.append(f"{masked} AS {column}")
    return ", ".join(parts)
