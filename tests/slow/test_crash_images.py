"""Copies of the files of a writing process contain every turn acknowledged by then, or say that commits are missing.

A copy of a stopped process is what a crash leaves. Files that are copied one after the other while the process writes
do not fit together: what a careless backup has.
"""

import asyncio
import random
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.interface.errors import DatabaseUnreadable
from store.interface.private_files import FILE_NAME
from store.open_store import open_store
from tests.support.effort import repeats
from tests.support.killed_process import start

IMAGES = repeats(20)
WAIT_S = 60.0

pytestmark = pytest.mark.slow


class Acknowledgements:
    """The last acknowledged turn of each session of a writing process, read from its output as it comes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.count = 0
        self._turns: dict[str, int] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line != "open\n" and line.endswith("\n"):
                session_id, turn = line.split()
                self._turns[session_id] = int(turn)
                self.count += 1

    def close(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def now(self) -> dict[str, int]:
        """Return the turns acknowledged by now, or a few less."""
        return dict(self._turns)

    def wait_for(self, count: int) -> None:
        """Wait until there are `count` acknowledgements."""
        until = time.monotonic() + WAIT_S
        while self.count < count:
            assert time.monotonic() < until, "the process writes nothing"
            time.sleep(0.002)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Acknowledgements]:
    """A process that writes turns to `tmp_path / "data"` until it is killed."""
    acknowledgements = Acknowledgements(start("write_turns.py", tmp_path / "data"))
    yield acknowledgements
    acknowledgements.close()


def stop(process: subprocess.Popen[str]) -> None:
    """Stop a process where it is, and wait until it has stopped."""
    process.send_signal(signal.SIGSTOP)
    until = time.monotonic() + WAIT_S
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < until
        time.sleep(0.001)


def copy_files(folder: Path, to: Path, chance: random.Random) -> Path:
    """Copy the files of the database, in any order."""
    to.mkdir()
    names = [FILE_NAME, f"{FILE_NAME}.wal", f"{FILE_NAME}.last-commit"]
    for name in chance.sample(names, len(names)):
        if (folder / name).exists():
            shutil.copy(folder / name, to / name)
    return to


async def missing_turns(image: Path, acknowledged: dict[str, int]) -> dict[str, int]:
    """Return the acknowledged turns that an image does not contain; none if it says that commits are missing."""
    try:
        store = open_store(image)
    except DatabaseUnreadable:
        return {}
    try:
        if store.lost_commits() is not None:
            return {}
        missing = {}
        for session_id, turn in acknowledged.items():
            head = await store.sessions.head("clinic", session_id)
            if head is None or head.turn < turn:
                missing[session_id] = turn
        return missing
    finally:
        await store.close()


async def test_what_a_crash_leaves_contains_every_acknowledged_turn(writer: Acknowledgements, tmp_path: Path) -> None:
    chance = random.Random(3)
    writer.wait_for(1)
    for number in range(IMAGES):
        writer.wait_for(writer.count + chance.randint(1, 40))
        await asyncio.sleep(chance.uniform(0, 0.02))
        acknowledged = writer.now()
        stop(writer.process)
        image = copy_files(tmp_path / "data", tmp_path / f"image-{number}", chance)
        writer.process.send_signal(signal.SIGCONT)
        store = open_store(image)
        assert store.ready() is None
        await store.close()
        assert await missing_turns(image, acknowledged) == {}
        shutil.rmtree(image)


async def test_files_that_do_not_match_never_lack_turns_silently(writer: Acknowledgements, tmp_path: Path) -> None:
    chance = random.Random(4)
    writer.wait_for(1)
    for number in range(IMAGES):
        writer.wait_for(writer.count + chance.randint(1, 40))
        acknowledged = writer.now()
        image = copy_files(tmp_path / "data", tmp_path / f"image-{number}", chance)
        assert await missing_turns(image, acknowledged) == {}
        shutil.rmtree(image)
