"""Check an untrusted SQL statement: only one SELECT over the tables of the file is allowed.

DuckDB's own parser parses the statement. Every node of the syntax tree is checked, and a node that is not known to be
safe is refused. This is the first of three layers of protection: the connection cannot access anything else either (see
query.py), and the process that runs the statement has limits and can be killed.
"""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from itertools import accumulate
from typing import Any, TypeAlias

import duckdb
import msgspec

from store.interface.errors import QueryRefused

SQL_BYTES_MAX = 100_000
DEPTH_MAX = 500
"""Maximum depth of nested expressions; DuckDB's own limit, which protects the stack, is 1,000."""

Node: TypeAlias = Mapping[str, Any]
_Names: TypeAlias = frozenset[str]

_EXPLAIN = re.compile(r"\s*explain(\s+analyze)?\b", re.IGNORECASE)
_BRACKETS = re.compile(r"[][(){}]")
_NOWHERE = 2**64 - 1  # the parser does not know the location of a node
_QUERIES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
_SOURCES = {"BASE_TABLE", "SUBQUERY", "JOIN", "TABLE_FUNCTION", "EMPTY", "EXPRESSION_LIST", "PIVOT", "SHOW_REF"}
_EXPRESSIONS = {
    "BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "DEFAULT", "FUNCTION",
    "LAMBDA", "LAMBDA_REF", "OPERATOR", "POSITIONAL_REFERENCE", "STAR", "SUBQUERY", "TYPE", "WINDOW",
}  # fmt: skip
_OTHERS = re.compile(r"[A-Z]+_MODIFIER|ORDER_DEFAULT|ASCENDING|DESCENDING")

_ABOUT_TABLES = frozenset({"duckdb_columns", "duckdb_constraints", "duckdb_tables", "duckdb_types", "duckdb_views"})
"""Views of the catalogue, which exist as tables and as functions."""
_TABLE_FUNCTIONS = _ABOUT_TABLES | {
    "duckdb_functions", "duckdb_keywords", "generate_series", "histogram", "histogram_values", "json_each", "json_tree",
    "pragma_table_info", "range", "repeat", "repeat_row", "summary", "unnest",
}  # fmt: skip
_FUNCTIONS_REFUSED = re.compile(
    r"__internal.*"  # for the optimizer only; they do not check their arguments
    r"|combine|finalize|to_aggregate_state"  # read memory as states of aggregates
    r"|current_setting|pg_conf_load_time|pg_postmaster_start_time|inet_.*"  # reveal information about the machine
    r"|json_(de)?serialize_(sql|plan)"  # SQL within SQL
    r"|nextval|currval|setval|setseed|write_log|parse_duckdb_log_message"  # change or reveal state
    r"|sleep_ms|pg_sleep"  # block a worker without work
    r"|getenv|read_.*|which_secret|add_parquet_key"  # exist only with an extension
)
_TYPES_REFUSED = {"aggregate_state", "pointer"}


def check(cursor: duckdb.DuckDBPyConnection, sql: str) -> str:
    """Return the statement if it only reads the default database of the cursor. Otherwise raises QueryRefused.

    Call it only in a process that may crash, because malicious texts can crash the parser.
    """
    _check_text(sql)
    _Check(sql.encode(), cursor).all_of(_tree_of(cursor, sql))
    return sql


def check_syntax(sql: str) -> None:
    """Raise QueryRefused if the statement is not one SELECT; its tables, columns and functions are not checked.

    Call it only in a process that may crash, because malicious texts can crash the parser.
    """
    _check_text(sql)
    with duckdb.connect(":memory:") as connection:
        _tree_of(connection, sql)


def _tree_of(cursor: duckdb.DuckDBPyConnection, sql: str) -> Node:
    """Return the syntax tree of one SELECT, which EXPLAIN may precede. Raises QueryRefused."""
    explain = _EXPLAIN.match(sql)
    if explain is None:
        return _tree(cursor, sql)
    # the explained statement, after blanks, so that locations in messages are correct
    return _tree(cursor, re.sub(r"\S", " ", explain[0]) + sql[explain.end() :])


def _check_text(sql: str) -> None:
    try:
        size = len(sql.encode())
    except UnicodeEncodeError:
        raise QueryRefused("the query is not valid text: it contains a lone surrogate") from None
    if size > SQL_BYTES_MAX:
        raise QueryRefused(f"the query is {size} bytes long; the maximum is {SQL_BYTES_MAX}")
    if "\0" in sql:
        raise QueryRefused("the query is not valid text: it contains a NUL character")
    if _nesting(sql) > DEPTH_MAX:  # the parser's time and memory are quadratic in the depth
        raise QueryRefused(f"the query is nested too deeply: more than {DEPTH_MAX} brackets are open at once")


def _nesting(sql: str) -> int:
    """Return the approximate maximum depth of brackets; brackets in texts and comments are counted too."""
    return max(accumulate((1 if each in "([{" else -1 for each in _BRACKETS.findall(sql)), initial=0))


def _tree(cursor: duckdb.DuckDBPyConnection, sql: str) -> Node:
    """Return the syntax tree of one SELECT. Raises QueryRefused."""
    try:
        statements = cursor.extract_statements(sql)
    except duckdb.Error as error:
        raise QueryRefused(str(error)) from error
    if len(statements) != 1:
        raise QueryRefused(f"a query must be one statement, not {len(statements)}")
    kind = statements[0].type
    if kind == duckdb.StatementType.MULTI:
        raise QueryRefused("a PIVOT must name its columns: PIVOT … ON column IN (value, …) USING …")
    if kind != duckdb.StatementType.SELECT:
        raise QueryRefused(f"a query must be one SELECT: {kind.name.replace('_', ' ')} cannot be run here")
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
    """Return the tables and views of the file in its main schema, in lower case."""
    found = cursor.execute(
        """SELECT lower(table_name) FROM duckdb_tables()
        WHERE database_name = current_database() AND schema_name = 'main' AND NOT internal
        UNION ALL SELECT lower(view_name) FROM duckdb_views()
        WHERE database_name = current_database() AND schema_name = 'main' AND NOT internal"""
    ).fetchall()
    return frozenset(name for (name,) in found)


def _macros(cursor: duckdb.DuckDBPyConnection) -> _Names:
    """Return the table macros of the file. Call it only if needed: listing functions is slower than most queries."""
    found = cursor.execute(
        """SELECT lower(function_name) FROM duckdb_functions()
        WHERE database_name = current_database() AND function_type = 'table_macro' AND NOT internal"""
    ).fetchall()
    return frozenset(name for (name,) in found)


class _Check:
    """Check every node of a statement. The methods raise QueryRefused."""

    def __init__(self, sql: bytes, cursor: duckdb.DuckDBPyConnection) -> None:
        self._sql = sql
        self._cursor = cursor
        self._tables = _tables(cursor)

    def all_of(self, tree: Node) -> None:
        """Check the whole statement. A CTE is visible in its query and in later CTEs, as in DuckDB."""
        stack: list[tuple[Any, _Names]] = [(tree, frozenset())]
        while stack:
            part, ctes = stack.pop()
            if isinstance(part, list):
                stack.extend((each, ctes) for each in part)
            elif isinstance(part, dict):
                self._node(part, ctes)
                stack.extend(_parts_of(part, ctes))

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
            raise self._refuse(node, f"{name} cannot be run here")

    def _expression(self, node: Node) -> None:
        if node["class"] == "PARAMETER":
            raise self._refuse(node, "a query cannot have parameters: write the value itself")
        if node["class"] not in _EXPRESSIONS:
            raise self._refuse(node, f"{node['type'].replace('_', ' ')} cannot be used here")
        if _FUNCTIONS_REFUSED.fullmatch(node.get("function_name", "").lower()):
            raise self._refuse(node, f"{node['function_name']}() cannot be used here")
        if node.get("type_name", "").lower() in _TYPES_REFUSED:
            raise self._refuse(node, f"the type {node['type_name']} cannot be used here")

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
        target = node["table_name"]
        if re.search(r"[/\\:*?.]", target):
            raise self._refuse(node, "a query can only read tables: no files, no URLs")
        if of:
            raise self._refuse(node, f"there is no table {'.'.join(node['qualified_name']['path'])} here")
        raise self._refuse(node, f"there is no table {target} here" + _suggestion(target, ctes | self._tables))

    def _show(self, node: Node) -> None:
        target = node["table_name"]
        if target not in {'"tables"', "__show_tables_expanded"} and target.strip('"').lower() not in self._tables:
            raise self._refuse(node, "only tables can be shown here: SHOW TABLES, DESCRIBE table, SUMMARIZE table")

    def _table_function(self, node: Node) -> None:
        name = node["function"]["function_name"]
        if name.lower() in _TABLE_FUNCTIONS:
            return
        macros = _macros(self._cursor)
        if name.lower() not in macros:
            hint = _suggestion(name, macros | {"range", "generate_series", "unnest"})
            raise self._refuse(node, f"a query cannot read from {name}()" + hint)

    def _refuse(self, node: Node, problem: str) -> QueryRefused:
        """Return the error with the line of the node and a mark below its location, as in DuckDB's own errors."""
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
    """Yield the parts of a node, each with the CTEs that are visible there."""
    for entry in node["cte_map"]["map"] if "cte_map" in node else ():
        name, value = {entry["key"].lower()}, entry["value"]
        yield value, ctes | name if value["query_node"]["type"] == "RECURSIVE_CTE_NODE" else ctes
        ctes |= name
    for key, part in node.items():
        if key == "function" and node["type"] == "TABLE_FUNCTION":  # its name is already checked as that of a source
            yield part["arguments"], ctes
        elif key != "cte_map":
            yield part, ctes


def _suggestion(name: str, names: _Names) -> str:
    close = get_close_matches(name.lower(), sorted(names), 1)
    return f"; did you mean {close[0]}?" if close else ""
