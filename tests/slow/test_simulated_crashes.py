"""Sessions over a simulated disk and clock: whatever crashes, fails or hangs, no acknowledged turn is lost or doubled.

A seed decides everything. The message of a failure names the seed: `SIMULATION_SEED=17 pytest -k simulated`.
"""

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeAlias
from uuid import UUID

import pytest

from api.errors import ApiError
from api.http.services import Services
from api.schemas.scripts import NewScript
from api.schemas.sessions import NewMessage, NewSession
from api.sessions.live_turns import TurnResult
from api.sessions.turn_runner import Preconditions
from api.settings import Settings
from runtime.models.offline_model import OfflineModel
from store.interface.errors import StoreError
from store.interface.rows import TurnRow
from tests.support.effort import repeats
from tests.support.simulated_store import Disk, Faults, Scripts, SimulatedStore, Tables, moment
from tests.support.virtual_time import VirtualTimeLoop

SEEDS_PER_TEST = 25
SEEDS = repeats(500)
SESSIONS, CLIENTS, MESSAGES = 3, 5, 6
SCRIPT = """\
script: counter
declare:
  - {var: count, type: number, value: 0}
  - {var: last, type: text}
phases:
  - phase: main
    topics:
      - topic: loop
        actions:
          - {ask: "What next?", id: ask, output: [{get: last}]}
          - {set: {count: count + 1}, id: add}
          - {say: "Reply {{ count }}: {{ last }}", id: echo}
          - {goto: loop, id: again}
"""
RETRIED = {"SESSION_BUSY", "TURN_CONFLICT", "IDEMPOTENCY_IN_FLIGHT"}

Request: TypeAlias = Callable[[str, str], Awaitable[TurnResult]]
"""A request with an idempotency key and a text."""

pytestmark = [pytest.mark.slow, pytest.mark.gate]


class Reply(NamedTuple):
    """What an answer says: the number of its turn, and the messages."""

    session_id: str
    turn: int
    messages: tuple[str, ...]


def reply_of(row: TurnRow) -> Reply:
    return Reply(row.session_id, row.turn, tuple(message.content for message in row.messages))


class Simulation:
    """A server over a simulated disk, its clients, and crashes."""

    def __init__(self, seed: int, folder: Path, *, syncs_late: bool = False) -> None:
        self.chance = Random(seed)
        self.disk = Disk()
        self.acknowledged: dict[str, Reply] = {}  # by idempotency key
        self.sent: dict[str, str] = {}  # texts by idempotency key
        self.crashes = 0
        self._dead: list[Services] = []  # referenced, so that their tasks stay where they were
        self._folder = folder
        self._scripts = Scripts()
        self._syncs_late = syncs_late
        self._faults = Faults(*(self.chance.choice([0.0, most / 4, most]) for most in (0.1, 0.2, 0.02)))
        self._settings = Settings(
            data=folder,
            scripts=folder,
            session_cache_max=self.chance.randint(1, SESSIONS),
            queue_max=self.chance.randint(1, CLIENTS),
        )

    async def run(self) -> None:
        """Let the clients send all of their messages, then compare what they received with what is stored."""
        await self._start()
        await self._services.catalog.save("default", NewScript(yaml_content=SCRIPT), "strict")
        self._store.faults = self._faults
        sessions = [f"session-{number}" for number in range(SESSIONS)]
        crashing = asyncio.create_task(self._crash_sometimes())
        clients = [asyncio.create_task(self._converse(f"client-{number}", sessions)) for number in range(CLIENTS)]
        async with asyncio.timeout(100_000):
            await asyncio.gather(*clients)
        crashing.cancel()
        self._crash()
        self._compare(Tables(self.disk))

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        self._store = SimulatedStore(self.disk, self._scripts, self.chance, syncs_late=self._syncs_late)
        self._crashed = asyncio.Event()
        self._services = Services(
            self._settings,
            self._store,
            OfflineModel(),
            clock=lambda: moment(loop.time()),
            ids=lambda: str(UUID(int=self.chance.getrandbits(128), version=4)),
            lifespan=lambda _: pytest.fail("nothing runs in the background"),
            serves=False,
            live=None,
            operator_key="",
            keys_needed=False,
            context_handlers=None,
        )

    def _crash(self) -> None:
        self._store.crash()
        self._crashed.set()
        self._dead.append(self._services)
        self.crashes += 1

    async def _crash_sometimes(self) -> None:
        every_s = self.chance.choice([0.1, 0.5, 5.0])
        while self.crashes < 6:
            await asyncio.sleep(self.chance.expovariate(1 / every_s))
            self._crash()
            await asyncio.sleep(self.chance.uniform(0, 0.2))
            await self._start()
            self._store.faults = self._faults

    async def _converse(self, client: str, sessions: list[str]) -> None:
        """Send messages to sessions that other clients write to as well; sometimes repeat an earlier request."""
        for number in range(MESSAGES):
            await asyncio.sleep(self.chance.uniform(0, 0.2))
            session = await self._send(self._create, self.chance.choice(sessions), "")
            key = f"{client}-{number}"
            await self._send(partial(self._say, session.session_id), key, f"text of {key}")
            if self.chance.random() < 0.3:
                await self._send(partial(self._say, session.session_id), key, f"text of {key}")

    async def _send(self, request: Request, key: str, text: str) -> Reply:
        """Send a request until it is answered; the answer must be the one of an earlier attempt, if there was one."""
        self.sent[key] = text
        for attempt in itertools.count():
            patience_s = self.chance.choice([0.02, 1.0, 60.0])
            reply = await self._attempt(request(key, text), patience_s)
            if reply is not None:
                assert self.acknowledged.setdefault(key, reply) == reply, "a repeated request has another answer"
                return reply
            await asyncio.sleep(self.chance.uniform(0, 0.02) * 2 ** min(attempt, 9))
        raise AssertionError

    async def _attempt(self, request: Awaitable[TurnResult], patience_s: float) -> Reply | None:
        """Return the answer to a request; None if it is not known, because of an error, a crash or no patience."""
        answering = asyncio.ensure_future(request)
        crash = asyncio.create_task(self._crashed.wait())
        await asyncio.wait({answering, crash}, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
        crash.cancel()
        if not answering.done():
            answering.cancel()
            return None
        try:
            return reply_of(answering.result().row)
        except StoreError:
            return None
        except ApiError as error:
            assert error.code in RETRIED, error
            return None

    async def _create(self, key: str, text: str) -> TurnResult:
        new = NewSession(user_id="ana", script_id="counter", key=key)
        return await self._services.creation.submit("default", new, Preconditions(idempotency_key=key))

    async def _say(self, session_id: str, key: str, text: str) -> TurnResult:
        condition = Preconditions(idempotency_key=key, queue=self.chance.random() < 0.5)
        return await self._services.chat.submit_message("default", session_id, NewMessage(content=text), condition)

    def _compare(self, tables: Tables) -> None:
        stored = {}
        for turns in tables.turns.values():
            assert [turn.turn for turn in turns] == list(range(len(turns))), "turns are missing or doubled"
            for turn in turns:
                key = turn.idempotency_key
                assert key is not None
                assert key not in stored, f"{key} has two turns"
                stored[key] = reply_of(turn)
            for count, turn in enumerate(turns[1:], start=1):
                text = self.sent[str(turn.idempotency_key)]
                contents = [message.content for message in turn.messages]
                assert contents == [text, f"Reply {count}: {text}", "What next?"], "a turn does not continue the last"
        assert len(tables.sessions) == len({session.key for session in tables.sessions.values()})
        for key, reply in self.acknowledged.items():
            assert stored.get(key) == reply, f"the acknowledged answer to {key} is not stored"


def run(simulation: Simulation) -> None:
    """Run a simulation in virtual time, and end what its dead servers left."""
    loop = VirtualTimeLoop()
    try:
        loop.run_until_complete(simulation.run())
    finally:
        loop.run_until_complete(_cancel_all())
        loop.close()


async def _cancel_all() -> None:
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        for task in others:
            task.cancel()
        await asyncio.wait(others)


def seeds() -> list[range]:
    if "SIMULATION_SEED" in os.environ:
        seed = int(os.environ["SIMULATION_SEED"])
        return [range(seed, seed + 1)]
    return [range(first, min(first + SEEDS_PER_TEST, SEEDS)) for first in range(0, SEEDS, SEEDS_PER_TEST)]


@pytest.mark.parametrize("which", seeds(), ids=lambda which: f"{which.start}-{which.stop - 1}")
def test_no_acknowledged_turn_is_lost_or_doubled_in_simulation(which: range, tmp_path: Path) -> None:
    for seed in which:
        try:
            run(Simulation(seed, tmp_path))
        except BaseException as error:
            error.add_note(f"SIMULATION_SEED={seed} runs this case again")
            raise


def test_simulated_store_that_acknowledges_before_sync_is_found(tmp_path: Path) -> None:
    def fails(seed: int) -> bool:
        try:
            run(Simulation(seed, tmp_path, syncs_late=True))
        except AssertionError:
            return True
        return False

    assert any(fails(seed) for seed in range(50))
