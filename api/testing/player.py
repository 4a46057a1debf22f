"""A conversation without a server or a database: the same engine, with everything in memory."""

from collections.abc import AsyncIterator, Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from api.memory.row_mapping import Origin, row_of
from api.sessions.views import position, snapshot, wait_view
from runtime.context.selection import Contexts, newest
from runtime.engine.engine import Turn, TurnFailed, run_turn
from runtime.memory.local_memory import LocalMemory
from runtime.memory.units import MemoryUnit
from runtime.state.events import ActionEntered, ActionSkipped, Detected, Emitted, Message, Warned
from runtime.state.inputs import Input, Start, TimerDue
from runtime.state.limits import Limits
from runtime.state.ports import Clock, Ids, MemoryFailed, Model
from runtime.state.program import Program
from runtime.state.state import State
from runtime.state.tool_ports import Tools
from runtime.timers.due import after_duration
from runtime.timers.timers import Timer, pending_timers
from runtime.tools.examples import EXAMPLES
from runtime.turn.context import TurnEnvironment
from scripts.expressions.values import Value
from scripts.model.diagnostics import Problem
from scripts.model.moments import Duration
from store.interface.errors import FilterInvalid
from store.interface.memory_filters import parse
from store.memory.filters_sql import filter_rows


def matching(units: Sequence[MemoryUnit], filters: Value) -> Collection[str]:
    """Return the ids of the units that match a filter. Raises MemoryFailed for an invalid filter."""
    try:
        wanted = parse(filters)
    except FilterInvalid as invalid:
        raise MemoryFailed(str(invalid), retryable=False) from invalid
    rows = [row_of(unit, "", "", Origin()) for unit in units]
    numbers = set(filter_rows(rows, wanted))
    return {unit.unit_id for unit in units if unit.sequence in numbers}


LOCAL = LocalMemory(matching=matching)
"""The memory of a user of whom nothing is known yet, without a database but with the same filters."""


ZONE = "UTC"  # of sessions without one
TIMER_TURNS_MAX = 1_000
"""Maximum number of turns that timers cause while time passes once; a loop of waits may have no end."""


class PlayedTurn(Struct, frozen=True):
    """A turn and its input."""

    given: Value
    turn: Turn


class Player(Struct):
    """Plays one session of a script, from `state` on."""

    program: Program
    state: State
    model: Model
    clock: Clock
    ids: Ids
    limits: Limits = Limits()
    contexts: Contexts = Contexts()
    tools: Tools = EXAMPLES
    played: list[PlayedTurn] = []
    failure: TurnFailed | None = None
    memory: LocalMemory = LOCAL
    history: tuple[Message, ...] = ()
    history_max: int = 0
    passed: timedelta = timedelta()

    def __post_init__(self) -> None:
        self.history_max = self.contexts.messages_max(self.program.script, self.state)

    def now(self) -> datetime:
        """Return the time after all that has passed."""
        return self.clock() + self.passed

    async def take(self, given: Input, shown: Value) -> Turn:
        """Run a turn; `shown` is its input in the report. Raises TurnFailed, InputRefused."""
        try:
            turn = await run_turn(
                self.program,
                self.state,
                given,
                TurnEnvironment(
                    model=self.model,
                    now=self.now(),
                    ids=self.ids,
                    limits=self.limits,
                    history=self.history,
                    contexts=self.contexts,
                    memory=self.memory,
                    tools=self.tools,
                ),
            )
        except TurnFailed as failed:
            self.failure = failed
            raise
        self.state = turn.state
        self.history = newest((*self.history, *turn.messages), self.history_max)
        self.memory = self.memory.after(turn.events, self.now(), self.program.script.memory)
        self.played.append(PlayedTurn(shown, turn))
        return turn

    async def begin(self) -> Turn:
        """Run the first turn. Raises TurnFailed."""
        return await self.take(Start(), None)

    @property
    def timers(self) -> tuple[Timer, ...]:
        """Return what the session will do by itself, the earliest first."""
        return pending_timers(self.program, self.state, ZONE)

    async def pass_time(self, duration: Duration, shown: Value) -> AsyncIterator[Turn]:
        """Let time pass on the virtual clock, and yield the turns that timers cause. Raises TurnFailed."""
        end = after_duration(self.now(), duration, self.program.zone(self.state, ZONE))
        for _ in range(TIMER_TURNS_MAX):
            timers = self.timers
            if not timers or timers[0].due > end:
                break
            self.passed += max(timers[0].due - self.now(), timedelta())
            yield await self.take(TimerDue(), shown)
        self.passed += max(end - self.now(), timedelta())

    def report(self, problems: tuple[Problem, ...]) -> dict[str, Any]:
        """Return the whole conversation as one JSON document."""
        failed_at = self.failure.place if self.failure is not None else None
        status = "error" if self.failure is not None else self.state.execution_status
        end = snapshot(self.program, self.state, status, failed_at)
        bodies = [event.body for played in self.played for event in played.turn.events]
        report: dict[str, Any] = {
            "status": self.state.status,
            "executionStatus": status,
            "turns": [self._turn(played) for played in self.played],
            "variables": end.variables,
            "variableStore": end.variable_store,
            "waits": sum(played.turn.state.wait is not None for played in self.played),
            "actions": {
                "executed": sum(isinstance(body, ActionEntered) for body in bodies),
                "skipped": sum(isinstance(body, ActionSkipped) for body in bodies),
            },
            "warnings": [*map(_diagnostic, problems), *self._warnings()],
        }
        if self.failure is not None:
            report["error"] = {"message": str(self.failure), "position": end.position}
        return report

    def _turn(self, played: PlayedTurn) -> dict[str, Any]:
        state = played.turn.state
        bodies = [event.body for event in played.turn.events]
        emitted = [
            {"event": body.event, "data": body.data, "actionId": body.action_id}
            for body in bodies
            if isinstance(body, Emitted)
        ]
        detected = [
            {"detector": body.detector, "label": body.label, "score": body.score, "by": body.by, "words": body.words}
            for body in bodies
            if isinstance(body, Detected)
        ]
        turn: dict[str, Any] = {
            "input": played.given,
            "messages": [
                {"role": message.role, "content": message.content, "actionId": message.action_id}
                | ({"metadata": message.metadata} if message.metadata else {})
                for message in played.turn.messages
                if message.role == "assistant"
            ],
            "wait": wait_view(state.wait),
            "position": position(self.program, state),
        }
        return turn | ({"emitted": emitted} if emitted else {}) | ({"detected": detected} if detected else {})

    def _warnings(self) -> list[dict[str, Any]]:
        return [
            {"code": body.code, "message": body.message, "actionId": body.action_id, "turn": played.turn.state.turn}
            for played in self.played
            for body in (event.body for event in played.turn.events)
            if isinstance(body, Warned)
        ]


def _diagnostic(problem: Problem) -> dict[str, Any]:
    return {"code": problem.code, "message": problem.message, "line": problem.line, "column": problem.column}
