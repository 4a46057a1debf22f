"""Sessions in memory, without a store: the shipped models, a fixed clock and counted ids."""

import itertools
import textwrap
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import msgspec

from runtime.context.selection import Contexts
from runtime.engine.engine import Turn, run_turn
from runtime.models.cassette_file import ScriptedReply
from runtime.models.offline_model import OfflineModel
from runtime.models.recorded_models import ScriptedModel
from runtime.state.events import Message, Warned
from runtime.state.inputs import ChoiceInput, Input, Intervention, Reply, Start, TimerDue
from runtime.state.limits import Limits
from runtime.state.ports import Memory, Meter, Model, OnDelta
from runtime.state.program import Program
from runtime.state.scopes import Scopes
from runtime.state.state import Cell, State, decode, encode
from runtime.state.tool_ports import Tools
from runtime.timers.timers import pending_timers
from runtime.tools.examples import EXAMPLES
from runtime.turn.context import TurnEnvironment
from scripts.expressions.values import Value
from scripts.parse.read_script import Source, read_script

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
        self.live: OnDelta | None = None
        self.contexts = Contexts()
        self.memory: Memory | None = None
        self.tools: Tools = EXAMPLES
        self.turns: list[Turn] = []
        self.now = NOON
        self._saved = saved

    async def turn(self, given: Input | Intervention) -> Turn:
        """Run a turn; one that fails does not change the session."""
        state = decode(encode(self.state)) if self._saved else self.state
        ids = itertools.count(1)
        turn = await run_turn(
            self.program,
            state,
            given,
            TurnEnvironment(
                model=self.model,
                now=self.now,
                ids=lambda: f"{len(self.turns)}.{next(ids)}",
                limits=self.limits,
                meter=self.meter,
                live=self.live,
                contexts=self.contexts,
                memory=self.memory,
                tools=self.tools,
                history=tuple(each for each in self.messages if not _is_in(state.gaps, each.number)),
            ),
        )
        self.state = turn.state
        self.turns.append(turn)
        return turn

    async def start(self) -> "Session":
        """Run the first turn."""
        await self.turn(Start())
        return self

    async def reply(self, *texts: str) -> "Session":
        """Run a turn for each reply of the user."""
        for text in texts:
            await self.turn(Reply(text))
        return self

    async def choose(self, key: str) -> "Session":
        """Run a turn for a choice of the user."""
        await self.turn(ChoiceInput(key))
        return self

    @property
    def timers(self) -> list[tuple[str, str]]:
        """Return what the session does by itself: kind and time in UTC, the earliest first."""
        found = pending_timers(self.program, self.state, "UTC")
        return [(each.kind, f"{each.due:%Y-%m-%d %H:%M}") for each in found]

    async def pass_time(self, **duration: float) -> "Session":
        """Let a time pass, and run a turn at each moment when a timer is due."""
        end = self.now + timedelta(**duration)
        while (timers := pending_timers(self.program, self.state, "UTC")) and timers[0].due <= end:
            self.now = max(self.now, timers[0].due)
            await self.turn(TimerDue())
        self.now = end
        return self

    async def wake(self, **late: float) -> "Session":
        """Run one turn for all timers that are due a time later."""
        self.now += timedelta(**late)
        await self.turn(TimerDue())
        return self

    @property
    def said(self) -> list[str]:
        """Return the messages of the assistant in the last turn."""
        return [message.content for message in self.turns[-1].messages if message.role == "assistant"]

    @property
    def values(self) -> dict[str, Value]:
        """Return every variable that is visible at the current position."""
        return Scopes(self.program, self.state).flat()

    def cells(self, scope: Any) -> dict[str, Value]:
        """Return the variables of one scope."""
        return {name: cell.value for name, cell in Scopes(self.program, self.state).cells(scope).items()}

    def happened(self, kind: type) -> list[Any]:
        """Return the events of one kind in the last turn."""
        return [event.body for event in self.turns[-1].events if isinstance(event.body, kind)]

    @property
    def warnings(self) -> list[tuple[str, str]]:
        """Return the warnings of the last turn, as (code, message)."""
        return [(warned.code, warned.message) for warned in self.happened(Warned)]

    @property
    def messages(self) -> list[Message]:
        """Return all messages of the session."""
        return [message for turn in self.turns for message in turn.messages]


def _is_in(gaps: tuple[tuple[int, int], ...], number: int) -> bool:
    return any(first <= number <= last for first, last in gaps)


def read_program(text: str, global_variables: str = "") -> Program:
    """Read a script; a bare list of actions becomes the only topic `talk` of the only phase `only`.

    A text that begins with `actions:` is a script with one topic in the language of the first release.
    """
    text = textwrap.dedent(text)
    if text.lstrip().startswith("actions:"):
        text = f"cuebook: 1\nscript: test\n{text.lstrip()}"
    elif text.lstrip().startswith("-"):
        head = "script: test\nphases:\n- phase: only\n  topics:\n  - topic: talk\n    actions:\n"
        text = head + textwrap.indent(text, "    ")
    sides = {"globals.yaml": textwrap.dedent(global_variables)} if global_variables else {}
    reading = read_script(Source(text, "test.yaml", sides))
    assert reading.script is not None, [str(problem) for problem in reading.errors]
    return Program(reading.script)


def new_session(
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
    """Create a session whose first turn has not run; `replies` are those of a scripted model, by action."""
    program = read_program(text, global_variables) if isinstance(text, str) else text
    state = State(
        seed=seed,
        locale=program.locale,
        user_id="ana",
        start_variables=dict(variables or {}),
        global_cells=dict(global_cells or {}),
    )
    written = msgspec.convert(replies, Written) if replies is not None else None
    model: Model = OfflineModel() if written is None else ScriptedModel(written)  # type: ignore[arg-type]
    session = Session(program, state, model, limits, saved=saved)
    session.memory = memory
    return session


StartSession: TypeAlias = Callable[..., Awaitable[Session]]
"""Start a session: the arguments of `new_session`."""

NewSession: TypeAlias = Callable[..., Session]
"""Create a session whose first turn has not run: the arguments of `new_session`."""

ReadProgram: TypeAlias = Callable[..., Program]
"""Read a script: the arguments of `read_program`."""
