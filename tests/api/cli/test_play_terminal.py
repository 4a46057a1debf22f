"""``cuebook play`` at a terminal of its own: what may be answered, what may be asked, and ways to leave."""

import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import CUEBOOK

WAIT_S = 60.0
HINT = "still waits for"


class Person:
    """A person at a terminal."""

    def __init__(self, *arguments: str) -> None:
        self._terminal, inner = pty.openpty()
        command = [str(CUEBOOK), "play", *arguments]
        self.process = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner, start_new_session=True)
        os.close(inner)
        self.seen = ""

    def until(self, words: str, *, interrupting: bool = False) -> str:
        """Return what the terminal has shown since the last call, up to these words; press Ctrl-C if `interrupting`.

        The prompt does not hear a signal that comes before it listens, so that one is sent again.
        """
        deadline = time.monotonic() + WAIT_S
        while words not in self.seen:
            if interrupting:
                self.process.send_signal(signal.SIGINT)
            left = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self._terminal], [], [], min(left, 1.0) if interrupting else left)
            if ready:
                self.seen += os.read(self._terminal, 4096).decode()
                interrupting = False
            elif time.monotonic() >= deadline:
                pytest.fail(f"nothing showed {words!r}; there was {self.seen!r}")
        before, _, self.seen = self.seen.partition(words)
        return before

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._terminal)


@pytest.fixture
def person(conversations: Path) -> Iterator[Person]:
    sat_down = Person(str(conversations / "visit.yaml"), "--var", "age=33")
    yield sat_down
    sat_down.close()


@pytest.mark.gate
def test_person_sees_choices_and_may_ask_for_the_position(person: Person) -> None:
    person.until("/help lists")
    person.until("What may I call you?")
    person.type("/where\n")
    person.until("turn 0 at")
    assert "/ask_name, waiting for" in person.until(": text")
    person.type("/help\n")
    person.until("/quit")
    person.type("Ana\n")
    person.until("How old are you, Ana?")
    person.type("/vars\n")
    person.until("session age = 33")
    person.type("30\n")
    person.until("A) well")
    person.until("B) so so")
    person.type("b\n")
    person.until("Noted as B, Ana.")
    person.until("[Go on, please.] > ")
    person.type("\n")
    person.until("That was visit 1. Ready?")
    person.until("[OK]")
    person.type("\n")
    person.until("Goodbye.")
    assert person.process.wait(WAIT_S) == 0


@pytest.mark.gate
@pytest.mark.parametrize("key", ["\x04", "/quit\n"])
def test_a_person_may_leave(person: Person, key: str) -> None:
    person.until("What may I call you?\r\n> ")
    person.type(key)
    person.until("/ask_name: the script " + HINT)
    person.until("--inputs FILE")
    assert person.process.wait(WAIT_S) == 0


@pytest.mark.gate
def test_ctrl_c_leaves_without_a_traceback(person: Person) -> None:
    person.until("What may I call you?\r\n> ")
    assert "Traceback" not in person.until(HINT, interrupting=True)
    assert person.process.wait(WAIT_S) == 0
