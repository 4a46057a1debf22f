"""The engine: runs a session from the user's reply until it waits again, ends, or fails.

A failed turn has no effect: the session keeps the state from before the turn, so the same reply can be sent again
and no action is skipped.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from runtime.actions import ask, sleep
from runtime.actions.dispatch import current_wait, enter, question_of, resume
from runtime.actions.outcomes import (
    DONE,
    Answer,
    CallSkill,
    Done,
    Enter,
    Expired,
    Finish,
    Jump,
    Leave,
    Outcome,
    Waits,
    outcome_after,
)
from runtime.answers.patterns import MatchWanted, matching, timeout_message
from runtime.engine import auto_capture, detection, interrupts, interventions, repairs, timer_turns
from runtime.engine.cursor import Cursor
from runtime.engine.inline_actions import run_out
from runtime.state import events, inputs
from runtime.state.events import Event, Message, VariableChanged
from runtime.state.ports import MemoryFailed, ModelFailed
from runtime.state.program import PlaceLost, Program
from runtime.state.scopes import WriteRefused
from runtime.state.state import Cell, Frame, State, SuspendedAction, Wait, copy_of, encode, own_copy
from runtime.state.tool_ports import ToolCallFailed, ToolCallInterrupted
from runtime.timers.timers import Timer, pending_timers
from runtime.turn import context_upkeep, timing
from runtime.turn.calls import BudgetExceeded, CallInterrupted, ModelCall
from runtime.turn.context import ActionFailed, LimitExceeded, TurnContext, TurnEnvironment
from runtime.turn.turn_recall import RecallsExceeded, RecallWanted
from scripts.expressions.values import Value
from scripts.model.actions import (
    Action,
    Expiry,
    Goto,
    ModelStep,
    OwnAction,
    Question,
    Reminder,
    action_type,
    arms,
)
from scripts.model.actions import End as ScriptEnd
from scripts.model.script import After, Interrupt, Scope

AFTER_CALLS_S, AFTER_CALLS_PART = 1.0, 0.1  # minimum time after the last model call: seconds, part of the turn
BUSY_S = 0.005  # how long the engine runs before it yields, so that other sessions and its own time-out can run


FailureKind: TypeAlias = Literal[
    "action", "model", "memory", "limit", "place", "interrupted", "tool", "tool_interrupted"
]
_FAILURES: Mapping[FailureKind, tuple[type[Exception], ...]] = {
    "action": (ActionFailed, WriteRefused),
    "model": (ModelFailed,),
    "memory": (MemoryFailed,),
    "limit": (LimitExceeded, RecallsExceeded, TimeoutError),
    "place": (PlaceLost,),
    "interrupted": (CallInterrupted,),
    "tool": (ToolCallFailed,),
    "tool_interrupted": (ToolCallInterrupted,),
}
_RETRYABLE = (TimeoutError, CallInterrupted, ToolCallInterrupted)
"""The errors after which another attempt may succeed; those of models, memory and tools say so themselves."""


class Turn(Struct, frozen=True, dict=True):
    """The result of one turn; `saved` is the encoded state."""

    state: State
    saved: bytes
    events: tuple[Event, ...]
    model_calls: tuple[ModelCall, ...]
    tool_call_ids: tuple[str, ...] = ()  # of the recorded calls of tools

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """Return all messages of the turn, the user's own message first."""
        return tuple([event.body for event in self.events if isinstance(event.body, Message)])

    @cached_property
    def changes(self) -> tuple[VariableChanged, ...]:
        """Return all variable writes of the turn."""
        return tuple([event.body for event in self.events if isinstance(event.body, VariableChanged)])


PLACE = "turn_place"
"""The attribute of an exception other than TurnFailed that leaves a turn: its (phase, topic, action)."""


class TurnFailed(Exception):
    """A turn that could not be finished; `place` is the (phase, topic, action) where it failed."""

    def __init__(self, kind: FailureKind, message: str, place: tuple[str, str, str], *, retryable: bool) -> None:
        super().__init__(message)
        self.kind = kind
        self.place = place
        self.retryable = retryable
        self.model_calls: tuple[ModelCall, ...] = ()


async def run_turn(
    program: Program,
    state: State,
    turn_input: inputs.TurnInput,
    environment: TurnEnvironment,
    global_cells: Mapping[str, Cell] | None = None,
) -> Turn:
    """Run one turn; `state` is not changed. Raises InputRefused, and TurnFailed for every other expected error.

    `global_cells` are the user's current global variables (None: those in the state).
    """
    content, turn_s = inputs.accept(state, turn_input), environment.limits.turn_s
    ends_at = asyncio.get_running_loop().time() + turn_s
    calls_end_at = ends_at - min(AFTER_CALLS_S, turn_s * AFTER_CALLS_PART)

    def begin(before: TurnContext | None = None) -> _Engine:
        work = _working_copy(state, global_cells)
        return _Engine(TurnContext(program, work, environment, calls_end_at=calls_end_at, before=before))

    engine = begin()
    try:
        async with asyncio.timeout_at(ends_at):
            with _matching(program, lambda: engine.run.action_id) as given_up:
                while (needed := await engine.attempt(turn_input, content, ends_at)) is not None:
                    await needed
                    engine = begin(engine.run)
        return engine.result(given_up)
    except Exception as error:
        if (failed := engine.failure_of(error)) is None:
            raise
        raise failed from error


def _matching(program: Program, action_id: Callable[[], str]) -> AbstractContextManager[Mapping[str, str]]:
    """Return the context in which patterns are matched; it yields the patterns that took too long, by action."""
    return matching(action_id) if program.has_patterns else nullcontext({})


def _working_copy(state: State, global_cells: Mapping[str, Cell] | None) -> State:
    work = copy_of(state)
    if global_cells is not None:
        work.global_cells = _with_writers(global_cells, state.global_cells)
    return work


def _with_writers(cells: Mapping[str, Cell], before: Mapping[str, Cell]) -> dict[str, Cell]:
    """Return the user's global variables, each with the action that set it if this session wrote it last."""
    known = {name: cell.by for name, cell in before.items() if name in cells and cells[name].value == cell.value}
    return {name: msgspec.structs.replace(cell, by=known.get(name)) for name, cell in cells.items()}


def _is_answer(turn_input: inputs.Input, wait: Wait, content: str) -> bool:
    """Return whether an input is a form, or one of the answers that the session offers: the texts are the script's."""
    return not isinstance(turn_input, inputs.Reply) or inputs.is_answer_to(wait, content)


def _adds_messages(turn_input: inputs.TurnInput) -> bool:
    return not isinstance(turn_input, inputs.Intervention) or isinstance(turn_input, inputs.Append | inputs.Speak)


class _Engine:
    """One run, from the user's input to the next point where the session waits."""

    def __init__(self, run: TurnContext) -> None:
        self.run = run
        self._state = run.state
        self._cursor = Cursor(run)
        self._detection = detection.Detection(run) if run.program.watches_assistant else None

    @property
    def place(self) -> tuple[str, str, str]:
        """Return phase, topic and action of the run; within a skill the action that called it."""
        is_call = self._state.call() is not None
        return self._state.phase, self._state.topic, self._state.frames[0].action if is_call else self.run.action_id

    def failure_of(self, error: Exception) -> TurnFailed | None:
        """Return the failure that an exception means; None for a defect or an error of the caller's code, which then
        names the place for the log.
        """
        kind = next((kind for kind, errors in _FAILURES.items() if isinstance(error, errors)), None)
        place, inner = self.place, self.run.action_id
        if kind is None:
            vars(error)[PLACE] = place
            return None
        message = str(error)
        if isinstance(error, TimeoutError):
            message = f"the turn took longer than {self.run.limits.turn_s:g} s"
        if place[2] != inner:
            message = f"{inner}: {message}"
        may_succeed = isinstance(error, _RETRYABLE)
        if isinstance(error, ModelFailed | MemoryFailed | ToolCallFailed):
            may_succeed = error.retryable
        failed = TurnFailed(kind, message, place, retryable=may_succeed)
        failed.model_calls = tuple(self.run.calls.made)
        return failed

    def result(self, given_up: Mapping[str, str]) -> Turn:
        """Return the finished turn with its encoded state; `given_up` are patterns that took too long, each with the
        action that was current then. Raises LimitExceeded.
        """
        run = self.run
        for pattern, action_id in given_up.items():
            run.record(events.Warned("pattern_given_up", timeout_message(pattern), action_id))
        saved, bytes_max = encode(run.state), run.limits.state_bytes_max
        if len(saved) > bytes_max:
            raise LimitExceeded(f"the session's variables would take {len(saved):,} bytes; the limit is {bytes_max:,}")
        used = run.tool_calls.call_ids if run.program.tools else ()
        return Turn(run.state, saved, tuple(run.events), tuple(run.calls.made), used)

    async def attempt(self, turn_input: inputs.TurnInput, content: str, ends_at: float) -> Awaitable[object] | None:
        """Run the turn, and update the session's contexts as far as the time until `ends_at` allows.

        Returns the memory search or pattern match that must be made before the turn restarts, or None once it is
        complete.
        """
        self._state.turn += 1
        if self.run.program.counts_minutes:
            timing.count_seconds(self.run)
        try:
            if isinstance(turn_input, inputs.Compress):
                await context_upkeep.compress(self.run, turn_input, ends_at)
            elif isinstance(turn_input, inputs.Intervention):
                self._intervene(turn_input)
            else:
                await self._apply(turn_input, content)
                if self._state.begun:
                    await self._run_actions()
                    await self._check_last_messages()
            if self.run.has_context and _adds_messages(turn_input):
                await context_upkeep.update(self.run, self._current_action(), ends_at)
        except RecallWanted as wanted:
            return self.run.recalls.search(wanted.question)
        except MatchWanted as wanted:
            return wanted.matches.put(wanted.match)
        self.run.record_remaining_recalls()
        return None

    def _current_action(self) -> Action | None:
        """Return the session's current action, or None if the conversation is over or has not begun."""
        return self._cursor.current() if self._state.status == "active" and self._state.frames else None

    async def _apply(self, turn_input: inputs.Input | inputs.MigrationInput, content: str) -> None:
        """Start the session, apply a migration to it, or pass the reply to the action that waits."""
        if isinstance(turn_input, inputs.MigrationInput):
            self._move(turn_input)
        elif isinstance(turn_input, inputs.Start):
            self._start()
        elif isinstance(turn_input, inputs.TimerDue):
            self._fire(turn_input)
        else:
            await self._resume(turn_input, content)

    async def _run_actions(self) -> None:
        """Run one action after the other until the session waits or ends."""
        run, state = self.run, self._state
        began = time.monotonic()
        while state.status == "active" and state.wait is None:
            action = self._cursor.current()  # before the turn may be stopped, so that the error names the action
            if time.monotonic() - began > BUSY_S:
                await asyncio.sleep(0)
                began = time.monotonic()
            run.count_action()
            if action.when is not None and not run.holds(action.when):
                run.record(events.ActionSkipped(action.id, action_type(action), *self._cursor.call_ids()))
                self._after_interrupt(self._cursor.advance())
                continue
            run.record(events.ActionEntered(action.id, action_type(action), *self._cursor.call_ids()))
            state.progress = state.timing = None
            if isinstance(action, ModelStep):
                await self._carry_out(action, Wait("text", begins=True), enter(run, action))
            else:
                await self._pass_on(action, await enter(run, action))

    async def _check_last_messages(self) -> None:
        """Let the detectors check what the session said last; they may end the session."""
        self.run.speech.drop()
        if self._detection is None:
            return
        finish = await self._detection.look()
        if finish is not None and self._state.status == "active":
            self._state.wait = None
            self._follow(self.run.program.action(*self._state.home(), self._state.frames[-1].action), finish)
        self.run.forget_unsaid()

    def _start(self) -> None:
        variables, self._state.start_variables = self._state.start_variables, {}
        self._state.begun = True
        self._cursor.begin()
        for name, value in variables.items():
            scope: Scope = "global" if name in self.run.program.global_names else "session"
            self.run.assign_in(scope, name, value, "api")
        self._cursor.to_first_phase()

    def _move(self, moved: inputs.MigrationInput) -> None:
        """Apply a migration to the session; a topic that must restart is left and entered again."""
        for body in moved.account:
            self.run.record(body)
        if moved.restart and self._state.frames:
            rounds = self._state.progress.round if self._state.progress is not None else 0
            self.run.record(events.ActionLeft(self._state.frames[-1].action, rounds, *self._cursor.call_ids()))
            self._cursor.leave_blocks()
            self._cursor.jump(self._state.phase, moved.restart)
        elif self._state.wait is not None and self._state.frames:
            if self.run.program.has_time:
                timing.begin(self.run, self._cursor.current())
            self._update_wait(self._state.wait)

    def _update_wait(self, wait: Wait) -> None:
        """Rebuild the form that the session waits for, and record a new wait if the form has changed.

        Choices stay as they were offered, because the question is not put again.
        """
        action = self._cursor.current()
        wait = wait if wait.kind == "choice" else current_wait(self.run, action, wait)
        if wait != self._state.wait:
            self._follow(action, Waits(wait))

    def _intervene(self, turn_input: inputs.Intervention) -> None:
        """Carry out an intervention of the application; the script does not advance."""
        was_taken_over = bool(self._state.operator)
        interventions.carry_out(self.run, turn_input)
        if isinstance(turn_input, inputs.GiveBack):
            if was_taken_over and self._state.wait is not None:
                self._ask_again(self._state.wait)
        elif isinstance(turn_input, inputs.End):
            self._state.wait = None
            self._follow(self._cursor.current(), Finish(turn_input.reason, "application"))
        elif isinstance(turn_input, inputs.SetVariables) and self._state.wait is not None:
            self._update_wait(self._state.wait)  # a form may show the new values

    def _ask_again(self, wait: Wait) -> None:
        """Put the question again that the session waits with, after a person has talked in place of the script."""
        timing.count_from_now(self.run)
        action = self._cursor.current()
        if self._state.progress is not None and self._state.progress.question:
            self.run.say(question_of(self.run, action))
        self._follow(action, Waits(current_wait(self.run, action, wait)))

    async def _resume(self, turn_input: inputs.Input, content: str) -> None:
        state, program = self._state, self.run.program
        action = self._cursor.current()
        metadata: dict[str, Value] = {"choice": turn_input.choice} if isinstance(turn_input, inputs.ChoiceInput) else {}
        metadata |= {"form": dict(turn_input.values)} if isinstance(turn_input, inputs.FormInput) else {}
        self.run.hear(content, metadata)
        if state.operator:
            return  # this person answers
        if program.has_time:
            timing.note_message(self.run)
        wait, state.wait = state.wait, None
        reaction = await detection.of_user(self.run) if program.watches_user else detection.NO_REACTION
        if self._detection is not None:
            self._detection.skip()
        if reaction.finish is not None:
            self._follow(action, reaction.finish)
            return
        if reaction.withheld and wait is not None and not _is_answer(turn_input, wait, content):  # else it stays open
            self._follow(action, Waits(current_wait(self.run, action, wait)))
            return
        if wait is not None and program.has_auto_variables and isinstance(turn_input, inputs.Reply):
            await auto_capture.capture(self.run, action, content)
        await self._carry_out(action, wait or Wait("text"), self._answer(action, wait, turn_input, content, reaction))

    async def _answer(
        self, action: Action, wait: Wait | None, turn_input: inputs.Input, content: str, reaction: detection.Reaction
    ) -> Outcome | None:
        """Return the outcome of a reply, or None if it was no answer and its interrupt or repair has been handled."""
        script = self.run.program.script
        picked = turn_input.choice if isinstance(turn_input, inputs.ChoiceInput) else None
        sent = turn_input.values if isinstance(turn_input, inputs.FormInput) else None
        answer = partial(resume, self.run, action, wait, content, picked, sent)
        if wait is not None and (script.interrupts or script.repairs):
            is_answer = _is_answer(turn_input, wait, content)
            if (reaction.seen or not is_answer) and await self._interrupts_or_repairs(
                action, wait, content, reaction, answer, is_answer=is_answer
            ):
                return None
        if wait is not None and wait.begins:
            return await enter(self.run, action)
        return await answer()

    async def _carry_out(self, action: Action, wait: Wait, work: Awaitable[Outcome | None]) -> None:
        """Let an action begin or handle a reply."""
        outcome = await (self._within_budget(work, wait) if self.run.has_budget else work)
        if outcome is not None:
            await self._pass_on(action, outcome)

    async def _within_budget(self, work: Awaitable[Outcome | None], wait: Wait) -> Outcome | None:
        """Let an action begin or handle a reply; if a budget is exceeded, all its effects are undone."""
        mark = self.run.mark()
        try:
            return await work
        except BudgetExceeded as exceeded:
            self.run.back_to(mark)
            return run_out(self.run, exceeded, wait)

    async def _pass_on(self, action: Action, outcome: Outcome) -> None:
        """Run the detectors on the action's messages, then follow its outcome; a detector may end the session."""
        finish = await self._detection.look() if self._detection is not None else None
        self._follow(action, finish or outcome)

    async def _interrupts_or_repairs(
        self,
        action: Action,
        wait: Wait,
        said: str,
        reaction: detection.Reaction,
        answer: Callable[[], Awaitable[Outcome]],
        *,
        is_answer: bool,
    ) -> bool:
        """Return whether a message triggers an interrupt, or is no answer but a repair, which is then carried out."""
        interrupt = await interrupts.interrupt_of(self.run, action, "" if is_answer else said, reaction.seen)
        if interrupt is not None:
            if wait.begins or interrupt.then.policy == "restart_topic":  # the question is still to be put
                is_valid = False
            elif interrupt.on.detector in reaction.seen:
                is_valid = is_answer and not isinstance(action, ModelStep | OwnAction)
            else:
                is_valid = ask.has_typed_values(self.run, action, said)
            answered = await self._take_as_answer(answer) if is_valid else None
            self._interrupt(action, wait, interrupt, reaction, answered)
            return True
        if is_answer:
            return False
        repair = repairs.find_repair(self.run, said)
        if repair is not None and not (repair.repair.kind == "skip" and wait.kind == "time"):  # not a question
            self._follow(action, repairs.carry_out(self.run, action, wait, repair))
            return True
        return False

    async def _take_as_answer(self, answer: Callable[[], Awaitable[Outcome]]) -> Done | Enter | None:
        """Take a message that interrupts as the answer too; return how its action continues.

        A message that leaves the question open only interrupts: it has no effect and costs no round.
        """
        mark, progress = self.run.mark(), self.run.progress
        rounds, progress.round = progress.round, -1  # no round is the last, after which an invalid answer would do
        outcome = await answer()
        if isinstance(outcome, Done | Enter):
            progress.round += rounds + 1
            return outcome
        self.run.back_to(mark)
        return None

    def _interrupt(
        self,
        action: Action,
        wait: Wait,
        interrupt: Interrupt,
        reaction: detection.Reaction,
        answered: Done | Enter | None = None,
    ) -> None:
        self.run.record(events.Interrupted(interrupt.id, action.id))
        arm = answered.arm if isinstance(answered, Enter) else ""
        suspended = SuspendedAction(wait, self._state.progress, self._state.timing, answered is not None, arm)
        self._state.progress = self._state.timing = None
        if interrupt.actions:
            frame = Frame(interrupt.actions[0].id, interrupt=interrupt.id, held=suspended)
            self._cursor.enter_interrupt(frame)
            if interrupt.on.detector in reaction.seen:
                record = reaction.seen[interrupt.on.detector]
                frame.cells[detection.NAME] = Cell(record, "record", self.run.now(), "script")
        else:
            self._continue_after(interrupt.then, suspended)

    def _after_interrupt(self, ended: Frame | None) -> None:
        if ended is not None and ended.held is not None:
            self._continue_after(self.run.program.interrupts[ended.interrupt].then, ended.held)

    def _continue_after(self, then: After, suspended: SuspendedAction) -> None:
        """Resume the action that an interrupt suspended, or leave it by the interrupt's exit policy."""
        action = self._cursor.current()
        self._state.progress, self._state.timing = own_copy(suspended.progress), suspended.timing
        if suspended.is_answered and then.policy in {"resume", "skip"}:
            self._follow(action, Enter(suspended.arm) if suspended.arm in arms(action) else DONE)
            return
        if then.policy == "skip":
            repairs.leave_open(self.run, action)  # the script's policy takes precedence over `required`
        if then.policy != "resume":
            self._follow(action, outcome_after(self.run, then))
            return
        due = self._due_meanwhile(action, suspended)
        expiry = next((each.moment for each in due if isinstance(each.moment, Expiry)), None)
        if expiry is not None and isinstance(action, Question | OwnAction):
            self._follow(action, timer_turns.expire(self.run, action, expiry))
            return
        timer_turns.note_reminders(self.run, due)  # the question itself is put again
        if suspended.progress is not None and suspended.progress.question:
            self.run.say(question_of(self.run, action))
        self._follow(action, Waits(current_wait(self.run, action, suspended.wait)))

    # -- timers -----------------------------------------------------------------------------------------------------

    def _fire(self, turn_input: inputs.TimerDue) -> None:
        """Carry out the timers that are due. Raises InputRefused if there is none."""
        run, state = self.run, self._state
        action = self._cursor.current()
        firing = timer_turns.choose_timer(run, turn_input)
        run.record(firing.event)
        timer_turns.note_reminders(run, [each for each in (*firing.missed, firing.timer) if each is not None])
        timer = firing.timer
        if timer is None:
            return
        if isinstance(timer.moment, Reminder):
            finish = timer_turns.remind(run, timer.moment)
            if finish is not None:
                state.wait = None
                self._follow(action, finish)
            return
        state.wait = None
        while len(state.frames) > timer.depth:  # the expiry of a suspended question closes the interrupt as well
            held = self._cursor.leave_interrupt()
            action = self._cursor.current()
            state.progress, state.timing = own_copy(held.progress), held.timing
        if isinstance(timer.moment, Expiry) and isinstance(action, Question | OwnAction):
            self._follow(action, timer_turns.expire(run, action, timer.moment))
        else:
            self._follow(action, DONE)

    def _due_meanwhile(self, action: Action, suspended: SuspendedAction) -> list[Timer]:
        """Return what an interrupted question would have done by itself by now."""
        if suspended.timing is None or not isinstance(action, Question | OwnAction):
            return []
        state = msgspec.structs.replace(self._state, wait=suspended.wait)
        pending = pending_timers(self.run.program, state, self.run.default_zone)
        return [each for each in pending if each.depth == len(state.frames) and each.due <= self.run.now()]

    def _follow(self, action: Action, outcome: Outcome) -> None:
        match outcome:
            case Waits():
                self._state.wait = outcome.wait
                if self.run.program.has_time:
                    timing.begin(self.run, action)
                self.run.record(events.Waiting(action.id, outcome.wait))
            case Done():
                self._cursor.leave_action(action)
                self._after_interrupt(self._cursor.advance())
            case Enter():
                self._cursor.enter_arm(action.id, outcome)
            case CallSkill():
                self._cursor.enter_skill(action.id, outcome)
            case Answer():
                answering = self.run.program.interrupts[outcome.interrupt]
                self._interrupt(action, sleep.awake_at(self.run, Wait("time")), answering, detection.NO_REACTION)
            case Expired():
                self._follow(action, timer_turns.expire(self.run, outcome.question, outcome.expiry))
            case Jump() | Finish():
                self._cursor.leave_action(action, is_done=isinstance(action, Goto | ScriptEnd))
                self._cursor.exit_topic(action, outcome)
            case Leave():
                self._cursor.leave_action(action, is_done=False)
                self._after_interrupt(self._cursor.leave_list())
