"""Reads of a large database, over a database file and over PostgreSQL with the same data. Run by `make bench`.

`--sessions` sets the size; `--folder` and `--database` name a folder and a PostgreSQL database to use again: they are
filled if the folder is empty. With `--analytics`, servers over both also answer reports, after a first refresh that
takes minutes for millions of turns. A server over the file is also killed and started again.
"""

import argparse
import asyncio
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
from figures import Figure, show_table
from large_database import RARE, SCRIPTS, copy_to_postgres, fill
from measured_server import many, server

from store.duckdb.database import Database
from store.interface.list_rows import SearchFilter, SessionFilter
from store.interface.private_files import FILE_NAME
from store.open_store import open_store
from store.store import Store
from tests.support.postgres_server import programs, running_server

SESSIONS = 10_000
ROUNDS = 15
TENANT = "default"
TIMEOUT_S = 600
REPORTS: dict[str, dict[str, str]] = {
    "completion": {},
    "activity": {"period": "week"},
    "funnel": {"script": "survey"},
    "time_to_answer": {},
}
"""Reports with their parameters."""
Read = Callable[[Store, str], Awaitable[object]]
"""Reads of a store, given the id of a session that was not read before."""


def listed(order: str = "activity", **which: str) -> Read:
    """Return the read of a first page."""
    return lambda store, _: store.sessions.page(TENANT, SessionFilter(**which), order=order)  # type: ignore[arg-type]


def found(*words: str, **which: str) -> Read:
    """Return a search."""
    return lambda store, _: store.turns.search(TENANT, SearchFilter(words=words, **which))  # type: ignore[arg-type]


async def next_page(store: Store, _: str) -> None:
    """Read the first two pages by activity."""
    page = await store.sessions.page(TENANT, order="activity")
    await store.sessions.page(TENANT, order="activity", cursor=page.next)


READS: dict[str, tuple[Read, float | None]] = {
    "list, the newest": (listed("created"), None),
    "head of a session that is not cached": (lambda store, each: store.sessions.head(TENANT, each), 3),
    "all of it that a message needs": (lambda store, each: store.sessions.load(TENANT, each), None),
    "list, the last active": (listed(), None),
    "list, two pages": (next_page, None),
    "list, of a status": (listed(status="completed"), 15),
    "list, of a status, the newest": (listed("created", status="completed"), 15),
    "list, of a status that none has": (listed(status="failed"), None),
    "list, of a user": (listed(user_id="user7"), None),
    "list, of a script": (listed(script="survey"), None),
    "list, by a prefix of the key": (listed(key_prefix="key:77"), None),
    "list, by metadata": (listed(metadata=(("shop", "s3"),)), None),  # type: ignore[arg-type]
    "search, a common word": (found("garden"), None),
    "search, a rare word": (found(RARE), None),
    "search, no such word": (found("nowhere"), None),
    "search, two words": (found("garden", "睡眠"), None),
    "search, of a user": (found("garden", user_id="user7"), None),
    "search, of a script": (found("garden", script="survey"), None),
}
"""Each with the milliseconds that it may take over a database file, if that is limited."""


async def timed(read: Read, store: Store, session_id: str) -> float:
    """Return the milliseconds of a read."""
    begun = time.perf_counter()
    await read(store, session_id)
    return (time.perf_counter() - begun) * 1_000


async def compare(stores: list[Store], ids: list[str]) -> list[Figure]:
    """Print the time of each read of each store, alternately; return the figures."""
    figures = []
    print(f"{'median (least), ms':40}" + "".join(f"{name:>20}" for name in ("file", "PostgreSQL")[: len(stores)]))
    for number, (what, (read, most_ms)) in enumerate(READS.items()):
        times: list[list[float]] = [[] for _ in stores]
        for each in ids[number * (ROUNDS + 2) : (number + 1) * (ROUNDS + 2)]:
            for store, of_store in zip(stores, times, strict=True):
                of_store.append(await timed(read, store, each))
        medians = [statistics.median(of_store[2:]) for of_store in times]
        shown = "".join(f"{medians[at]:11.1f} ({min(of_store[2:]):6.1f})" for at, of_store in enumerate(times))
        print(f"  {what:38}{shown}" + (f"{medians[1] / medians[0]:8.2f}" if len(medians) > 1 else ""), flush=True)
        if most_ms is not None:
            figures.append(Figure(name=f"{what}, file", value=medians[0], must=most_ms, unit="ms"))
        if len(medians) > 1:
            figures.append(Figure(name=f"{what}, PostgreSQL / file", value=medians[1] / medians[0], must=2))
    return figures


def sample(folder: Path, count: int) -> list[str]:
    """Return ids of sessions in an order that looks random and is always the same."""
    database = Database.open(folder, read_only=True)
    with database.cursor() as cursor:
        select = "SELECT session_id::VARCHAR FROM session_starts ORDER BY hash(session_id) LIMIT ?"
        ids = [session_id for (session_id,) in cursor.execute(select, [count]).fetchall()]
    database.close()
    return ids


async def read_all(folder: Path, url: str | None, derived: Path) -> list[Figure]:
    """Open the stores and compare them."""
    ids = sample(folder, len(READS) * (ROUNDS + 2))
    stores = [open_store(folder, read_timeout_s=TIMEOUT_S)]
    if url is not None:
        stores.append(open_store(derived, url, read_timeout_s=TIMEOUT_S))
    try:
        return await compare(stores, ids)
    finally:
        for store in stores:
            await store.close()


def report(folder: Path, url: str | None) -> list[Figure]:
    """Print how long servers take for reports: the first one, and later ones after a turn; return the figures."""
    times: list[dict[str, float]] = []
    for environment in [{}] if url is None else [{}, {"CUEBOOK_DATABASE": url}]:
        with (
            server(folder, SCRIPTS, **environment) as running,
            httpx.Client(base_url=f"http://127.0.0.1:{running.port}/api", timeout=TIMEOUT_S) as client,
        ):
            times.append(dict(ask(client)))
    figures = []
    for what, milliseconds in times[0].items():
        shown = "".join(f"{each[what]:20,.0f}" for each in times)
        print(f"  {what:38}{shown}" + (f"{times[1][what] / milliseconds:8.2f}" if len(times) > 1 else ""))
        if len(times) > 1:
            figures.append(Figure(name=f"{what}, PostgreSQL / file", value=times[1][what] / milliseconds, must=2))
    return figures


def restart(folder: Path) -> list[Figure]:
    """Return how long a server takes to start after it was killed among turns, and one with an empty folder."""

    def started(place: Path) -> float:
        begun = time.perf_counter()
        with server(place, SCRIPTS) as running:
            seconds = time.perf_counter() - begun
            asyncio.run(many(running.port, 10, "talk"))
            os.kill(running.pid, signal.SIGKILL)
        return seconds

    started(folder)
    with tempfile.TemporaryDirectory() as empty:
        seconds, of_empty = started(folder), started(Path(empty))
    print(f"  start after kill -9: {seconds:.1f} s; of an empty server: {of_empty:.1f} s", flush=True)
    return [Figure(name="start after kill -9", value=seconds, must=3, unit="s")]


def ask(client: httpx.Client) -> Iterator[tuple[str, float]]:
    """Yield the reports, and their milliseconds."""

    def one(name: str, **parameters: str) -> float:
        begun = time.perf_counter()
        while (answer := client.get(f"/analytics/reports/{name}", params=parameters)).status_code != httpx.codes.OK:
            # the first refresh may take longer than a request
            if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                raise RuntimeError(answer.text)
            time.sleep(1)
        return (time.perf_counter() - begun) * 1_000

    yield "report, the first", one("completion", maxAgeS="0")
    path = f"/sessions/{client.post('/sessions', json={'userId': 'bench', 'scriptId': 'talk'}).json()['sessionId']}"
    for name, parameters in REPORTS.items():
        each = []
        for _ in range(3):
            client.post(f"{path}/messages", json={"content": "garden"}).raise_for_status()
            each.append(one(name, **parameters, maxAgeS="0"))
        yield f"report, {name} after a turn", statistics.median(each)


@contextmanager
def databases(sessions: int, given: Path | None, url: str | None) -> Iterator[tuple[Path, str | None]]:
    """Yield a folder with a filled `data`, and the address of PostgreSQL with the same rows if there is one."""
    with ExitStack() as stack:
        folder = given or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        data = folder / "data"
        is_new = not (data / FILE_NAME).exists()
        begun = time.perf_counter()
        if is_new:
            print(f"{fill(data, sessions):,} turns in {sessions:,} sessions", end="", flush=True)
            print(f", made in {time.perf_counter() - begun:.0f} s")
        installed = programs()
        if url is None and installed is not None:
            url = stack.enter_context(running_server(installed)).new_database()
            is_new = True
        if url is not None and is_new:
            begun = time.perf_counter()
            copy_to_postgres(data, url)
            print(f"copied to PostgreSQL in {time.perf_counter() - begun:.0f} s", flush=True)
        yield folder, url


def measure(
    sessions: int = SESSIONS, given: Path | None = None, url: str | None = None, *, analytics: bool = False
) -> list[Figure]:
    """Print the times; return the figures."""
    with databases(sessions, given, url) as (folder, address), tempfile.TemporaryDirectory() as derived:
        figures = asyncio.run(read_all(folder / "data", address, Path(derived)))
        figures += restart(folder)
        if analytics:
            figures += report(folder, address)
    return figures


def main() -> None:
    """Read the arguments, measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=SESSIONS, help="with ten turns each")
    parser.add_argument("--folder", type=Path, help="gets the data folder `data`, scripts and logs")
    parser.add_argument("--database", help="the address of a PostgreSQL database")
    parser.add_argument("--analytics", action="store_true")
    given = parser.parse_args()
    show_table(measure(given.sessions, given.folder, given.database, analytics=given.analytics))


if __name__ == "__main__":
    main()
