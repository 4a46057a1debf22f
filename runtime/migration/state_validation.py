"""Validation of a state from outside against its script.

A state that the engine saved is valid. A state that was written or edited by hand may have a position that does not
exist, or values that no variable can hold; it is refused before a session uses it.
"""

from collections.abc import Iterable

import msgspec

from runtime.state.program import PlaceLost, Program
from runtime.state.scopes import CELLS_MAX
from runtime.state.state import Cell, ContextMemory, Progress, State, Wait
from scripts.expressions.values import Value, ValueRefused, coerce, is_unicode, shorten, to_value
from scripts.model.actions import Action, Form
from scripts.model.base import ID_CHARS_MAX

WAIT_BYTES_MAX = 1_000_000
FRAMES_MAX = 1_000  # nested blocks and calls


class InvalidState(ValueError):
    """A state that its script cannot use; the message says what is wrong with it."""


def check(program: Program, state: State) -> None:
    """Raise InvalidState for a state that the script cannot use."""
    _check_context(state)
    _check_cells(state)
    for experiment, arm in state.exposed.items():
        if experiment not in program.experiments or len(arm) > ID_CHARS_MAX or not is_unicode(arm):
            raise InvalidState(f"it refers to an experiment that the script does not have: {shorten(experiment)}")
    if not state.begun:
        if state.frames or state.phase or state.topic or state.wait is not None or state.status != "active":
            raise InvalidState("the session has not begun, but it has a position")
        return
    _check_gaps(state)
    if state.status == "completed":
        if state.frames or state.phase or state.topic or state.wait is not None:
            raise InvalidState("the conversation is over, but it has a position")
        return
    try:
        _check_place(program, state)
    except PlaceLost as error:
        raise InvalidState(str(error)) from error


def _check_context(state: State) -> None:
    context = state.context or ContextMemory()
    if max(context.after, context.summary_to, context.memo_to) > state.message_seq:
        raise InvalidState("its context refers to messages that do not exist")


def _check_gaps(state: State) -> None:
    last = 0
    for first, end in state.gaps:
        if not last < first <= end <= state.message_seq:
            raise InvalidState("the numbers of removed messages are not in order")
        last = end


def _check_cells(state: State) -> None:
    for cells in (*state.layers.values(), *(frame.cells for frame in state.frames)):
        if len(cells) > CELLS_MAX:
            raise InvalidState(f"more than {CELLS_MAX:,} variables in one scope")
        for name, cell in cells.items():
            _check_cell(name, cell)
    values: list[Value] = [dict(state.start_variables), dict(state.context.memo) if state.context is not None else {}]
    for progress in _progresses(state):
        values += [progress.values, list(progress.replies)]
    values += [frame.items for frame in state.frames]
    for value in values:
        _check_value("a value in it", value)


def _progresses(state: State) -> Iterable[Progress]:
    held = [frame.held.progress for frame in state.frames if frame.held is not None]
    return [each for each in (state.progress, *held) if each is not None]


def _check_cell(name: str, cell: Cell) -> None:
    if not name or len(name) > ID_CHARS_MAX or not is_unicode(name):
        raise InvalidState("a variable has an invalid name")
    _check_value(f"the variable {name}", cell.value)
    if cell.last_updated.tzinfo is None:
        raise InvalidState(f"the time of the variable {name} has no time zone")
    if cell.value is None or cell.type == "null":
        return
    try:
        same = coerce(cell.value, cell.type) == cell.value
    except ValueRefused as error:
        raise InvalidState(f"the variable {name}: {error}") from error
    if not same:
        raise InvalidState(f"the variable {name} is no {cell.type}")


def _check_value(what: str, value: Value) -> None:
    try:
        to_value(value)
    except ValueRefused as error:
        raise InvalidState(f"{what}: {error}") from error


def _check_place(program: Program, state: State) -> None:
    """Raise InvalidState or PlaceLost for an invalid position."""
    if state.wait is None or not state.frames:
        raise InvalidState("the conversation is not over, but it waits for no input")
    if len(state.frames) > FRAMES_MAX:
        raise InvalidState(f"more than {FRAMES_MAX:,} nested blocks")
    program.topics[state.phase, state.topic]  # raises PlaceLost
    for role in (state.ai_role, state.human_role):
        if role and role not in program.roles:
            raise InvalidState(f"the script has no role {role}")
    for depth, frame in enumerate(state.frames, start=1):
        action = _action_of(program, state, depth)
        if frame.held is not None:
            below = program.action(*state.home(depth - 1), state.frames[depth - 2].action)
            _check_wait(program, below, frame.held.wait, is_held=True)
        if depth == len(state.frames):
            _check_wait(program, action, state.wait)


def _action_of(program: Program, state: State, depth: int) -> Action:
    """Return the current action of a frame, if the frame's list contains it."""
    frame = state.frames[depth - 1]
    home = state.home(depth)
    if frame.detector or (frame.interrupt and (depth == 1 or frame.held is None)):
        raise InvalidState("its position is in an action that never waits")
    is_of_topic = not (frame.block or frame.arm or frame.skill or frame.interrupt)
    if (depth == 1) != is_of_topic:
        raise InvalidState("its blocks are not nested")
    around = state.frames[depth - 2].action if depth > 1 else ""
    if frame.block != around and not frame.interrupt:
        raise InvalidState(f"its frame is in the block {frame.block}, but the frame around it is at {around}")
    if frame.skill:
        program.skills[frame.skill]  # raises PlaceLost
    elif frame.interrupt:
        program.interrupts[frame.interrupt]  # raises PlaceLost
    place = (*home, "", "") if frame.home is not None else (*home, frame.block, frame.arm)
    if frame.action not in {each.id for each in program.actions(place)}:
        raise PlaceLost(f"the script has no action {'/'.join(filter(None, (*home, frame.block, frame.action)))} there")
    return program.action(*home, frame.action)


def _check_wait(program: Program, action: Action, wait: Wait, *, is_held: bool = False) -> None:
    """Raise InvalidState for an invalid wait, PlaceLost for a form that the script does not have.

    A form that an interrupt suspended may have no rendering: it is rendered again when the interrupt ends.
    """
    if wait.kind == "form":
        shown = program.forms[action.sheet].id if isinstance(action, Form) else None
        if shown is None or (shown != wait.form.id if wait.form is not None else not is_held):
            raise InvalidState(f"the action {action.id} does not wait for this form")
    elif isinstance(action, Form) and not wait.begins:
        raise InvalidState(f"the action {action.id} waits for a form")
    if len(msgspec.json.encode(wait)) > WAIT_BYTES_MAX:
        raise InvalidState("its wait is too large")
