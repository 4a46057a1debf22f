"""The position of a session in its script, and its moves through blocks, skills, topics and phases.

The cursor records what it enters and leaves. It does not know what an action does.
"""

from collections.abc import Mapping
from typing import TypeVar

from runtime.actions import blocks, tool
from runtime.actions.outcomes import DONE, CallSkill, Enter, Finish, Jump, Outcome, leave_question
from runtime.state import events
from runtime.state.events import EndedBy
from runtime.state.program import Place
from runtime.state.state import Frame, SuspendedAction
from runtime.turn.context import LimitExceeded, TurnContext
from scripts.model.actions import ON_FAIL, Action, Asking, Call, CallTool
from scripts.model.script import Phase, Scope, Topic
from scripts.model.variables import Declaration

CALL_DEPTH_MAX = 10
_Node = TypeVar("_Node", Phase, Topic)
_OUTCOMES: Mapping[EndedBy, str] = {"script": "completed", "expired": "abandoned"}
"""The outcome of a conversation by what ended it, if the script gives none."""


class Cursor:
    """The position of one run."""

    def __init__(self, run: TurnContext) -> None:
        self._run = run
        self._state = run.state

    def current(self) -> Action:
        """Return the action under the cursor and make it the run's current action. Raises PlaceLost."""
        found = self._run.program.action(*self._run.home(), self._state.frames[-1].action)
        self._run.action_id = found.id
        return found

    def begin(self) -> None:
        """Set the session's variables to their declared default values."""
        self._initialise("session", self._run.program.script.declare)

    def to_first_phase(self) -> None:
        """Move to the first phase that can be entered."""
        self._to_phase(self._run.program.script.phases)

    def call_ids(self) -> tuple[str, str]:
        """Return the ids of the running skill and the running interrupt; both are empty in a topic's own actions."""
        call = self._state.call() if self._run.program.has_calls else None
        return (call.skill, call.interrupt) if call is not None else ("", "")

    def leave_action(self, action: Action, *, is_done: bool = True) -> None:
        """Record the end of an action and clear its progress; its milestone is reached if it `is_done`."""
        rounds = self._state.progress.round if self._state.progress is not None else 0
        self._run.record(events.ActionLeft(action.id, rounds, *self.call_ids()))
        if action.milestone and is_done:
            self._run.record(events.MilestoneReached(action.milestone, action.id))
        self._state.progress = None

    def leave_blocks(self) -> None:
        """Leave all blocks around an action that jumps out of them, the innermost first."""
        while len(self._state.frames) > 1:
            self._leave_block()

    def _leave_block(self) -> Frame:
        """Leave the innermost block: the action that contains it, or the action that an interrupt suspended."""
        frame = self._state.frames.pop()
        rounds = frame.held.progress.round if frame.held is not None and frame.held.progress is not None else 0
        self._run.record(events.ActionLeft(frame.block or self._state.frames[-1].action, rounds, *self.call_ids()))
        return frame

    def enter_interrupt(self, frame: Frame) -> None:
        """Move to the first action of an interrupt; a topic that answers during a `wait` has its default values."""
        self._state.frames.append(frame)
        answering = self._run.program.answering.get(frame.interrupt)
        if answering is not None:
            self._run.action_id = ""
            self._count_visit(frame.interrupt.removeprefix(":"))
            self._initialise("topic", answering.declare)

    def leave_interrupt(self) -> SuspendedAction:
        """Leave the current interrupt and all blocks in it; return the wait that it suspended."""
        while True:
            frame = self._leave_block()
            if frame.held is not None:
                return frame.held

    def leave_list(self) -> Frame | None:
        """Leave the current skill, which then returns nothing, or else the interrupt, or else the topic.

        Returns the interrupt that ended, if one did.
        """
        while len(self._state.frames) > 1:
            if self._state.frames[-1].interrupt:
                return self._state.frames.pop()
            if self._leave_block().skill:
                return self.advance()
        self._to_next_topic()
        return None

    # -- within a topic ---------------------------------------------------------------------------------------------

    def enter_arm(self, action: str, outcome: Enter) -> None:
        """Move to the first action of an arm of a block."""
        self._state.progress = None
        first = self._run.program.actions((*self._run.home(), action, outcome.arm))[0]
        self._state.frames.append(
            Frame(first.id, action, outcome.arm, items=outcome.items, item_name=outcome.item_name)
        )

    def enter_skill(self, call: str, outcome: CallSkill, passes: int = 0) -> None:
        """Move to the first action of a skill and set its parameters. Raises LimitExceeded, WriteRefused."""
        self._state.progress = None
        if sum(bool(frame.skill) for frame in self._state.frames) >= CALL_DEPTH_MAX:
            raise LimitExceeded(f"more than {CALL_DEPTH_MAX} nested calls")
        first = self._run.program.actions(("", outcome.skill, "", ""))[0]
        self._state.frames.append(
            Frame(first.id, call, passes=passes, items=outcome.items, item_name=outcome.item_name, skill=outcome.skill)
        )
        for name, value, source in outcome.variables:
            self._run.assign_in("topic", name, value, source)

    def advance(self) -> Frame | None:
        """Move to the action after the one under the cursor, leaving every block that ends here.

        Returns the interrupt that ended, if one did; the cursor is then at the action that the interrupt suspended.
        """
        state, program = self._state, self._run.program
        while state.frames:
            frame = state.frames[-1]
            home = self._run.home()
            place: Place = (*home, "", "") if frame.home is not None else (*home, frame.block, frame.arm)
            following = program.following(place, frame.action)
            if following is not None:
                frame.action = following.id
                return None
            if frame.interrupt:
                self._reach(program.answering.get(frame.interrupt))
                return state.frames.pop()
            if not frame.block:
                break
            block = program.action(*state.home(len(state.frames) - 1), frame.block)
            self._run.action_id = block.id
            frame.passes += 1
            if isinstance(block, Call):
                state.frames.pop()
                again = blocks.leave_skill(self._run, block, frame)
                if again is not None:
                    self._run.count_action()
                    self.enter_skill(block.id, again, frame.passes)
                    return None
                self.leave_action(block)
                continue
            if blocks.repeats(self._run, block, frame):
                self._run.count_action()
                frame.action = program.actions(place)[0].id
                return None
            state.frames.pop()
            outcome = self._after_failure(block) if frame.arm == ON_FAIL else DONE
            self.leave_action(block, is_done=outcome is DONE)
            if isinstance(outcome, Jump | Finish):
                self.exit_topic(block, outcome)
                return None
        self._reach(program.topics[state.phase, state.topic])
        self._to_next_topic()
        return None

    def _reach(self, topic: Topic | None) -> None:
        """Record the milestone of a topic that has ended."""
        if topic is not None and topic.milestone:
            self._run.record(events.MilestoneReached(topic.milestone))

    def _after_failure(self, action: Action) -> Outcome:
        """Return the outcome of an action after the actions of its `on_fail`."""
        if isinstance(action, CallTool):
            return tool.leave_tool(self._run, action)
        return leave_question(self._run, action) if isinstance(action, Asking) else DONE

    def exit_topic(self, action: Action, outcome: Jump | Finish) -> None:
        """Leave the topic with everything entered in it, and continue elsewhere or end; the action has been left."""
        self.leave_blocks()
        if isinstance(outcome, Finish):
            self.complete(outcome)
        else:
            self._run.record(events.Jumped(action.id, outcome.phase, outcome.topic))
            self.jump(outcome.phase, outcome.topic)

    def _to_next_topic(self) -> None:
        following = self._topics_after(self._state.topic)
        self._leave_topic()
        self._to_topic(following)

    # -- between topics and phases ------------------------------------------------------------------------------------

    def _topics_after(self, topic: str) -> tuple[Topic, ...]:
        return _after(self._run.program.phases[self._state.phase].topics, topic)

    def _to_phase(self, phases: tuple[Phase, ...]) -> None:
        """Enter the first of these phases whose `when` holds and that has actions; if none, end the session."""
        for phase in phases:
            self._run.count_action()
            if not self._run.holds(phase.when):
                self._run.record(events.ScopeSkipped("phase", phase.id))
                continue
            self._enter_phase(phase)
            if self._enter_first(phase.topics):
                return
            self._leave_phase()
        self.complete(Finish("", "script"))

    def _to_topic(self, topics: tuple[Topic, ...]) -> None:
        """Enter the first of these topics of the current phase that can be entered, else move on to the next phase."""
        if not self._enter_first(topics):
            phase = self._state.phase
            self._leave_phase()
            self._to_phase(_after(self._run.program.script.phases, phase))

    def _enter_first(self, topics: tuple[Topic, ...]) -> bool:
        for topic in topics:
            self._run.count_action()
            if not self._run.holds(topic.when):
                self._run.record(events.ScopeSkipped("topic", topic.id))
                continue
            self._enter_topic(topic)
            if topic.actions:
                self._state.frames = [Frame(topic.actions[0].id)]
                return True
            self._leave_topic()
        return False

    def jump(self, phase: str, topic: str) -> None:
        """Move to a topic, ignoring its `when`; its phase is entered again only if it is not the current phase."""
        self._leave_topic()
        if phase != self._state.phase:
            self._leave_phase()
            self._enter_phase(self._run.program.phases[phase])
        target = self._run.program.topics[phase, topic]
        self._enter_topic(target)
        self._state.is_jump = True
        if target.actions:
            self._state.frames = [Frame(target.actions[0].id)]
            return
        self._leave_topic()
        self._to_topic(self._topics_after(topic))

    def _enter_phase(self, phase: Phase) -> None:
        self._state.phase = phase.id
        self._state.phase_entry += 1
        self._run.record(events.ScopeEntered("phase", phase.id, self._state.phase_entry))
        self._count_visit(phase.id)
        self._initialise("phase", phase.declare)

    def _enter_topic(self, topic: Topic) -> None:
        self._state.topic = topic.id
        self._state.is_jump = False
        self._state.topic_entry += 1
        self._run.record(events.ScopeEntered("topic", topic.id, self._state.topic_entry))
        self._count_visit(f"{self._state.phase}/{topic.id}")
        self._initialise("topic", topic.declare)

    def _count_visit(self, place: str) -> None:
        if self._run.program.counts_visits:
            entered = self._state.entered
            self._state.entered = {**entered, place: entered.get(place, 0) + 1}

    def _leave_topic(self) -> None:
        state = self._state
        if state.topic:
            self._run.record(events.ScopeLeft("topic", state.topic, state.topic_entry))
        state.topic, state.topic_cells, state.frames, state.progress = "", {}, [], None
        self._run.action_id = ""

    def _leave_phase(self) -> None:
        state = self._state
        if state.phase:
            self._run.record(events.ScopeLeft("phase", state.phase, state.phase_entry))
        state.phase, state.phase_cells = "", {}

    def _initialise(self, scope: Scope, declared: tuple[Declaration, ...]) -> None:
        for each in declared:
            if each.value is not None:
                self._run.assign_in(scope, each.var, each.value, "default")

    def complete(self, finish: Finish) -> None:
        """End the conversation."""
        self._leave_topic()
        self._leave_phase()
        outcome = finish.outcome or _OUTCOMES.get(finish.by, "")
        self._state.status, self._state.end_reason, self._state.outcome = "completed", finish.reason, outcome
        self._run.record(events.Ended(finish.reason, finish.by, finish.action_id, outcome))


def _after(nodes: tuple[_Node, ...], id: str) -> tuple[_Node, ...]:
    """Return the phases or topics after the one of an id."""
    index = next(index for index, each in enumerate(nodes) if each.id == id)
    return nodes[index + 1 :]
