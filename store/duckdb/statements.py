"""Execute statements that are executed often: each is parsed once, which is a third of the time of a small one.

DuckDB plans a parsed statement again for each execution, so it can be executed by any connection, also after the tables
have changed.
"""

import threading
from collections.abc import Sequence
from typing import TypeAlias

import duckdb
from cachetools import LRUCache, cached

from store.sql.connection import Parameters, Scalar

Cursor: TypeAlias = duckdb.DuckDBPyConnection
Values: TypeAlias = Sequence[Scalar | Sequence[Scalar]] | Parameters

PARSED_MAX = 500
"""Statements that stay parsed."""
PARSED_CHARS_MAX = 10_000
"""Longer statements contain values, so the same one hardly comes again."""


def execute(cursor: Cursor, statement: str, parameters: Values) -> Cursor:
    """Execute one statement; return the cursor, which has the result. Raises duckdb.Error."""
    if len(statement) > PARSED_CHARS_MAX:
        return cursor.execute(statement, parameters)
    return cursor.execute(_parsed(cursor, statement), parameters)


@cached(LRUCache(PARSED_MAX), key=lambda _, statement: statement, lock=threading.Lock())
def _parsed(cursor: Cursor, statement: str) -> duckdb.Statement:
    (parsed,) = cursor.extract_statements(statement)
    return parsed
