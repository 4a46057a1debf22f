"""The engine: runs a session from the user's reply until it waits again, ends, or fails.

A turn that fails leaves no trace: the state it began with stays the session's state, so the same reply can be
tried again and nothing is skipped.
"""

import asyncio
import itertools
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from runtime import detection, interrupts, listening, repairs
from runtime.actions import blocks, calls, leading_away
from runtime.actions.dispatch import enter, resume
from runtime.events import (
    ActionEntered,
    ActionLeft,
    ActionSkipped,
    Body,
    Ended,
    Event,
    Interrupted,
    Jumped,
    Message,
    ScopeEntered,
    ScopeLeft,
    ScopeSkipped,
    VariableChanged,
    Waiting,
)
from runtime.outcomes import CallSkill, Done, Enter, Finish, Jump, Leave, Outcome, Waits
from runtime.ports import Clock, Ids, Model, ModelFailed
from runtime.program import Place, PlaceLost, Program
from runtime.run import ActionFailed, LimitExceeded, Limits, ModelCall, Run, copy_of, own_copy
from runtime.scopes import WriteRefused
from runtime.sheets import NotOfThisForm, text_sent
from runtime.state import Cell, Frame, Held, State, Wait, encode
from scripts.model import Action, After, Call, Declaration, Interrupt, Phase, Scope, Topic, action_type
from scripts.values import Value, is_unicode
from scripts.words import folded

CALL_DEPTH_MAX = 10
STEPS_BETWEEN_YIELDS = 20  # the engine lets other sessions run, and its time-out act, this often


class Reply(Struct, frozen=True):
    """What the user said, as text."""

    content: str


class Chosen(Struct, frozen=True):
    """The choice the user took, by its key."""

    choice: str


class Filled(Struct, frozen=True):
    """The form the user filled in and sent: values by field; null or an empty text clears one."""

    values: Mapping[str, Value]


class Start(Struct, frozen=True):
    """The beginning of a session, with the `start_variables` of its state."""


class Moved(Struct, frozen=True):
    """The session goes on in another version of its script, from a state that was made for it.

    `account` is what became of it on the way; `restart` the topic of its phase that begins again, if one must.
    """

    account: tuple[Body, ...]
    restart: str = ""


Input: TypeAlias = Start | Reply | Chosen | Filled
FailureKind: TypeAlias = Literal["action", "model", "limit", "place"]


class InputRefused(ValueError):
    """An input that the session's present wait does not take; the message says what it takes."""


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


class TurnFailed(Exception):
    """A turn that could not be finished; `place` is the (phase, topic, action) where it stopped."""

    def __init__(self, kind: FailureKind, message: str, place: tuple[str, str, str], *, retryable: bool) -> None:
        super().__init__(message)
        self.kind = kind
        self.place = place
        self.retryable = retryable


async def run_turn(
    program: Program,
    state: State,
    given: Input | Moved,
    *,
    model: Model,
    clock: Clock,
    ids: Ids,
    limits: Limits,
    global_cells: Mapping[str, Cell] | None = None,
    history: tuple[Message, ...] = (),
) -> Turn:
    """Runs one turn. `state` is not changed.

    `global_cells` are the user's now, None: as the state has them; `history` are the messages so far.

    Raises InputRefused, and TurnFailed with everything else that can go wrong.
    """
    content = _accepted(state, given)
    work = copy_of(state)
    if global_cells is not None:
        work.global_cells = _with_writers(global_cells, state.global_cells)
    run = Run(
        program,
        work,
        model=model,
        clock=clock,
        ids=ids,
        limits=limits,
        history=history,
    )
    engine = _Engine(run)
    try:
        async with asyncio.timeout(limits.turn_s):
            await engine.run(given, content)
    except ModelFailed as error:
        raise engine.failure("model", str(error), retryable=error.retryable) from error
    except LimitExceeded as error:
        raise engine.failure("limit", str(error)) from error
    except TimeoutError as error:
        raise engine.failure("limit", f"the turn took longer than {limits.turn_s:g} s", retryable=True) from error
    except PlaceLost as error:
        raise engine.failure("place", str(error)) from error
    except (ActionFailed, WriteRefused) as error:
        raise engine.failure("action", str(error)) from error
    saved = encode(run.state)
    if len(saved) > limits.state_bytes_max:
        message = f"the session's variables would take {len(saved):,} bytes; it may keep {limits.state_bytes_max:,}"
        raise engine.failure("limit", message)
    return Turn(run.state, saved, tuple(run.events), tuple(run.model_calls))


def _accepted(state: State, given: Input | Moved) -> str:
    """The text of an input, if the session's wait takes it. Raises InputRefused."""
    if isinstance(given, Moved):
        return ""
    if isinstance(given, Start):
        if state.begun:
            raise InputRefused("the session has begun already")
        return ""
    if state.status != "active" or state.wait is None:
        raise InputRefused(f"the session is {state.execution_status} and waits for nothing")
    if isinstance(given, Reply):
        if not is_unicode(given.content):
            raise InputRefused("the reply is not valid Unicode")
        return given.content
    if isinstance(given, Filled):
        if state.wait.form is None:
            raise InputRefused(f"the session waits for {state.wait.kind}, not for a form")
        try:
            return text_sent(state.wait.form, given.values)
        except NotOfThisForm as error:
            raise InputRefused(str(error)) from error
    if state.wait.kind != "choice":
        raise InputRefused(f"the session waits for {state.wait.kind}, not for a choice")
    text = next((choice.text for choice in state.wait.choices if choice.key == given.choice), None)
    if text is None:
        known = ", ".join(choice.key for choice in state.wait.choices)
        raise InputRefused(f"there is no choice {given.choice!r}; there are {known}")
    return text


def _with_writers(cells: Mapping[str, Cell], before: Mapping[str, Cell]) -> dict[str, Cell]:
    """The user's global variables; of those that this session wrote last, it still knows by which action."""
    known = {name: cell.by for name, cell in before.items() if name in cells and cells[name].value == cell.value}
    return {name: msgspec.structs.replace(cell, by=known.get(name)) for name, cell in cells.items()}


def _is_answer(wait: Wait, said: str) -> bool:
    """Whether a reply is, to the letter, one of those that were offered."""
    offered = [wait.suggestion, *(word for choice in wait.choices for word in (choice.key, choice.text))]
    return folded(said) in {folded(each) for each in offered if each}


class _Engine:
    """Moves the cursor of one run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._state = run.state

    def failure(self, kind: FailureKind, message: str, *, retryable: bool = False) -> TurnFailed:
        inner = self._run.action_id
        action = self._state.frames[0].action if self._state.call() is not None else inner
        place = (self._state.phase, self._state.topic, action)
        if action != inner:
            message = f"{inner}: {message}"
        return TurnFailed(kind, message, place, retryable=retryable)

    async def run(self, given: Input | Moved, content: str) -> None:
        self._state.turn += 1
        if isinstance(given, Moved):
            self._move(given)
            if not self._state.begun:
                return
        elif isinstance(given, Start):
            self._start()
        else:
            await self._resume(given, content)
        await self._go_on()
        finish = await detection.of_session(self._run)
        if finish is not None and self._state.status == "active":
            self._state.wait = None
            self._follow(self._run.program.action(*self._state.home(), self._state.frames[-1].action), finish)

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
        self._initialise("session", self._run.program.script.declare)
        for name, value in variables.items():
            scope: Scope = "global" if name in self._run.program.global_names else "session"
            self._run.assign_in(scope, name, value, "api")
        self._to_phase(self._run.program.script.phases)

    def _move(self, moved: Moved) -> None:
        """Takes over what became of the session; a topic that must begin again is left and entered."""
        for body in moved.account:
            self._run.record(body)
        if moved.restart and self._state.frames:
            rounds = self._state.progress.round if self._state.progress is not None else 0
            self._run.record(ActionLeft(self._state.frames[-1].action, rounds, *self._called()))
            self._leave_blocks()
            self._jump(self._state.phase, moved.restart)

    async def _resume(self, given: Input, content: str) -> None:
        state = self._state
        action = self._run.program.action(*state.home(), state.frames[-1].action)
        self._run.action_id = action.id
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
        picked = given.choice if isinstance(given, Chosen) else None
        if wait is not None and isinstance(given, Reply):
            await listening.keep_up(self._run, action, content)
        is_answer = wait is None or not isinstance(given, Reply) or _is_answer(wait, content)
        if (
            wait is not None
            and (reaction.seen or not is_answer)
            and await self._is_turned_aside(action, wait, content, reaction, is_answer=is_answer)
        ):
            return
        sent = given.values if isinstance(given, Filled) else None
        self._follow(action, await resume(self._run, action, content, picked, sent))

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

    def _go_on_after(self, then: After, held: Held) -> None:
        """Takes up the action that an interrupt came up at, or leaves it as the script says."""
        action = self._run.program.action(*self._state.home(), self._state.frames[-1].action)
        self._run.action_id = action.id
        self._state.progress = own_copy(held.progress)
        if then.policy != "resume":
            self._follow(action, leading_away.after(self._run, then))
            return
        if held.progress is not None:
            self._run.say(held.progress.prompt)
        self._follow(action, Waits(held.wait))

    async def _step(self) -> None:
        """Carries out the action under the cursor."""
        state = self._state
        action = self._run.program.action(*state.home(), state.frames[-1].action)
        self._run.action_id = action.id
        self._run.count_action()
        if action.when is not None and not self._run.holds(action.when):
            self._run.record(ActionSkipped(action.id, action_type(action), *self._called()))
            self._advance()
            return
        self._run.record(ActionEntered(action.id, action_type(action), *self._called()))
        state.progress = None
        self._follow(action, await enter(self._run, action))

    def _follow(self, action: Action, outcome: Outcome) -> None:
        match outcome:
            case Waits():
                self._state.wait = outcome.wait
                self._run.record(Waiting(action.id, outcome.wait))
            case Done():
                self._leave_action(action)
                self._advance()
            case Enter():
                self._state.progress = None
                place = self._place(action.id, outcome.arm)
                first = self._run.program.actions(place)[0]
                self._state.frames.append(
                    Frame(first.id, action.id, outcome.arm, items=outcome.items, item_name=outcome.item_name)
                )
            case CallSkill():
                self._state.progress = None
                self._enter_skill(action.id, outcome)
            case Jump():
                self._leave_action(action)
                self._leave_blocks()
                self._run.record(Jumped(action.id, outcome.phase, outcome.topic))
                self._jump(outcome.phase, outcome.topic)
            case Leave():
                self._leave_action(action)
                self._leave_list()
            case Finish():
                self._leave_action(action)
                self._leave_blocks()
                self._complete(outcome.reason)

    def _called(self) -> tuple[str, str]:
        """The skill and the interrupt whose actions are being carried out; empty for a topic's."""
        call = self._state.call()
        return (call.skill, call.interrupt) if call is not None else ("", "")

    def _leave_action(self, action: Action) -> None:
        rounds = self._state.progress.round if self._state.progress is not None else 0
        self._run.record(ActionLeft(action.id, rounds, *self._called()))
        self._state.progress = None

    def _leave_blocks(self) -> None:
        """Leaves the blocks around an action that leads away from them, the innermost first."""
        while len(self._state.frames) > 1:
            self._leave_block()

    def _leave_block(self) -> Frame:
        """Leaves the innermost block: the action it belongs to, or the one that an interrupt came up at."""
        frame = self._state.frames.pop()
        rounds = frame.held.progress.round if frame.held is not None and frame.held.progress is not None else 0
        self._run.record(ActionLeft(frame.block or self._state.frames[-1].action, rounds, *self._called()))
        return frame

    def _leave_list(self) -> None:
        """Leaves the skill at hand, which then returns nothing, or the interrupt, or else the topic."""
        while len(self._state.frames) > 1:
            held = self._state.frames[-1].held
            if held is not None:
                interrupt = self._state.frames.pop().interrupt
                self._go_on_after(self._run.program.interrupt(interrupt).then, held)
                return
            if self._leave_block().skill:
                self._advance()
                return
        self._to_next_topic()

    # -- within a topic ---------------------------------------------------------------------------------------------

    def _place(self, block: str, arm: str) -> Place:
        return *self._state.home(), block, arm

    def _enter_skill(self, call: str, outcome: CallSkill, passes: int = 0) -> None:
        if sum(bool(frame.skill) for frame in self._state.frames) >= CALL_DEPTH_MAX:
            raise LimitExceeded(f"more than {CALL_DEPTH_MAX} calls within one another")
        first = self._run.program.actions(("", outcome.skill, "", ""))[0]
        self._state.frames.append(
            Frame(
                first.id,
                call,
                passes=passes,
                items=outcome.items,
                item_name=outcome.item_name,
                skill=outcome.skill,
            )
        )
        for name, value, source in outcome.given:
            self._run.assign_in("topic", name, value, source)

    def _advance(self) -> None:
        """Moves to what follows the action under the cursor, out of as many blocks as end here."""
        state, program = self._state, self._run.program
        while state.frames:
            frame = state.frames[-1]
            place = self._place("", "") if frame.home is not None else self._place(frame.block, frame.arm)
            following = program.following(place, frame.action)
            if following is not None:
                frame.action = following.id
                return
            if frame.held is not None:
                state.frames.pop()
                self._go_on_after(program.interrupt(frame.interrupt).then, frame.held)
                return
            if not frame.block:
                break
            block = program.action(*state.home(len(state.frames) - 1), frame.block)
            self._run.action_id = block.id
            frame.passes += 1
            if isinstance(block, Call):
                state.frames.pop()
                again = calls.leave(self._run, block, frame)
                if again is not None:
                    self._run.count_action()
                    self._enter_skill(block.id, again, frame.passes)
                    return
                self._leave_action(block)
                continue
            if blocks.goes_on(self._run, block, frame):
                self._run.count_action()
                frame.action = program.actions(place)[0].id
                return
            state.frames.pop()
            self._leave_action(block)
        self._to_next_topic()

    def _to_next_topic(self) -> None:
        following = self._topics_after(self._state.topic)
        self._leave_topic()
        self._to_topic(following)

    # -- between topics and phases ------------------------------------------------------------------------------------

    def _topics_after(self, topic: str) -> tuple[Topic, ...]:
        topics = self._run.program.phases[self._state.phase].topics
        index = next(index for index, each in enumerate(topics) if each.id == topic)
        return topics[index + 1 :]

    def _phases_after(self, phase: str) -> tuple[Phase, ...]:
        phases = self._run.program.script.phases
        index = next(index for index, each in enumerate(phases) if each.id == phase)
        return phases[index + 1 :]

    def _to_phase(self, phases: tuple[Phase, ...]) -> None:
        """Enters the first of these phases whose `when` holds and that has something to do; none: the end."""
        for phase in phases:
            self._run.count_action()
            if phase.when is not None and not self._run.holds(phase.when):
                self._run.record(ScopeSkipped("phase", phase.id))
                continue
            self._enter_phase(phase)
            if self._enter_first(phase.topics):
                return
            self._leave_phase()
        self._complete("")

    def _to_topic(self, topics: tuple[Topic, ...]) -> None:
        """Enters the first of these topics of the present phase that it can, else goes on after the phase."""
        if not self._enter_first(topics):
            phase = self._state.phase
            self._leave_phase()
            self._to_phase(self._phases_after(phase))

    def _enter_first(self, topics: tuple[Topic, ...]) -> bool:
        for topic in topics:
            self._run.count_action()
            if topic.when is not None and not self._run.holds(topic.when):
                self._run.record(ScopeSkipped("topic", topic.id))
                continue
            self._enter_topic(topic)
            if topic.actions:
                self._state.frames = [Frame(topic.actions[0].id)]
                return True
            self._leave_topic()
        return False

    def _jump(self, phase: str, topic: str) -> None:
        """To a topic, whatever its `when` says; its phase is entered anew only where it is another one."""
        self._leave_topic()
        if phase != self._state.phase:
            self._leave_phase()
            self._enter_phase(self._run.program.phases[phase])
        target = self._run.program.topic(phase, topic)
        self._enter_topic(target)
        if target.actions:
            self._state.frames = [Frame(target.actions[0].id)]
            return
        self._leave_topic()
        self._to_topic(self._topics_after(topic))

    def _enter_phase(self, phase: Phase) -> None:
        self._state.phase = phase.id
        self._state.phase_entry += 1
        self._run.record(ScopeEntered("phase", phase.id, self._state.phase_entry))
        self._initialise("phase", phase.declare)

    def _enter_topic(self, topic: Topic) -> None:
        self._state.topic = topic.id
        self._state.topic_entry += 1
        self._run.record(ScopeEntered("topic", topic.id, self._state.topic_entry))
        self._initialise("topic", topic.declare)

    def _leave_topic(self) -> None:
        state = self._state
        if state.topic:
            self._run.record(ScopeLeft("topic", state.topic, state.topic_entry))
        state.topic, state.topic_cells, state.frames, state.progress = "", {}, [], None
        self._run.action_id = ""

    def _leave_phase(self) -> None:
        state = self._state
        if state.phase:
            self._run.record(ScopeLeft("phase", state.phase, state.phase_entry))
        state.phase, state.phase_cells = "", {}

    def _initialise(self, scope: Scope, declared: tuple[Declaration, ...]) -> None:
        for each in declared:
            if each.value is not None:
                self._run.assign_in(scope, each.var, each.value, "default")

    def _complete(self, reason: str) -> None:
        self._leave_topic()
        self._leave_phase()
        self._state.status, self._state.end_reason = "completed", reason
        self._run.record(Ended(reason))
