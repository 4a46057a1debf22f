"""What of SQL a stranger may run: one statement that reads, over the tables of the file and nothing else.

DuckDB's own parser reads the statement; every node of what it understood is looked at, and what is not known to be
harmless is refused. It is the first of three walls: the connection has no access to anything either (see query.py), and
the process that runs it is bounded and can be killed.
"""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from itertools import accumulate
from typing import Any, TypeAlias

import duckdb
import msgspec

from store.errors import QueryRefused

SQL_BYTES_MAX = 100_000
DEPTH_MAX = 500
"""How deep expressions may be nested; DuckDB's own limit, which is meant to leave room on the stack, is 1,000."""

Node: TypeAlias = Mapping[str, Any]
_Names: TypeAlias = frozenset[str]

_EXPLAIN = re.compile(r"\s*explain(\s+analyze)?\b", re.IGNORECASE)
_BRACKETS = re.compile(r"[][(){}]")
_NOWHERE = 2**64 - 1  # where the parser does not know the place of a node
_QUERIES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
_SOURCES = {"BASE_TABLE", "SUBQUERY", "JOIN", "TABLE_FUNCTION", "EMPTY", "EXPRESSION_LIST", "PIVOT", "SHOW_REF"}
_EXPRESSIONS = {
    "BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "DEFAULT", "FUNCTION",
    "LAMBDA", "LAMBDA_REF", "OPERATOR", "POSITIONAL_REFERENCE", "STAR", "SUBQUERY", "TYPE", "WINDOW",
}  # fmt: skip
_OTHERS = re.compile(r"[A-Z]+_MODIFIER|ORDER_DEFAULT|ASCENDING|DESCENDING")

_ABOUT_TABLES = frozenset({"duckdb_columns", "duckdb_constraints", "duckdb_tables", "duckdb_types", "duckdb_views"})
"""What tells of the tables themselves, as tables and as functions."""
_TABLE_FUNCTIONS = _ABOUT_TABLES | {
    "duckdb_functions", "duckdb_keywords", "generate_series", "histogram", "histogram_values", "json_each", "json_tree",
    "pragma_table_info", "range", "repeat", "repeat_row", "summary", "unnest",
}  # fmt: skip
_FUNCTIONS_REFUSED = re.compile(
    r"__internal.*"  # of the optimizer, which trusts what it gives them
    r"|combine|finalize|to_aggregate_state"  # read memory as states of aggregates
    r"|current_setting|pg_conf_load_time|pg_postmaster_start_time|inet_.*"  # of the machine
    r"|json_(de)?serialize_(sql|plan)"  # SQL within SQL
    r"|nextval|currval|setval|setseed|write_log|parse_duckdb_log_message"  # change something, or tell of it
    r"|sleep_ms|pg_sleep"  # hold a place without work
    r"|getenv|read_.*|which_secret|add_parquet_key"  # not there, unless an extension brings them
)
_TYPES_REFUSED = {"aggregate_state", "pointer"}


def check(cursor: duckdb.DuckDBPyConnection, sql: str) -> str:
    """The statement to run, where it is one that reads the default database of the cursor. Raises QueryRefused.

    To be called where the process may die of it: the parser can be brought to its end by texts made for that.
    """
    _check_text(sql)
    explain = _EXPLAIN.match(sql)
    if explain is None:
        tree = _tree(cursor, sql)
    else:  # what is explained; with blanks before it, so that places in messages stay right
        tree = _tree(cursor, re.sub(r"\S", " ", explain[0]) + sql[explain.end() :])
    _Check(sql.encode(), cursor).all_of(tree)
    return sql


def _check_text(sql: str) -> None:
    try:
        size = len(sql.encode())
    except UnicodeEncodeError:
        raise QueryRefused("the query is not text: it holds half a character (a lone surrogate)") from None
    if size > SQL_BYTES_MAX:
        raise QueryRefused(f"the query is {size} bytes long; {SQL_BYTES_MAX} are the most")
    if "\0" in sql:
        raise QueryRefused("the query is not text: it holds a NUL character")
    if _nesting(sql) > DEPTH_MAX:  # the parser takes time and memory by the square of what is open
        raise QueryRefused(f"the query is nested too deeply: more than {DEPTH_MAX} brackets are open at once")


def _nesting(sql: str) -> int:
    """How many brackets are open at once, about: those in texts and comments count too."""
    return max(accumulate((1 if each in "([{" else -1 for each in _BRACKETS.findall(sql)), initial=0))


def _tree(cursor: duckdb.DuckDBPyConnection, sql: str) -> Node:
    """What the parser understood of one SELECT."""
    try:
        statements = cursor.extract_statements(sql)
    except duckdb.Error as error:
        raise QueryRefused(str(error)) from error
    if len(statements) != 1:
        raise QueryRefused(f"one statement, please: here are {len(statements)}")
    kind = statements[0].type
    if kind == duckdb.StatementType.MULTI:
        raise QueryRefused("a PIVOT has to name its columns here: PIVOT … ON column IN (value, …) USING …")
    if kind != duckdb.StatementType.SELECT:
        raise QueryRefused(f"one SELECT, please: {kind.name.replace('_', ' ')} cannot be run here")
    ((text,),) = cursor.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
    try:
        found = msgspec.json.decode(text)
    except RecursionError:
        raise QueryRefused("the query is nested too deeply") from None
    if found["error"] or len(found["statements"]) != 1:
        raise QueryRefused(f"this cannot be run here: {found.get('error_message', 'not one SELECT')}")
    node: Node = found["statements"][0]["node"]
    return node


def _tables(cursor: duckdb.DuckDBPyConnection) -> _Names:
    """The tables and views that the file itself has in its main schema, in lower case."""
    found = cursor.execute(
        """SELECT lower(table_name) FROM duckdb_tables()
        WHERE database_name = current_database() AND schema_name = 'main' AND NOT internal
        UNION ALL SELECT lower(view_name) FROM duckdb_views()
        WHERE database_name = current_database() AND schema_name = 'main' AND NOT internal"""
    ).fetchall()
    return frozenset(name for (name,) in found)


def _macros(cursor: duckdb.DuckDBPyConnection) -> _Names:
    """Its table macros. Listing functions takes longer than most queries: only where there is need of it."""
    found = cursor.execute(
        """SELECT lower(function_name) FROM duckdb_functions()
        WHERE database_name = current_database() AND function_type = 'table_macro' AND NOT internal"""
    ).fetchall()
    return frozenset(name for (name,) in found)


class _Check:
    """Looks at every node of a statement. The methods raise QueryRefused."""

    def __init__(self, sql: bytes, cursor: duckdb.DuckDBPyConnection) -> None:
        self._sql = sql
        self._cursor = cursor
        self._tables = _tables(cursor)

    def all_of(self, tree: Node) -> None:
        """The whole statement. Names of CTEs hold within their query, for those after them, as in DuckDB."""
        waiting: list[tuple[Any, _Names]] = [(tree, frozenset())]
        while waiting:
            part, ctes = waiting.pop()
            if isinstance(part, list):
                waiting.extend((each, ctes) for each in part)
            elif isinstance(part, dict):
                self._node(part, ctes)
                waiting.extend(_parts_of(part, ctes))

    def _node(self, node: Node, ctes: _Names) -> None:
        kind = node.get("type")
        if "class" in node:
            self._expression(node)
        elif not isinstance(kind, str):
            pass  # part of a node
        elif kind in _SOURCES:
            self._source(node, ctes)
        elif kind not in _QUERIES and not _OTHERS.fullmatch(kind):
            name = kind.removesuffix("_NODE").removesuffix("_QUERY").replace("_", " ")
            raise self._refused(node, f"{name} cannot be run here")

    def _expression(self, node: Node) -> None:
        if node["class"] == "PARAMETER":
            raise self._refused(node, "a query has no parameters here: write the value itself")
        if node["class"] not in _EXPRESSIONS:
            raise self._refused(node, f"{node['type'].replace('_', ' ')} cannot be used here")
        if _FUNCTIONS_REFUSED.fullmatch(node.get("function_name", "").lower()):
            raise self._refused(node, f"{node['function_name']}() cannot be used here")
        if node.get("type_name", "").lower() in _TYPES_REFUSED:
            raise self._refused(node, f"the type {node['type_name']} cannot be used here")

    def _source(self, node: Node, ctes: _Names) -> None:
        match node["type"]:
            case "BASE_TABLE":
                self._table(node, ctes)
            case "TABLE_FUNCTION":
                self._table_function(node)
            case "SHOW_REF" if node["query"] is None:
                self._show(node)

    def _table(self, node: Node, ctes: _Names) -> None:
        *of, name = (each.lower() for each in node["qualified_name"]["path"])
        if (not of and name in ctes | self._tables | _ABOUT_TABLES) or of[-1:] == ["information_schema"]:
            return
        if of[-1:] == ["main"] and name in self._tables:
            return
        said = node["table_name"]
        if re.search(r"[/\\:*?.]", said):
            raise self._refused(node, "only tables can be read here: no files, no addresses")
        if of:
            raise self._refused(node, f"there is no table {'.'.join(node['qualified_name']['path'])} here")
        raise self._refused(node, f"there is no table {said} here" + _meant(said, ctes | self._tables))

    def _show(self, node: Node) -> None:
        said = node["table_name"]
        if said not in {'"tables"', "__show_tables_expanded"} and said.strip('"').lower() not in self._tables:
            raise self._refused(node, "only tables can be shown here: SHOW TABLES, DESCRIBE table, SUMMARIZE table")

    def _table_function(self, node: Node) -> None:
        said = node["function"]["function_name"]
        if said.lower() in _TABLE_FUNCTIONS:
            return
        macros = _macros(self._cursor)
        if said.lower() not in macros:
            meant = _meant(said, macros | {"range", "generate_series", "unnest"})
            raise self._refused(node, f"{said}() cannot be read from here" + meant)

    def _refused(self, node: Node, problem: str) -> QueryRefused:
        """With the line it is in, and a mark below the place, as DuckDB's own errors have them."""
        place = node.get("query_location", _NOWHERE)
        if place >= len(self._sql):
            return QueryRefused(problem)
        before = self._sql[:place].decode(errors="replace")
        number, start = before.count("\n") + 1, before.rfind("\n") + 1
        line = self._sql.decode().split("\n")[number - 1]
        column = len(before) - start
        cut = max(0, column - 60)
        shown = f"LINE {number}: " + ("..." if cut else "")
        mark = "^" * max(1, min(node.get("query_location_length", 1), 60, len(line) - column))
        below = " " * (len(shown) + column - cut) + mark
        return QueryRefused(f"{problem}\n\n{shown}{line[cut : cut + 120]}\n{below}")


def _parts_of(node: Node, ctes: _Names) -> Iterator[tuple[Any, _Names]]:
    """What is within a node, and the CTEs that can be named there."""
    for entry in node["cte_map"]["map"] if "cte_map" in node else ():
        name, value = {entry["key"].lower()}, entry["value"]
        yield value, ctes | name if value["query_node"]["type"] == "RECURSIVE_CTE_NODE" else ctes
        ctes |= name
    for key, part in node.items():
        if key == "function" and node["type"] == "TABLE_FUNCTION":  # its name was looked at, as that of a source
            yield part["arguments"], ctes
        elif key != "cte_map":
            yield part, ctes


def _meant(name: str, names: _Names) -> str:
    close = get_close_matches(name.lower(), sorted(names), 1)
    return f"; did you mean {close[0]}?" if close else ""
