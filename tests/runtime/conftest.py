"""Sessions in memory: what an edge does between two turns, with the shipped models, a fixed clock and counted ids."""

import itertools
import textwrap
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec
import pytest

from runtime.context.chosen import Contexts
from runtime.engine import Limits, Turn, run_turn
from runtime.events import Message, Warned
from runtime.inputs import Chosen, Input, Intervention, Reply, Start
from runtime.models.cassette import ScriptedReply
from runtime.models.offline import OfflineModel
from runtime.models.scripted import ScriptedModel
from runtime.ports import Live, Memory, Meter, Model
from runtime.program import Program
from runtime.scopes import Scopes
from runtime.state import Cell, State, decode, encode
from scripts.parse import Source, read_script
from scripts.values import Value

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)  # a Wednesday
Written: TypeAlias = dict[str, list[str | ScriptedReply | list[str | ScriptedReply]]]


class Session:
    """One session. `saved` encodes and decodes the state between all turns."""

    def __init__(self, program: Program, state: State, model: Model, limits: Limits, *, saved: bool = False) -> None:
        self.program = program
        self.state = state
        self.model = model
        self.limits = limits
        self.meter: Meter | None = None
        self.live: Live | None = None
        self.contexts = Contexts()
        self.memory: Memory | None = None
        self.turns: list[Turn] = []
        self._saved = saved

    async def turn(self, given: Input | Intervention) -> Turn:
        """One turn; one that fails leaves the session as it was."""
        state = decode(encode(self.state)) if self._saved else self.state
        ids = itertools.count(1)
        turn = await run_turn(
            self.program,
            state,
            given,
            model=self.model,
            clock=lambda: NOON,
            ids=lambda: f"{len(self.turns)}.{next(ids)}",
            limits=self.limits,
            meter=self.meter,
            live=self.live,
            contexts=self.contexts,
            memory=self.memory,
            history=tuple(each for each in self.messages if not _is_in(state.gaps, each.number)),
        )
        self.state = turn.state
        self.turns.append(turn)
        return turn

    async def start(self) -> "Session":
        await self.turn(Start())
        return self

    async def reply(self, *texts: str) -> "Session":
        for text in texts:
            await self.turn(Reply(text))
        return self

    async def choose(self, key: str) -> "Session":
        await self.turn(Chosen(key))
        return self

    @property
    def said(self) -> list[str]:
        """What the assistant said in the last turn."""
        return [message.content for message in self.turns[-1].messages if message.role == "assistant"]

    @property
    def values(self) -> dict[str, Value]:
        """Every variable that can be seen from where the session is."""
        return Scopes(self.program, self.state).flat()

    def cells(self, scope: Any) -> dict[str, Value]:
        """The variables of one scope."""
        return {name: cell.value for name, cell in Scopes(self.program, self.state).cells(scope).items()}

    def happened(self, kind: type) -> list[Any]:
        """The events of one kind in the last turn."""
        return [event.body for event in self.turns[-1].events if isinstance(event.body, kind)]

    @property
    def warnings(self) -> list[tuple[str, str]]:
        """The warnings of the last turn, as (code, message)."""
        return [(warned.code, warned.message) for warned in self.happened(Warned)]

    @property
    def messages(self) -> list[Message]:
        """Everything said in the session."""
        return [message for turn in self.turns for message in turn.messages]


def _is_in(gaps: tuple[tuple[int, int], ...], number: int) -> bool:
    return any(first <= number <= last for first, last in gaps)


def read_program(text: str, global_variables: str = "") -> Program:
    """A script from YAML; a bare list of actions becomes the only topic `talk` of the only phase `only`."""
    text = textwrap.dedent(text)
    if text.lstrip().startswith("-"):
        head = "script: test\nphases:\n- phase: only\n  topics:\n  - topic: talk\n    actions:\n"
        text = head + textwrap.indent(text, "    ")
    sides = {"globals.yaml": textwrap.dedent(global_variables)} if global_variables else {}
    reading = read_script(Source(text, "test.yaml", sides))
    assert reading.script is not None, [str(problem) for problem in reading.errors]
    return Program(reading.script)


Drive: TypeAlias = Callable[..., Awaitable[Session]]


@pytest.fixture(scope="session")
def program_of() -> Callable[..., Program]:
    """Reads a script."""
    return read_program


@pytest.fixture(scope="session")
def drive() -> Drive:
    """Starts a session: ``await drive(yaml)``, or ``await drive(yaml, replies={...})`` for the scripted model."""

    async def started(*args: Any, **more: Any) -> Session:
        return await prepared(*args, **more).start()

    return started


@pytest.fixture(scope="session")
def prepare() -> Callable[..., Session]:
    """A session that has not begun, as `drive` would start it."""
    return prepared


def prepared(
    text: str | Program,
    *,
    replies: Mapping[str, list[Any]] | None = None,
    variables: Mapping[str, Value] | None = None,
    global_variables: str = "",
    global_cells: Mapping[str, Cell] | None = None,
    limits: Limits = Limits(),  # noqa: B008  (frozen)
    seed: int = 1,
    saved: bool = False,
    memory: Memory | None = None,
) -> Session:
    program = read_program(text, global_variables) if isinstance(text, str) else text
    state = State(
        seed=seed,
        locale=program.locale,
        user_id="ana",
        start_variables=dict(variables or {}),
        global_cells=dict(global_cells or {}),
    )
    written = msgspec.convert(replies, Written) if replies is not None else None
    model: Model = OfflineModel() if written is None else ScriptedModel(written)
    session = Session(program, state, model, limits, saved=saved)
    session.memory = memory
    return session
