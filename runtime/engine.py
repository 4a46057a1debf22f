"""The engine: runs a session from the user's reply until it waits again, ends, or fails.

A turn that fails leaves no trace: the state it began with stays the session's state, so the same reply can be
tried again and nothing is skipped.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Mapping
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from runtime import condensing, detection, interrupts, intervening, listening, recalling, repairs
from runtime.actions import filling, leading_away
from runtime.actions.dispatch import enter, resume
from runtime.budgets import BudgetExceeded, Unmetered
from runtime.calls import CallInterrupted, ModelCall, NoJournal
from runtime.context.chosen import Contexts
from runtime.copies import copy_of, own_copy
from runtime.cursor import Cursor
from runtime.events import (
    ActionEntered,
    ActionLeft,
    ActionSkipped,
    Event,
    Interrupted,
    Jumped,
    Message,
    VariableChanged,
    Waiting,
    Warned,
)
from runtime.inputs import (
    Append,
    Chosen,
    Compress,
    End,
    Filled,
    Input,
    Intervention,
    Moved,
    Reply,
    SetVariables,
    Start,
    accepted,
    is_answer_to,
)
from runtime.outcomes import CallSkill, Done, Enter, Finish, Jump, Leave, Outcome, Waits
from runtime.patterns import Match, Matches, MatchWanted, matching, worded
from runtime.ports import Clock, Ids, Journal, Live, Memory, MemoryFailed, Meter, Model, ModelFailed
from runtime.program import PlaceLost, Program
from runtime.recalls import Asked, Recalls, RecallsExceeded, RecallWanted
from runtime.run import ActionFailed, LimitExceeded, Limits, Run
from runtime.running_out import run_out
from runtime.scopes import WriteRefused
from runtime.state import Cell, Frame, Held, State, Wait, encode
from scripts.actions import Action, ModelStep, action_type
from scripts.model import After, Interrupt, Scope
from scripts.values import Value

AFTER_CALLS_S, AFTER_CALLS_PART = 1.0, 0.1  # of a turn's time, what is left after the last call of a model at least
STEPS_BETWEEN_YIELDS = 20  # the engine lets other sessions run, and its time-out act, this often


FailureKind: TypeAlias = Literal["action", "model", "memory", "limit", "place", "interrupted"]


class Turn(Struct, frozen=True):
    """What one turn came to; `saved` is the encoded state."""

    state: State
    saved: bytes
    events: tuple[Event, ...]
    model_calls: tuple[ModelCall, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """Everything said in the turn, the user's own message first."""
        return tuple(event.body for event in self.events if isinstance(event.body, Message))

    @property
    def changes(self) -> tuple[VariableChanged, ...]:
        """Every write of the turn."""
        return tuple(event.body for event in self.events if isinstance(event.body, VariableChanged))


PLACE = "turn_place"
"""The attribute of an exception other than TurnFailed that leaves a turn: its (phase, topic, action)."""


class TurnFailed(Exception):
    """A turn that could not be finished; `place` is the (phase, topic, action) where it stopped."""

    def __init__(self, kind: FailureKind, message: str, place: tuple[str, str, str], *, retryable: bool) -> None:
        super().__init__(message)
        self.kind = kind
        self.place = place
        self.retryable = retryable
        self.model_calls: tuple[ModelCall, ...] = ()


async def run_turn(
    program: Program,
    state: State,
    given: Input | Moved | Intervention,
    *,
    model: Model,
    clock: Clock,
    ids: Ids,
    limits: Limits,
    global_cells: Mapping[str, Cell] | None = None,
    history: tuple[Message, ...] = (),
    journal: Journal | None = None,
    meter: Meter | None = None,
    live: Live | None = None,
    now: datetime | None = None,
    contexts: Contexts = Contexts(),  # noqa: B008  (frozen)
    memory: Memory | None = None,
) -> Turn:
    """Runs one turn. `state` is not changed.

    `global_cells` are the user's now, None: as the state has them; `history` are the messages so far. `journal` keeps
    the calls of the model while the turn runs, `meter` counts them beyond the turn and the session, `live` hears the
    words of messages as they come. For the script all of it happens `now`, None: as the clock has it. `contexts` are
    the strategies by which models see the conversation. `memory` is what is asked of the user's, None: there is none.

    Raises InputRefused, and TurnFailed with everything else that can go wrong.
    """
    content = accepted(state, given)
    now = now or clock()
    recalls = Recalls(memory, recalls_max=limits.recalls_max, recall_s=limits.recall_s)
    ends_at = asyncio.get_running_loop().time() + limits.turn_s

    def begun(before: Run | None = None) -> Run:
        work = copy_of(state)
        if global_cells is not None:
            work.global_cells = _with_writers(global_cells, state.global_cells)
        return Run(
            program,
            work,
            model=model,
            clock=clock,
            ids=ids,
            limits=limits,
            history=history,
            journal=journal or NoJournal(),
            meter=meter or Unmetered(),
            live=live,
            now=now,
            contexts=contexts,
            recalls=recalls,
            calls_end_at=ends_at - min(AFTER_CALLS_S, limits.turn_s * AFTER_CALLS_PART),
            before=before,
        )

    run = begun()
    engine = _Engine(run)
    matches = Matches(lambda: run.action_id)
    try:
        async with asyncio.timeout_at(ends_at):
            with matching(matches):
                while (wanted := await engine.asks_in(given, content, ends_at)) is not None:
                    await (matches.put(wanted) if isinstance(wanted, Match) else recalls.put(wanted))
                    run = begun(run)
                    engine = _Engine(run)
        for pattern, action_id in matches.given_up:
            run.record(Warned("pattern_given_up", worded(pattern), action_id))
    except ModelFailed as error:
        raise engine.failure("model", str(error), retryable=error.retryable) from error
    except MemoryFailed as error:
        raise engine.failure("memory", str(error), retryable=error.retryable) from error
    except (LimitExceeded, RecallsExceeded) as error:
        raise engine.failure("limit", str(error)) from error
    except TimeoutError as error:
        raise engine.failure("limit", f"the turn took longer than {limits.turn_s:g} s", retryable=True) from error
    except CallInterrupted as error:
        raise engine.failure("interrupted", str(error), retryable=True) from error
    except PlaceLost as error:
        raise engine.failure("place", str(error)) from error
    except (ActionFailed, WriteRefused) as error:
        raise engine.failure("action", str(error)) from error
    except Exception as error:
        vars(error)[PLACE] = engine.place  # a defect, or a failure of the caller's own: its log says where
        raise
    saved = encode(run.state)
    if len(saved) > limits.state_bytes_max:
        message = f"the session's variables would take {len(saved):,} bytes; it may keep {limits.state_bytes_max:,}"
        raise engine.failure("limit", message)
    return Turn(run.state, saved, tuple(run.events), tuple(run.calls.made))


def _with_writers(cells: Mapping[str, Cell], before: Mapping[str, Cell]) -> dict[str, Cell]:
    """The user's global variables; of those that this session wrote last, it still knows by which action."""
    known = {name: cell.by for name, cell in before.items() if name in cells and cells[name].value == cell.value}
    return {name: msgspec.structs.replace(cell, by=known.get(name)) for name, cell in cells.items()}


class _Engine:
    """One run, from what the user did to where the session waits again."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._state = run.state
        self._cursor = Cursor(run)
        self._gate = detection.Gate(run)

    @property
    def place(self) -> tuple[str, str, str]:
        """Phase, topic and action that the run is at; within a skill the action that called it."""
        is_call = self._state.call() is not None
        return self._state.phase, self._state.topic, self._state.frames[0].action if is_call else self._run.action_id

    def failure(self, kind: FailureKind, message: str, *, retryable: bool = False) -> TurnFailed:
        place, inner = self.place, self._run.action_id
        if place[2] != inner:
            message = f"{inner}: {message}"
        failed = TurnFailed(kind, message, place, retryable=retryable)
        failed.model_calls = tuple(self._run.calls.made)
        return failed

    async def asks_in(self, given: Input | Moved | Intervention, content: str, ends_at: float) -> Asked | Match | None:
        """What the turn needs first, of memory or of a pattern that takes long; None: nothing, and it is taken."""
        try:
            await self._run_turn(given, content, ends_at)
        except RecallWanted as wanted:
            return wanted.asked
        except MatchWanted as wanted:
            return wanted.match
        return None

    async def _run_turn(self, given: Input | Moved | Intervention, content: str, ends_at: float) -> None:
        """Takes the turn, and brings what the session keeps of its conversation up to date, as far as that is done by
        the time the turn `ends_at`.
        """
        self._state.turn += 1
        if isinstance(given, Compress):
            await condensing.compress(self._run, given, ends_at)
        elif isinstance(given, Intervention):
            self._intervene(given)
        else:
            await self._take(given, content)
        if not isinstance(given, Intervention) or isinstance(given, Append):
            await condensing.keep_up(self._run, self._at_hand(), ends_at)
        recalling.tell_rest(self._run)

    def _at_hand(self) -> Action | None:
        """The action that the session stands at; None where its conversation is over, or has not begun."""
        return self._cursor.current() if self._state.status == "active" and self._state.frames else None

    async def _take(self, given: Input | Moved, content: str) -> None:
        if isinstance(given, Moved):
            self._move(given)
            if not self._state.begun:
                return
        elif isinstance(given, Start):
            self._start()
        else:
            await self._resume(given, content)
        await self._go_on()
        self._run.speech.drop()
        finish = await self._gate.look()
        if finish is not None and self._state.status == "active":
            self._state.wait = None
            self._follow(self._run.program.action(*self._state.home(), self._state.frames[-1].action), finish)
        if self._gate.is_watching:
            self._run.forget_unsaid()

    async def _go_on(self) -> None:
        """Carries out one action after the other until the session waits or ends."""
        for step in itertools.count(1):
            if self._state.status != "active" or self._state.wait is not None:
                return
            if step % STEPS_BETWEEN_YIELDS == 0:
                await asyncio.sleep(0)
            await self._step()

    def _start(self) -> None:
        variables, self._state.start_variables = self._state.start_variables, {}
        self._state.begun = True
        self._cursor.begin()
        for name, value in variables.items():
            scope: Scope = "global" if name in self._run.program.global_names else "session"
            self._run.assign_in(scope, name, value, "api")
        self._cursor.to_first_phase()

    def _move(self, moved: Moved) -> None:
        """Takes over what became of the session; a topic that must begin again is left and entered."""
        for body in moved.account:
            self._run.record(body)
        if moved.restart and self._state.frames:
            rounds = self._state.progress.round if self._state.progress is not None else 0
            self._run.record(ActionLeft(self._state.frames[-1].action, rounds, *self._cursor.called()))
            self._cursor.leave_blocks()
            self._cursor.jump(self._state.phase, moved.restart)
        elif self._state.wait is not None and self._state.frames:
            self._draw(self._state.wait)

    def _draw(self, wait: Wait) -> None:
        """Draws a form that is waited for, and tells of it where it is not as it was shown."""
        action = self._cursor.current()
        wait = filling.drawn(self._run, action, wait)
        if wait != self._state.wait:
            self._follow(action, Waits(wait))

    def _intervene(self, given: Intervention) -> None:
        """Does what the application asks for; the script does not go on by it."""
        intervening.carry_out(self._run, given)
        if isinstance(given, End):
            self._state.wait = None
            self._follow(self._cursor.current(), Finish(given.reason, "application"))
        elif isinstance(given, SetVariables) and self._state.wait is not None:
            self._draw(msgspec.structs.replace(self._state.wait, form=None))  # it may show what was set

    async def _resume(self, given: Input, content: str) -> None:
        state = self._state
        action = self._cursor.current()
        metadata: dict[str, Value] = {"choice": given.choice} if isinstance(given, Chosen) else {}
        metadata |= {"form": dict(given.values)} if isinstance(given, Filled) else {}
        self._run.hear(content, metadata)
        wait, state.wait = state.wait, None
        reaction = await detection.of_user(self._run)
        if reaction.finish is not None:
            self._follow(action, reaction.finish)
            return
        if reaction.withheld and wait is not None:
            self._follow(action, Waits(wait))
            return
        if wait is not None and isinstance(given, Reply):
            await listening.keep_up(self._run, action, content)
        await self._carry_out(action, wait or Wait("text"), self._answered(action, wait, given, content, reaction))

    async def _answered(
        self, action: Action, wait: Wait | None, given: Input, content: str, reaction: detection.Reaction
    ) -> Outcome | None:
        """What comes of a reply; None where it was no answer, and what it brought up has happened already."""
        is_answer = wait is None or not isinstance(given, Reply) or is_answer_to(wait, content)
        if (
            wait is not None
            and (reaction.seen or not is_answer)
            and await self._is_turned_aside(action, wait, content, reaction, is_answer=is_answer)
        ):
            return None
        if wait is not None and wait.begins:
            return await enter(self._run, action)
        picked = given.choice if isinstance(given, Chosen) else None
        sent = given.values if isinstance(given, Filled) else None
        return await resume(self._run, action, content, picked, sent)

    async def _carry_out(self, action: Action, wait: Wait, work: Awaitable[Outcome | None]) -> None:
        """Lets an action begin or take a reply; where a budget keeps it from that, nothing of it stays."""
        mark = self._run.mark()
        try:
            outcome = await work
        except BudgetExceeded as exceeded:
            self._run.back_to(mark)
            outcome = run_out(self._run, exceeded, wait)
        if outcome is not None:
            await self._pass_on(action, outcome)

    async def _pass_on(self, action: Action, outcome: Outcome) -> None:
        """Goes on as an action says, once the detectors have looked at what it said; they may end the session."""
        finish = await self._gate.look()
        self._follow(action, finish or outcome)

    async def _is_turned_aside(
        self, action: Action, wait: Wait, said: str, reaction: detection.Reaction, *, is_answer: bool
    ) -> bool:
        """Whether a message is no answer but brings up an interrupt or asks for a repair, which then happens."""
        interrupt = await interrupts.brought_up(self._run, action, "" if is_answer else said, reaction.seen)
        if interrupt is not None:
            self._interrupt(action, wait, interrupt, reaction)
            return True
        if is_answer:
            return False
        asked = repairs.asked_for(self._run, said)
        if asked is not None:
            self._follow(action, repairs.carry_out(self._run, action, wait, asked))
            return True
        return False

    def _interrupt(self, action: Action, wait: Wait, interrupt: Interrupt, reaction: detection.Reaction) -> None:
        self._run.record(Interrupted(interrupt.id, action.id))
        held, self._state.progress = Held(wait, self._state.progress), None
        if interrupt.actions:
            frame = Frame(interrupt.actions[0].id, interrupt=interrupt.id, held=held)
            self._state.frames.append(frame)
            if interrupt.on.detector in reaction.seen:
                record = reaction.seen[interrupt.on.detector]
                frame.cells[detection.NAME] = Cell(record, "record", self._run.now(), "script")
        else:
            self._go_on_after(interrupt.then, held)

    def _after_interrupt(self, ended: Frame | None) -> None:
        if ended is not None and ended.held is not None:
            self._go_on_after(self._run.program.interrupt(ended.interrupt).then, ended.held)

    def _go_on_after(self, then: After, held: Held) -> None:
        """Takes up the action that an interrupt came up at, or leaves it as the script says."""
        action = self._cursor.current()
        self._state.progress = own_copy(held.progress)
        if then.policy == "skip":
            repairs.leave_open(self._run, action)  # what is `required` is left all the same: so the script says
        if then.policy != "resume":
            self._follow(action, leading_away.after(self._run, then))
            return
        if held.progress is not None:
            self._run.say(held.progress.question)
        self._follow(action, Waits(filling.drawn(self._run, action, held.wait)))

    async def _step(self) -> None:
        """Carries out the action under the cursor."""
        state = self._state
        action = self._cursor.current()
        self._run.count_action()
        if action.when is not None and not self._run.holds(action.when):
            self._run.record(ActionSkipped(action.id, action_type(action), *self._cursor.called()))
            self._after_interrupt(self._cursor.advance())
            return
        self._run.record(ActionEntered(action.id, action_type(action), *self._cursor.called()))
        state.progress = None
        if isinstance(action, ModelStep):
            await self._carry_out(action, Wait("text", begins=True), enter(self._run, action))
        else:
            await self._pass_on(action, await enter(self._run, action))

    def _follow(self, action: Action, outcome: Outcome) -> None:
        match outcome:
            case Waits():
                self._state.wait = outcome.wait
                self._run.record(Waiting(action.id, outcome.wait))
            case Done():
                self._cursor.leave_action(action)
                self._after_interrupt(self._cursor.advance())
            case Enter():
                self._cursor.enter_arm(action.id, outcome)
            case CallSkill():
                self._cursor.enter_skill(action.id, outcome)
            case Jump():
                self._cursor.leave_action(action)
                self._cursor.leave_blocks()
                self._run.record(Jumped(action.id, outcome.phase, outcome.topic))
                self._cursor.jump(outcome.phase, outcome.topic)
            case Leave():
                self._cursor.leave_action(action)
                self._after_interrupt(self._cursor.leave_list())
            case Finish():
                self._cursor.leave_action(action)
                self._cursor.leave_blocks()
                self._cursor.complete(outcome)
