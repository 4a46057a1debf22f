"""The benchmark's script as a graph of LangGraph with its SQLite or Postgres saver, in process, without a server.

Prints `{"one": [seconds of each turn], "many_s": seconds}` as JSON. Runs in an environment of its own, with LangGraph
and without Cuebook. The graph has a node for each of the four actions of a turn, and keeps the messages of the last
turn only, so that no turn becomes dearer than the first. The saver is SQLite's own default: WAL, synchronous=FULL.
"""

import json
import sqlite3
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph

REPLY = "a reply of an ordinary length, such as people give"


class State(TypedDict, total=False):
    """The variables of the script, and what is said in a turn."""

    last: str
    count: int
    number: str
    echo: str
    question: str


def add(state: State) -> State:
    """Count the reply."""
    return {"count": state.get("count", 0) + 1}


def number(state: State) -> State:
    """Say the count."""
    return {"number": f"That was reply number {state['count']}."}


def echo(state: State) -> State:
    """Say what the user said."""
    return {"echo": f"You said: {state['last']}"}


def ask(_: State) -> State:
    """Ask for the next reply."""
    return {"question": "What next?"}


def sqlite_saver(file: Path) -> Any:
    """Return a saver that writes to a file."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    connection = sqlite3.connect(file, check_same_thread=False)
    saver = SqliteSaver(connection)
    saver.setup()
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return saver


def postgres_saver(url: str) -> Any:
    """Return a saver that writes to PostgreSQL, with a pool of connections."""
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg.rows import dict_row
    from psycopg_pool import ConnectionPool

    pool = ConnectionPool(url, max_size=16, open=True, kwargs={"autocommit": True, "row_factory": dict_row})
    saver = PostgresSaver(pool)
    saver.setup()
    return saver


def compiled(saver: Any) -> Any:
    """Return the graph with a saver."""
    graph = StateGraph(State)
    steps = {"add": add, "say_number": number, "say_echo": echo, "ask": ask}
    for name, step in steps.items():
        graph.add_node(name, step)
    for one, other in zip([START, *steps], [*steps, END], strict=True):
        graph.add_edge(one, other)
    return graph.compile(checkpointer=saver)


def drive(graph: Any, session: str, turns: int) -> list[float]:
    """Return the seconds of each turn of a session."""
    times = []
    for turn in range(1, turns + 1):
        start = time.perf_counter()
        state = graph.invoke({"last": REPLY}, {"configurable": {"thread_id": session}})
        times.append(time.perf_counter() - start)
        if state["count"] != turn or state["echo"] != f"You said: {REPLY}":
            raise RuntimeError(f"not the turn that is measured: {state}")
    return times


def main() -> None:
    """Print the seconds. Arguments: folder or database, turns of one session, sessions of many and their turns."""
    place, turns, sessions, turns_each = sys.argv[1], *map(int, sys.argv[2:5])
    is_postgres = place.startswith("postgresql://")
    graph = compiled(postgres_saver(place) if is_postgres else sqlite_saver(Path(place) / "checkpoints.db"))
    one = drive(graph, "one", turns)
    start = time.perf_counter()
    with ThreadPoolExecutor(sessions) as threads:
        list(threads.map(lambda each: drive(graph, f"many{each}", turns_each), range(sessions)))
    print(json.dumps({"one": one, "many_s": time.perf_counter() - start}))


if __name__ == "__main__":
    main()
